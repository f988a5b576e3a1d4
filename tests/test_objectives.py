"""The objectives: known numbers, a slow oracle, gradients, masks that hold rubbish."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from depgpo_jax.errors import ConfigError, ShapeError
from training.config import ObjectiveConfig
from training.objectives import (
    Aggregation,
    Objective,
    aggregate,
    aggregation_count,
    clipped_objective,
    clipped_token_loss,
    dppo_objective,
    gspo_objective,
    overlong_penalty,
    reference_kl,
    token_entropy,
    token_log_probs,
)
from training.policy_loss import policy_loss

AGGREGATIONS: tuple[Aggregation, ...] = (
    "token_mean",
    "sequence_mean_token_mean",
    "sequence_mean_token_sum",
    "sequence_mean_token_sum_norm",
    "token_sum",
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
    aggregation: str,
    *,
    surrogate: str = "clip",
    low: float = 0.2,
    high: float = 0.2,
    dual: float | None = None,
    delta: float = 0.15,
    norm_length: int = 9,
) -> tuple[float, float, float]:
    """Loss, clip fraction and mean ratio, token by token."""
    rows: list[list[float]] = []
    clipped: list[bool] = []
    ratios: list[float] = []
    for b in range(mask.shape[0]):
        places = [position for position in range(mask.shape[1]) if mask[b, position]]
        moves = [float(log_probs[b, p]) - float(sampling[b, p]) for p in places]
        losses = []
        for position, move in zip(places, moves, strict=True):
            if surrogate == "gspo":
                move = sum(moves) / len(moves)
            ratio = math.exp(move)
            advantage = float(advantages[b, position])
            loss = -ratio * advantage
            if surrogate == "dppo":
                now, then = math.exp(log_probs[b, position]), math.exp(sampling[b, position])
                away = (ratio - 1) * advantage > 0
                if away and abs(then - now) > delta:
                    loss = 0.0
            else:
                kept = min(max(ratio, 1 - low), 1 + high)
                loss = max(loss, -kept * advantage)
                if dual is not None and advantage < 0:
                    loss = min(loss, -dual * advantage)
            losses.append(loss)
            clipped.append(loss != -ratio * advantage)
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
        "sequence_mean_token_sum_norm": sum(tokens) / len(rows) / norm_length,
        "token_sum": sum(tokens),
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
        ("sequence_mean_token_sum_norm", 0.3),
        ("token_sum", 1.8),
    ],
)
def test_aggregations_known_numbers(aggregation: Aggregation, expected: float):
    assert aggregate(LOSS, MASK, aggregation) == pytest.approx(expected, rel=1e-6)
    nothing = jnp.zeros_like(MASK)
    assert aggregate(LOSS, nothing, aggregation) == 0.0
    assert aggregate(LOSS, nothing, aggregation, empty=-2.5) == -2.5


def test_the_normed_sum_has_a_constant_of_its_own():
    wanted = aggregate(LOSS, MASK, "sequence_mean_token_sum_norm", norm_length=12)
    assert wanted == pytest.approx(0.9 / 12, rel=1e-6)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_parts_of_a_batch_add_up_to_the_whole(aggregation: Aggregation):
    values, _, _, mask = (jnp.asarray(array) for array in random_case(11, keep=0.4))
    count = aggregation_count(mask, aggregation)
    parts = [
        aggregate(values[rows], mask[rows], aggregation, norm_length=9, count=count)
        for rows in (slice(0, 2), slice(2, 3), slice(3, 5))
    ]
    whole = aggregate(values, mask, aggregation, norm_length=9)
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-5)
    nothing = aggregate(values, mask & False, aggregation, count=jnp.float32(0), empty=7.0)
    assert nothing == 7.0


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_padding_changes_no_aggregate(aggregation: Aggregation):
    padded = jnp.pad(LOSS, ((0, 2), (0, 3)), constant_values=9.0)
    mask = jnp.pad(MASK, ((0, 2), (0, 3)))
    np.testing.assert_allclose(
        aggregate(padded, mask, aggregation, norm_length=3),
        aggregate(LOSS, MASK, aggregation),
        rtol=1e-6,
    )


OBJECTIVES: dict[str, tuple[ObjectiveConfig, dict[str, Any]]] = {
    "ppo": (ObjectiveConfig(), {}),
    "dapo": (ObjectiveConfig.dapo(), {"high": 0.28}),
    "wide": (ObjectiveConfig(clip_low=1.0, clip_high=3.0), {"low": 1.0, "high": 3.0}),
    "dual clip": (ObjectiveConfig(dual_clip=1.5), {"dual": 1.5}),
    "gspo": (ObjectiveConfig.gspo(), {"surrogate": "gspo", "low": 3e-4, "high": 4e-4}),
    "gspo, wide": (
        ObjectiveConfig(surrogate="gspo", clip_low=0.1, clip_high=0.1),
        {"surrogate": "gspo", "low": 0.1, "high": 0.1},
    ),
    "dppo": (ObjectiveConfig.dppo(), {"surrogate": "dppo"}),
    "dppo, all": (
        ObjectiveConfig(surrogate="dppo", delta=0.0),
        {"surrogate": "dppo", "delta": 0.0},
    ),
}


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_slow_oracle_agrees(name: str, aggregation: Aggregation):
    config, slow = OBJECTIVES[name]
    config = dataclasses.replace(config, aggregation=aggregation)

    @jax.jit
    @jax.vmap
    def objective(
        log_probs: jax.Array, sampling: jax.Array, advantages: jax.Array, mask: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        loss = policy_loss(log_probs, sampling, advantages, mask, config)
        return loss.loss, loss.clip_fraction, loss.mean_ratio

    cases = [random_case(seed, keep=keep) for seed in range(8) for keep in (0.05, 0.6, 1.0)]
    arrays = [jnp.asarray(np.stack(arrays)) for arrays in zip(*cases, strict=True)]
    found = np.stack(objective(*arrays), axis=1)
    expected = [slow_objective(*case, aggregation, **slow) for case in cases]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
    if aggregation == "token_mean":
        log_probs, sampling, advantages, mask = (array[0] for array in arrays)
        eager = policy_loss(log_probs, sampling, advantages, mask, config)
        np.testing.assert_allclose(eager.loss, found[0, 0], rtol=1e-6)


def test_dual_clip_known_numbers():
    ratio, advantages = f32([[0.5, 1.0, 10.0]]), f32([[1.0, -1.0, -4.0]])
    dual = clipped_token_loss(ratio, advantages, dual_clip=3.0)
    np.testing.assert_array_equal(dual, [[-0.5, 1.0, 12.0]])
    single = clipped_token_loss(ratio, advantages)
    np.testing.assert_array_equal(single, [[-0.5, 1.0, 40.0]])
    log_ratio = jnp.log(ratio)
    result = clipped_objective(
        log_ratio, jnp.zeros((1, 3)), advantages, jnp.ones((1, 3), bool), dual_clip=3.0
    )
    np.testing.assert_allclose(result.loss, 12.5 / 3, rtol=1e-6)
    np.testing.assert_allclose(result.clip_fraction, 1 / 3, rtol=1e-6)


def test_a_dual_clipped_token_gets_no_gradient():
    gradient = jax.grad(lambda ratio: clipped_token_loss(ratio, f32([[-4.0]]), dual_clip=3.0)[0, 0])
    assert gradient(f32([[10.0]])) == 0.0
    assert gradient(f32([[2.0]])) == 4.0


def test_gspo_has_the_rows_value_and_each_tokens_gradient():
    log_probs, sampling = f32([[0.4, -0.2, 0.1]]), jnp.zeros((1, 3))
    advantages, mask = f32([[1.0, 2.0, -3.0]]), jnp.array([[True, True, False]])

    def loss(log_probs: jax.Array) -> jax.Array:
        return gspo_objective(
            log_probs, sampling, advantages, mask, clip_low=0.5, clip_high=0.5
        ).loss

    row = math.exp(0.1)
    assert loss(log_probs) == pytest.approx(-row * 1.5, rel=1e-6)
    np.testing.assert_allclose(
        jax.grad(loss)(log_probs), [[-row / 2, -row * 2 / 2, 0.0]], rtol=1e-6
    )


def test_gspo_of_rows_of_one_token_is_ppo():
    log_probs, sampling, advantages, _ = (jnp.asarray(array) for array in random_case(3, keep=1.0))
    one = jnp.zeros(log_probs.shape, bool).at[:, 4].set(True)
    arrays = log_probs, sampling, advantages, one
    found = gspo_objective(*arrays, clip_low=0.2, clip_high=0.3)
    np.testing.assert_allclose(found, clipped_objective(*arrays, clip_high=0.3), rtol=1e-6)


def test_dppo_drops_what_moved_away_and_only_that():
    now = jnp.log(f32([[0.9, 0.5, 0.5, 0.1, 0.65, 2e-3]]))
    then = jnp.log(f32([[0.5, 0.9, 0.9, 0.5, 0.55, 1e-4]]))
    #   away, back, away, back, near, rare: a ratio of 20 and hardly any probability
    advantages = f32([[1.0, 1.0, -1.0, 1.0, 1.0, 1.0]])

    def loss(log_probs: jax.Array) -> jax.Array:
        return dppo_objective(log_probs, then, advantages, jnp.ones((1, 6), bool)).loss

    gradient = np.asarray(jax.grad(loss)(now))[0]
    np.testing.assert_array_equal(gradient != 0, [False, True, False, True, True, True])
    assert dppo_objective(
        now, then, advantages, jnp.ones((1, 6), bool)
    ).clip_fraction == pytest.approx(2 / 6)


def test_reference_kl_is_k3():
    rng = np.random.default_rng(5)
    log_probs, reference = rng.normal(size=(2, 4, 6)).astype(np.float32)
    mask = rng.random((4, 6)) < 0.7
    distance = np.where(mask, reference.astype(np.float64) - log_probs, 0.0)
    found = reference_kl(jnp.asarray(log_probs), jnp.asarray(reference), jnp.asarray(mask))
    np.testing.assert_allclose(found, np.exp(distance) - distance - 1, rtol=1e-5, atol=1e-7)
    assert (np.asarray(found) >= 0).all()


def test_reference_kl_far_away_is_finite_convex_and_pulls_back():
    value_and_slope = jax.vmap(
        jax.value_and_grad(
            lambda log_prob: reference_kl(
                log_prob[None, None], jnp.zeros((1, 1)), jnp.ones((1, 1), bool)
            )[0, 0]
        )
    )
    values, slopes = value_and_slope(f32([-3e3, -25.0, -20.0, -1.0, 0.0, 1.0, 3e3]))
    assert np.isfinite(values).all()
    assert (np.diff(slopes) >= 0).all()
    assert (slopes[:4] < 0).all()
    assert values[4] == slopes[4] == 0.0


def test_entropy_of_known_distributions():
    logits = np.full((1, 4, 4), -np.inf, np.float32)
    logits[0, 0] = 0.0  # uniform
    logits[0, 1, 2] = 5.0  # certain
    logits[0, 2, :2] = np.log([1.0, 3.0])
    found, gradient = jax.value_and_grad(
        lambda shift: token_entropy(jnp.asarray(logits) + shift).sum()
    )(jnp.zeros((1, 4, 1)))
    expected = np.array([0.0, math.log(4), 0.0, -0.25 * math.log(0.25) - 0.75 * math.log(0.75)])
    np.testing.assert_allclose(token_entropy(jnp.asarray(logits))[0, :4], expected, atol=1e-6)
    assert found == pytest.approx(expected.sum(), rel=1e-6)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-6)  # a common shift changes no distribution


def test_entropy_gradient_is_that_of_finite_differences():
    point = f32(np.random.default_rng(2).normal(size=(1, 3, 5)))
    check_grads(
        lambda logits: token_entropy(jnp.asarray(logits)).sum(),
        (point,),
        order=1,
        modes=["rev"],
        rtol=1e-2,
        atol=1e-2,
        eps=1e-2,
    )


def test_overlong_known_numbers():
    lengths = jnp.array([0, 80, 90, 100, 110])
    options = {"max_length": 100, "buffer": 20, "penalty": 10.0}
    found = overlong_penalty(lengths, **options)
    np.testing.assert_array_equal(found, [0, 0, -5, -10, -10])
    assert not np.signbit(np.asarray(found)[:2]).any()
    open_end = overlong_penalty(lengths, **options, clamp=False)
    np.testing.assert_array_equal(open_end, [0, 0, -5, -10, -15])


def test_zero_advantage_tokens_stay_in_the_denominator():
    zeros = jnp.zeros((1, 4))
    mask = jnp.ones((1, 4), bool)
    advantages = f32([[2.0, 0.0, 0.0, 0.0]])
    assert clipped_objective(zeros, zeros, advantages, mask).loss == -0.5


SURROGATES: tuple[Callable[..., Objective], ...] = (
    clipped_objective,
    gspo_objective,
    dppo_objective,
)


@pytest.mark.parametrize("objective", SURROGATES)
def test_an_empty_mask_gives_what_it_is_told_and_no_gradient(objective: Callable[..., Objective]):
    def loss(log_probs: jax.Array) -> jax.Array:
        nothing = jnp.zeros_like(log_probs, bool)
        return objective(log_probs, log_probs, log_probs, nothing, empty=1.5).loss

    value, gradient = jax.value_and_grad(loss)(f32([[-1.0, -2.0]]))
    assert value == 1.5
    np.testing.assert_array_equal(gradient, 0.0)
    nothing = jnp.zeros((2, 3), bool)
    assert objective(LOSS, LOSS, LOSS, nothing) == (0.0, 0.0, 1.0)


@pytest.mark.parametrize("name", ["dual clip", "gspo, wide", "dppo"])
@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean_token_mean"])
def test_what_stands_off_the_mask_does_not_matter(name: str, aggregation: Aggregation):
    config = dataclasses.replace(
        OBJECTIVES[name][0],
        aggregation=aggregation,
        kl_coefficient=0.3,
        entropy_coefficient=0.2,
    )
    log_probs, sampling, advantages, mask = random_case(7, keep=0.5)
    rubbish = np.where(mask, 0.0, np.array([np.nan, np.inf, -np.inf] * 15).reshape(5, 9))

    def loss(values: jax.Array, others: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        sampling, advantages, reference = others
        return policy_loss(
            values,
            sampling,
            advantages,
            jnp.asarray(mask),
            config,
            reference_log_probs=reference,
            entropy=-values,
        ).loss

    others = sampling, advantages, sampling - 0.3
    clean = jax.grad(loss)(f32(log_probs), tuple(f32(array) for array in others))
    with jax.debug_nans(False):  # the NaN here is the caller's padding
        dirty = jax.grad(loss)(
            f32(log_probs + rubbish), tuple(f32(array + rubbish) for array in others)
        )
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


@pytest.mark.parametrize("objective", SURROGATES)
def test_a_far_policy_stays_finite(objective: Callable[..., Objective]):
    def loss(log_probs: jax.Array) -> jax.Array:
        sampling, advantages = f32([[-900.0, 0.0]]), f32([[-1.0, 1.0]])
        return objective(log_probs, sampling, advantages, jnp.ones((1, 2), bool)).loss

    value, gradient = jax.value_and_grad(loss)(f32([[0.0, -900.0]]))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


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
    with pytest.raises(ConfigError, match="aggregation is 'mean'; it must be one of 'token_mean'"):
        aggregation_count(MASK, "mean")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="norm_length is 0; it must be at least 1"):
        aggregate(LOSS, MASK, "sequence_mean_token_sum_norm", norm_length=0)


def test_refused_options():
    with pytest.raises(ConfigError, match=r"dual_clip is 1.0; it must be a finite number > 1"):
        clipped_objective(LOSS, LOSS, LOSS, MASK, dual_clip=1.0)
    with pytest.raises(ConfigError, match=r"delta is 1.5; .* must be in \[0, 1\]"):
        dppo_objective(LOSS, LOSS, LOSS, MASK, delta=1.5)
    with pytest.raises(ConfigError, match="buffer is 200 with max_length 100; buffer must be at"):
        overlong_penalty(jnp.array([3]), max_length=100, buffer=200, penalty=1.0)
    with pytest.raises(ConfigError, match=r"penalty is -1.0; it must be a finite number >= 0"):
        overlong_penalty(jnp.array([3]), max_length=100, buffer=20, penalty=-1.0)


def test_a_coefficient_without_its_array_is_refused():
    arrays = LOSS, LOSS, LOSS, MASK
    with pytest.raises(
        ConfigError, match=r"kl_coefficient is 0.1, but reference_log_probs is None; give"
    ):
        policy_loss(*arrays, ObjectiveConfig(kl_coefficient=0.1))
    with pytest.raises(ConfigError, match=r"entropy_coefficient is 0.1, but entropy is None; give"):
        policy_loss(*arrays, ObjectiveConfig(entropy_coefficient=0.1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"surrogate": "ppo"}, "surrogate is 'ppo'; it must be one of 'clip', 'gspo', 'dppo'"),
        ({"clip_low": 1.5}, "clip_low is 1.5; it must be a finite number > 0 and <= 1"),
        ({"clip_high": 0.0}, "clip_high is 0.0; it must be a finite number > 0"),
        ({"dual_clip": 1.0}, "dual_clip is 1.0; it must be a finite number > 1"),
        ({"delta": -0.1}, "delta is -0.1; it must be a finite number >= 0 and <= 1"),
        ({"kl_coefficient": -1.0}, "kl_coefficient is -1.0; it must be a finite number >= 0"),
        ({"entropy_coefficient": math.nan}, "entropy_coefficient is nan; it must be a finite"),
        ({"aggregation": "mean"}, "aggregation is 'mean'; it must be one of 'token_mean'"),
        ({"norm_length": 0}, "norm_length is 0; it must be a whole number >= 1"),
        ({"empty": math.inf}, "empty is inf; it must be a finite number$"),
        ({"surrogate": "gspo", "dual_clip": 3.0}, "dual_clip is 3.0 with surrogate 'gspo', which"),
        ({"delta": 0.3}, "delta is 0.3 with surrogate 'clip', which does not use it; leave it at"),
    ],
)
def test_refused_config(options: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=f"ObjectiveConfig.{message}"):
        ObjectiveConfig(**options)


def test_refused_shapes(unchecked: None):
    row = jnp.zeros(3)
    with pytest.raises(ShapeError, match=r"aggregate: found values \(2, 3\), loss_mask \(2,\)"):
        aggregate(LOSS, MASK[:, 0], "token_mean")
    with pytest.raises(ShapeError, match=r"aggregate: found values \(3,\), loss_mask \(3,\)"):
        aggregate(row, row > 0, "token_mean")
    for objective in SURROGATES:
        with pytest.raises(ShapeError, match=rf"{objective.__name__}: found .*advantages \(3,\)"):
            objective(LOSS, LOSS, row, MASK)
    with pytest.raises(ShapeError, match=r"reference_kl: found .*reference_log_probs \(3,\)"):
        reference_kl(LOSS, row, MASK)
    with pytest.raises(ShapeError, match=r"logits \(2, 3, 5\) and tokens \(2, 4\); they must"):
        token_log_probs(jnp.zeros((2, 3, 5)), jnp.zeros((2, 4), jnp.int32))
    with pytest.raises(ShapeError, match=r"token_entropy: found logits \(2, 3\); they must"):
        token_entropy(LOSS)
