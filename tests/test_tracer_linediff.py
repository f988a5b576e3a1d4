"""Hunks between two contents: exact cases, and that they always lead from one to the other."""

from __future__ import annotations

import random
import sys
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgpo_jax.line_map import UNOWNED, LineMap
from depgpo_jax.ownership import SURVIVES, replay
from depgpo_jax.tracer import linediff
from depgpo_jax.tracer.linediff import (
    MAX_TEXT,
    Engine,
    Hunk,
    apply_hunks,
    diff_hunks,
    is_text,
    split_lines,
)
from tests.helpers import Json, command, step, trace

XDIFF = linediff._xdiff()
assert XDIFF is not None, "the tests need pygit2"
ENGINES: dict[str, Engine] = {"xdiff": XDIFF, "difflib": linediff._difflib_hunks}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(linediff, "_engine", lambda: ENGINES[request.param])
    return request.param


def joined(lines: Sequence[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def numbered(count: int) -> list[bytes]:
    return [b"line %d" % k for k in range(1, count + 1)]


TEN = joined(numbered(10))

CASES: dict[str, tuple[bytes, bytes, list[Hunk]]] = {
    "both empty": (b"", b"", []),
    "the same": (TEN, TEN, []),
    "created": (b"", b"a\nb\nc\n", [(0, 0, 1, 3)]),
    "created without a final newline": (b"", b"a\nb", [(0, 0, 1, 2)]),
    "created with one empty line": (b"", b"\n", [(0, 0, 1, 1)]),
    "emptied": (b"a\nb\nc\n", b"", [(1, 3, 0, 0)]),
    "emptied of a line without newline": (b"a", b"", [(1, 1, 0, 0)]),
    "emptied of an empty line": (b"\n", b"", [(1, 1, 0, 0)]),
    "final newline gone": (b"a\nb\n", b"a\nb", []),
    "final newline added": (b"a\nb", b"a\nb\n", []),
    "an empty line added": (b"a\n", b"a\n\n", [(1, 0, 2, 1)]),
    "an empty line added where no newline was": (b"a", b"a\n\n", [(1, 0, 2, 1)]),
    "appended": (b"a\nb\n", b"a\nb\nz\n", [(2, 0, 3, 1)]),
    "joined to a line without newline": (b"a\nb", b"a\nbz\n", [(2, 1, 2, 1)]),
    "a newline and a line, then none": (b"a\nb", b"a\nb\nz", [(2, 0, 3, 1)]),
    "last line cut, and its newline": (b"a\nb\nc\n", b"a\nb", [(3, 1, 2, 0)]),
    "inserted at the top": (b"a\nb\n", b"z\na\nb\n", [(0, 0, 1, 1)]),
    "inserted in between": (b"a\nb\n", b"a\nz\nb\n", [(1, 0, 2, 1)]),
    "removed at the top": (b"a\nb\n", b"b\n", [(1, 1, 0, 0)]),
    "removed in between": (b"a\nb\nc\n", b"a\nc\n", [(2, 1, 1, 0)]),
    "all replaced": (b"a\nb\n", b"c\nd\ne\n", [(1, 2, 1, 3)]),
    "touching changes are one": (b"a\nb\nc\nd\n", b"a\nB\nC\nd\n", [(2, 2, 2, 2)]),
    "a removal that touches a change": (b"a\nb\nc\nd\n", b"a\nC\nd\n", [(2, 2, 2, 1)]),
    "changes one line apart are two": (
        b"a\nb\nc\n",
        b"A\nb\nC\n",
        [(1, 1, 1, 1), (3, 1, 3, 1)],
    ),
    "starts shift by what stands above": (
        TEN,
        joined([b"new", *numbered(10)[:3], *numbered(10)[5:9], b"tenth"]),
        [(0, 0, 1, 1), (4, 2, 4, 0), (10, 1, 9, 1)],
    ),
    "a line like its neighbours is added at their end": (b"x\nx\n", b"x\nx\nx\n", [(2, 0, 3, 1)]),
    "a line like its neighbours is removed at their end": (
        b"x\nx\nx\ny\n",
        b"x\nx\ny\n",
        [(3, 1, 2, 0)],
    ),
    "CRLF to LF": (b"a\r\nb\r\nc\n", b"a\r\nb\nc\n", [(2, 1, 2, 1)]),
    "CRLF kept": (b"a\r\nb\r\n", b"a\r\nb\r\nc\r\n", [(2, 0, 3, 1)]),
    "a lone CR ends no line": (b"a\rb\n", b"a\rc\n", [(1, 1, 1, 1)]),
    "other separators end no line": (
        "a\u2028b\x0bc\x85\n".encode(),
        "a\u2028b\x0bd\x85\n".encode(),
        [(1, 1, 1, 1)],
    ),
    "white space counts": (b"a\n\tb\n", b"a\n b\n", [(2, 1, 2, 1)]),
    "a conflict marker is a line": (b"a\n", b"<<<<<<< a\n", [(1, 1, 1, 1)]),
}


@pytest.mark.parametrize(("before", "after", "expected"), CASES.values(), ids=CASES)
def test_exact_hunks(engine: str, before: bytes, after: bytes, expected: list[Hunk]):
    assert diff_hunks(before, after) == expected
    assert_right(before, after)


@pytest.mark.parametrize(
    "content",
    [b"a\0b\n", b"\xff\n", b"\xc3", b"\xed\xa0\x80", "é\n".encode("utf-16"), b"a" * (MAX_TEXT + 1)],
    ids=["NUL", "no start byte", "half a character", "surrogate", "UTF-16", "too large"],
)
def test_what_is_no_text_has_no_hunks(content: bytes):
    assert not is_text(content)
    for other in (b"", b"a\n", content):
        assert diff_hunks(content, other) is None
        assert diff_hunks(other, content) is None


def test_the_largest_text(engine: str):
    before = b"a" * (MAX_TEXT // 2) + b"\n"
    after = before + b"b" * (MAX_TEXT - len(before))
    assert len(after) == MAX_TEXT
    assert diff_hunks(before, after) == [(1, 0, 2, 1)]


def test_lines_end_at_newlines_only():
    assert split_lines(b"") == []
    assert split_lines(b"\n") == [b""]
    assert split_lines(b"a\r\nb\rc\n\nd") == [b"a\r", b"b\rc", b"", b"d"]
    assert split_lines(b"a\n") == split_lines(b"a")


def test_without_pygit2_difflib_takes_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pygit2", None)
    assert linediff._engine.__wrapped__() is linediff._difflib_hunks


def test_with_pygit2_its_xdiff_is_used():
    assert linediff._engine() is not linediff._difflib_hunks


def test_ten_thousand_lines_with_fifty_edits(engine: str):
    rng = random.Random(5)
    old = [b"%d of %d" % (k, rng.randrange(10**6)) for k in range(10_000)]
    new = list(old)
    places = rng.sample(range(0, 10_000, 3), 50)  # never two that touch
    for place in places:
        new[place] = b"edited"
    started = time.perf_counter()
    found = diff_hunks(joined(old), joined(new))
    assert time.perf_counter() - started < 5  # 4 ms with xdiff, 30 ms with difflib
    assert found == [(place + 1, 1, place + 1, 1) for place in sorted(places)]


def test_very_many_equal_lines_are_one_hunk(engine: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(linediff, f"{engine.upper()}_PAIRS", 9)
    before = joined([b"top", b"x", b"y", b"x", b"y", b"x", b"y", b"x", b"end"])
    after = joined([b"top", b"y", b"y", b"x", b"x", b"x", b"y", b"end"])
    assert diff_hunks(before, after) == [(2, 7, 2, 6)]
    monkeypatch.setattr(linediff, f"{engine.upper()}_PAIRS", 99)
    hunks = diff_hunks(before, after)
    assert hunks is not None
    assert len(hunks) > 1
    assert_right(before, after)


def test_very_long_files_are_one_hunk_for_difflib(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(linediff, "_engine", lambda: linediff._difflib_hunks)
    before = joined([b"top", b"1", b"2", b"3", b"end"])
    after = joined([b"top", b"one", b"2", b"three", b"end"])
    assert diff_hunks(before, after) == [(2, 1, 2, 1), (4, 1, 4, 1)]
    monkeypatch.setattr(linediff, "DIFFLIB_LINES", 8)
    assert diff_hunks(before, after) == [(2, 3, 2, 3)]


def test_equal_ends_do_not_count_as_many_equal_lines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(linediff, "XDIFF_PAIRS", 9)
    before = joined([b"x"] * 50 + [b"a", b"m", b"b"] + [b"x"] * 50)
    after = joined([b"x"] * 50 + [b"c", b"m", b"d"] + [b"x"] * 50)
    assert diff_hunks(before, after) == [(51, 1, 51, 1), (53, 1, 53, 1)]


# Round trips.


def assert_right(before: bytes, after: bytes) -> None:
    """The hunks lead from `before` to `after`, and a trace accepts them."""
    hunks = diff_hunks(before, after)
    assert hunks is not None
    old, new = split_lines(before), split_lines(after)
    assert apply_hunks(old, new, hunks) == new
    assert (hunks == []) == (old == new)
    for old_start, old_count, new_start, new_count in hunks:  # nothing in them is left as it was
        removed = old[old_start - 1 : old_start - 1 + old_count]
        added = new[new_start - 1 : new_start - 1 + new_count]
        assert removed != added
    if hunks:
        written = {"resource": "/f", "hunks": [list(hunk) for hunk in hunks]}
        assert trace(step(1, command(writes=[written]))).commands[0].writes[0].hunks == hunks


line = st.sampled_from([b"", b"a", b"b", b"\r", b"c\r", b" a", "é".encode()])
text = st.builds(
    lambda lines, ended: joined(lines) if ended else b"\n".join(lines),
    st.lists(line, max_size=12),
    st.booleans(),
)


@pytest.mark.parametrize("name", ENGINES)
@given(before=text, after=text)
def test_any_two_texts(name: str, before: bytes, after: bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linediff, "_engine", lambda: ENGINES[name])
        assert_right(before, after)


def edited(rng: random.Random, lines: list[bytes], fresh: Sequence[bytes]) -> list[bytes]:
    """The lines with a few runs of them replaced, removed or added."""
    lines = list(lines)
    supply = iter(fresh)
    for _ in range(rng.randrange(1, 5)):
        place = rng.randrange(len(lines) + 1)
        removed = rng.choice([0, 0, 1, 1, 2, 5])
        added = rng.choice([0, 1, 1, 2, 4])
        lines[place : place + removed] = [next(supply) for _ in range(added)]
    return lines


def test_random_edits_of_random_files(engine: str):
    rng = random.Random(11)
    for _ in range(400):
        kinds = rng.choice([1, 2, 5, 100])
        pool = [b"%d" % k for k in range(kinds)]
        old = rng.choices(pool, k=rng.choice([0, 1, 3, 30, 300]))
        new = edited(rng, old, rng.choices(pool, k=30))
        before, after = joined(old), joined(new)
        if rng.random() < 0.3:
            before = before.removesuffix(b"\n")
        assert_right(before, after)


def author(line: bytes) -> int:
    return int(line.split()[1][:-1]) if line.startswith(b"by ") else UNOWNED


def owners(commands: Sequence[Json], count: int) -> Iterable[int]:
    """The owner of each of the `count` lines that the commands left, from top to bottom."""
    rows = LineMap()
    for number, entry in enumerate(commands):
        for write in entry["writes"]:
            rows.apply_hunks(write["hunks"], number)
    for k in range(count):
        item = bisect_right(rows.ends, k)
        yield rows.owners[item] if item < len(rows.ends) else UNOWNED


def test_a_replayed_edit_session_knows_who_wrote_each_line(engine: str):
    """Every line is written once, so its text says who owns it: an answer without any diff."""
    for seed in range(60):
        rng = random.Random(seed)
        lines = [b"from before %d" % k for k in range(rng.choice([0, 1, 20]))]
        commands = []
        gaps: list[Hunk] = []
        for number in range(rng.randrange(1, 12)):
            fresh = [b"by %d: %d" % (number, k) for k in range(30)]
            new = edited(rng, lines, fresh)
            hunks = diff_hunks(joined(lines), joined(new))
            assert hunks is not None
            gaps += [hunk for hunk in hunks if not hunk[3]]
            writes = [{"resource": "/f", "hunks": hunks}] if hunks else []
            commands.append(command(writes=writes))
            lines = new
        assert [*owners(commands, len(lines))] == [author(line) for line in lines]
        segments = replay(trace(step(1, *commands)))
        owned: Counter[int] = Counter()
        for owner, killer, count in zip(
            segments.owner, segments.killer, segments.count, strict=True
        ):
            if killer == SURVIVES:
                owned[owner] += count
        told = Counter(author(line) for line in lines if author(line) != UNOWNED)
        extra = owned - told
        assert not told - owned, "a line that is still there lost its owner"
        assert extra.total() <= len(gaps), "only removals leave more records than lines"
        if not gaps:
            assert owned == told
