"""What commands that only read are told to earn, and from whom."""

from __future__ import annotations

from functools import cache

from depgpo_jax.explain.words import COMMANDS_SHOWN, PARTS_SHOWN
from depgpo_jax.traces import Trace
from tests.helpers import command, lines, whole
from tests.why_told import OUT, PRINTED, rollout_of, told


def test_read_credit_over_one_edge_and_over_two():
    assert told(PRINTED, 1) == [
        "Wrote nothing; credit 0.5 from one writer that its output led to:",
        "0.5 = 0.5 × 1.0 via #2",
    ]
    rollout = rollout_of(
        command(reads=["/in"]),
        command(writes=[lines("/tmp/staged", (1, 5))], stdout_from=[0]),
        command(reads=["/tmp/staged"], writes=[lines(OUT, (1, 3)), lines("/tmp/log", (1, 1))]),
    )
    assert told(rollout, 0) == [
        "Wrote nothing; credit 0.688 from 2 writers that its output led to:",
        "0.5 = 0.5 × 1.0 via #1",
        "0.188 = 0.5² × 0.75 via #1 → #2",
    ]
    assert told(rollout, 0, beta=1.0)[1:] == [
        "1.0 = 1.0 × 1.0 via #1",
        "0.75 = 1.0² × 0.75 via #1 → #2",
    ]


def test_read_credit_switched_off():
    assert told(PRINTED, 1, read_credit=False) == [
        "Wrote nothing, and read credit is switched off."
    ]


def test_output_that_nobody_reuses_or_that_led_nowhere():
    rollout = rollout_of(
        command(),
        command(),
        command(writes=[lines("/tmp/x", (1, 1))], stdout_from=[1]),
        command(writes=[lines(OUT, (1, 1))]),
    )
    assert told(rollout, 0) == ["Wrote nothing, and no later command reuses what it printed."]
    assert told(rollout, 1) == ["Wrote nothing. Its output went to #2, but to no relevant record."]


@cache
def long_chain(length: int) -> Trace:
    printing = [command(stdout_from=[i - 1] if i else []) for i in range(length)]
    return rollout_of(*printing, command(writes=[lines(OUT, (1, 1))], stdout_from=[length - 1]))


def test_a_long_path_is_cut_in_the_middle():
    inner = COMMANDS_SHOWN + 1  # the first command after the reader is told too
    shown = " → ".join(f"#{i}" for i in range(1, inner + 1))
    just = told(long_chain(inner + 1), 0)
    assert just[1].endswith(f"via {shown} → #{inner + 1}")
    longer = told(long_chain(inner + 2), 0)
    assert longer[1].endswith(f"0.5⁹ × 1.0 via {shown} → … → #{inner + 2}")
    assert longer[1].startswith("0.00195 = ")


def test_more_writers_than_are_told():
    count = PARTS_SHOWN + 3
    writers = [command(writes=[lines(OUT, (i, i))], stdout_from=[0]) for i in range(1, count + 1)]
    said = told(rollout_of(command(), *writers), 0)
    assert said[0] == f"Wrote nothing; credit 5.5 from {count} writers that its output led to:"
    assert said[1:-1] == [f"0.5 = 0.5 × 1.0 via #{i}" for i in range(1, PARTS_SHOWN + 1)]
    assert said[-1] == "3 more writers: 1.5."


def test_one_more_writer_than_are_told():
    writers = [
        command(writes=[lines(OUT, (i, i))], stdout_from=[0]) for i in range(1, PARTS_SHOWN + 2)
    ]
    assert told(rollout_of(command(), *writers), 0)[-1] == "1 more writer: 0.5."


def test_output_that_went_to_many():
    users = [command(writes=[whole("/tmp/x")], stdout_from=[0]) for _ in range(8)]
    rollout = rollout_of(command(), *users)
    assert told(rollout, 0) == [
        "Wrote nothing. Its output went to #1, #2, #3, #4, #5, #6 and 2 more, but to no relevant "
        "record."
    ]
