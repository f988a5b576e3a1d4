"""Replay of a trace's reads and writes: which records each command owned, and who killed them.

Each resource has at most one live whole record and, once somebody wrote single lines, a `LineMap`.
A record's fate is (owner, resource, killer, in_place); records of one fate form one *segment*, so
the number of segments stays near the number of writes, whatever the files' size. A command writes
a resource at most once and kills in it at most in two manners (moved away, then overwritten), so
merging inside each burial is enough: no fate comes up twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from depgpo_jax.line_map import UNOWNED, LineMap

if TYPE_CHECKING:
    from depgpo_jax.traces import Trace, Write

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


_Segment = tuple[int, int, int, bool, int]
"""(owner, resource, killer, in_place, count)"""


class _Replay:
    """Live records of every resource and the segments that are over, while a trace runs."""

    __slots__ = ("lines", "numbers", "segments", "wholes")

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}  # resource -> its number, in order of first write
        self.wholes: list[int] = []  # by number: owner of the live whole record, or UNOWNED
        self.lines: list[LineMap | None] = []  # by number: None where no line has an owner
        self.segments: list[_Segment] = []

    def bury(self, resource: int, killer: int, *, in_place: bool) -> None:
        """End every live record of a resource."""
        owner = self.wholes[resource]
        if owner >= 0:
            self.segments.append((owner, resource, killer, in_place, 1))
            self.wholes[resource] = UNOWNED
        lines = self.lines[resource]
        if lines is not None:
            for owner, count in lines.records().items():
                self.segments.append((owner, resource, killer, in_place, count))
            self.lines[resource] = None

    def write(self, write: Write, command: int) -> None:
        """Kill what this write replaces and create its records."""
        resource = self.numbers.get(write.resource)
        if resource is None:
            resource = self.numbers[write.resource] = len(self.wholes)
            self.wholes.append(UNOWNED)
            self.lines.append(None)
        lines = self.lines[resource]
        if write.lines is not UNSET:
            if lines is None:
                lines = self.lines[resource] = LineMap()
            dead = lines.write_lines(write.lines, command)
        elif write.hunks is not UNSET:
            if lines is None:
                lines = self.lines[resource] = LineMap()
            dead = lines.apply_hunks(write.hunks, command)
        else:
            self.bury(resource, command, in_place=True)
            self.wholes[resource] = command
            return
        for owner, count in dead.items():
            self.segments.append((owner, resource, command, True, count))


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
    state = _Replay()
    numbers = state.numbers
    read_paths: list[str] = []
    read_commands: list[int] = []
    command_number = -1
    for step in trace.steps:
        for command in step.commands:
            command_number += 1
            reads = command.reads
            if len(reads) == 1:
                read_paths.append(reads[0])
                read_commands.append(command_number)
            elif reads:
                distinct = dict.fromkeys(reads)
                read_paths += distinct
                read_commands += [command_number] * len(distinct)
            writes = command.writes
            for write in writes:
                source = write.moved_from
                if source is not UNSET:
                    if source not in reads:
                        read_paths.append(source)
                        read_commands.append(command_number)
                    if source in numbers:
                        state.bury(numbers[source], command_number, in_place=False)
            for write in writes:
                state.write(write, command_number)
    for resource in range(len(numbers)):
        state.bury(resource, SURVIVES, in_place=False)
    segments = sorted(state.segments, key=itemgetter(0))
    read_numbers = list(map(numbers.get, read_paths))  # None where nobody ever wrote
    return Segments(
        list(numbers),
        [segment[0] for segment in segments],
        [segment[1] for segment in segments],
        [segment[2] for segment in segments],
        [segment[3] for segment in segments],
        [segment[4] for segment in segments],
        [number for number in read_numbers if number is not None],
        [i for i, number in zip(read_commands, read_numbers, strict=True) if number is not None],
    )
