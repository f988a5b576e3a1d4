"""Ownership replay: method section 1 sentence by sentence, and against a literal reference."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import pairwise

import msgspec
import pytest

from depgpo_jax.line_map import FEW
from depgpo_jax.ownership import SURVIVES, Segments, replay
from depgpo_jax.traces import Trace
from tests.slow_ownership import (
    A,
    B,
    C,
    Fates,
    Reads,
    hunks,
    lines,
    make_trace,
    random_script,
    run,
    slow_replay,
    whole,
)

TWO_TO_53 = 2**53


def fates_of(segments: Segments) -> Fates:
    columns = (segments.owner, segments.resource, segments.killer, segments.in_place)
    keys = list(zip(*columns, strict=True))
    assert len(set(keys)) == len(keys) == len(segments.count), "one segment for each fate"
    assert segments.owner == sorted(segments.owner)
    assert set(segments.resource) == set(range(len(segments.resources)))
    assert all(count > 0 for count in segments.count)
    return {
        (owner, segments.resources[resource], killer, in_place): count
        for (owner, resource, killer, in_place), count in zip(keys, segments.count, strict=True)
    }


def reads_of(segments: Segments) -> Reads:
    pairs = list(zip(segments.read_resource, segments.read_command, strict=True))
    assert len(set(pairs)) == len(pairs), "each read once"
    return {(segments.resources[resource], command) for resource, command in pairs}


@pytest.mark.parametrize("block", range(6))
def test_agrees_with_the_reference_on_random_scripts(block: int) -> None:
    for seed in range(block * 1000, block * 1000 + 1000):
        rng = random.Random(seed)
        script = random_script(rng)
        segments = replay(make_trace(script, per_step=rng.randint(1, 3)))
        fates, reads, order = slow_replay(script)
        assert fates_of(segments) == fates, seed
        assert reads_of(segments) == reads, seed
        assert segments.resources == order, seed


def test_random_scripts_reach_every_situation() -> None:
    stacked = swaps = rewritten = many = touching = 0
    for seed in range(6000):
        for _, writes in random_script(random.Random(seed)):
            sources = {write.get("moved_from"): write["resource"] for write in writes}
            swaps += any(sources.get(path) == source for source, path in sources.items() if source)
            rewritten += any(write["resource"] in sources for write in writes)
            many += any(len(write.get("hunks", ())) > FEW for write in writes)
            for write in writes:
                pairs = write.get("lines", [])
                touching += any(upper[1] + 1 == lower[0] for upper, lower in pairwise(pairs))
                stacked += sum(hunk[3] == 0 for hunk in write.get("hunks", ())) > 1
    assert min(stacked, swaps, rewritten, many, touching) > 100


# Section 1, sentence by sentence.


def test_nothing_happens_in_a_trace_without_commands() -> None:
    assert replay(make_trace([])) == Segments([], [], [], [], [], [], [], [])


def test_a_write_owns_one_record_a_line_until_the_end() -> None:
    assert fates_of(run(lines((2, 4)))) == {(0, A, SURVIVES, False): 3}


def test_commands_are_numbered_through_the_steps_with_the_idle_and_unrecorded_ones() -> None:
    idle = {"reads": [], "writes": []}
    unrecorded = {"recorded": False, "writes": [lines((1, 1))]}
    steps = [
        {"loss_tokens": 1, "commands": commands}
        for commands in ([idle, idle], [], [unrecorded, idle])
    ]
    trace = msgspec.convert({"version": 1, "trace_id": "t", "verifier": [], "steps": steps}, Trace)
    assert fates_of(replay(trace)) == {(2, A, SURVIVES, False): 1}


def test_lines_kill_the_line_records_at_their_positions() -> None:
    got = fates_of(run(lines((1, 4)), lines((3, 6))))
    assert got == {
        (0, A, 1, True): 2,
        (0, A, SURVIVES, False): 2,
        (1, A, SURVIVES, False): 4,
    }


def test_lines_leave_gaps_also_between_written_lines() -> None:
    got = fates_of(run(hunks((0, 0, 1, 4)), hunks((3, 1, 2, 0)), lines((2, 3)), whole()))
    assert got == {
        (0, A, 1, True): 1,
        (0, A, 2, True): 2,
        (0, A, 3, True): 1,
        (1, A, 3, True): 1,
        (2, A, 3, True): 2,
        (3, A, SURVIVES, False): 1,
    }


def test_removed_lines_leave_one_gap() -> None:
    got = fates_of(run(hunks((0, 0, 1, 4)), hunks((2, 2, 1, 0))))
    assert got == {
        (0, A, 1, True): 2,
        (0, A, SURVIVES, False): 2,
        (1, A, SURVIVES, False): 1,
    }


@pytest.mark.parametrize(
    ("hunk", "gap_dies"),
    [
        pytest.param((2, 2, 2, 1), True, id="between two replaced lines"),
        pytest.param((1, 4, 0, 0), True, id="between two removed lines"),
        pytest.param((1, 2, 1, 2), False, id="at the lower edge"),
        pytest.param((3, 2, 3, 2), False, id="at the upper edge"),
        pytest.param((2, 1, 1, 0), False, id="beside a removed line"),
        pytest.param((2, 0, 3, 1), False, id="an insertion at its place"),
    ],
)
def test_only_a_gap_strictly_between_replaced_lines_dies(
    hunk: tuple[int, int, int, int], gap_dies: bool
) -> None:
    gap_below_line_2 = [hunks((0, 0, 1, 5)), hunks((3, 1, 2, 0))]
    got = fates_of(run(*gap_below_line_2, hunks(hunk)))
    assert got.get((1, A, 2, True), 0) == gap_dies
    assert got.get((1, A, SURVIVES, False), 0) == (not gap_dies)


def test_a_gap_between_two_hunks_of_one_command_stays() -> None:
    two = hunks((1, 1, 1, 1), (3, 1, 3, 1))
    got = fates_of(run(hunks((0, 0, 1, 5)), hunks((3, 1, 2, 0)), two))
    assert got[1, A, SURVIVES, False] == 1


def test_an_insertion_inside_a_run_parts_it() -> None:
    got = fates_of(run(hunks((0, 0, 1, 4)), hunks((2, 0, 3, 1)), lines((3, 3))))
    assert got == {
        (0, A, SURVIVES, False): 4,
        (1, A, 2, True): 1,
        (2, A, SURVIVES, False): 1,
    }


@pytest.mark.parametrize("count", [1, FEW, FEW + 1, 7])
def test_hunks_count_in_old_line_numbers_whatever_their_number(count: int) -> None:
    # Replace each third line by two: old lines 1, 4, 7 … of a file in which lines differ in owner.
    size = 3 * count
    each_its_own = [lines((number, number)) for number in range(1, size + 1)]
    spread = hunks(*((3 * k + 1, 1, 4 * k + 1, 2) for k in range(count)))
    got = fates_of(run(*each_its_own, spread))
    died = {owner for owner, _, killer, _ in got if killer == size}
    assert died == set(range(0, size, 3))
    assert got[size, A, SURVIVES, False] == 2 * count


def test_unknown_lines_are_unowned_filler() -> None:
    assert fates_of(run(lines((5, 6)))) == {(0, A, SURVIVES, False): 2}
    got = fates_of(run(hunks((9, 3, 9, 1)), hunks((2, 4, 1, 0)), lines((5, 5))))
    assert got == {
        (0, A, 2, True): 1,
        (1, A, SURVIVES, False): 1,
        (2, A, SURVIVES, False): 1,
    }


def test_a_whole_write_kills_lines_gaps_and_the_whole_record_before_it() -> None:
    got = fates_of(run(whole(), lines((1, 2)), hunks((2, 1, 1, 0)), whole(deleted=True)))
    assert got == {
        (0, A, 3, True): 1,
        (1, A, 2, True): 1,
        (1, A, 3, True): 1,
        (2, A, 3, True): 1,
        (3, A, SURVIVES, False): 1,
    }


def test_lines_below_a_whole_write_are_unowned_again() -> None:
    got = fates_of(run(lines((1, 3)), whole(), lines((1, 3))))
    assert got == {
        (0, A, 1, True): 3,
        (1, A, SURVIVES, False): 1,
        (2, A, SURVIVES, False): 3,
    }


def test_a_whole_record_outlives_single_lines_written_over_it() -> None:
    got = fates_of(run(whole(), lines((1, 9)), hunks((1, 9, 1, 1))))
    assert got[0, A, SURVIVES, False] == 1


def test_a_move_away_kills_everything_but_not_in_place() -> None:
    got = fates_of(
        run(whole(), lines((1, 3)), hunks((2, 1, 1, 0)), whole(B, moved_from=A)),
    )
    assert got == {
        (0, A, 3, False): 1,
        (1, A, 2, True): 1,
        (1, A, 3, False): 2,
        (2, A, 3, False): 1,
        (3, B, SURVIVES, False): 1,
    }


def test_the_destination_of_a_move_is_overwritten_in_place() -> None:
    got = fates_of(run(lines((1, 2)), lines((1, 3), resource=B), whole(B, moved_from=A)))
    assert got == {
        (0, A, 2, False): 2,
        (1, B, 2, True): 3,
        (2, B, SURVIVES, False): 1,
    }


@pytest.mark.parametrize("source_first", [True, False])
def test_a_source_written_again_starts_empty(source_first: bool) -> None:
    writes = [hunks((2, 1, 1, 0)), whole(B, moved_from=A)]
    got = fates_of(run(lines((1, 3)), writes if source_first else writes[::-1]))
    assert got == {
        (0, A, 1, False): 3,
        (1, A, SURVIVES, False): 1,
        (1, B, SURVIVES, False): 1,
    }


def test_moves_away_come_before_writes_so_that_two_files_swap() -> None:
    swap = [whole(B, moved_from=A), whole(A, moved_from=B)]
    got = fates_of(run(lines((1, 3)), lines((1, 2), resource=B), swap))
    assert got == {
        (0, A, 2, False): 3,
        (1, B, 2, False): 2,
        (2, A, SURVIVES, False): 1,
        (2, B, SURVIVES, False): 1,
    }


def test_a_chain_of_moves_in_one_command_overwrites_only_the_last() -> None:
    chain = [whole(B, moved_from=A), whole(C, moved_from=B)]
    got = fates_of(run([whole(A), whole(B), whole(C)], chain))
    assert got == {
        (0, A, 1, False): 1,
        (0, B, 1, False): 1,
        (0, C, 1, True): 1,
        (1, B, SURVIVES, False): 1,
        (1, C, SURVIVES, False): 1,
    }


def test_a_moved_away_path_can_be_written_later_by_whatever_means() -> None:
    got = fates_of(run(lines((1, 3)), whole(B, moved_from=A), lines((1, 1))))
    assert got[2, A, SURVIVES, False] == 1
    assert (0, A, 2, True) not in got


def test_pieces_of_one_fate_are_one_segment() -> None:
    got = run(lines((1, 10)), lines((3, 3), (5, 5), (7, 7)))
    assert list(zip(got.owner, got.killer, got.count, strict=True)) == [
        (0, 1, 3),
        (0, SURVIVES, 7),
        (1, SURVIVES, 3),
    ]


def test_records_of_a_command_count_over_all_resources() -> None:
    got = run([lines((1, 4)), hunks((3, 2, 2, 0), resource=B), whole(C)], whole())
    assert sum(n for owner, n in zip(got.owner, got.count, strict=True) if owner == 0) == 6


# Resources and reads.


def test_resources_come_in_order_of_first_write() -> None:
    got = replay(make_trace([([C], [whole(B)]), ([], [whole(C), whole(A)]), ([], [whole(B)])]))
    assert got.resources == [B, C, A]


def test_a_read_is_kept_where_its_resource_owns_records_at_any_time() -> None:
    got = replay(make_trace([([A, "/never"], []), ([A, B], [whole(A)]), ([A], []), ([A], [])]))
    assert got.resources == [A]
    assert (got.read_resource, got.read_command) == ([0, 0, 0, 0], [0, 1, 2, 3])


def test_the_same_read_twice_in_one_command_is_one() -> None:
    got = replay(make_trace([([], [whole(A), whole(B)]), ([B, A, B, A], [])]))
    assert sorted(zip(got.read_resource, got.read_command, strict=True)) == [(0, 1), (1, 1)]


@pytest.mark.parametrize("reads", [[], [A], [B, A, A]])
def test_a_move_reads_the_old_path_once(reads: list[str]) -> None:
    got = replay(make_trace([([], [whole(A)]), (reads, [whole(B, moved_from=A)])]))
    assert (A, 1) in reads_of(got)
    assert got.read_command.count(1) == len({*reads, A})


def test_a_move_from_a_path_without_records_leaves_no_read() -> None:
    got = replay(make_trace([([], [whole(B, moved_from="/before")])]))
    assert got.resources == [B]
    assert got.read_resource == got.read_command == []


# Size: intervals, not lines.


def test_positions_reach_two_to_the_53() -> None:
    far = (TWO_TO_53 - 2, TWO_TO_53)
    got = fates_of(run(lines(far), hunks((TWO_TO_53 - 1, 1, TWO_TO_53 - 1, 1))))
    assert got == {
        (0, A, 1, True): 1,
        (0, A, SURVIVES, False): 2,
        (1, A, SURVIVES, False): 1,
    }


def test_the_module_does_not_import_jax() -> None:
    code = "import sys, depgpo_jax.ownership; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
