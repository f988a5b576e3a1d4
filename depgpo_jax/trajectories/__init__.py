"""Recorded runs of agents, as lists of the texts that ran. No JAX.

===============  =================================================================
`structs`        Trajectory, Turn, RecordedCommand
`values`         a JSON document's values, with their places for messages
`plain`          lists of texts, and an object form of our own
`own_traces`     traces of this package
`chat`           OpenAI message lists; `tools`: which of their calls are commands
`answers`        what a tool's answer says: output and exit code
`documents`      the readers, chosen by content
`sources`        files and folders of trajectories
===============  =================================================================

A further format is one more `Reader` in `documents.READERS`.
"""

from depgpo_jax.trajectories.documents import READERS, Reader, read_document
from depgpo_jax.trajectories.sources import Found, find_files, read_file
from depgpo_jax.trajectories.structs import RecordedCommand, Trajectory, Turn
from depgpo_jax.trajectories.tools import ToolNames

__all__ = [
    "READERS",
    "Found",
    "Reader",
    "RecordedCommand",
    "ToolNames",
    "Trajectory",
    "Turn",
    "find_files",
    "read_document",
    "read_file",
]
