"""The facts about written records in words: every kind of sentence once, on traces by hand."""

from __future__ import annotations

import numpy as np
import pytest

from depgpo_jax.explain.places import Places
from depgpo_jax.explain.words import NAME_SHOWN, PARTS_SHOWN, RANGES_SHOWN, number, placed
from tests.helpers import Json, command, lines, whole
from tests.why_told import OUT, PRINTED, rollout_of, told


def hunks(resource: str, *numbers: tuple[int, int, int, int]) -> Json:
    return {"resource": resource, "hunks": [list(hunk) for hunk in numbers]}


def test_inspected_lines():
    rollout = rollout_of(command(writes=[lines(OUT, (1, 2), (5, 5))]))
    assert told(rollout, 0) == [
        "3 of 3 records relevant: credit 1.0.",
        "/app/out:1–2, 5: inspected by the verifier.",
    ]


def test_one_record():
    rollout = rollout_of(command(writes=[lines(OUT, (4, 4))]))
    assert told(rollout, 0) == [
        "1 of 1 record relevant: credit 1.0.",
        "/app/out:4: inspected by the verifier.",
    ]


def test_gaps_and_overwritten_lines():
    rollout = rollout_of(
        command(writes=[lines(OUT, (1, 6))]),
        command(writes=[hunks(OUT, (1, 1, 0, 0), (4, 1, 2, 0))]),
        command(writes=[lines(OUT, (1, 1))]),
    )
    assert told(rollout, 0) == [
        "3 of 6 records relevant: credit 0.5.",
        "/app/out:3, 5–6: inspected by the verifier.",
        "/app/out:1, 4: not relevant, overwritten by #1.",
        "/app/out:2: not relevant, overwritten by #2.",
    ]
    assert told(rollout, 1) == [
        "2 of 2 records relevant: credit 1.0.",
        "/app/out (lines removed at the top, below 2): inspected by the verifier.",
    ]


def test_whole_files_and_moves():
    rollout = rollout_of(
        command(writes=[whole(OUT)]),
        command(writes=[lines("/tmp/draft", (1, 3))]),
        command(writes=[whole(OUT, moved_from="/tmp/draft")]),
    )
    assert told(rollout, 0) == [
        "0 of 1 record relevant: credit 0.",
        "/app/out (whole): not relevant, overwritten by #2.",
    ]
    assert told(rollout, 1) == [
        "3 of 3 records relevant: credit 1.0.",
        "/tmp/draft:1–3: read by #2, which owns relevant records.",
    ]
    assert told(rollout, 2)[1] == "/app/out (whole): inspected by the verifier."


def test_moved_away_to_where_nobody_looks():
    rollout = rollout_of(
        command(writes=[lines("/tmp/draft", (1, 3))]),
        command(writes=[whole("/tmp/kept", moved_from="/tmp/draft")]),
        command(writes=[lines(OUT, (1, 1))]),
    )
    assert told(rollout, 0) == [
        "0 of 3 records relevant: credit 0.",
        "/tmp/draft:1–3: not relevant, moved away by #1, which owns no relevant record.",
    ]


def test_readers_that_do_not_count():
    rollout = rollout_of(
        command(writes=[lines("/log", (1, 2))]),
        command(reads=["/log"]),
        command(reads=["/log"], writes=[whole("/tmp/note")]),
        command(writes=[lines(OUT, (1, 1))]),
    )
    assert told(rollout, 0) == [
        "0 of 2 records relevant: credit 0.",
        "/log:1–2: not relevant, there at the end, but the verifier did not inspect it; "
        "read by #1, #2, which own no relevant record.",
    ]


def test_a_reader_that_wrote_only_here():
    rollout = rollout_of(
        command(writes=[lines(OUT, (1, 1))]),
        command(reads=[OUT], writes=[lines(OUT, (2, 2))]),
        command(writes=[lines(OUT, (1, 1))]),
    )
    assert told(rollout, 0) == [
        "0 of 1 record relevant: credit 0.",
        "/app/out:1: not relevant, overwritten by #2; read by #1, which wrote in this resource "
        "only.",
    ]


def test_a_reader_that_overwrote_what_it_read():
    rollout = rollout_of(
        command(writes=[lines(OUT, (1, 2))]),
        command(reads=[OUT], writes=[lines(OUT, (1, 2)), lines("/tmp/log", (1, 1))]),
    )
    assert told(rollout, 0) == [
        "0 of 2 records relevant: credit 0.",
        "/app/out:1–2: not relevant, overwritten by #1, which read them to edit them in place.",
    ]
    assert told(rollout, 0, relevance="slice") == [
        "2 of 2 records relevant: credit 1.0.",
        "/app/out:1–2: read by #1, which owns relevant records.",
    ]
    assert told(rollout, 0, write_credit="binary")[0] == (
        "0 of 2 records relevant (one is enough): credit 0."
    )
    assert told(rollout, 1, write_credit="binary")[0] == (
        "2 of 3 records relevant (one is enough): credit 1.0."
    )


def test_inspected_and_read():
    rollout = rollout_of(
        command(writes=[lines("/app/in", (1, 1))]),
        command(reads=["/app/in"], writes=[lines(OUT, (1, 1))]),
        command(reads=["/app/in"], writes=[lines(OUT, (2, 2))]),
        verifier=(OUT, "/app/in"),
    )
    assert told(rollout, 0)[1:] == [
        "/app/in:1: inspected by the verifier; and read by #1, #2, which own relevant records.",
    ]


def test_what_was_printed_counts_under_the_stdout_rule():
    assert told(PRINTED, 0) == [
        "0 of 1 record relevant: credit 0.",
        "/tmp/x:1: not relevant, there at the end, but the verifier did not inspect it; "
        "read by #1, which owns no relevant record.",
    ]
    for rule in ("stdout", "slice"):
        assert told(PRINTED, 0, relevance=rule) == [
            "1 of 1 record relevant: credit 1.0.",
            "/tmp/x:1: read by #1, whose output was reused by commands that count.",
        ]


def test_inspected_read_and_printed():
    rollout = rollout_of(
        command(writes=[lines("/x", (1, 1))]),
        command(reads=["/x"]),
        command(reads=["/x"], writes=[lines(OUT, (1, 1))], stdout_from=[1]),
        verifier=(OUT, "/x"),
    )
    assert told(rollout, 0, relevance="stdout")[1] == (
        "/x:1: inspected by the verifier; and read by #2, which owns relevant records; and read by "
        "#1, whose output was reused by commands that count."
    )


def test_every_resource_inspected():
    assert told(PRINTED, 0, inspect="all")[1] == "/tmp/x:1: live at the end."


# More than can be told.


def test_more_groups_of_records_than_are_told():
    count = PARTS_SHOWN + 2
    names = [f"/app/{i:02}" for i in range(count)]
    writes = [lines(name, (1, 2)) for name in names]
    rollout = rollout_of(command(writes=writes), verifier=tuple(names[:-1]))
    said = told(rollout, 0)
    assert said[0] == f"{2 * count - 2} of {2 * count} records relevant: credit 0.9."
    assert said[1:-1] == [f"{name}:1–2: inspected by the verifier." for name in names[:PARTS_SHOWN]]
    assert said[-1] == "2 of 4 more records relevant, in other places or of another fate."


def test_one_more_group_of_one_record():
    names = [f"/app/{i}" for i in range(PARTS_SHOWN)]
    writes = [whole(name) for name in (*names, "/tmp/x")]
    said = told(rollout_of(command(writes=writes), verifier=tuple(names)), 0)
    assert said[-1] == "0 of 1 more record relevant, in other places or of another fate."


def test_many_records_have_commas():
    names = [f"/app/{i:02}" for i in range(PARTS_SHOWN + 1)]
    writes = [lines(name, (1, 2000)) for name in names]
    said = told(rollout_of(command(writes=writes), verifier=tuple(names)), 0)
    assert said[0] == "18,000 of 18,000 records relevant: credit 1.0."
    assert said[-1] == "2,000 of 2,000 more records relevant, in other places or of another fate."


def test_all_but_one_record_is_not_everything():
    rollout = rollout_of(
        command(writes=[lines(OUT, (1, 10_000))]), command(writes=[lines(OUT, (1, 1))])
    )
    assert told(rollout, 0)[0] == "9,999 of 10,000 records relevant: credit >0.999."
    assert told(rollout, 1)[0] == "1 of 1 record relevant: credit 1.0."


def test_more_ranges_and_gaps_than_are_named():
    ranges = tuple((3 * i + 1, 3 * i + 2) for i in range(RANGES_SHOWN + 2))
    assert placed("/a", Places(ranges, (), whole=False)) == "/a:1–2, 4–5, 7–8, 10–11 and 2 more"
    gaps = (0, 0, 3, 5, 8, 9, 11)
    assert placed("/a", Places(((2, 2),), gaps, whole=True)) == (
        "/a:2 (whole, lines removed at the top, below 3, below 5, below 8 and 2 more)"
    )
    assert placed("/a", Places((), (7, 7), whole=False)) == "/a (lines removed below 7)"


def test_lines_removed_at_the_top():
    assert placed("/a", Places((), (0, 0), whole=False)) == "/a (lines removed at the top)"
    rollout = rollout_of(
        command(writes=[lines(OUT, (1, 3))]), command(writes=[hunks(OUT, (1, 1, 0, 0))])
    )
    assert told(rollout, 1)[1] == (
        "/app/out (lines removed at the top): inspected by the verifier."
    )


def test_long_names_keep_their_end():
    end = "/name.txt"
    exact = "/" + "d" * (NAME_SHOWN - 1 - len(end)) + end
    assert placed(exact, Places(((1, 1),), (), whole=False)) == f"{exact}:1"
    shown = "…" + exact[2:] + "x"
    assert placed(f"/d{exact[1:]}x", Places(((1, 1),), (), whole=False)) == f"{shown}:1"
    assert len(shown) == NAME_SHOWN


# Numbers.


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1.0"),
        (2.0, "2.0"),
        (10.0, "10"),
        (123.4, "123"),
        (999.4, "999"),
        (999.5, "1,000"),
        (1234.5, "1,234"),
        (1_234_567.0, "1,234,567"),
        # All but everything, but not what float32 makes of 1.
        (0.9994, "0.999"),
        (0.9995, ">0.999"),
        (0.9999, ">0.999"),
        (0.99999, ">0.999"),
        (float(np.nextafter(np.float32(1), np.float32(0))), "1.0"),
        (1.0004, "1.0"),
        (0.25, "0.25"),
        (1 / 3, "0.333"),
        (0.00195, "0.00195"),
    ],
)
def test_numbers(value: float, text: str):
    assert number(value) == text
