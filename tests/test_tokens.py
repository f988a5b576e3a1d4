"""Advantages of tokens, counted from the mask that a trainer gives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import depgpo_jax
from depgpo_jax.batch import batch_traces
from depgpo_jax.credit import Credit, CreditConfig, dependency_credit
from depgpo_jax.errors import ShapeError
from depgpo_jax.tokens import token_advantages
from tests.helpers import command, f64, random_batch, step, trace, whole


def credit_of_steps(cap: float | None = None) -> Credit:
    """Two rollouts: factors 0, 2, 1 (the third unrecorded); and a tie."""
    wasted = command(writes=[whole("/waste")])
    useful = command(writes=[whole("/out")])
    unseen = command(recorded=False, unrecorded_reason="left running")
    cases = [
        trace(step(2, wasted), step(2, useful), step(2, unseen), verifier=["/out"]),
        trace(step(2, wasted), step(2, wasted), trace_id="u"),
    ]
    return dependency_credit(batch_traces(cases), CreditConfig(max_weight=cap))


STEPS = jnp.array([[-1, 0, 0, 1, 1, 2, 2, 99], [0, 0, 1, 1, -1, -1, -1, -1]])
ALL = STEPS >= 0
ADVANTAGE = jnp.array([3.0, -1.0])


def aimed(mask: object, cap: float | None = None, steps: jax.Array = STEPS) -> np.ndarray:
    credit = credit_of_steps(cap)
    return np.asarray(token_advantages(credit, ADVANTAGE, steps, jnp.asarray(mask)))


def test_is_public():
    assert depgpo_jax.token_advantages is token_advantages


def test_weights_of_the_trace_where_nothing_is_cut():
    mask = np.asarray(ALL).copy()
    mask[0, 7] = False
    found = aimed(mask)
    np.testing.assert_allclose(found[0], [0, 0, 0, 6, 6, 3, 3, 0], rtol=1e-6)
    np.testing.assert_array_equal(found[1], [-1, -1, -1, -1, 0, 0, 0, 0])
    credit = credit_of_steps()
    np.testing.assert_allclose(credit.token_weight[0, :3], [0, 2, 1], rtol=1e-6)


def test_a_cut_keeps_the_mean_on_what_remains():
    mask = np.zeros((2, 8), bool)
    mask[0, [1, 2, 3]] = True  # both tokens of the step without credit, one with factor 2
    mask[1, :3] = True
    found = aimed(mask)
    np.testing.assert_allclose(found[0], [0, 0, 0, 9, 0, 0, 0, 0], rtol=1e-6)
    np.testing.assert_array_equal(found[1], [-1, -1, -1, 0, 0, 0, 0, 0])


def test_the_cap_stays_in_force():
    mask = np.zeros((2, 8), bool)
    mask[0, [1, 2, 3]] = True
    found = aimed(mask, cap=2.0)
    np.testing.assert_allclose(found[0], [0, 1.5, 1.5, 6, 0, 0, 0, 0], rtol=1e-6)


def test_where_only_tokens_without_credit_remain_every_weight_is_one():
    mask = np.zeros((2, 8), bool)
    mask[0, [1, 2]] = True
    np.testing.assert_array_equal(aimed(mask)[0], [0, 3, 3, 0, 0, 0, 0, 0])


def test_nothing_remains():
    np.testing.assert_array_equal(aimed(np.zeros((2, 8), bool)), 0.0)
    assert aimed(np.zeros((2, 0), bool), steps=STEPS[:, :0]).shape == (2, 0)


def test_tokens_of_no_step_count_like_an_unrecorded_one():
    found = aimed(np.ones((2, 8), bool))
    # Factors 1 (no step), 0, 0, 2, 2, 1, 1, 1 (past the last step): they sum to 8 already.
    np.testing.assert_allclose(found[0], [3, 0, 0, 6, 6, 3, 3, 3], rtol=1e-6)
    np.testing.assert_array_equal(found[1], [-1] * 8)


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.float32])
def test_masks_of_any_kind(dtype: type):
    mask = np.asarray(ALL)
    np.testing.assert_array_equal(aimed(mask.astype(dtype)), aimed(mask))


def test_tokens_may_stand_in_any_order():
    order = np.random.default_rng(0).permutation(8)
    mask = np.asarray(ALL)
    found = aimed(mask[:, order], steps=STEPS[:, order])
    np.testing.assert_allclose(found, aimed(mask)[:, order], rtol=1e-6)


@pytest.mark.parametrize("cap", [None, 1.5])
def test_random_cuts_keep_every_rollouts_mean(cap: float | None):
    batch = random_batch(41, 200)
    credit = dependency_credit(batch, CreditConfig(max_weight=cap))
    rng = np.random.default_rng(3)
    rollouts, steps = batch.loss_tokens.shape
    step_of_token = rng.integers(-1, steps, (rollouts, 64))
    step_of_token %= np.maximum(np.asarray(batch.num_steps), 1)[:, None]
    mask = rng.random((rollouts, 64)) < rng.random((rollouts, 1))
    advantage = rng.normal(size=rollouts).astype(np.float32)
    found = jax.jit(token_advantages)(
        credit, jnp.asarray(advantage), jnp.asarray(step_of_token, jnp.int32), jnp.asarray(mask)
    )
    found = f64(found)
    np.testing.assert_allclose(found.sum(1), f64(advantage) * mask.sum(1), rtol=2e-6, atol=1e-9)
    assert (found * advantage[:, None] >= 0).all()
    assert (found[~mask] == 0).all()
    if cap is not None:
        assert (np.abs(found) <= cap * np.abs(advantage)[:, None] * (1 + 1e-6)).all()


@pytest.mark.parametrize(
    ("advantage", "steps", "mask"),
    [((3,), (2, 8), (2, 8)), ((2,), (8,), (8,)), ((2,), (3, 8), (3, 8)), ((2,), (2, 8), (2, 7))],
)
def test_refused_shapes(
    advantage: tuple[int, ...], steps: tuple[int, ...], mask: tuple[int, ...], unchecked: None
):
    with pytest.raises(
        ShapeError, match=r"token_advantages: found advantage .*2 rollouts; allowed"
    ):
        token_advantages(
            credit_of_steps(),
            jnp.zeros(advantage),
            jnp.zeros(steps, jnp.int32),
            jnp.zeros(mask, bool),
        )
