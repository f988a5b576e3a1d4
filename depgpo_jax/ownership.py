"""Replay of a trace's reads and writes: which records each command owned, and who killed them.

Each resource has at most one live whole record and, once somebody wrote single lines, a `LineMap`.
A record's fate is (owner, resource, killer, in_place); records of one fate form one *segment*, so
the number of segments stays near the number of writes, whatever the files' size.

What one command kills in one resource in one manner is one *burial*. A command writes a resource
at most once and kills in it at most in two manners (moved away, then overwritten), so merging
inside each burial is enough: no fate comes up twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from depgpo_jax.line_map import UNOWNED, LineMap

if TYPE_CHECKING:
    from collections.abc import Sequence

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


@dataclass(frozen=True, slots=True)
class Burials:
    """The same in order of death, with what the segments of one burial share held once.

    `Segments` costs a sort a trace; a batch of traces sorts them all at once.
    """

    resources: list[str]
    """[R] resources that ever own a record, in order of first write."""
    owner: list[int]
    """[S] command that wrote the records."""
    count: list[int]
    """[S] number of records, from 1."""
    size: list[int]
    """Segments of each burial, from 0; they follow each other in `owner` and `count`."""
    resource: list[int]
    """Index into `resources` of each burial, of the same length as `size`."""
    killer: list[int]
    """The killer of each burial, as in `Segments`."""
    in_place: list[bool]
    """The manner of each burial, as in `Segments`."""
    read_resource: list[int]
    """As in `Segments`."""
    read_command: list[int]
    """As in `Segments`."""


class _Replay:
    """Live records of every resource and the burials so far, while a trace runs."""

    __slots__ = (
        "counts",
        "in_place",
        "killers",
        "lines",
        "numbers",
        "owners",
        "resources",
        "sizes",
        "wholes",
    )

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}  # resource -> its number, in order of first write
        self.wholes: list[int] = []  # by number: owner of the live whole record, or UNOWNED
        self.lines: list[LineMap] = []  # by number
        self.owners: list[int] = []  # the lists of `Burials`
        self.counts: list[int] = []
        self.sizes: list[int] = []
        self.resources: list[int] = []
        self.killers: list[int] = []
        self.in_place: list[bool] = []

    def bury(self, resource: int, killer: int, *, in_place: bool) -> None:
        """End every live record of a resource."""
        lines = self.lines[resource]
        dead = lines.records() if lines.ends else {}
        owner = self.wholes[resource]
        if owner >= 0:
            dead[owner] = 1  # a command writes either lines or the whole
            self.wholes[resource] = UNOWNED
        if lines.ends:
            self.lines[resource] = LineMap()
        self.note(resource, killer, in_place, dead)

    def note(self, resource: int, killer: int, in_place: bool, dead: dict[int, int]) -> None:
        """Enter a burial: how many records of each owner ended."""
        self.owners += dead
        self.counts += dead.values()
        self.sizes.append(len(dead))
        self.resources.append(resource)
        self.killers.append(killer)
        self.in_place.append(in_place)

    def write(self, writes: Sequence[Write], command: int) -> None:
        """Kill what these writes of one command replace and create its records."""
        numbers = self.numbers
        for write in writes:
            resource = numbers.get(write.resource)
            if resource is None:
                resource = numbers[write.resource] = len(numbers)
                self.wholes.append(UNOWNED)
                self.lines.append(LineMap())
            if write.hunks is not UNSET:
                dead = self.lines[resource].apply_hunks(write.hunks, command)
            elif write.lines is not UNSET:
                dead = self.lines[resource].write_lines(write.lines, command)
            else:
                self.bury(resource, command, in_place=True)
                self.wholes[resource] = command
                continue
            if dead:
                self.note(resource, command, True, dead)


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
    dead = bury_all(trace)
    burial = [k for k, size in enumerate(dead.size) for _ in range(size)]
    order = sorted(range(len(burial)), key=dead.owner.__getitem__)
    burial = [burial[k] for k in order]
    return Segments(
        dead.resources,
        [dead.owner[k] for k in order],
        [dead.resource[k] for k in burial],
        [dead.killer[k] for k in burial],
        [dead.in_place[k] for k in burial],
        [dead.count[k] for k in order],
        dead.read_resource,
        dead.read_command,
    )


def bury_all(trace: Trace) -> Burials:
    """Replay a validated trace; see `replay`."""
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
            if not writes:
                continue
            for write in writes:
                source = write.moved_from
                if source is not UNSET:
                    if source not in reads:
                        read_paths.append(source)
                        read_commands.append(command_number)
                    if source in numbers:
                        state.bury(numbers[source], command_number, in_place=False)
            state.write(writes, command_number)
    for resource in range(len(numbers)):
        state.bury(resource, SURVIVES, in_place=False)
    read_numbers = list(map(numbers.get, read_paths))  # None where nobody ever wrote
    if None in read_numbers:
        known = [k for k, number in enumerate(read_numbers) if number is not None]
        read_numbers = [read_numbers[k] for k in known]
        read_commands = [read_commands[k] for k in known]
    return Burials(
        list(numbers),
        state.owners,
        state.counts,
        state.sizes,
        state.resources,
        state.killers,
        state.in_place,
        read_numbers,
        read_commands,
    )
