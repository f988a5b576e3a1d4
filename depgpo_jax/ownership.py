"""Replay of a trace's reads and writes: which records each command owned, and who killed them.

Each resource has at most one live whole record and, once somebody wrote single lines, a `LineMap`.
A record's fate is (owner, resource, killer, in_place); records of one fate form one *segment*, so
the number of segments stays near the number of writes, whatever the files' size. A command writes
a resource at most once and kills in it at most in two manners (moved away, then overwritten), so
merging inside each burial is enough: no fate comes up twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from depgpo_jax.line_map import UNOWNED, LineMap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from depgpo_jax.traces import Command, Trace, Write

SURVIVES: Final = 2**31 - 1
"""Killer of a record that is live at the end of the trace."""


@dataclass(frozen=True, slots=True)
class Segments:
    """The records of one trace, grouped by fate, and its reads.

    There is no padding. Segments are sorted by owner and, for one owner, in order of death.

    Source: method section 1.
    """

    resources: list[str]
    """[R] resources that ever own a record, in order of first write."""
    owner: list[int]
    """[S] command that wrote the records, 0 … N-1, ascending."""
    resource: list[int]
    """[S] index into `resources`."""
    killer: list[int]
    """[S] command whose write or move ended them; SURVIVES where none did."""
    in_place: list[bool]
    """[S] whether the killer wrote over them; False where moved away or live at the end."""
    count: list[int]
    """[S] number of records, from 1."""
    read_resource: list[int]
    """Index into `resources` of each distinct (resource, command) read, commands ascending."""
    read_command: list[int]
    """The reading command of each, of the same length."""


SEGMENT_FIELDS: Final = 5
"""Numbers of a segment in a flat list: owner, resource, killer, in_place, count."""

NEVER_WRITTEN: Final = -1
"""Number of a resource that nobody writes in the trace."""


class Replay:
    """Live records of every resource, the segments that are over, and the reads of a trace.

    What a batch is made from: segments in order of death, reads of resources that nobody ever
    writes still among the others. `replay` gives the same in order.
    """

    __slots__ = ("lines", "numbers", "read_commands", "read_numbers", "segments", "wholes")

    def __init__(self, commands: Sequence[Command]) -> None:
        self.numbers: dict[str, int] = {}  # resource -> its number, in order of first write
        self.wholes: list[int] = []  # by number: owner of the live whole record, or UNOWNED
        self.lines: list[LineMap | None] = []  # by number: None where no line has an owner
        self.segments: list[int] = []  # SEGMENT_FIELDS numbers each
        self.read_commands: list[int] = []
        paths = self._run(commands)
        self.read_numbers = list(map(self.numbers.get, paths, repeat(NEVER_WRITTEN)))

    def bury(self, resource: int, killer: int, *, in_place: bool) -> None:
        """End every live record of a resource."""
        owner = self.wholes[resource]
        if owner >= 0:
            self.segments += (owner, resource, killer, in_place, 1)
            self.wholes[resource] = UNOWNED
        lines = self.lines[resource]
        if lines is not None:
            for owner, count in lines.records().items():
                self.segments += (owner, resource, killer, in_place, count)
            self.lines[resource] = None

    def write(self, write: Write, command: int) -> None:
        """Kill what this write replaces and create its records."""
        path = write.resource
        resource = self.numbers.get(path)
        if resource is None:
            resource = self.numbers[path] = len(self.wholes)
            self.wholes.append(UNOWNED)
            self.lines.append(None)
        lines = self.lines[resource]
        if write.hunks is not UNSET:
            if lines is None:
                lines = self.lines[resource] = LineMap()
            dead = lines.apply_hunks(write.hunks, command)
        elif write.lines is not UNSET:
            if lines is None:
                lines = self.lines[resource] = LineMap()
            dead = lines.write_lines(write.lines, command)
        else:
            self.bury(resource, command, in_place=True)
            self.wholes[resource] = command
            return
        for owner, count in dead.items():
            self.segments += (owner, resource, command, True, count)

    def _run(self, commands: Sequence[Command]) -> list[str]:
        """Replays all commands; returns the paths that were read, one for each reading command."""
        numbers = self.numbers
        read_paths: list[str] = []
        read_commands = self.read_commands
        for number, command in enumerate(commands):
            reads = command.reads
            if len(reads) == 1:
                read_paths.append(reads[0])
                read_commands.append(number)
            elif reads:
                distinct = dict.fromkeys(reads)
                read_paths += distinct
                read_commands += [number] * len(distinct)
            writes = command.writes
            for write in writes:
                source = write.moved_from
                if source is not UNSET:
                    if source not in reads:
                        read_paths.append(source)
                        read_commands.append(number)
                    if source in numbers:
                        self.bury(numbers[source], number, in_place=False)
            for write in writes:
                self.write(write, number)
        for resource in range(len(numbers)):
            self.bury(resource, SURVIVES, in_place=False)
        return read_paths


def replay(trace: Trace) -> Segments:
    """Replay a validated trace into its record segments and reads.

    A command's moves away come first, then its writes. `moved_from` counts as a read of the old
    path. A read is kept where its resource owns a record at any time of the trace, be it later.

    Source: method section 1; trace page, "Writes".

    Args:
        trace: A trace that passed validation; nothing is checked here.

    Returns:
        The segments and reads; all lists empty for a trace without commands.
    """
    state = Replay(trace.commands)
    numbers = iter(state.segments)
    segments = sorted(zip(*[numbers] * SEGMENT_FIELDS, strict=True), key=itemgetter(0))
    reads = [
        (number, command)
        for number, command in zip(state.read_numbers, state.read_commands, strict=True)
        if number != NEVER_WRITTEN
    ]
    return Segments(
        list(state.numbers),
        [segment[0] for segment in segments],
        [segment[1] for segment in segments],
        [segment[2] for segment in segments],
        [bool(segment[3]) for segment in segments],
        [segment[4] for segment in segments],
        [number for number, _ in reads],
        [command for _, command in reads],
    )
