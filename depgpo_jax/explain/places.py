"""Which lines a command wrote, and what became of each: the replay with positions.

`ownership.replay` counts records and forgets where they were, which is what makes it fast. This
one remembers, for one rollout at a time. A file is a list of *runs* from top to bottom: lines of
one owner, or one gap. A run that is cut keeps the place of each part as its owner left it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from depgpo_jax.line_map import UNOWNED
from depgpo_jax.ownership import SURVIVES

if TYPE_CHECKING:
    from depgpo_jax.traces import Command, Write


class Fate(NamedTuple):
    """What records of one segment share."""

    owner: int
    resource: str
    killer: int  # SURVIVES where none
    in_place: bool


class Run(NamedTuple):
    """Neighbouring lines of one owner, or one gap."""

    owner: int
    first: int  # the first line, in the file as its owner left it; of a gap, the line above it
    size: int  # number of lines; 0: a gap


class Places(NamedTuple):
    """Where records were, in the resource as their owner left it.

    Attributes:
        lines: first and last line, from 1, of each run of line records; ascending.
        gaps: for each gap record the line above it, 0 for the top; ascending.
        whole: whether the whole-file mark is among them.
    """

    lines: tuple[tuple[int, int], ...]
    gaps: tuple[int, ...]
    whole: bool

    @property
    def records(self) -> int:
        """How many records these are."""
        return sum(last - first + 1 for first, last in self.lines) + len(self.gaps) + self.whole


@dataclass(slots=True)
class _File:
    """The live records of one resource."""

    whole: int = UNOWNED
    runs: list[Run] = field(default_factory=list)

    def live(self) -> list[Run | None]:
        """All of them; None is the whole-file mark."""
        return [*([None] if self.whole != UNOWNED else []), *self.runs]

    def cut(self, line: int, *, below_gaps: bool) -> int:
        """The index of the place under a line, 0 for the top; a run that crosses it is cut."""
        above = index = 0
        while index < len(self.runs):
            run = self.runs[index]
            if above == line and (run.size or not below_gaps):
                return index
            left = line - above
            if run.size > left:
                head, tail = run._replace(size=left), run.size - left
                self.runs[index : index + 1] = [head, Run(run.owner, run.first + left, tail)]
                return index + 1
            above += run.size
            index += 1
        if above < line:
            self.runs.append(Run(UNOWNED, 0, line - above))
        return len(self.runs)


class _Graveyard:
    """Dead records, collected by fate."""

    def __init__(self) -> None:
        self.fates: dict[Fate, list[Run | None]] = {}

    def bury(
        self, file: _File, resource: str, runs: Iterable[Run | None], killer: int, *, in_place: bool
    ) -> None:
        for run in runs:
            owner = file.whole if run is None else run.owner
            if owner != UNOWNED:
                fate = Fate(owner, resource, killer, in_place)
                self.fates.setdefault(fate, []).append(run)


def record_places(commands: Sequence[Command]) -> dict[Fate, Places]:
    """Where the records of every segment are, in order of death.

    Source: method section 1.

    Args:
        commands: those of a valid trace.

    Returns:
        One entry a segment: the same segments as `replay` gives, with the same counts.
    """
    files: dict[str, _File] = {}
    dead = _Graveyard()
    for number, command in enumerate(commands):
        for write in command.writes:
            source = write.moved_from
            if source is not UNSET and source in files:
                file = files[source]
                dead.bury(file, source, file.live(), number, in_place=False)
                # Emptied, not removed: files stay in order of first write, as `replay` has them.
                files[source] = _File()
        for write in command.writes:
            file = files.setdefault(write.resource, _File())
            _write(file, write, number, dead)
    for resource, file in files.items():
        dead.bury(file, resource, file.live(), SURVIVES, in_place=False)
    return {fate: _places(runs) for fate, runs in dead.fates.items()}


def _write(file: _File, write: Write, owner: int, dead: _Graveyard) -> None:
    if write.hunks is not UNSET:
        for old_start, old_count, new_start, new_count in reversed(write.hunks):
            above = old_start - 1 if old_count else old_start
            start = file.cut(above, below_gaps=True)
            stop = file.cut(above + old_count, below_gaps=False) if old_count else start
            dead.bury(file, write.resource, file.runs[start:stop], owner, in_place=True)
            file.runs[start:stop] = [Run(owner, new_start, new_count)]
    elif write.lines is not UNSET:
        for first, last in write.lines:
            start = file.cut(first - 1, below_gaps=True)
            stop = file.cut(last, below_gaps=False)
            lines = [run for run in file.runs[start:stop] if run.size]
            dead.bury(file, write.resource, lines, owner, in_place=True)
            file.runs[start:stop] = _overwritten(file.runs[start:stop], owner, first)
    else:
        dead.bury(file, write.resource, file.live(), owner, in_place=True)
        file.runs = []
        file.whole = owner


def _overwritten(runs: Iterable[Run], owner: int, first: int) -> list[Run]:
    """The same lines in the hands of a new owner; gaps between them stay."""
    new: list[Run] = []
    for run in runs:
        new.append(Run(owner, first, run.size) if run.size else run)
        first += run.size
    return new


def _places(runs: Sequence[Run | None]) -> Places:
    lines: list[tuple[int, int]] = []
    for first, size in sorted((run.first, run.size) for run in runs if run and run.size):
        if lines and lines[-1][1] + 1 == first:
            lines[-1] = (lines[-1][0], first + size - 1)
        else:
            lines.append((first, first + size - 1))
    gaps = sorted(run.first for run in runs if run and not run.size)
    return Places(tuple(lines), tuple(gaps), None in runs)
