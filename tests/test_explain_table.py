"""The table of a rollout: what stands where, strange names, long and narrow ones."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from depgpo_jax.batch import TraceCredit, batch_traces, unpad
from depgpo_jax.credit import dependency_credit
from depgpo_jax.errors import ShapeError
from depgpo_jax.explain.deeds import read_only_commands
from depgpo_jax.explain.table import LEGEND, explain_table, why_table
from depgpo_jax.explain.why import RolloutExplanation, explain_rollout
from depgpo_jax.traces import Command, Step, Trace, Write

STRANGE = "/app/[red]bold[/red]\n\x1b[31m\x07\u202e[link=http://x]y"


def trace(*steps: Step, verifier: tuple[str, ...] = (), trace_id: str = "t") -> Trace:
    return Trace(version=1, trace_id=trace_id, verifier=list(verifier), steps=list(steps), reward=1)


def made_up(trace: Trace, weight: float = 1.0, *, fallback: bool = False) -> TraceCredit:
    """A credit of the trace's sizes."""
    commands, steps = len(trace.commands), len(trace.steps)
    return TraceCredit(
        command_credit=np.linspace(0, 1, commands, dtype=np.float32),
        step_credit=np.ones(steps, np.float32),
        step_factor=np.ones(steps, np.float32),
        token_weight=np.full(steps, weight, np.float32),
        fallback=fallback,
        relevant_fraction=0.25,
        on_path_fraction=0.5,
        max_weight_seen=weight,
        effective_fraction=0.75,
        segment_relevant=np.zeros(0, np.bool_),
    )


def rendered(table: Table, width: int = 120, *, color: bool = False) -> str:
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=color).print(table)
    return file.getvalue()


def test_a_line_a_command_and_the_steps_numbers_on_its_first():
    writer = Command(
        reads=["/app/in"],
        writes=[Write(resource="/app/out", whole=True)],
        stdout_from=[0],
        exit_code=2,
    )
    steps = (
        Step(loss_tokens=31, commands=[Command(text="make data"), writer]),
        Step(loss_tokens=7, commands=[]),
    )
    rollout = trace(*steps, verifier=("/app/out",))
    text = rendered(explain_table(rollout, made_up(rollout, 1.5), -2.0))
    rows = [line.split() for line in text.splitlines()]
    assert rows[0] == ["t", "·", "reward", "1", "·", "advantage", "-2.000"]
    assert rows[3] == ["0", "31", "0", "make", "data", "reused", "by", "#1", "0", "1.500", "-3.000"]
    assert " ".join(rows[4]) == "1 reuses #0 writes /app/out* reads /app/in exit 2 1.000"
    assert rows[5] == ["1", "7", "no", "command", "1.500", "-3.000"]
    assert "on path 50% of commands · relevant 25% of records" in text
    assert "largest weight 1.5 · effective tokens 75%" in text
    assert "1 of 1 read-only commands have an outgoing stdout edge · * inspected by" in text
    assert "fallback" not in text


def test_reuse_is_named_on_both_sides_and_survives_80_columns():
    long = "/app/" + "y" * 200
    reuser = Command(stdout_from=[0, 0], reads=[long], writes=[Write(resource=long, whole=True)])
    rollout = trace(Step(loss_tokens=1, commands=[Command(reads=[long]), *[reuser] * 6]))
    lines = rendered(explain_table(rollout, made_up(rollout), 1.0), 80).splitlines()
    assert "reused by #1, #2, #3, #4 +2" in lines[3]
    assert "reuses #0  writes …y" in lines[4]
    assert "reused by" not in "".join(lines[4:])


def test_the_legend_can_be_left_out():
    rollout = trace(Step(loss_tokens=1, commands=[Command()]))
    with_legend = rendered(explain_table(rollout, made_up(rollout), 1.0))
    without = rendered(explain_table(rollout, made_up(rollout), 1.0, legend=False))
    assert LEGEND in " ".join(with_legend.split())
    assert "credit: share" not in without
    assert "on path 50%" in without


def test_without_an_advantage_there_is_no_such_column():
    rollout = trace(Step(loss_tokens=1, commands=[Command()]))
    text = rendered(explain_table(rollout, made_up(rollout, fallback=True), None))
    assert "advantage" not in text
    assert "nothing read or written" in text
    assert "fallback: nothing tells the steps apart, so every weight is 1" in text


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (Write(resource="/a", whole=True), "writes /a "),
        (Write(resource="/a", whole=True, deleted=True), "writes /a (deleted)"),
        (Write(resource="/a", whole=True, moved_from="/b"), "writes /a (from /b)"),
        (Write(resource="/a", lines=[(1, 3), (9, 9)]), "writes /a (4 lines)"),
        (Write(resource="/a", hunks=[(1, 2, 1, 0), (9, 0, 7, 5)]), "writes /a (+5 -2)"),
    ],
)
def test_kinds_of_writes(write: Write, expected: str):
    rollout = trace(Step(loss_tokens=1, commands=[Command(writes=[write])]))
    assert expected in rendered(explain_table(rollout, made_up(rollout), 1.0))


def test_many_names_are_counted_and_inspected_ones_come_first():
    writes = [Write(resource=f"/app/{name}", whole=True) for name in "abcde"]
    reads = [f"/in/{number}" for number in range(100)]
    command = Command(reads=reads, writes=writes, stdout_from=[])
    rollout = trace(Step(loss_tokens=1, commands=[command]), verifier=("/app/e",))
    text = rendered(explain_table(rollout, made_up(rollout), 1.0))
    assert "writes /app/e*, /app/a +3  reads /in/0, /in/1 +98" in text


def test_unrecorded_and_invalid_say_why():
    command = Command(recorded=False, unrecorded_reason="timed out")
    rollout = Trace(
        version=1,
        trace_id="t",
        verifier=[],
        steps=[Step(loss_tokens=1, commands=[command])],
        invalid="no reward",
    )
    text = rendered(explain_table(rollout, made_up(rollout), None))
    assert "not recorded: timed out" in text
    assert "t · invalid: no reward" in text


@pytest.mark.parametrize("color", [False, True])
def test_strange_names_are_shown_not_obeyed(color: bool):
    command = Command(
        text=STRANGE,
        reads=[STRANGE],
        writes=[Write(resource=STRANGE, whole=True)],
        recorded=False,
        unrecorded_reason=STRANGE,
    )
    rollout = trace(Step(loss_tokens=1, commands=[command]), trace_id=STRANGE, verifier=(STRANGE,))
    table = explain_table(rollout, made_up(rollout), 1.0, legend=False)
    text = rendered(table, 600, color=color)
    assert text.count(r"[red]bold[/red]\n\x1b[31m\x07\u202e[link=http://x]y") == 5
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "http://x]y" in text
    if not color:
        assert "\x1b" not in text
    assert len(text.splitlines()) == 6


def test_a_command_is_one_line_and_numbers_stay_whole_in_a_narrow_terminal():
    steps = [
        Step(loss_tokens=12345, commands=[Command(text="x " * 400, reads=["/app/" + "y" * 5000])])
        for _ in range(300)
    ]
    rollout = trace(*steps)
    text = rendered(explain_table(rollout, made_up(rollout, 123.456), -1.0), 80)
    lines = text.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert len([line for line in lines if "123.456" in line]) == 300
    assert len(lines) < 320
    last = next(line for line in lines if line.startswith(" 299"))
    assert last.split()[:3] == ["299", "12345", "299"]
    assert last.split()[-4:] == ["…", "1.000", "123.456", "-123.456"]


def test_long_names_keep_their_end():
    rollout = trace(
        Step(loss_tokens=1, commands=[Command(reads=["/app/" + "d/" * 40 + "name.txt"])])
    )
    assert "d/name.txt" in rendered(explain_table(rollout, made_up(rollout), 1.0))


def test_an_empty_trace():
    rollout = trace()
    assert "0 of 0 read-only" in rendered(explain_table(rollout, made_up(rollout), 1.0))


def test_real_results_fit():
    write = Command(writes=[Write(resource="/a", whole=True)])
    rollout = trace(
        Step(loss_tokens=3, commands=[write]), Step(loss_tokens=3, commands=[]), verifier=("/a",)
    )
    batch = batch_traces([rollout])
    (result,) = unpad(batch, dependency_credit(batch))
    assert "writes /a*" in rendered(explain_table(rollout, result, 1.0))


def test_the_credit_of_another_trace_is_refused():
    rollout = trace(Step(loss_tokens=1, commands=[Command()]))
    with pytest.raises(ShapeError) as error:
        explain_table(rollout, made_up(trace()), 1.0)
    assert str(error.value) == (
        "trace 't': found a credit of 0 steps, 0 commands; allowed: 1 steps, 1 commands; "
        "give the credit of this trace"
    )


# Reasons in words.


def explained(rollout: Trace) -> RolloutExplanation:
    batch = batch_traces([rollout])
    return explain_rollout(dependency_credit(batch), batch, rollout)


def test_why_has_a_block_a_command():
    commands = [
        Command(text="cat /app/in", reads=["/app/in"]),
        Command(text="sed", writes=[Write(resource="/app/out", lines=[(1, 2)])], stdout_from=[0]),
        Command(recorded=False, unrecorded_reason="timed out"),
    ]
    steps = [Step(loss_tokens=1, commands=[command]) for command in commands]
    text = rendered(why_table(explained(trace(*steps, verifier=("/app/out",)))))
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert rows[:2] == ["t · why", "# credit why"]
    assert rows[3:] == [
        "0 0.500 cat /app/in",
        "Wrote nothing; credit 0.5 from one writer that its output led to:",
        "0.5 = 0.5 × 1.0 via #1",
        "Step 0: no recorded step has noticeably less credit, and the least counts as 0; its token "
        "weighs 0.",
        "Used by #1 (stdout).",
        "1 1.000 sed",
        "2 of 2 records relevant: credit 1.0.",
        "/app/out:1–2: inspected by the verifier.",
        "Step 1: 2.0 times the mean step credit above the least; scaled to a mean of 1, its token "
        "weighs 2.0.",
        "Depends on #0 (stdout).",
        "2 0 Wrote nothing, and no later command reuses what it printed.",
        "Not recorded: timed out. What is known of it may be incomplete.",
        "Step 2: factor 1, since it was not recorded; scaled, its token weighs 1.0.",
    ]


def test_why_without_commands_has_no_block():
    text = rendered(why_table(explained(trace(Step(loss_tokens=1, commands=[])))))
    assert text.splitlines()[0].rstrip() == "t · why"
    assert len([line for line in text.splitlines() if line.strip()]) <= 3


@pytest.mark.parametrize("color", [False, True])
def test_why_shows_strange_names_and_does_not_obey_them(color: bool):
    strange = Command(
        text=STRANGE,
        reads=[STRANGE],
        writes=[Write(resource=STRANGE, whole=True)],
        recorded=False,
        unrecorded_reason=STRANGE,
    )
    rollout = trace(
        Step(loss_tokens=1, commands=[strange, strange]), trace_id=STRANGE, verifier=(STRANGE,)
    )
    text = rendered(why_table(explained(rollout)), 600, color=color)
    # The title; of both commands the text, the records, the reason and the other command's part.
    assert text.count(r"[red]bold[/red]\n\x1b[31m\x07\u202e[link=http://x]y") == 9
    assert "\x07" not in text
    assert "\u202e" not in text
    if not color:
        assert all(line.isprintable() for line in text.split("\n"))


def test_why_is_folded_not_cut_in_a_narrow_terminal():
    name = "/app/" + "y" * 90 + "/name.txt"
    writer = Command(text="x " * 400, writes=[Write(resource=name, whole=True)])
    rollout = trace(Step(loss_tokens=1, commands=[writer]), verifier=(name,))
    lines = rendered(why_table(explained(rollout)), 60).splitlines()
    assert max(len(line) for line in lines) <= 60
    assert f"{name}(whole):inspectedbytheverifier." in "".join("".join(lines).split())


def test_read_only_commands_are_recorded_and_wrote_nothing():
    commands = [
        Command(),
        Command(recorded=False),
        Command(writes=[Write(resource="/a", whole=True)]),
        Command(reads=["/a"], stdout_from=[0, 0, 1, 2]),
    ]
    rollout = trace(Step(loss_tokens=1, commands=commands))
    assert read_only_commands([rollout, rollout]) == (4, 2)
    assert read_only_commands([]) == (0, 0)
