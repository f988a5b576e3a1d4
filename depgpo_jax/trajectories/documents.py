"""The readers of trajectories, chosen by what a document holds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple

from depgpo_jax.errors import printable
from depgpo_jax.trajectories import chat, own_traces, plain
from depgpo_jax.trajectories.structs import Trajectory
from depgpo_jax.trajectories.tools import ToolNames
from depgpo_jax.trajectories.values import Value, kind

MAX_KEYS: Final = 8


class Reader(NamedTuple):
    """One format.

    Attributes:
        name: in words, for messages.
        recognises: whether a document is meant to be of this format.
        read: reads it, given an id for a document that has none, its source, and what its tools are
            called; raises TraceError where it breaks a rule of its format.
    """

    name: str
    recognises: Callable[[Value], bool]
    read: Callable[[Value, str, str, ToolNames], Trajectory]


READERS: Final = (
    Reader(
        "a list of texts",
        plain.is_list,
        lambda document, name, source, _: plain.read_list(document, name, source),
    ),
    Reader("a list of messages", chat.is_messages, chat.read_messages),
    Reader(
        "a trace (`version`, `steps`)",
        own_traces.is_trace,
        lambda document, name, source, _: own_traces.read_trace(document, name, source),
    ),
    Reader("an object with `messages`", chat.is_conversation, chat.read_conversation),
    Reader(
        "an object with `commands` or `turns`",
        plain.is_object,
        lambda document, name, source, _: plain.read_object(document, name, source),
    ),
)
"""In the order in which they are asked; the first one that recognises a document reads it."""


def read_document(
    document: Value, trajectory_id: str, source: str, names: ToolNames | None = None
) -> Trajectory:
    """A JSON document as a trajectory.

    Args:
        document: the document.
        trajectory_id: its id, if it holds none.
        source: its file, and line where that matters.
        names: what its tools are called.

    Raises:
        TraceError: it is of no format that is known, or breaks a rule of its own.
    """
    for reader in READERS:
        if reader.recognises(document):
            return reader.read(document, trajectory_id, source, names or ToolNames())
    return document.wrong(
        _shown(document.value),
        "; ".join(reader.name for reader in READERS),
        "Convert it to one of these, or leave it out.",
    )


def _shown(value: object) -> str:
    if isinstance(value, dict):
        keys = ", ".join(printable(repr(name), 40) for name in islice(value, MAX_KEYS))
        return f"an object with {keys or 'no key'}"
    if isinstance(value, list) and value:
        return f"a list that begins with {kind(value[0])}"
    return kind(value)
