"""The interval structure: what it looks like after each kind of edit, and that it stays small."""

from __future__ import annotations

from depgpo_jax.line_map import UNOWNED, LineMap
from tests.slow_ownership import hunks, lines, run


def test_touching_ranges_of_lines_are_one_run() -> None:
    rows = LineMap()
    assert rows.write_lines([(1, 2), (3, 5)], 0) == {}
    assert (rows.ends, rows.owners) == ([5], [0])
    assert rows.write_lines([(1, 1), (2, 2), (4, 4)], 1) == {0: 3}
    assert (rows.ends, rows.owners) == ([2, 3, 4, 5], [1, 0, 1, 0])


def test_lines_go_around_gaps_stacked_in_one_place() -> None:
    rows = LineMap()
    rows.apply_hunks([(2, 1, 1, 0)], 0)
    rows.apply_hunks([(2, 1, 1, 0)], 1)
    assert rows.write_lines([(1, 3)], 2) == {}
    assert (rows.ends, rows.owners) == ([1, 1, 1, 3], [2, 0, 1, 2])


def test_a_replaced_line_dies_and_the_ones_below_keep_their_owner() -> None:
    rows = LineMap()
    rows.apply_hunks([(0, 0, 1, 5)], 0)
    assert rows.apply_hunks([(2, 1, 2, 3)], 1) == {0: 1}
    assert (rows.ends, rows.owners) == ([1, 4, 7], [0, 1, 0])
    assert rows.records() == {0: 4, 1: 3}


def test_gaps_at_the_edges_stay_on_their_side() -> None:
    rows = LineMap()
    rows.apply_hunks([(0, 0, 1, 7)], 0)
    rows.apply_hunks([(3, 1, 2, 0)], 1)
    rows.apply_hunks([(4, 1, 3, 0)], 2)
    assert (rows.ends, rows.owners) == ([2, 2, 3, 3, 5], [0, 1, 0, 2, 0])
    assert rows.apply_hunks([(3, 1, 3, 2)], 3) == {0: 1}
    assert (rows.ends, rows.owners) == ([2, 2, 4, 4, 6], [0, 1, 3, 2, 0])


def test_gaps_share_one_place_when_what_lay_between_is_removed() -> None:
    rows = LineMap()
    rows.apply_hunks([(3, 1, 2, 0)], 0)
    rows.apply_hunks([(3, 1, 2, 0)], 1)
    rows.apply_hunks([(2, 1, 1, 0)], 2)
    assert (rows.ends, rows.owners) == ([1, 1, 1, 1], [UNOWNED, 2, 0, 1])
    assert rows.apply_hunks([(1, 2, 1, 1)], 3) == {0: 1, 1: 1, 2: 1}


def test_an_insertion_goes_below_every_gap_at_its_place_and_kills_nothing() -> None:
    rows = LineMap()
    rows.apply_hunks([(1, 1, 0, 0)], 0)
    rows.apply_hunks([(1, 1, 0, 0)], 1)
    assert rows.apply_hunks([(0, 0, 1, 2)], 2) == {}
    assert (rows.ends, rows.owners) == ([0, 0, 2], [0, 1, 2])


def test_a_million_lines_are_one_interval() -> None:
    rows = LineMap()
    rows.write_lines([(1, 1_000_000)], 0)
    assert (rows.ends, rows.owners) == ([1_000_000], [0])
    assert rows.apply_hunks([(500_000, 1, 499_999, 0)], 1) == {0: 1}
    assert (rows.ends, rows.owners) == ([499_999, 499_999, 999_999], [0, 1, 0])
    segments = run(lines((1, 1_000_000)), hunks((500_000, 1, 499_999, 0)))
    assert segments.count == [1, 999_999, 1]


def test_five_thousand_hunks_over_five_thousand_intervals() -> None:
    count = 5000
    rows = LineMap()
    rows.write_lines([(1, 4 * count)], 0)
    # Insert one line below each fourth: old line 4k is followed by a new one.
    insert = [(4 * k, 0, 5 * k, 1) for k in range(1, count + 1)]
    assert rows.apply_hunks(insert, 1) == {}
    assert len(rows.ends) == len(rows.owners) == 2 * count
    assert rows.ends[-1] == 5 * count
    # Remove each inserted line again, with the line above it.
    remove = [(5 * k - 1, 2, 3 * k, 0) for k in range(1, count + 1)]
    assert rows.apply_hunks(remove, 2) == {0: count, 1: count}
    assert len(rows.ends) == 2 * count
    assert rows.records() == {0: 3 * count, 2: count}
    assert rows.write_lines([(1, 3 * count)], 3) == {0: 3 * count}
    assert rows.records() == {2: count, 3: 3 * count}
    segments = run(lines((1, 4 * count)), hunks(*insert), hunks(*remove))
    assert len(segments.owner) == 4
    assert segments.count == [count, 3 * count, count, count]
