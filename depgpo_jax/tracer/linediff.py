r"""Two contents of a file to hunks: which lines a command removed and added.

The work is done by pygit2 (git's xdiff) where it is installed, else by difflib, which is slower and
finds coarser hunks in files with many equal lines. Both see lines without their newline, and so a
missing final newline is no change of its own; `\r` belongs to the line.
Source: docs/trace.md, "Writes".
"""

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

Hunk = tuple[int, int, int, int]
"""old_start, old_count, new_start, new_count of a `diff -U0` hunk header."""

Engine = Callable[[bytes, bytes], list[Hunk]]
"""Two different texts, both empty or with a final newline, to hunks."""

MAX_TEXT: Final = 8 * 1024**2
"""Bytes of the largest file whose lines are told apart; larger ones are one record."""

XDIFF_PAIRS: Final = 2 * 10**10
"""Pairs of equal lines up to which xdiff compares: a few seconds at worst."""

DIFFLIB_PAIRS: Final = 10**6
"""The same for difflib, which looks at each pair in Python."""

DIFFLIB_LINES: Final = 10**8
"""Changed lines before times changed lines after up to which difflib compares: 10 s at worst."""


def diff_hunks(before: bytes, after: bytes) -> list[Hunk] | None:
    r"""Which lines changed, as the hunks of `diff -U0`.

    Lines end at `\n` only. A new file (`before=b""`) of n lines is one insertion, (0, 0, 1, n); a
    file emptied of n lines is one deletion, (1, n, 0, 0). Files that are created empty, emptied or
    truncated are written as `whole` all the same: that is the caller's to decide. Texts that differ
    in the final newline alone give no hunk, and `echo z >> f` where f lacks that newline changes
    the joined line only.

    Texts with very many equal lines (see `XDIFF_PAIRS`), and for difflib very long ones, give one
    hunk from the first changed line to the last, so that no file can hold up the tracer.

    Source: trace page, "Writes".

    Args:
        before: The file's bytes before the command.
        after: The same after it.

    Returns:
        (old_start, old_count, new_start, new_count) each, ascending, neither overlapping nor
        touching, valid as `hunks` of a write; [] where no line changed. None where one side is no
        text (a NUL byte, not UTF-8, larger than `MAX_TEXT`): the caller writes `whole`.
    """
    if not (is_text(before) and is_text(after)):
        return None
    before, after = _ended(before), _ended(after)
    if before == after:
        return []
    if not before:
        return [(0, 0, 1, after.count(b"\n"))]
    if not after:
        return [(1, before.count(b"\n"), 0, 0)]
    return _engine()(before, after)


def apply_hunks(
    before: Sequence[bytes], after: Sequence[bytes], hunks: Sequence[Hunk]
) -> list[bytes]:
    """Lines of `before` with those of each hunk replaced by the ones that `after` has there.

    Right hunks give `after`: what the tests hold against `diff_hunks`.
    """
    lines: list[bytes] = []
    done = 0
    for old_start, old_count, new_start, new_count in hunks:
        old_lo = old_start - 1 if old_count else old_start
        new_lo = new_start - 1 if new_count else new_start
        lines += before[done:old_lo]
        lines += after[new_lo : new_lo + new_count]
        done = old_lo + old_count
    lines += before[done:]
    return lines


def split_lines(text: bytes) -> list[bytes]:
    r"""The lines without their `\n`; a final newline begins no further line."""
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def is_text(content: bytes) -> bool:
    """Whether lines are told apart in this content: UTF-8 without NUL, at most `MAX_TEXT`."""
    if len(content) > MAX_TEXT or b"\0" in content:
        return False
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _ended(text: bytes) -> bytes:
    return text if not text or text.endswith(b"\n") else text + b"\n"


@cache
def _engine() -> Engine:
    return _xdiff() or _difflib_hunks


def _xdiff() -> Engine | None:
    """Git's line diff, or None where pygit2 cannot be imported."""
    try:
        from pygit2 import Patch
        from pygit2.enums import DiffOption
    except ImportError:
        return None

    def hunks(before: bytes, after: bytes) -> list[Hunk]:
        if before.count(b"\n") * after.count(b"\n") > XDIFF_PAIRS:  # else there cannot be as many
            old, new = split_lines(before), split_lines(after)
            above, below = _common_ends(old, new)
            if _equal_pairs(old, new, above, below) > XDIFF_PAIRS:
                return [_one_hunk(old, new, above, below)]
        patch = Patch.create_from(
            before, after, context_lines=0, interhunk_lines=0, flag=DiffOption.FORCE_TEXT
        )
        return [(h.old_start, h.old_lines, h.new_start, h.new_lines) for h in patch.hunks]

    return hunks


def _difflib_hunks(before: bytes, after: bytes) -> list[Hunk]:
    """The fallback: what git's diff does first, leaving out equal ends, then difflib.

    Without autojunk difflib would take 25 times as long on a file of 10,000 lines.
    """
    old, new = split_lines(before), split_lines(after)
    above, below = _common_ends(old, new)
    ends = above + below
    if (len(old) - ends) * (len(new) - ends) > DIFFLIB_LINES or (
        _equal_pairs(old, new, above, below) > DIFFLIB_PAIRS
    ):
        return [_one_hunk(old, new, above, below)]
    matcher = difflib.SequenceMatcher(
        None, old[above : len(old) - below], new[above : len(new) - below], autojunk=True
    )
    return [
        _hunk(above + old_lo, old_hi - old_lo, above + new_lo, new_hi - new_lo)
        for tag, old_lo, old_hi, new_lo, new_hi in matcher.get_opcodes()
        if tag != "equal"
    ]


def _common_ends(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[int, int]:
    """How many lines at the top, then how many of the others at the bottom, are the same."""
    most = min(len(old), len(new))
    above = 0
    while above < most and old[above] == new[above]:
        above += 1
    below = 0
    while below < most - above and old[-1 - below] == new[-1 - below]:
        below += 1
    return above, below


def _equal_pairs(old: Sequence[bytes], new: Sequence[bytes], above: int, below: int) -> int:
    """How many pairs of an old and a new line are equal, without the equal ends."""
    olds = Counter(old[above : len(old) - below])
    news = Counter(new[above : len(new) - below])
    return sum(count * news[line] for line, count in olds.items() if line in news)


def _one_hunk(old: Sequence[bytes], new: Sequence[bytes], above: int, below: int) -> Hunk:
    return _hunk(above, len(old) - above - below, above, len(new) - above - below)


def _hunk(old_lo: int, old_count: int, new_lo: int, new_count: int) -> Hunk:
    """The header's numbers: where a count is 0, the start names the line above."""
    return (
        old_lo + 1 if old_count else old_lo,
        old_count,
        new_lo + 1 if new_count else new_lo,
        new_count,
    )
