"""What else is said of a command: dependencies, recording, the weight of its step."""

from __future__ import annotations

from typing import Any

import pytest

from depgpo_jax.errors import ShapeError
from depgpo_jax.explain.words import (
    COMMANDS_SHOWN,
    NAME_SHOWN,
    dependencies,
    recording_reason,
    spoken,
    weight_reason,
    why_text,
)
from depgpo_jax.traces import Trace
from tests.helpers import command, lines, step, trace, whole
from tests.why_told import OUT, PRINTED, explained, rollout_of, told


def weighed(rollout: Trace, i: int, **options: Any) -> str:
    facts = explained(rollout, **options)
    return spoken(weight_reason(facts, facts.why(i)))


def depends(rollout: Trace, i: int) -> list[str | None]:
    facts = explained(rollout)
    found = facts.why(i)
    sentences = (dependencies(found.inputs, inputs=True), dependencies(found.outputs, inputs=False))
    return [None if sentence is None else spoken(sentence) for sentence in sentences]


# Dependencies.


def test_dependencies_name_resources_and_stdout():
    rollout = rollout_of(
        command(writes=[whole(name) for name in ("/c", "/a", "/b", "/d")]),
        command(reads=["/a", "/b", "/c", "/d"], stdout_from=[0]),
        command(reads=["/a"], stdout_from=[1]),
    )
    assert depends(rollout, 0) == [None, "Used by #1 (/c, /a, 2 more, stdout), #2 (/a)."]
    assert depends(rollout, 1) == [
        "Depends on #0 (/c, /a, 2 more, stdout).",
        "Used by #2 (stdout).",
    ]
    assert depends(rollout, 2) == ["Depends on #0 (/a), #1 (stdout).", None]


def test_many_dependents_are_counted():
    readers = [command(reads=["/a"]) for _ in range(COMMANDS_SHOWN + 3)]
    rollout = rollout_of(command(writes=[whole("/a")]), *readers)
    shown = ", ".join(f"#{i} (/a)" for i in range(1, COMMANDS_SHOWN + 1))
    assert depends(rollout, 0)[1] == f"Used by {shown} and 3 more."


# Strange names.

HOSTILE = {
    "/a\n\x1b[31mb": r"/a\n\x1b[31mb",
    "/a\"'`b": "/a\"'`b",
    "/<script>alert(1)</script>": "/<script>alert(1)</script>",
    "/a\u202egpj.b": r"/a\u202egpj.b",
    "/" + "y" * 5000 + "/end": "…" + "y" * (NAME_SHOWN - 5) + "/end",
}


@pytest.mark.parametrize(("name", "shown"), HOSTILE.items(), ids=range(len(HOSTILE)))
def test_strange_names_stay_printable(name: str, shown: str):
    unrecorded = command(
        reads=[name], writes=[lines(name, (1, 1))], recorded=False, unrecorded_reason=name
    )
    rollout = rollout_of(command(writes=[lines(name, (1, 1))]), unrecorded, verifier=(name,))
    assert told(rollout, 1)[1] == f"{shown}:1: inspected by the verifier."
    assert depends(rollout, 1)[0] == f"Depends on #0 ({shown})."
    facts = explained(rollout)
    reason = recording_reason(facts, facts.why(1))
    assert reason is not None
    # Of a reason the beginning says most, of a name the end.
    begun = "/" + "y" * (NAME_SHOWN - 2) + "…" if len(name) > NAME_SHOWN else shown
    assert spoken(reason) == f"Not recorded: {begun}. What is known of it may be incomplete."
    for sentence in (*told(rollout, 0), *told(rollout, 1), spoken(reason)):
        assert sentence.isprintable(), sentence


# Recording, steps and weights.

SCALED = "times the mean step credit above the least; scaled to a mean of 1, "


def test_unrecorded_with_and_without_a_reason():
    rollout = rollout_of(
        command(recorded=False, unrecorded_reason="timed out"),
        command(recorded=False),
        command(writes=[lines(OUT, (1, 1))]),
    )
    facts = explained(rollout)
    first, second, third = (recording_reason(facts, facts.why(i)) for i in range(3))
    assert first is not None
    assert second is not None
    assert spoken(first) == "Not recorded: timed out. What is known of it may be incomplete."
    assert spoken(second) == "Not recorded. What is known of it may be incomplete."
    assert third is None


STEPS = trace(
    step(3, command(reads=["/in"]), command(writes=[lines(OUT, (1, 1))], stdout_from=[0])),
    step(1, command(writes=[lines(OUT, (2, 2))])),
    step(0, command(writes=[lines(OUT, (3, 3)), lines("/x", (1, 1)), lines("/y", (1, 1))])),
    step(1200, command(recorded=False)),
    step(4, command()),
    verifier=[OUT],
)


def test_weights_of_steps():
    # Credits 1.5, 1, 1/3 and 0 of the recorded steps: factors 36/17, 24/17, 8/17 and 0.
    facts = explained(STEPS)
    said = [spoken(weight_reason(facts, facts.why(i))) for i in (0, 2, 3, 4, 5)]
    assert said == [
        "Step 0, 2 commands with credit 1.5 together: "
        f"2.12 {SCALED}each of its 3 tokens weighs 2.12.",
        f"Step 1: 1.41 {SCALED}its token weighs 1.41.",
        f"Step 2: 0.471 {SCALED}no token enters the loss, weight 0.471.",
        "Step 3: factor 1, since it was not recorded; scaled, each of its 1,200 tokens weighs 1.0.",
        "Step 4: no credit; each of its 4 tokens weighs 0.",
    ]


def test_the_least_credited_step_weighs_nothing():
    assert weighed(PRINTED, 1) == f"Step 1: 1.0 {SCALED}its token weighs 1.0."
    rollout = rollout_of(command(), command(writes=[lines(OUT, (1, 1))], stdout_from=[0]))
    assert weighed(rollout, 0) == (
        "Step 0: no recorded step has noticeably less credit, and the least counts as 0; its token "
        "weighs 0."
    )
    assert weighed(rollout, 1) == f"Step 1: 2.0 {SCALED}its token weighs 2.0."


def test_a_large_weight_has_commas():
    rollout = trace(
        step(1, command(writes=[lines(OUT, (1, 1))])), step(1234, command()), verifier=[OUT]
    )
    assert weighed(rollout, 0) == f"Step 0: 2.0 {SCALED}its token weighs 1,235."
    assert weighed(rollout, 1) == "Step 1: no credit; each of its 1,234 tokens weighs 0."


def test_fallback():
    rollout = rollout_of(command(), command())
    assert weighed(rollout, 1) == (
        "Step 1: its token weighs 1.0, because nothing tells the steps of this rollout apart."
    )


def test_the_whole_text_is_reasons_then_notes():
    rollout = rollout_of(
        command(writes=[whole(OUT)]),
        command(recorded=False, unrecorded_reason="timed out", reads=[OUT]),
    )
    facts = explained(rollout)
    assert why_text(facts, 0) == [
        "1 of 1 record relevant: credit 1.0.",
        f"{OUT} (whole): inspected by the verifier.",
        weighed(rollout, 0),
        f"Used by #1 ({OUT}).",
    ]
    assert why_text(facts, 1)[:2] == [
        "Wrote nothing, and no later command reuses what it printed.",
        "Not recorded: timed out. What is known of it may be incomplete.",
    ]
    with pytest.raises(ShapeError, match="found command 2; allowed: an integer from 0 to 1"):
        why_text(facts, 2)


def test_a_cap_says_whom_it_binds():
    rollout = trace(
        step(1, command(writes=[whole("/app/out")])),
        step(99, command(reads=["/x"])),
        step(50, command(recorded=False)),
        verifier=("/app/out",),
    )
    assert weighed(rollout, 0, max_weight=1.5).endswith("its token weighs 1.5, the cap.")
    assert weighed(rollout, 1, max_weight=1.25).endswith(", its share of what the cap leaves over.")
    assert ": factor 1, since it was not recorded; scaled, " in weighed(rollout, 2)
    plain = weighed(rollout, 0, subtract_min=False)
    assert "2.0 times the mean step credit; scaled to a mean of 1" in plain
