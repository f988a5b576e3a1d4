"""The rules inside one write: order and arithmetic of line ranges and hunks.

The checks run on every write of every file, so they only say whether all is well; which entry is
to blame, and why, is worked out when something is wrong. Source: docs/trace.md, "Writes".
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NoReturn

from depgpo_jax.errors import TraceError
from depgpo_jax.traces.fields import show


def lines_fit(lines: Sequence[tuple[int, int]]) -> bool:
    """Whether ranges are ascending and do not overlap."""
    end = 0
    for first, last in lines:
        if first <= end or last < first:
            return False
        end = last
    return True


def hunks_fit(hunks: Sequence[tuple[int, int, int, int]]) -> bool:
    """Whether hunks are in order, apart and consistent on both sides.

    With lo = start - (1 if count > 0 else 0), hunks stand in order and apart on the old side, and
    new lo = old lo + Σ(new_count - old_count) of the hunks above; that is, from the end of the
    hunk above it is as far on the new side as on the old one.
    """
    old_end = new_end = -1  # a first hunk may begin above line 1, at lo 0
    for old_lo, old_count, new_lo, new_count in hunks:
        if old_count:
            old_lo -= 1
        elif not new_count:
            return False
        if new_count:
            new_lo -= 1
        if old_lo <= old_end or old_lo - old_end != new_lo - new_end:
            return False
        old_end = old_lo + old_count
        new_end = new_lo + new_count
    return True


def count_records(
    lines: Sequence[tuple[int, int]], hunks: Sequence[tuple[int, int, int, int]]
) -> int:
    """Number of records that writes leave: a line each, or one gap where a hunk leaves none."""
    return sum(last - first + 1 for first, last in lines) + sum(hunk[3] or 1 for hunk in hunks)


def refuse_lines(lines: Sequence[tuple[int, int]], field: str) -> NoReturn:
    """Raises for the first range that does not fit."""
    k = bisect_left(range(len(lines)), True, key=lambda k: not lines_fit(lines[: k + 1]))
    _refuse_range(lines, k, f"{field}.lines[{k}]")


def refuse_hunks(hunks: Sequence[tuple[int, int, int, int]], field: str) -> NoReturn:
    """Raises for the first hunk that does not fit."""
    k = bisect_left(range(len(hunks)), True, key=lambda k: not hunks_fit(hunks[: k + 1]))
    _refuse_hunk(hunks, k, f"{field}.hunks[{k}]")


def _refuse_range(lines: Sequence[tuple[int, int]], k: int, field: str) -> NoReturn:
    first, last = lines[k]
    found = show(lines[k])
    if last < first:
        raise TraceError(
            f"{found}, which ends before it begins",
            "[first, last] with first <= last",
            "Swap or correct the two numbers.",
            field=field,
        )
    raise TraceError(
        f"{found} below {show(lines[k - 1])}",
        "ranges in ascending order that do not overlap (touching is fine)",
        "Sort the ranges and merge those that overlap.",
        field=field,
    )


def _refuse_hunk(hunks: Sequence[tuple[int, int, int, int]], k: int, field: str) -> NoReturn:
    old_start, old_count, new_start, new_count = hunks[k]
    found = show(hunks[k])
    if not (old_count or new_count):
        raise TraceError(
            f"{found}, where both counts are 0",
            "at least one line removed or added",
            "Leave the hunk out.",
            field=field,
        )
    for side, start, count in (("old", old_start, old_count), ("new", new_start, new_count)):
        if count and not start:
            raise TraceError(
                f"{found}, where {side}_start is 0 though {side}_count is {count}",
                "a start from 1 where the count is not 0 (0 means before the first line)",
                "Count lines from 1, as `diff -U0` does.",
                field=field,
            )
    if k and (old_start - 1 if old_count else old_start) <= _old_end(hunks[k - 1]):
        raise TraceError(
            f"{found} below {show(hunks[k - 1])}",
            "hunks in ascending order of the old side that neither overlap nor touch",
            "Sort the hunks and merge those that overlap or touch.",
            field=field,
        )
    shift = sum(hunk[3] - hunk[1] for hunk in hunks[:k])
    expected = old_start + shift + (1 if new_count else 0) - (1 if old_count else 0)
    raise TraceError(
        f"{found}, where new_start is {new_start}",
        f"new_start {expected}, since old_start and the hunks above put it there",
        "Take the four numbers from `diff -U0` of the file before and after the command.",
        field=field,
    )


def _old_end(hunk: tuple[int, int, int, int]) -> int:
    start, count = hunk[0], hunk[1]
    return start - 1 + count if count else start
