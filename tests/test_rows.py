"""Traces as token rows: real ids and log-probabilities, stand-ins, cutting, padding."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import UNSET

from depgpo_jax.errors import ConfigError
from depgpo_jax.traces import Command, Step, Trace
from training.rows import NO_STEP, token_rows


def trace(*steps: Step, name: str = "t") -> Trace:
    return Trace(version=1, trace_id=name, verifier=[], steps=list(steps))


def recorded(written: list[int], context: list[int] | None = None) -> Step:
    return Step(
        loss_tokens=len(written),
        commands=[Command()],
        token_ids=written,
        logprobs=[-0.5 * token for token in written],
        context_token_ids=UNSET if context is None else context,
    )


def counted(*loss_tokens: int, name: str = "t") -> Trace:
    return trace(*(Step(loss_tokens=n, commands=[]) for n in loss_tokens), name=name)


def test_real_tokens_stand_behind_their_context():
    rows = token_rows(
        [trace(recorded([3, 4], [7, 8, 9]), recorded([]), recorded([5], [6]))],
        vocab_size=10,
        length_multiple=8,
    )
    assert rows.tokens.tolist() == [[7, 8, 9, 3, 4, 6, 5, 0]]
    assert rows.step_of_token.tolist() == [[-1, -1, -1, 0, 0, -1, 2, -1]]
    assert rows.loss_mask.tolist() == [[False] * 3 + [True] * 2 + [False, True, False]]
    assert rows.is_token.tolist() == [[True] * 7 + [False]]
    assert rows.sampling_log_probs.tolist() == [[0, 0, 0, -1.5, -2.0, 0, -2.5, 0]]
    assert rows.has_log_probs.all()
    assert not rows.stand_in.any()


def test_a_row_that_begins_with_a_loss_token_gets_a_start_token():
    rows = token_rows([trace(recorded([3, 4]))], vocab_size=10, start_token=2, length_multiple=4)
    assert rows.tokens.tolist() == [[2, 3, 4, 2]]
    assert rows.step_of_token.tolist() == [[NO_STEP, 0, 0, NO_STEP]]
    assert not rows.loss_mask[:, 0].any()


def test_counts_without_ids_get_stand_ins_of_their_own():
    traces = [counted(5, 0, 7, name="a"), counted(5, 0, 7, name="b")]
    rows = token_rows(traces, vocab_size=50, start_token=3)
    assert rows.stand_in.all()
    assert not rows.has_log_probs.any()
    assert np.bincount(rows.step_of_token[0][rows.loss_mask[0]], minlength=3).tolist() == [5, 0, 7]
    assert (rows.tokens[rows.loss_mask] != 3).all()
    assert (rows.tokens < 50).all()
    assert (rows.tokens[0] != rows.tokens[1]).any()
    np.testing.assert_array_equal(
        rows.tokens, token_rows(traces, vocab_size=50, start_token=3).tokens
    )
    other = token_rows(traces, vocab_size=50, start_token=3, seed=1)
    assert (rows.tokens != other.tokens).any()


def test_stand_ins_reach_every_id_but_the_start_token():
    rows = token_rows([counted(500)], vocab_size=5, start_token=2)
    assert set(rows.tokens[rows.loss_mask].tolist()) == {0, 1, 3, 4}


def test_one_step_without_ids_marks_its_row_only():
    mixed = trace(recorded([1], [2]), Step(loss_tokens=2, commands=[]), name="m")
    rows = token_rows([trace(recorded([1], [2])), mixed], vocab_size=10)
    assert rows.stand_in.tolist() == [False, True]
    assert rows.has_log_probs.tolist() == [True, False]


def test_a_step_without_loss_tokens_needs_no_ids():
    rows = token_rows([trace(recorded([1], [2]), Step(loss_tokens=0, commands=[]))], vocab_size=10)
    assert not rows.stand_in.any()
    assert rows.has_log_probs.all()


def test_cutting_keeps_the_share_of_every_step_and_rollout():
    rows = token_rows(
        [counted(1000, 3000, 1, 0), counted(500, 500, name="u")], vocab_size=9, max_loss_tokens=400
    )
    counts = [
        np.bincount(steps[mask], minlength=4).tolist()
        for steps, mask in zip(rows.step_of_token, rows.loss_mask, strict=True)
    ]
    assert counts == [[100, 300, 1, 0], [50, 50, 0, 0]]


def test_cutting_keeps_the_context_next_to_the_step_and_the_steps_beginning():
    step = recorded([1, 2, 3, 4], [5, 6, 7, 8])
    rows = token_rows([trace(step)], vocab_size=10, max_loss_tokens=2, length_multiple=1)
    assert rows.tokens.tolist() == [[7, 8, 1, 2]]
    assert rows.sampling_log_probs.tolist() == [[0, 0, -0.5, -1.0]]


def test_short_rollouts_are_not_cut():
    rows = token_rows([counted(3, 4)], vocab_size=9, max_loss_tokens=7)
    assert rows.loss_mask.sum() == 7


@pytest.mark.parametrize("multiple", [1, 8, 64])
def test_rows_are_padded_to_a_multiple_and_to_the_batch(multiple: int):
    rows = token_rows([counted(9)], vocab_size=9, num_rows=4, length_multiple=multiple)
    length = -(-10 // multiple) * multiple
    assert [array.shape for array in rows] == [(4, length)] * 5 + [(4,)] * 2
    assert not rows.is_token[1:].any()
    assert not rows.loss_mask[1:].any()
    assert not rows.has_log_probs[1:].any()


def test_no_traces_and_no_tokens():
    assert token_rows([], vocab_size=9).tokens.shape == (0, 64)
    empty = token_rows([trace()], vocab_size=9)
    assert not empty.is_token.any()
    assert not empty.stand_in.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocab_size": 1}, "vocab_size is 1; it must be at least 2"),
        ({"num_rows": 0}, "num_rows is 0; 1 traces need as many rows or more"),
        ({"max_loss_tokens": 0}, "max_loss_tokens is 0; it must be at least 1, or None"),
        ({"length_multiple": 0}, "length_multiple is 0; it must be at least 1"),
        ({"start_token": 10}, "start_token is 10; it must be an id of the vocabulary, 0 to 9"),
    ],
)
def test_refused_options(options: dict[str, int], message: str):
    with pytest.raises(ConfigError, match=message):
        token_rows([counted(1)], **{"vocab_size": 10, **options})


@pytest.mark.parametrize(
    ("step", "field"),
    [
        (recorded([1, 10]), r"token_ids\[1\]"),
        (recorded([1], [2, 3, 10]), r"context_token_ids\[2\]"),
    ],
)
def test_refused_token_ids(step: Step, field: str):
    with pytest.raises(
        ConfigError, match=rf"trace 't', steps\[1\]\.{field}: found id 10; vocab_size"
    ):
        token_rows([trace(recorded([1]), step)], vocab_size=10)
