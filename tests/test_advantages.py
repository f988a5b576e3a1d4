"""Group advantages: known numbers, a slow oracle in float64, exact zeros, huge rewards, padding."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgpo_jax.advantages import AdvantageKind, EqualRule, SingletonRule, group_advantages
from depgpo_jax.errors import ConfigError, ShapeError

KINDS: tuple[AdvantageKind, ...] = ("grpo", "dr_grpo", "rloo", "mean")
SIX = [0.57450044, 0.09968603, 0.7419659, 0.8941783, 0.59656656, 0.45325184]
TWO_GROUPS = jnp.array([0, 0, 0, 1, 1, 1])


def f32(values: object) -> jax.Array:
    return jnp.asarray(np.asarray(values, np.float32))


def slow_advantages(
    reward: np.ndarray,
    group: np.ndarray,
    valid: np.ndarray,
    kind: str,
    ddof: int,
    eps: float,
    singleton: str,
    equal: str = "zero",
) -> np.ndarray:
    """The docstring's formulas, one rollout at a time."""
    result = np.zeros(len(reward))
    for row in range(len(reward)):
        if not valid[row] or group[row] < 0:
            continue
        peers = [r for r, g, v in zip(reward, group, valid, strict=True) if v and g == group[row]]
        peers = np.asarray(peers, np.float64)
        if len(peers) == 1:
            result[row] = reward[row] if singleton == "reward" else 0.0
        elif (peers == peers[0]).all():
            result[row] = reward[row] if equal == "reward" else 0.0
        elif kind == "grpo":
            result[row] = (reward[row] - peers.mean()) / (peers.std(ddof=ddof) + eps)
        elif kind == "rloo":
            result[row] = reward[row] - (peers.sum() - reward[row]) / (len(peers) - 1)
        else:
            result[row] = reward[row] - peers.mean()
    return result


def test_rloo_known_numbers():
    result = group_advantages(jnp.arange(1.0, 7.0), TWO_GROUPS, kind="rloo")
    np.testing.assert_array_equal(result, [-1.5, 0, 1.5, -1.5, 0, 1.5])


def test_grpo_known_numbers():
    expected = [0.3075, -1.1176, 0.8101, 1.0945, -0.2287, -0.8659]
    np.testing.assert_allclose(group_advantages(f32(SIX), TWO_GROUPS), expected, atol=5e-5)


@pytest.mark.parametrize("kind", ["dr_grpo", "mean"])
def test_centred_known_numbers(kind: AdvantageKind):
    expected = [0.10245, -0.372365, 0.269915, 0.246179, -0.051432, -0.194747]
    result = group_advantages(f32(SIX), TWO_GROUPS, kind=kind)
    np.testing.assert_allclose(result, expected, atol=1e-6)


@given(data=st.data())
def test_slow_oracle_agrees_on_random_groups(data: st.DataObject):
    size = data.draw(st.sampled_from([1, 2, 7, 24]))

    def column(values: st.SearchStrategy[float]) -> list[float]:
        return data.draw(st.lists(values, min_size=size, max_size=size))

    reward = np.asarray(
        column(st.sampled_from([0.0, 1.0, 0.1, -2.5, 1e-3, 40.0, 41.0])), np.float32
    )
    group = np.asarray(column(st.sampled_from([-1, 0, 1, 2, 5, 2**31 - 1])), np.int32)
    valid = np.asarray(column(st.booleans()), bool)
    kind = data.draw(st.sampled_from(KINDS))
    ddof = data.draw(st.sampled_from([0, 1]))
    eps = data.draw(st.sampled_from([0.0, 1e-6, 1e-2]))
    singleton: SingletonRule = data.draw(st.sampled_from(["zero", "reward"]))
    equal: EqualRule = data.draw(st.sampled_from(["zero", "reward"]))

    result = group_advantages(
        f32(reward),
        jnp.asarray(group),
        jnp.asarray(valid),
        kind=kind,
        ddof=ddof,
        eps=eps,
        singleton=singleton,
        equal=equal,
    )

    expected = slow_advantages(reward, group, valid, kind, ddof, eps, singleton, equal)
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_array_equal(np.asarray(result)[~valid | (group < 0)], 0.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [0.1, -0.7, 1e30, 3.3e38, 1e-39])
@pytest.mark.parametrize("size", [2, 3, 7, 33])
def test_equal_rewards_give_exact_zeros(kind: AdvantageKind, value: float, size: int):
    result = group_advantages(jnp.full(size, value), jnp.zeros(size, jnp.int32), kind=kind, eps=0.0)
    np.testing.assert_array_equal(result, 0.0)


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e19, 1e30, 1e38])
def test_grpo_does_not_depend_on_the_scale_of_rewards(scale: float):
    reward = np.array([1.0, 2.0, 3.0, -1.0], np.float32) * np.float32(scale)
    result = group_advantages(f32(reward), jnp.zeros(4, jnp.int32), eps=0.0)
    expected = slow_advantages(
        reward.astype(np.float64), np.zeros(4), np.ones(4, bool), "grpo", 1, 0.0, "zero"
    )
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_rewards_stay_finite(kind: AdvantageKind):
    largest = float(np.finfo(np.float32).max)
    reward = f32([largest, -largest, -largest, 0.0])
    result = np.asarray(group_advantages(reward, jnp.zeros(4, jnp.int32), kind=kind))
    assert np.isfinite(result).all()
    assert result[0] > 0 > result[1]


def test_a_large_common_offset_costs_no_digits():
    result = group_advantages(
        f32([2.0**23, 2.0**23 + 1, 2.0**23 + 3]), jnp.zeros(3, jnp.int32), kind="mean"
    )
    np.testing.assert_allclose(result, np.array([-4, -1, 5]) / 3, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_invalid_rollouts_stay_out_of_the_baseline(kind: AdvantageKind):
    alone = group_advantages(f32([1.0, 0.0, 0.5]), jnp.zeros(3, jnp.int32), kind=kind)
    with jax.debug_nans(False):  # the NaN here is the caller's padding
        with_invalid = group_advantages(
            f32([1.0, np.nan, 0.0, np.inf, 0.5]),
            jnp.array([0, 0, 0, -1, 0]),
            jnp.array([True, False, True, True, True]),
            kind=kind,
        )
    np.testing.assert_array_equal(with_invalid[jnp.array([0, 2, 4])], alone)
    np.testing.assert_array_equal(with_invalid[jnp.array([1, 3])], 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_singleton_rule(kind: AdvantageKind):
    reward, group = f32([0.3, 1.0, 0.0]), jnp.array([4, 9, 9])
    valid = jnp.array([True, True, False])  # the second group has one valid rollout left
    zero = group_advantages(reward, group, valid, kind=kind)
    raw = group_advantages(reward, group, valid, kind=kind, singleton="reward")
    np.testing.assert_array_equal(zero, [0.0, 0.0, 0.0])
    np.testing.assert_array_equal(raw, reward)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_rule(kind: AdvantageKind):
    reward, group = f32([0.1, 0.1, 0.1, 1.0, 0.0, 0.7]), jnp.array([4, 4, 4, 9, 9, 2])
    zero = group_advantages(reward, group, kind=kind)
    raw = group_advantages(reward, group, kind=kind, equal="reward")
    np.testing.assert_array_equal(zero[:3], 0.0)
    np.testing.assert_array_equal(raw[:3], reward[:3])
    np.testing.assert_array_equal(raw[3:], zero[3:])  # neither differing rewards nor a singleton


@pytest.mark.parametrize("kind", KINDS)
def test_rows_may_be_permuted(kind: AdvantageKind):
    rng = np.random.default_rng(0)
    reward, group = rng.normal(size=40).astype(np.float32), rng.integers(0, 6, 40, np.int32)
    order = rng.permutation(40)
    straight = np.asarray(group_advantages(f32(reward), jnp.asarray(group), kind=kind))
    permuted = group_advantages(f32(reward[order]), jnp.asarray(group[order]), kind=kind)
    np.testing.assert_allclose(permuted, straight[order], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_eager_jit_and_vmap_agree(kind: AdvantageKind):
    rng = np.random.default_rng(1)
    reward = f32(rng.normal(size=(3, 12)))
    group = jnp.asarray(rng.integers(-1, 4, (3, 12), np.int32))
    valid = jnp.asarray(rng.random((3, 12)) < 0.8)

    def advantages(reward: jax.Array, group: jax.Array, valid: jax.Array) -> jax.Array:
        return group_advantages(reward, group, valid, kind=kind)

    batched = jax.vmap(advantages)(reward, group, valid)
    for row in range(3):
        eager = advantages(reward[row], group[row], valid[row])
        jitted = jax.jit(advantages)(reward[row], group[row], valid[row])
        np.testing.assert_allclose(jitted, eager, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(batched[row], eager, rtol=1e-6, atol=1e-7)


def test_no_rollouts():
    assert group_advantages(jnp.zeros(0), jnp.zeros(0, jnp.int32)).shape == (0,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "ppo"}, "kind is 'ppo'; it must be one of 'grpo', 'dr_grpo', 'rloo', 'mean'"),
        ({"ddof": 2}, r"ddof is 2; it must be 0 \(divide by G\) or 1"),
        ({"eps": -1.0}, "eps is -1.0; it must be a finite number >= 0"),
        ({"eps": float("nan")}, "eps is nan; it must be a finite number >= 0"),
        ({"singleton": "drop"}, "singleton is 'drop'; it must be one of 'zero', 'reward'"),
        ({"equal": "drop"}, "equal is 'drop'; it must be one of 'zero', 'reward'"),
    ],
)
def test_refused_options(options: dict[str, object], message: str, unchecked: None):
    with pytest.raises(ConfigError, match=message):
        group_advantages(jnp.zeros(2), jnp.zeros(2, jnp.int32), **options)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("reward", "group", "valid", "found"),
    [
        ((3,), (2,), None, r"reward \(3,\), group \(2,\); all must be \[B\]"),
        ((2, 2), (2, 2), None, r"reward \(2, 2\), group \(2, 2\); all must be \[B\]"),
        ((2,), (2,), (3,), r"reward \(2,\), group \(2,\), valid \(3,\); all must be \[B\]"),
    ],
)
def test_refused_shapes(
    reward: tuple[int, ...],
    group: tuple[int, ...],
    valid: tuple[int, ...] | None,
    found: str,
    unchecked: None,
):
    mask = None if valid is None else jnp.ones(valid, bool)
    with pytest.raises(ShapeError, match=found):
        group_advantages(jnp.zeros(reward), jnp.zeros(group, jnp.int32), mask)
