"""How far a replay agrees with its recording."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET

from depgpo_jax.tasks.agreement import (
    Agreement,
    CommandAgreement,
    Difference,
    compare_command,
    compare_output,
    first_difference,
)
from depgpo_jax.traces import Command
from depgpo_jax.trajectories import RecordedCommand


@pytest.mark.parametrize(
    ("recorded", "replayed", "expected"),
    [
        ("a\nb\n", "a\nb\n", "exact"),
        ("", "", "exact"),
        ("a\nb", "a\nb\n", "spaces"),
        ("\na  \r\nb\t\n\n", "a\nb\n", "spaces"),
        ("", "\n \n", "spaces"),
        ("  a", "a", "differs"),  # what indents a line is no space at its end
        ("a\n\nb", "a\nb", "differs"),
        ("a b", "a  b", "differs"),
        ("head\n[... 9 lines truncated ...]\ntail\n", "head\nx\ny\ntail\n", "cut"),
        ("he[... Observation truncated due to length ...]il\n", "head\ntail\n", "cut"),
        ("a\n... 100 bytes left out ...\nz", "a\nb\nz\n", "cut"),
        ("a\nb\n<response clipped>\n", "a\nb\nc\n", "cut"),
        ("(first lines omitted)\nz\n", "a\nz\n", "cut"),
        ("a\n[... elided ...]\nm\n[... elided ...]\nz", "a\nb\nm\nc\nz\n", "cut"),
        ("[... elided ...]", "a", "differs"),  # nothing is left to compare
        ("abc\n[... elided ...]\ncba", "abcba", "differs"),  # head and tail overlap
        ("a\n[... elided ...]\nz", "b\nz", "differs"),
        ("a\n[... elided ...]\nz", "a\ny", "differs"),
        ("a truncated table\nb", "a truncated table\nc\nb", "differs"),  # that is a program's word
        ("pid 4711, 0.31 s", "pid 92, 12.5 s", "numbers"),
        ("at 0xdeadbeef01", "at 0x7f001234", "numbers"),
        ("commit 1a2b3c4d5e", "commit ffee00aa11", "numbers"),
        ("1 passed", "1 failed", "differs"),
        ("deadbeef x", "deadbeefs x", "differs"),
    ],
)
def test_outputs(recorded: str, replayed: str, expected: str):
    assert compare_output(recorded, replayed) == expected


@pytest.mark.parametrize(
    "unit", [" ", "[...", "<", "truncated ", "\n", "a1", "0x", "[... truncated"]
)
def test_odd_outputs_take_no_odd_time(unit: str):
    recorded = unit * (500_000 // len(unit)) + "x"
    assert compare_output(recorded, recorded + "y") == "differs"


@pytest.mark.parametrize(
    ("recorded", "replayed", "expected"),
    [
        ("a\nb\nc\n", "a\nx\nc\n", (2, "b", "x")),
        ("a\nb", "a\n", (2, "b", None)),
        ("a \n", "a\nb\n", (2, None, "b")),
        ("", "x", (1, "", "x")),
        ("\x1b" + "a" * 300, "b", (1, "\\x1b" + "a" * 198 + "…", "b")),
    ],
)
def test_where_they_differ(recorded: str, replayed: str, expected: tuple[int, str, str]):
    assert first_difference(recorded, replayed) == Difference(*expected)


def compared(recorded: RecordedCommand, **now: object) -> CommandAgreement:
    return compare_command(3, recorded, msgspec.convert({"text": recorded.text, **now}, Command))


def test_a_command():
    same = compared(RecordedCommand("x", "a\n", 0), stdout="a\n", exit_code=0)
    assert not same.diverged
    assert same.as_extra() == {"output": "exact", "exit_code": "equal", "diverged": False}

    other = compared(RecordedCommand("x", "a\n", None), stdout="b\n", exit_code=1)
    assert other.diverged
    assert other.as_extra() == {
        "output": "differs",
        "first_difference": {"line": 1, "recorded": "a", "replayed": "b"},
        "exit_code": "differs",
        "recorded_exit_code": None,
        "diverged": True,
    }

    nothing = compared(RecordedCommand("x"), stdout="b\n", exit_code=1)
    assert (nothing.diverged, nothing.as_extra()) == (False, {})

    numbers = compared(RecordedCommand("x", "at 10:31"), stdout="at 9:05", exit_code=1)
    assert not numbers.diverged
    assert numbers.as_extra()["first_difference"]["replayed"] == "at 9:05"

    timed_out = compared(RecordedCommand("x", None, None), exit_code=None)
    assert timed_out.as_extra() == {"exit_code": "equal", "diverged": False}
    assert compared(RecordedCommand("x", "")).output == "exact"
    assert compared(RecordedCommand("x", None, 0)).exit_codes == (0, None)
    assert compared(RecordedCommand("x", None, UNSET)).exit_codes is None


SAME = compared(RecordedCommand("x", "a", 0), stdout="a", exit_code=0)
OTHER = compared(RecordedCommand("x", "a\nb", 0), stdout="a", exit_code=2)
UNKNOWN = compared(RecordedCommand("x"))


def test_a_run_that_agrees():
    agreement = Agreement([SAME, UNKNOWN], 1.0, 1.0 + 1e-9)
    assert not agreement.diverged
    assert agreement.sentence() == ""
    assert agreement.as_extra() == {
        "diverged": False,
        "outputs": {"exact": 1, "not recorded": 1},
        "exit_codes": {"equal": 1, "not recorded": 1},
        "reward": "equal",
        "recorded_reward": 1.0,
    }
    assert Agreement([UNKNOWN], None, 0.0).as_extra()["reward"] == "not recorded"


def test_a_run_that_diverged():
    agreement = Agreement([SAME, OTHER], 1.0, 0.0, "time is over", 2, ["turn 0, call 1"])
    assert agreement.diverged
    assert agreement.as_extra() == {
        "diverged": True,
        "outputs": {"exact": 1, "differs": 1},
        "exit_codes": {"equal": 1, "differs": 1},
        "reward": "differs",
        "recorded_reward": 1.0,
        "stopped": "time is over",
        "commands_left": 2,
        "not_run": ["turn 0, call 1"],
    }
    assert agreement.sentence() == (
        "reward 0 instead of 1; it ended early with 2 commands left (time is over); 1 of 2 "
        "commands differ, first of all 3 (exit code 2 instead of 0, output line 2: the end instead "
        "of 'b')"
    )
    assert Agreement([SAME], 0.5, None).sentence() == "reward none instead of 0.5"
    assert Agreement([SAME], 0.5, None).diverged
    assert Agreement([SAME], None, None, "gone", 0).diverged
    late = compared(RecordedCommand("x", None, 0), exit_code=None)
    assert Agreement([late], None, None).sentence() == (
        "1 of 1 commands differ, first of all 3 (exit code none instead of 0)"
    )
