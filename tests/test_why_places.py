"""Where records were, against a replay of one object a record."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from depgpo_jax.explain.places import Fate, Places, record_places
from depgpo_jax.ownership import SURVIVES, replay
from depgpo_jax.traces import Trace
from tests.helpers import Json, parse
from tests.random_traces import random_trace, random_traces
from tests.slow_ownership import A, B, hunks, lines, make_trace, random_script, whole
from tests.slow_places import by_fate, numbers, placed_records

Writes = Json | list[Json]


def expanded(places: Places) -> list[int]:
    """The line numbers, after a look at the ranges: ascending, and as long as they can be."""
    for (_, last), (first, _) in zip(places.lines, places.lines[1:], strict=False):
        assert last + 1 < first, places
    assert all(1 <= first <= last for first, last in places.lines), places
    return [line for first, last in places.lines for line in range(first, last + 1)]


def assert_same_places(trace: Trace, what: str) -> None:
    """All fates, lines, gaps and whole marks; the segments, their order and counts of `replay`."""
    found = record_places(trace.commands)
    slow = placed_records(msgspec.to_builtins(trace))
    expected = by_fate(slow)
    assert {
        (fate.owner, fate.resource, None if fate.killer == SURVIVES else fate.killer, fate.in_place)
        for fate in found
    } == set(expected), what
    for fate, places in found.items():
        killer = None if fate.killer == SURVIVES else fate.killer
        records = expected[fate.owner, fate.resource, killer, fate.in_place]
        where = f"{what}, {fate}"
        assert expanded(places) == numbers(records, slow, "line"), where
        assert list(places.gaps) == numbers(records, slow, "gap"), where
        assert places.whole == any(record.kind == "whole" for record in records), where
        assert places.records == len(records), where
    segments = replay(trace)
    # The device's flags are in this order.
    assert [
        (fate.owner, fate.resource, fate.killer, fate.in_place, places.records)
        for fate, places in sorted(found.items(), key=lambda item: item[0].owner)
    ] == [
        (owner, segments.resources[resource], killer, in_place, count)
        for owner, resource, killer, in_place, count in zip(
            segments.owner,
            segments.resource,
            segments.killer,
            segments.in_place,
            segments.count,
            strict=True,
        )
    ], what


def test_random_traces():
    for trace in random_traces(7001, 2_000, max_commands=70):
        assert_same_places(parse(trace), trace["trace_id"])


def test_random_edit_scripts():
    rng = random.Random(7002)
    for number in range(3_000):
        assert_same_places(make_trace(random_script(rng)), f"script {number}")


def gappy_command(rng: random.Random) -> list[Json]:
    """Removals, insertions, lines over gaps and swaps, in so few lines that they always meet."""
    if rng.random() < 0.1:
        return [whole(A, moved_from=B), whole(B, moved_from=A)]
    if rng.random() < 0.1:
        return [whole(A, moved_from=B), lines((1, rng.randint(1, 3)), resource=B)]
    line = rng.randint(1, 4)
    edits = (
        hunks((line, 1, line - 1, 0)),
        hunks((line, 2, line - 1, 0)),
        hunks((line - 1, 0, line, 1)),
        hunks((line, 2, line, 2)),
        hunks((line, 1, line - 1, 0), (line + 2, 1, line, 0), (line + 4, 0, line + 3, 2)),
        lines((line, line + rng.randint(0, 3))),
        lines((line, line), (line + 1, line + 2)),
    )
    written = [rng.choice(edits)]
    if rng.random() < 0.3:
        written.append({**rng.choice(edits), "resource": B})
    return written


def test_scripts_full_of_gaps():
    rng = random.Random(7003)
    for number in range(2_000):
        script = [([], gappy_command(rng)) for _ in range(rng.randint(2, 14))]
        assert_same_places(make_trace(script), f"script {number}")


def test_a_long_rollout():
    trace = random_trace(random.Random(7004), num_commands=600)
    assert_same_places(parse(trace), "600 commands")


def places_of(*commands: Writes) -> dict[tuple[Any, ...], Places]:
    """By (owner, resource, killer): a killer of None is the end."""
    script = [([], writes if isinstance(writes, list) else [writes]) for writes in commands]
    trace = make_trace(script)
    assert_same_places(trace, "by hand")
    return {
        (fate.owner, fate.resource, None if fate.killer == SURVIVES else fate.killer): places
        for fate, places in record_places(trace.commands).items()
    }


def on_lines(*ranges: tuple[int, int]) -> Places:
    return Places(ranges, (), False)


def below(*gaps: int) -> Places:
    return Places((), gaps, False)


MARK = Places((), (), True)


def test_places_are_those_that_the_owner_left_behind():
    # Line 2 goes, then what was line 5 is line 4: its writer still calls it 5.
    found = places_of(lines((1, 6)), hunks((2, 1, 1, 0)), lines((4, 4)))
    assert found == {
        (0, A, 1): on_lines((2, 2)),
        (0, A, 2): on_lines((5, 5)),
        (0, A, None): on_lines((1, 1), (3, 4), (6, 6)),
        (1, A, None): below(1),
        (2, A, None): on_lines((4, 4)),
    }


def test_several_hunks_count_in_the_new_file():
    found = places_of(lines((1, 9)), hunks((1, 1, 0, 0), (4, 0, 4, 2), (8, 1, 8, 0)))
    assert found[1, A, None] == Places(((4, 5),), (0, 8), False)
    assert found[0, A, None] == on_lines((2, 7), (9, 9))


def test_gaps_in_one_place_and_an_insertion_below_them():
    remove, insert = hunks((2, 1, 1, 0)), hunks((1, 0, 2, 1))
    replace = hunks((2, 1, 2, 1))
    found = places_of(lines((1, 4)), remove, remove, insert, replace)
    assert found[1, A, None] == found[2, A, None] == below(1)
    assert found[3, A, 4] == on_lines((2, 2))
    assert found[4, A, None] == on_lines((2, 2))


def test_lines_over_gaps_keep_them():
    found = places_of(lines((1, 4)), hunks((2, 1, 1, 0)), lines((1, 3)))
    assert found[1, A, None] == below(1)
    assert found[2, A, None] == on_lines((1, 3))


def test_a_hunk_over_a_gap_kills_it():
    found = places_of(lines((1, 4)), hunks((2, 1, 1, 0)), hunks((1, 2, 1, 1)))
    assert found[1, A, 2] == below(1)
    assert found[0, A, 2] == on_lines((1, 1), (3, 3))


def test_one_command_leaves_two_gaps_in_one_place():
    # The kept line between them goes later; that a place comes twice is counted twice.
    found = places_of(
        lines((1, 5)), hunks((2, 1, 1, 0), (4, 1, 2, 0)), hunks((2, 1, 1, 0)), whole(A)
    )
    assert found[1, A, 3] == below(1, 2)
    assert found[2, A, 3] == below(1)


def test_a_swap_of_two_files_in_one_command():
    swap = [whole(A, moved_from=B), whole(B, moved_from=A)]
    found = places_of([lines((1, 2)), lines((1, 3), resource=B)], swap, swap)
    assert found == {
        (0, A, 1): on_lines((1, 2)),
        (0, B, 1): on_lines((1, 3)),
        (1, A, 2): MARK,
        (1, B, 2): MARK,
        (2, A, None): MARK,
        (2, B, None): MARK,
    }
    trace = make_trace([([], [lines((1, 2)), lines((1, 3), resource=B)]), ([], swap)])
    assert not any(fate.in_place for fate in record_places(trace.commands))


def test_a_source_that_is_written_again_starts_empty():
    again = hunks((3, 1, 3, 1), resource=B)
    found = places_of(lines((1, 5), resource=B), [whole(A, moved_from=B), again])
    assert found == {
        (0, B, 1): on_lines((1, 5)),
        (1, A, None): MARK,
        (1, B, None): on_lines((3, 3)),
    }


def test_a_whole_mark_outlives_lines_over_it():
    found = places_of(whole(A), lines((2, 2)), hunks((1, 1, 0, 0)), whole(A))
    assert found[0, A, 3] == MARK
    assert found[1, A, 3] == on_lines((2, 2))
    assert found[2, A, 3] == below(0)


@pytest.mark.parametrize("order", [(A, B), (B, A)])
def test_files_stay_in_order_of_first_write_after_a_move(order: tuple[str, str]):
    # The device's flags are by this order: a file that was moved away keeps its place.
    first, second = order
    trace = make_trace(
        [
            ([], [lines((1, 1), resource=A), lines((1, 1), resource=B)]),
            ([], [whole("/d", moved_from=A)]),
            ([], [lines((1, 1), resource=first), lines((1, 1), resource=second)]),
        ]
    )
    assert_same_places(trace, "moved and written again")
    last = [fate.resource for fate in record_places(trace.commands) if fate.owner == 2]
    assert last == [A, B]


def test_a_million_lines_are_one_run():
    found = places_of_fast(lines((1, 1_000_000)), lines((7, 7)))
    assert found[Fate(0, A, SURVIVES, in_place=False)] == on_lines((1, 6), (8, 1_000_000))


def places_of_fast(*writes: Json) -> dict[Fate, Places]:
    return record_places(make_trace([([], [write]) for write in writes]).commands)


def test_nothing_written():
    assert record_places([]) == {}
    assert places_of([]) == {}
