"""What is refused: credit of other settings or traces; commands, rows that are not there."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import depgpo_jax as dg
from depgpo_jax.batch import batch_traces, unpad
from depgpo_jax.credit import CreditConfig, dependency_credit
from depgpo_jax.errors import ConfigError, ShapeError
from depgpo_jax.explain.why import RolloutExplanation, explain_rollout, why
from depgpo_jax.traces import Trace
from tests.helpers import SMALL, command, lines, random_parsed, step, trace
from tests.why_by_hand import EMPTY, PRINTED, SPLIT, alone


@pytest.mark.parametrize(
    ("true", "claimed", "message"),
    [
        (
            {"relevance": "stdout"},
            {},
            "trace 'printed': found that records of command 0 in /tmp/x are relevant in the credit "
            "and not by these settings; allowed: the settings that the credit was computed with",
        ),
        (
            {},
            {"relevance": "slice"},
            "found that records of command 0 in /tmp/x are not relevant in the credit and are by "
            "these settings; allowed",
        ),
        (
            {"inspect": "all"},
            {},
            "found that records of command 0 in /tmp/x are relevant in the credit and not by",
        ),
        ({"beta": 0.25}, {}, "found that command 1 has 0.125 in the credit and 0.25 by these"),
        ({}, {"read_credit": False}, "command 1 has 0.25 in the credit and 0 by these settings"),
        ({"read_credit": False}, {}, "command 1 has 0 in the credit and 0.25 by these settings"),
        ({"write_credit": "binary"}, {}, "has 0.5 in the credit and 0.25 by these settings"),
        ({}, {"write_credit": "binary"}, "has 0.25 in the credit and 0.5 by these settings"),
    ],
)
def test_the_message_says_what_differs_and_what_to_do(
    true: dict[str, Any], claimed: dict[str, Any], message: str
):
    batch, credit = alone(**true)
    config = CreditConfig(**claimed)
    with pytest.raises(ConfigError) as error:
        explain_rollout(credit, batch, PRINTED, config=config)
    assert message in str(error.value)
    assert str(error.value).endswith(
        "; allowed: the settings that the credit was computed with. Give them as `config`, or the "
        f"credit of this batch; these are {config}"
    )
    explain_rollout(credit, batch, PRINTED, config=CreditConfig(**true))


@pytest.mark.parametrize("options", [{"max_weight": 1.5}, {"subtract_min": False}], ids=str)
def test_settings_that_change_weights_alone_are_asked_for_too(options: dict[str, Any]):
    traces = [*random_parsed(7, 60), PRINTED]
    batch = batch_traces(traces, shape=SMALL)
    config = CreditConfig(**options)
    credit, plain = dependency_credit(batch, config), dependency_credit(batch)
    refused = 0
    for row, rollout in enumerate(traces):
        explain_rollout(credit, batch, rollout, config=config, row=row)
        tokens = batch.loss_tokens[row] > 0
        apart = np.abs(credit.token_weight[row] - plain.token_weight[row])[tokens]
        if apart.max(initial=0.0) > 0.1 * plain.token_weight[row].max():
            with pytest.raises(ConfigError, match=r"tokens of step \d+ weigh [\d.]+ in the credit"):
                explain_rollout(credit, batch, rollout, row=row)
            refused += 1
    assert refused >= 5


# A result that is not the trace's own.


@pytest.mark.parametrize(
    ("other", "sizes"),
    [
        (1, "1 steps, 0 commands, 0 segments"),
        (2, "1 steps, 1 commands, 2 segments"),
    ],
    ids=["empty", "split"],
)
def test_the_result_of_another_trace(other: int, sizes: str):
    (result,) = unpad(*alone(other))
    with pytest.raises(ShapeError) as error:
        RolloutExplanation(PRINTED, CreditConfig(), result)
    assert str(error.value) == (
        f"trace 'printed': found a credit of {sizes}; allowed: 3 steps, 3 commands, 3 segments; "
        "give the credit of this trace"
    )


@pytest.mark.parametrize(
    ("field", "found"),
    [
        ("step_credit", "2 steps, 3 commands, 3 segments"),
        ("command_credit", "3 steps, 2 commands, 3 segments"),
        ("segment_relevant", "3 steps, 3 commands, 2 segments"),
    ],
)
def test_a_result_that_differs_in_one_size(field: str, found: str):
    (result,) = unpad(*alone())
    shorter = result._replace(**{field: getattr(result, field)[:2]})
    with pytest.raises(ShapeError, match=f"found a credit of {found}; allowed: 3 steps, 3 comm"):
        RolloutExplanation(PRINTED, CreditConfig(), shorter)
    RolloutExplanation(PRINTED, CreditConfig(), result)


# Which command, which row, which batch.


@pytest.mark.parametrize(
    ("number", "found"),
    [
        (-1, "-1"),
        (3, "3"),
        (10**20, "1" + "0" * 20),
        (np.int64(3), "3"),
        (True, "True"),
        (np.True_, "np.True_"),
        (1.0, "1.0"),
        (float("nan"), "nan"),
        ("1", "'1'"),
        (None, "None"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_no_such_command(number: Any, found: str):
    batch, credit = alone()
    expected = f"trace 'printed': found command {found}; allowed: an integer from 0 to 2"
    with pytest.raises(ShapeError) as error:
        why(credit, batch, PRINTED, number)
    assert str(error.value) == expected
    with pytest.raises(ShapeError) as error:
        explain_rollout(credit, batch, PRINTED).why(number)
    assert str(error.value) == expected


def test_a_rollout_without_commands_has_none():
    batch, credit = alone(1)
    assert explain_rollout(credit, batch, EMPTY).num_commands == 0
    with pytest.raises(ShapeError, match=r"^trace 'empty': found command 0; allowed: none, it has"):
        why(credit, batch, EMPTY, 0)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.array, jax.numpy.int32])
def test_integers_of_any_kind_are_numbers(kind: Any):
    batch, credit = alone()
    found = why(credit, batch, PRINTED, kind(2), row=kind(0))
    assert found == why(credit, batch, PRINTED, 2)
    assert type(found.command) is int


@pytest.mark.parametrize(
    ("row", "found"),
    [(-1, "-1"), (3, "3"), (np.int32(7), "7"), (True, "True"), (0.0, "0.0"), ("0", "'0'")],
)
@pytest.mark.usefixtures("unchecked")
def test_no_such_row(row: Any, found: str):
    # Row 3 is there, but only as padding.
    batch = batch_traces([PRINTED, EMPTY, SPLIT], shape=SMALL)
    with pytest.raises(ShapeError) as error:
        explain_rollout(dependency_credit(batch), batch, PRINTED, row=row)
    assert str(error.value) == (
        f"trace 'printed': found row {found}; allowed: an integer from 0 to 2; give the trace's "
        "place among those that the batch was made from, or no row to have it searched"
    )


def test_a_row_of_an_empty_batch():
    batch = batch_traces([], shape=SMALL)
    credit = dependency_credit(batch)
    with pytest.raises(ShapeError, match="found row 0; allowed: none, the batch is empty; give"):
        explain_rollout(credit, batch, PRINTED, row=0)
    with pytest.raises(ShapeError, match="found no such rollout in the batch; allowed"):
        explain_rollout(credit, batch, PRINTED)


NOT_THERE = (
    "allowed: a trace that the batch was made from; give the batch and the credit of this trace"
)


def test_a_trace_that_is_not_in_the_batch_or_not_in_the_row():
    batch = batch_traces([PRINTED, SPLIT], shape=SMALL)
    credit = dependency_credit(batch)
    with pytest.raises(ShapeError) as error:
        why(credit, batch, EMPTY, 0)
    assert str(error.value) == f"trace 'empty': found no such rollout in the batch; {NOT_THERE}"
    with pytest.raises(ShapeError) as error:
        why(credit, batch, PRINTED, 0, row=1)
    assert str(error.value) == (
        f"trace 'printed': found no such rollout in row 1 of the batch; {NOT_THERE}"
    )


def test_a_trace_that_would_not_fit():
    batch, credit = alone()
    long = trace(*[step(1, command())] * 33, trace_id="long")
    with pytest.raises(ShapeError, match="trace 'long': found no such rollout in the batch"):
        why(credit, batch, long, 0)


@pytest.mark.parametrize(
    "other",
    [
        trace(
            step(1, command(writes=[lines("/a", (1, 3)), lines("/b", (1, 1))])),
            verifier=["/b"],
        ),
        trace(
            step(2, command(writes=[lines("/a", (1, 3)), lines("/b", (1, 1))])),
            verifier=["/a"],
        ),
        trace(
            step(1, command(writes=[lines("/a", (1, 3)), lines("/b", (1, 2))])),
            verifier=["/a"],
        ),
        trace(
            step(1, command(writes=[lines("/a", (1, 3)), lines("/b", (1, 1))])),
            verifier=["/a"],
            reward=1.0,
        ),
        trace(
            step(1, command(writes=[lines("/a", (1, 3)), lines("/b", (1, 1))], recorded=False)),
            verifier=["/a"],
        ),
    ],
    ids=["inspected", "tokens", "lines", "reward", "unrecorded"],
)
def test_a_trace_that_differs_in_one_thing_is_not_there(other: Trace):
    batch, credit = alone(2)
    with pytest.raises(ShapeError, match="found no such rollout in the batch"):
        why(credit, batch, other, 0)


def test_names_and_groups_do_not_matter_for_finding_a_trace():
    batch, credit = alone(2)
    other = trace(
        step(1, command(writes=[lines("/x", (1, 3)), lines("/y", (1, 1))], text="…")),
        verifier=["/x"],
        group_id="other",
    )
    assert why(credit, batch, other, 0).written[0].resource == "/x"


def test_credit_of_another_batch():
    batch, credit = alone()
    wide = batch_traces([PRINTED, SPLIT])
    with pytest.raises(ShapeError, match="found credit of 1 x 32 commands for a batch of 2 x 32"):
        why(credit, wide, PRINTED, 0)
    one = jax.tree.map(lambda leaf: leaf[0], credit)
    with pytest.raises(ShapeError, match="found credit of 32 commands for a batch of 1 x 32"):
        why(one, batch, PRINTED, 0)


@pytest.mark.parametrize(("axis", "size"), [("segments", 48), ("steps", 12)])
def test_credit_of_a_batch_with_other_padding(axis: str, size: int):
    sizes = {"rollouts": 1, "commands": 32, "steps": 8, "segments": 32, "resources": 8}
    batch = batch_traces([PRINTED], shape=dg.BatchShape(**{**sizes, axis: size}))
    _, credit = alone()
    with pytest.raises(ShapeError) as error:
        why(credit, batch, PRINTED, 0)
    assert str(error.value) == (
        f"explain_rollout: found credit of (1, {sizes[axis]}) {axis} for a batch of (1, {size}); "
        "allowed: equal shapes; give the credit that this batch had"
    )


def test_a_single_rollout_instead_of_a_batch():
    batch, credit = alone()
    one = jax.tree.map(lambda leaf: leaf[0], (batch, credit))
    with pytest.raises(ShapeError, match=r"found a TraceBatch with recorded \(32,\); allowed"):
        explain_rollout(one[1], one[0], PRINTED)


def test_credit_of_other_traces_in_the_same_shape():
    batch, _ = alone()
    _, other = alone(2)
    with pytest.raises(ConfigError, match="trace 'printed': found that"):
        explain_rollout(other, batch, PRINTED)
