"""Who owns which line of one file: intervals, never one object per line.

A file is a run of *items* from top to bottom, kept as two parallel lists:

    ends[k]    number of the last line of item k, so that item k holds the lines
               ends[k-1] + 1 … ends[k]  (ends[-1] standing for 0 before the first item)
    owners[k]  the command that owns the records of item k, or UNOWNED

An item whose end equals the end before it holds no line: it is one *gap* record, a tombstone that
says "lines were removed here". Several gaps may share one place. Below the last item lie
infinitely many unowned lines that nobody has seen, so a map starts empty and a file's length is
never asked for. A write of a million lines is one item.

    ends    [3, 3, 5]        lines 1-3 of command 0, a gap of command 2, lines 4-5 of command 1
    owners  [0, 2, 1]

A few edited runs of lines are spliced into the two lists where they are, bottom to top. More of
them build the lists anew in one pass from top to bottom: what lies between two runs is copied as a
slice, so the cost is linear in items plus runs. As hunks neither overlap nor touch, going down
with a running shift is the same thing as going up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

UNOWNED: Final = -1
"""Owner of lines from before the rollout, and of lines that nobody wrote or saw."""

FEW: Final = 2
"""Up to so many hunks are spliced one by one."""


class LineMap:
    """The live line and gap records of one file.

    Source: method section 1.
    """

    __slots__ = ("ends", "owners")

    def __init__(self) -> None:
        """Start with a file in which every line is unowned."""
        self.ends: list[int] = []
        self.owners: list[int] = []

    def records(self) -> dict[int, int]:
        """Count the live line and gap records of each owner."""
        counts: dict[int, int] = {}
        counted = counts.get
        above = 0
        for end, owner in zip(self.ends, self.owners, strict=True):
            if owner >= 0:
                counts[owner] = counted(owner, 0) + (end - above or 1)
            above = end
        return counts

    def write_lines(self, ranges: Sequence[tuple[int, int]], owner: int) -> dict[int, int]:
        """Give the lines at these positions to `owner`; gaps stay, also between written lines.

        Source: method section 1, `lines`.

        Args:
            ranges: (first, last) line numbers, inclusive, from 1; ascending, not overlapping.
            owner: number of the writing command, larger than any owner so far.

        Returns:
            How many records of each earlier owner died.
        """
        dead: dict[int, int] = {}
        if len(ranges) == 1:
            ((first, last),) = ranges
            ends = self.ends
            start = bisect_right(ends, first - 1)
            stop = bisect_left(ends, last, start)
            # Without a gap in between this is a hunk that replaces lines one for one.
            if stop - start < 2 or len(set(ends[start:stop])) == stop - start:
                self._splice(first - 1, last - first + 1, 0, owner, dead)
                return dead
        self._overwrite(ranges, owner, dead)
        return dead

    def apply_hunks(self, hunks: Sequence[tuple[int, int, int, int]], owner: int) -> dict[int, int]:
        """Replace, insert or remove lines; the lines below keep their owners.

        Replaced lines die with the gaps strictly between them; gaps at a hunk's edges stay on
        their side. A hunk that leaves no line leaves one gap of `owner`. An insertion goes below
        the gaps at its place and kills nothing.

        Source: method section 1, `hunks`.

        Args:
            hunks: (old_start, old_count, new_start, new_count) as in `diff -U0`; ascending,
                neither overlapping nor touching.
            owner: number of the writing command, larger than any owner so far.

        Returns:
            How many records of each earlier owner died.
        """
        dead: dict[int, int] = {}
        if not self.ends:
            self._begin(hunks, owner)
        elif len(hunks) <= FEW:
            for start, old, _, new in reversed(hunks):
                self._splice(start - 1 if old else start, old, new - old, owner, dead)
        else:
            self._rebuild(hunks, owner, dead)
        return dead

    def _begin(self, hunks: Sequence[tuple[int, int, int, int]], owner: int) -> None:
        """Apply hunks to a file in which every line is unowned: only the new side matters."""
        ends, owners = self.ends, self.owners
        done = 0
        for _, _, start, new_count in hunks:
            above = start - 1 if new_count else start
            if above > done:
                ends.append(above)
                owners.append(UNOWNED)
            done = above + new_count
            ends.append(done)
            owners.append(owner)

    def _splice(
        self, above: int, old_count: int, shift: int, owner: int, dead: dict[int, int]
    ) -> None:
        """Replace `old_count` lines below line `above` by `old_count + shift` lines, or a gap."""
        ends, owners = self.ends, self.owners
        size = len(ends)
        at = bisect_right(ends, above)  # the item that holds the line below, under the gaps there
        rest = at  # the first item that stays, at least in part
        line = above
        last = above + old_count
        while line < last and rest < size:
            loser = owners[rest]
            bottom = ends[rest]
            if bottom > last:
                bottom = last
            else:
                rest += 1
            if loser >= 0:
                dead[loser] = dead.get(loser, 0) + (bottom - line or 1)
            line = bottom
        if above > (ends[at - 1] if at else 0):
            owners[at:rest] = (owners[at] if at < size else UNOWNED, owner)
            ends[at:rest] = (above, last + shift)
            at += 1
        else:
            owners[at:rest] = (owner,)
            ends[at:rest] = (last + shift,)
        if shift:
            for k in range(at + 1, len(ends)):
                ends[k] += shift

    def _overwrite(
        self, ranges: Sequence[tuple[int, int]], owner: int, dead: dict[int, int]
    ) -> None:
        """Write over ranges of lines in one pass, stepping around gaps."""
        old_ends, old_owners = self.ends, self.owners
        size = len(old_ends)
        ends: list[int] = []
        owners: list[int] = []
        copied = 0  # items before this one are in the new lists already
        done = 0  # the last line that the new lists hold
        for first, last in ranges:
            above = first - 1
            at = bisect_right(old_ends, above, copied)  # the item that holds line `first`
            if at > copied:
                ends += old_ends[copied:at]
                owners += old_owners[copied:at]
                done = ends[-1]
            if above > done:
                ends.append(above)
                owners.append(old_owners[at] if at < size else UNOWNED)
            done = above
            while done < last:
                end = old_ends[at] if at < size else last
                if end == done:  # a gap between two written lines
                    ends.append(done)
                    owners.append(old_owners[at])
                    at += 1
                    continue
                bottom = min(end, last)
                if at < size:
                    loser = old_owners[at]
                    if loser >= 0:
                        dead[loser] = dead.get(loser, 0) + bottom - done
                if owners and owners[-1] == owner:  # goes on where this command just wrote
                    ends[-1] = bottom
                else:
                    ends.append(bottom)
                    owners.append(owner)
                done = bottom
                if bottom == end:
                    at += 1
            copied = at
        self.ends = ends + old_ends[copied:]
        self.owners = owners + old_owners[copied:]

    def _rebuild(
        self, hunks: Sequence[tuple[int, int, int, int]], owner: int, dead: dict[int, int]
    ) -> None:
        """Apply hunks in one pass."""
        old_ends, old_owners = self.ends, self.owners
        size = len(old_ends)
        ends: list[int] = []
        owners: list[int] = []
        copied = 0  # items before this one are in the new lists already
        done = 0  # the last line, in old numbers, that the new lists account for
        shift = 0  # new number of an old line below the hunks so far, minus its old number
        for old_start, old_count, _, new_count in hunks:
            above = old_start - 1 if old_count else old_start
            at = bisect_right(old_ends, above, copied)  # below the gaps right above the hunk
            if at > copied:
                done = old_ends[at - 1]
                kept = old_ends[copied:at]
                ends += [end + shift for end in kept] if shift else kept
                owners += old_owners[copied:at]
            if above > done:
                ends.append(above + shift)
                owners.append(old_owners[at] if at < size else UNOWNED)
            done = above + old_count
            while above < done and at < size:
                loser = old_owners[at]
                bottom = old_ends[at]
                if bottom > done:
                    bottom = done
                else:
                    at += 1
                if loser >= 0:
                    dead[loser] = dead.get(loser, 0) + (bottom - above or 1)
                above = bottom
            copied = at
            shift += new_count - old_count
            ends.append(done + shift)
            owners.append(owner)
        kept = old_ends[copied:]
        self.ends = ends + ([end + shift for end in kept] if shift else kept)
        self.owners = owners + old_owners[copied:]
