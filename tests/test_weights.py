"""Step factors and token weights, by hand and against a slow search for the scale."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from depgpo_jax.weights import TIE_TOLERANCE, step_factors, token_weights
from tests.helpers import f64

OFF = float("inf")


def f32(values: object) -> jax.Array:
    return jnp.asarray(np.asarray(values, np.float32))


def factors(
    credit: Sequence[float], recorded: Sequence[bool] | None = None, *, subtract_min: bool = True
) -> tuple[list[float], bool]:
    seen = jnp.ones(len(credit), bool) if recorded is None else jnp.asarray(recorded)
    found = step_factors(f32(credit), seen, subtract_min=subtract_min)
    return found.factor.tolist(), bool(found.tie)


def weights(
    factor: Sequence[float], tokens: Sequence[float], cap: float = OFF
) -> tuple[list[float], bool]:
    weight, no_scale = token_weights(f32(factor), f32(tokens), jnp.float32(cap))
    return weight.tolist(), bool(no_scale)


# Section 5.


def test_factors_stand_out_from_the_least():
    assert factors([0.25, 1.0, 0.25, 0.5]) == ([0.0, 3.0, 0.0, 1.0], False)
    assert factors([0.0, 1.0]) == ([0.0, 2.0], False)


def test_without_subtraction_credits_keep_their_proportion():
    assert factors([0.5, 1.0, 1.5], subtract_min=False) == ([0.5, 1.0, 1.5], False)
    assert factors([0.0, 1.0], subtract_min=False) == ([0.0, 2.0], False)


@pytest.mark.parametrize("subtract_min", [True, False])
@pytest.mark.parametrize("credit", [[], [3.0], [2.0, 2.0, 2.0], [0.0, 0.0], [0.0]])
def test_equal_credits_are_a_tie(credit: list[float], subtract_min: bool):
    assert factors(credit, subtract_min=subtract_min) == ([1.0] * len(credit), True)


def test_unrecorded_steps_have_factor_one_and_count_nowhere():
    recorded = [True, False, True, False]
    assert factors([0.0, 9.0, 2.0, -0.0], recorded) == ([0.0, 1.0, 2.0, 1.0], False)
    assert factors([1.0, 9.0, 1.0, 0.0], recorded) == ([1.0] * 4, True)
    assert factors([1.0, 2.0], [False, False]) == ([1.0, 1.0], True)
    # One recorded step: nothing to compare it with.
    assert factors([5.0, 2.0], [True, False]) == ([1.0, 1.0], True)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
@pytest.mark.parametrize("subtract_min", [True, False])
def test_the_threshold_grows_with_the_credit_from_one(scale: float, subtract_min: bool):
    just_below, well_above = 0.5 * TIE_TOLERANCE * scale, 4 * TIE_TOLERANCE * scale
    found, tie = factors([0.0, just_below, well_above, scale], subtract_min=subtract_min)
    assert not tie
    assert found[:2] == [0.0, 0.0]
    assert found[2] == pytest.approx(4 * well_above / (scale + well_above), rel=1e-5)
    assert factors([scale, scale * (1 + 5e-7)], subtract_min=subtract_min)[1]


def test_small_credits_are_compared_with_one():
    assert factors([0.0, 9e-7])[1]
    assert factors([0.0, 2e-6]) == ([0.0, 2.0], False)


# Section 6.


def test_the_token_weighted_mean_is_one():
    found, no_scale = weights([0.5, 1.0, 1.5], [10, 20, 10])
    np.testing.assert_allclose(found, [0.5, 1.0, 1.5], rtol=1e-6)
    assert not no_scale
    found, _ = weights([0.0, 2.0], [3, 1])
    np.testing.assert_allclose(found, [0.0, 4.0], rtol=1e-6)


@pytest.mark.parametrize("cap", [OFF, 1.0, 2.0])
@pytest.mark.parametrize(
    ("factor", "tokens"),
    [([2.0, 0.0], [0, 5]), ([1.0, 1.0], [0, 0]), ([], []), ([0.0, 0.0], [1, 1])],
)
def test_no_scale_gives_weight_one(factor: list[float], tokens: list[float], cap: float):
    assert weights(factor, tokens, cap) == ([1.0] * len(factor), True)


def test_water_filling_by_hand():
    found, _ = weights([1.0, 2.0, 3.0], [1, 1, 1], 1.2)
    np.testing.assert_allclose(found, [0.6, 1.2, 1.2], rtol=1e-6)
    # The first round caps one step, its surplus lifts the next one over the cap, and so on.
    found, _ = weights([1.0, 6.0, 7.0, 30.0], [1, 1, 1, 1], 1.25)
    np.testing.assert_allclose(found, [0.25, 1.25, 1.25, 1.25], rtol=1e-6)


def test_a_cap_of_one_levels_all_with_credit():
    found, _ = weights([1.0, 4.0, 0.5], [3, 1, 7], 1.0)
    np.testing.assert_allclose(found, [1.0, 1.0, 1.0], rtol=1e-6)


def test_a_cap_out_of_reach_shares_the_rest_equally():
    found, _ = weights([0.0, 2.0, 0.0, 2.0], [5, 1, 3, 1], 3.0)
    np.testing.assert_allclose(found, [0.5, 3.0, 0.5, 3.0], rtol=1e-6)


def test_a_cap_just_in_reach():
    found, _ = weights([0.0, 2.0], [3, 1], 4.0)
    np.testing.assert_allclose(found, [0.0, 4.0], rtol=1e-6)
    found, _ = weights([0.0, 1.0, 3.0], [4, 1, 1], 3.0)
    np.testing.assert_allclose(found, [0.0, 3.0, 3.0], rtol=1e-6)


def slow_weights(factor: np.ndarray, tokens: np.ndarray, cap: float) -> np.ndarray:
    """Searches the scale by bisection, in float64."""
    total = tokens.sum()
    if cap * tokens[factor > 0].sum() <= total:
        rest = total - cap * tokens[factor > 0].sum()
        share = rest / max(tokens[factor == 0].sum(), 1)
        return np.where(factor > 0, cap, share)
    low, high = 0.0, cap / factor[factor > 0].min()
    for _ in range(200):
        middle = (low + high) / 2
        short = (np.minimum(cap, middle * factor) * tokens).sum() < total
        low, high = (middle, high) if short else (low, middle)
    return np.minimum(cap, high * factor)


@pytest.mark.parametrize("cap", [1.0, 1.1, 2.0, 6.0])
def test_slow_search_agrees(cap: float):
    rng = np.random.default_rng(8)
    factor = rng.exponential(size=(40, 300)) ** 3 * (rng.random((40, 300)) < 0.4)
    tokens = rng.integers(1, 50, (40, 300)).astype(float)
    found, no_scale = token_weights(f32(factor), f32(tokens), jnp.full(300, cap, jnp.float32))
    assert not no_scale.any()
    np.testing.assert_allclose((f64(found) * tokens).sum(0), tokens.sum(0), rtol=1e-6)
    assert (np.asarray(found) <= np.float32(cap)).all()
    for column in range(300):
        expected = slow_weights(f64(f32(factor[:, column])), tokens[:, column], cap)
        np.testing.assert_allclose(found[:, column], expected, rtol=2e-5, atol=2e-5)


def test_columns_do_not_meet():
    rng = np.random.default_rng(9)
    factor = f32(rng.exponential(size=(12, 6)) * (rng.random((12, 6)) < 0.6))
    tokens = f32(rng.integers(0, 9, (12, 6)))
    caps = f32([OFF, 1.0, 1.5, 2.0, OFF, 3.0])
    together, flags = token_weights(factor, tokens, caps)
    for column in range(6):
        alone, flag = token_weights(factor[:, column], tokens[:, column], caps[column])
        np.testing.assert_allclose(together[:, column], alone, rtol=1e-6, atol=1e-7)
        assert flags[column] == flag
