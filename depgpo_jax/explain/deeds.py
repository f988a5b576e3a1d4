"""What a command did, in a few words: names of what it wrote and read, inspected ones marked.

Everything that comes from a trace is made printable: control characters become escapes, so a
strange file name can neither paint a screen nor break a line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from depgpo_jax.errors import printable

if TYPE_CHECKING:
    from depgpo_jax.traces import Command, Trace, Write

MAX_NAME = 40
"""Longer resource names lose their beginning: the end tells files apart."""

NAMES_SHOWN = 2
"""Resources named for one command; the others are counted."""

COMMANDS_SHOWN = 4
"""Commands whose numbers are named for one command; the others are counted."""

INSPECTED_MARK = "*"


class ReadOnlyCommands(NamedTuple):
    """How far read credit can reach: a read-only command is paid through its stdout alone."""

    total: int  # recorded commands that wrote nothing
    with_stdout_edge: int  # of these: a later command reuses what they printed


def read_only_commands(traces: Iterable[Trace]) -> ReadOnlyCommands:
    """Counts read-only commands and those of them with an outgoing stdout edge."""
    total = with_edge = 0
    for trace in traces:
        commands = trace.commands
        reused = {producer for command in commands for producer in command.stdout_from}
        for number, command in enumerate(commands):
            if command.recorded and not command.writes:
                total += 1
                with_edge += number in reused
    return ReadOnlyCommands(total, with_edge)


def first_reused_value(command: Command) -> str:
    """What a command says that an earlier one printed, if its `extra` tells; else empty.

    A tracer notes it there; nothing in an `extra` has to have a form, so anything may be missing.
    """
    extra = command.extra if isinstance(command.extra, dict) else {}
    edges = extra.get("stdout_reuse")
    for edge in edges.values() if isinstance(edges, dict) else ():
        if isinstance(edge, dict) and isinstance(edge.get("token"), str):
            return shortened(edge["token"])
    return ""


def listed_writes(
    writes: Sequence[Write], inspected: Collection[str], most: int = NAMES_SHOWN
) -> str:
    """The written resources with what was done to each, the first `most` named.

    Inspected ones come first: they must not be among those that are only counted.
    """
    described = [_write(write, inspected) for write in writes]
    described.sort(key=lambda text: not text.endswith(INSPECTED_MARK))
    return _listed(described, most)


def listed_reads(reads: Sequence[str], most: int = NAMES_SHOWN) -> str:
    """The read resources, the first `most` named."""
    return _listed([shortened(read) for read in reads], most)


def numbered(commands: Sequence[int], most: int = COMMANDS_SHOWN) -> str:
    """Commands as `#4, #7`, the first `most` named."""
    return _listed([f"#{number}" for number in commands], most)


def shortened(resource: str, limit: int = MAX_NAME) -> str:
    """A resource's name, printable, without the beginning of a long one."""
    if len(resource) > limit:
        resource = "…" + resource[1 - limit :]
    return printable(resource, limit)


def and_more(count: int) -> str:
    """How many were left out, as in ` +3`; nothing for none."""
    return f" +{count:,}" if count > 0 else ""


def _write(write: Write, inspected: Collection[str]) -> str:
    name = shortened(write.resource)
    if write.deleted is True:
        name += " (deleted)"
    elif write.moved_from is not UNSET:
        name += f" (from {shortened(write.moved_from)})"
    elif write.lines is not UNSET:
        lines = sum(last - first + 1 for first, last in write.lines)
        name += f" ({lines:,} line{'' if lines == 1 else 's'})"
    elif write.hunks is not UNSET:
        added, removed = sum(hunk[3] for hunk in write.hunks), sum(hunk[1] for hunk in write.hunks)
        name += f" (+{added:,} -{removed:,})"
    return name + (INSPECTED_MARK if write.resource in inspected else "")


def _listed(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + and_more(len(names) - most)
