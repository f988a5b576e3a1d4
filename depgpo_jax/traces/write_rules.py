"""The rules inside one write: order and arithmetic of line ranges and hunks.

Each function returns how many records the write leaves. Source: docs/trace.md, "Writes".
"""

from collections.abc import Sequence
from typing import NoReturn

from depgpo_jax.errors import TraceError
from depgpo_jax.traces.fields import show


def check_lines(lines: Sequence[tuple[int, int]], t: int, c: int, w: int) -> int:
    """Number of lines in ascending ranges that do not overlap; t, c, w say where they stand."""
    records = 0
    end = 0
    for k, (first, last) in enumerate(lines):
        if first <= end or last < first:
            _refuse_range(lines, k, f"steps[{t}].commands[{c}].writes[{w}].lines[{k}]")
        records += last - first + 1
        end = last
    return records


def check_hunks(hunks: Sequence[tuple[int, int, int, int]], t: int, c: int, w: int) -> int:
    """Number of records that hunks leave: a line each, or one for the gap where lines vanished.

    With lo = start - (1 if count > 0 else 0), hunks stand in order and apart on the old side, and
    new lo = old lo + Σ(new_count - old_count) of the hunks above; so they do on the new side.
    """
    records = 0
    end = -1
    shift = 0
    for k, (old_start, old_count, new_start, new_count) in enumerate(hunks):
        old_lo = old_start - 1 if old_count else old_start
        new_lo = new_start - 1 if new_count else new_start
        if old_lo <= end or new_lo != old_lo + shift or not (old_count or new_count):
            field = f"steps[{t}].commands[{c}].writes[{w}].hunks[{k}]"
            _refuse_hunk(hunks, k, old_lo + shift, field)
        end = old_lo + old_count
        shift += new_count - old_count
        records += new_count or 1
    return records


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


def _refuse_hunk(
    hunks: Sequence[tuple[int, int, int, int]], k: int, new_lo: int, field: str
) -> NoReturn:
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
    expected = new_lo + 1 if new_count else new_lo
    raise TraceError(
        f"{found}, where new_start is {new_start}",
        f"new_start {expected}, since old_start and the hunks above put it there",
        "Take the four numbers from `diff -U0` of the file before and after the command.",
        field=field,
    )


def _old_end(hunk: tuple[int, int, int, int]) -> int:
    start, count = hunk[0], hunk[1]
    return start - 1 + count if count else start
