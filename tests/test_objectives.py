"""The clipped objective: known numbers, a slow oracle, its gradient, masks that hold rubbish."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from depgpo_jax.errors import ConfigError, ShapeError
from training.objectives import Aggregation, aggregate, clipped_objective, token_log_probs

AGGREGATIONS: tuple[Aggregation, ...] = (
    "token_mean",
    "sequence_mean_token_mean",
    "sequence_mean_token_sum",
)
LOSS = jnp.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
MASK = jnp.array([[True, True, False], [True, True, True]])


def f32(values: object) -> jax.Array:
    return jnp.asarray(np.asarray(values, np.float32))


def slow_objective(
    log_probs: np.ndarray,
    sampling: np.ndarray,
    advantages: np.ndarray,
    mask: np.ndarray,
    low: float,
    high: float,
    aggregation: str,
) -> tuple[float, float, float]:
    """Loss, clip fraction and mean ratio, token by token."""
    rows: list[list[float]] = []
    clipped: list[bool] = []
    ratios: list[float] = []
    for b in range(mask.shape[0]):
        losses = []
        for position in range(mask.shape[1]):
            if not mask[b, position]:
                continue
            ratio = math.exp(float(log_probs[b, position]) - float(sampling[b, position]))
            advantage = float(advantages[b, position])
            kept = min(max(ratio, 1 - low), 1 + high)
            losses.append(-min(ratio * advantage, kept * advantage))
            clipped.append(kept * advantage < ratio * advantage)
            ratios.append(ratio)
        if losses:
            rows.append(losses)
    if not rows:
        return 0.0, 0.0, 1.0
    tokens = [loss for losses in rows for loss in losses]
    value = {
        "token_mean": sum(tokens) / len(tokens),
        "sequence_mean_token_mean": sum(sum(row) / len(row) for row in rows) / len(rows),
        "sequence_mean_token_sum": sum(tokens) / len(rows),
    }[aggregation]
    return value, sum(clipped) / len(clipped), sum(ratios) / len(ratios)


Case = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def random_case(seed: int, keep: float) -> Case:
    rng = np.random.default_rng(seed)
    shape = (5, 9)
    sampling = -rng.exponential(size=shape).astype(np.float32)
    log_probs = sampling + rng.normal(scale=0.4, size=shape).astype(np.float32)
    advantages = np.where(rng.random(shape) < 0.7, rng.normal(size=shape), 0.0)
    mask = rng.random(shape) < keep
    mask[1] = False  # a padding row
    return log_probs, sampling, advantages.astype(np.float32), mask


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("token_mean", 0.36),
        ("sequence_mean_token_mean", 0.325),
        ("sequence_mean_token_sum", 0.9),
    ],
)
def test_aggregations_known_numbers(aggregation: Aggregation, expected: float):
    assert aggregate(LOSS, MASK, aggregation) == pytest.approx(expected, rel=1e-6)
    assert aggregate(LOSS, jnp.zeros_like(MASK), aggregation) == 0.0


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_padding_changes_no_aggregate(aggregation: Aggregation):
    padded = jnp.pad(LOSS, ((0, 2), (0, 3)), constant_values=9.0)
    mask = jnp.pad(MASK, ((0, 2), (0, 3)))
    np.testing.assert_allclose(
        aggregate(padded, mask, aggregation), aggregate(LOSS, MASK, aggregation), rtol=1e-6
    )


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("low", "high"), [(0.2, 0.2), (0.2, 0.28), (1.0, 3.0)])
def test_slow_oracle_agrees(aggregation: Aggregation, seed: int, low: float, high: float):
    case = random_case(seed, keep=0.6)

    def objective(*arrays: jax.Array):
        return clipped_objective(*arrays, clip_low=low, clip_high=high, aggregation=aggregation)

    arrays = [jnp.asarray(array) for array in case]
    expected = slow_objective(*case, low, high, aggregation)
    for result in (objective(*arrays), jax.jit(objective)(*arrays)):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_zero_advantage_tokens_stay_in_the_denominator():
    zeros = jnp.zeros((1, 4))
    mask = jnp.ones((1, 4), bool)
    advantages = f32([[2.0, 0.0, 0.0, 0.0]])
    assert clipped_objective(zeros, zeros, advantages, mask).loss == -0.5


def test_an_empty_mask_gives_zero_and_no_gradient():
    def loss(log_probs: jax.Array) -> jax.Array:
        nothing = jnp.zeros_like(log_probs, bool)
        return clipped_objective(log_probs, log_probs, log_probs, nothing).loss

    value, gradient = jax.value_and_grad(loss)(f32([[-1.0, -2.0]]))
    assert value == 0.0
    np.testing.assert_array_equal(gradient, 0.0)
    nothing = jnp.zeros((2, 3), bool)
    assert clipped_objective(LOSS, LOSS, LOSS, nothing).mean_ratio == 1.0
    assert clipped_objective(LOSS, LOSS, LOSS, nothing).clip_fraction == 0.0


def test_what_stands_off_the_mask_does_not_matter():
    log_probs, sampling, advantages, mask = random_case(7, keep=0.5)
    rubbish = np.where(mask, 0.0, np.array([np.nan, np.inf, -np.inf] * 15).reshape(5, 9))

    def loss(values: jax.Array, sampling: jax.Array, advantages: jax.Array) -> jax.Array:
        return clipped_objective(values, sampling, advantages, jnp.asarray(mask)).loss

    clean = jax.grad(loss)(f32(log_probs), f32(sampling), f32(advantages))
    with jax.debug_nans(False):  # the NaN here is the caller's padding
        dirty = jax.grad(loss)(f32(log_probs), f32(sampling + rubbish), f32(advantages + rubbish))
    np.testing.assert_array_equal(dirty, clean)
    np.testing.assert_array_equal(np.asarray(clean)[~mask], 0.0)


def test_gradient_is_that_of_finite_differences_and_zero_where_clipped():
    def loss(log_probs: jax.Array) -> jax.Array:
        advantages = f32([[1.0, 1.0, -1.0, -1.0]])
        return clipped_objective(
            jnp.asarray(log_probs), jnp.zeros((1, 4)), advantages, jnp.ones((1, 4), bool)
        ).loss

    point = f32([[0.1, 0.9, -0.1, -0.9]])  # inside, above, inside, below
    check_grads(loss, (point,), order=1, modes=["rev"], rtol=1e-2, atol=1e-3, eps=1e-3)
    np.testing.assert_array_equal(np.asarray(jax.grad(loss)(point))[0] == 0, [0, 1, 0, 1])


def test_a_far_policy_stays_finite():
    result = clipped_objective(
        f32([[0.0, -900.0]]), f32([[-900.0, 0.0]]), f32([[-1.0, 1.0]]), jnp.ones((1, 2), bool)
    )
    assert np.isfinite(result.loss)


def test_token_log_probs_are_aligned_with_the_tokens():
    logits = f32(np.random.default_rng(0).normal(size=(2, 4, 5)))
    tokens = jnp.array([[0, 3, 1, 4], [2, 2, 0, 1]])
    result = token_log_probs(logits, tokens)
    for b in range(2):
        assert result[b, 0] == 0.0
        for position in range(1, 4):
            row = np.asarray(logits[b, position - 1], np.float64)
            expected = row[int(tokens[b, position])] - np.log(np.exp(row).sum())
            assert result[b, position] == pytest.approx(expected, rel=1e-5)


def test_refused_aggregation(unchecked: None):
    with pytest.raises(ConfigError, match="aggregation is 'mean'; it must be one of 'token_mean'"):
        aggregate(LOSS, MASK, "mean")  # pyright: ignore[reportArgumentType]


def test_refused_shapes(unchecked: None):
    row = jnp.zeros(3)
    with pytest.raises(ShapeError, match=r"aggregate: found values \(2, 3\), loss_mask \(2,\)"):
        aggregate(LOSS, MASK[:, 0], "token_mean")
    with pytest.raises(ShapeError, match=r"aggregate: found values \(3,\), loss_mask \(3,\)"):
        aggregate(row, row > 0, "token_mean")
    with pytest.raises(ShapeError, match=r"clipped_objective: found .*advantages \(3,\)"):
        clipped_objective(LOSS, LOSS, row, MASK)
    with pytest.raises(ShapeError, match=r"logits \(2, 3, 5\) and tokens \(2, 4\); they must"):
        token_log_probs(jnp.zeros((2, 3, 5)), jnp.zeros((2, 4), jnp.int32))
