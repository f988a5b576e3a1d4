"""Step-level peers: known numbers, slow oracles on random groups, padding, shapes, refusals."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import depgpo_jax as dg
from depgpo_jax.errors import ConfigError, ShapeError
from depgpo_jax.peers.distances import distance_after_step
from tests import slow_peers
from tests.slow_peers import Rollout, Rules

CASES, ROLLOUTS, STEPS = 160, 10, 7


class Arrays(NamedTuple):
    """Rollouts as padded arrays, [..., B] and [..., B, T]."""

    reward: Any
    group: Any
    state: Any
    is_step: Any
    step_reward: Any
    success: Any
    final_state: Any


def random_rollouts(rng: np.random.Generator) -> list[Rollout]:
    """Groups of 0 to 6 rollouts, 0 to STEPS steps, few states, values exact in float32."""
    few = int(rng.choice([1, 3, 6]))
    rewards = [Fraction(int(v), 8) for v in rng.choice([0, 8, 3, -4], int(rng.choice([1, 2, 4])))]
    groups = rng.choice([0, 3, 2**31 - 1], ROLLOUTS).tolist()
    found: list[Rollout] = []
    for group in groups[: int(rng.integers(0, ROLLOUTS + 1))]:
        length = int(rng.integers(0, STEPS + 1))
        states = [int(s) * 7 - 9 for s in rng.integers(0, few, length)]
        found.append(
            Rollout(
                group=group,
                reward=rewards[int(rng.integers(len(rewards)))],
                states=states,
                step_rewards=[Fraction(int(v), 4) for v in rng.integers(-2, 3, length)],
                success=bool(rng.random() < 0.4),
                final_state=int(rng.integers(0, few + 1)) * 7 - 9,
            )
        )
    return found


def padded(rollouts: list[Rollout], rng: np.random.Generator, *, holes: bool = False) -> Arrays:
    """As arrays with rubbish wherever nothing counts; `holes` puts padding between steps too."""
    b, t = ROLLOUTS, STEPS * 2 if holes else STEPS
    group = rng.choice([-1, -5], b).astype(np.int32)
    reward = np.full(b, np.nan, np.float32)
    step_reward = rng.choice([np.nan, np.inf], (b, t)).astype(np.float32)
    state = rng.integers(-9, 9, (b, t), np.int32)
    is_step = np.zeros((b, t), bool)
    success = rng.random(b) < 0.5
    final_state = rng.integers(-9, 9, b, np.int32)
    rows = np.sort(rng.choice(b, len(rollouts), replace=False))
    for row, rollout in zip(rows, rollouts, strict=True):
        group[row] = rollout.group
        if not rollout.states:
            continue
        places = np.sort(rng.choice(t, len(rollout.states), replace=False))
        places = places if holes else np.arange(len(rollout.states))
        is_step[row, places] = True
        state[row, places] = rollout.states
        step_reward[row, places] = [float(r) for r in rollout.step_rewards]
        reward[row] = float(rollout.reward)
        success[row] = rollout.success
        if rollout.final_state is not None:
            final_state[row] = rollout.final_state
    return Arrays(reward, group, state, is_step, step_reward, success, final_state)


def unpadded(found: np.ndarray, arrays: Arrays) -> list[list[float]]:
    rows = [row for row, group in enumerate(arrays.group) if group >= 0]
    return [found[row][arrays.is_step[row]].tolist() for row in rows]


@pytest.fixture(scope="module")
def cases() -> list[tuple[list[Rollout], Arrays]]:
    rng = np.random.default_rng(0)
    rollouts = [random_rollouts(rng) for _ in range(CASES)]
    return [(case, padded(case, rng)) for case in rollouts]


def rules_of(options: dict[str, Any], prefix: str = "", normalise: str = "mean") -> Rules:
    """The comparison's part of a method's options; `prefix` is that of the method's second part."""
    chosen = {key: options[key] for key in ("normalise", "ddof", "eps") if key in options}
    for key in ("singleton", "equal"):
        if prefix + key in options:
            chosen[key] = options[prefix + key]
    return Rules(**{"normalise": normalise, **chosen})


Method = Callable[[Arrays], jax.Array]


def check(
    cases: list[tuple[list[Rollout], Arrays]],
    method: Method,
    slow: Callable[[list[Rollout]], list[list[float]]],
) -> None:
    fields = zip(*(arrays for _, arrays in cases), strict=True)
    with jax.debug_nans(False):  # the NaN here is padding
        stacked = Arrays(*(jnp.asarray(np.stack(field)) for field in fields))
        found = np.asarray(jax.jit(jax.vmap(method))(stacked))
    assert np.isfinite(found).all()
    compared = 0
    for (rollouts, arrays), result in zip(cases, found, strict=True):
        expected = slow(rollouts)
        got = unpadded(result, arrays)
        assert [len(row) for row in got] == [len(row) for row in expected]
        for left, right in zip(got, expected, strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-4, atol=2e-5)
            compared += len(right)
        np.testing.assert_array_equal(result[~arrays.is_step], 0.0)
    assert compared > 10 * len(cases)


# GiGPO.

ABC = jnp.array([[0, 1, 2], [0, 1, 3]])
OUTCOMES, ONE_GROUP = jnp.array([1.0, 0.0]), jnp.array([0, 0])
EVERY = jnp.ones((2, 3), bool)


def test_gigpo_known_numbers():
    gigpo = partial(dg.gigpo_advantages, OUTCOMES, ONE_GROUP, ABC, EVERY, gamma=0.5)
    np.testing.assert_array_equal(gigpo(), [[0.625, 0.75, 0.5], [-0.625, -0.75, -0.5]])
    by_std = gigpo(normalise="mean_std")
    half = np.array([1.61997, 1.61997, 0.91287])
    np.testing.assert_allclose(by_std, [half, -half], atol=6e-6)
    by_rollout = gigpo(normalise="mean_std", episode_rows="rollouts")
    # Two outcomes, 1 and 0: a deviation of sqrt(1/2) instead of sqrt(3/10).
    half = np.array([2**0.5, 2**0.5, 2**-0.5])
    np.testing.assert_allclose(by_rollout, [half, -half], atol=1e-5)


def test_gigpo_counts_a_longer_rollout_for_more_only_over_steps():
    is_step = jnp.array([[True, True, True], [True, False, False]])
    gigpo = partial(dg.gigpo_advantages, OUTCOMES, ONE_GROUP, ABC, is_step, step_weight=0.0)
    np.testing.assert_array_equal(gigpo(), [[0.25] * 3, [-0.75, 0, 0]])
    by_rollout = gigpo(episode_rows="rollouts")
    np.testing.assert_array_equal(by_rollout, [[0.5] * 3, [-0.5, 0, 0]])


GIGPO: dict[str, dict[str, Any]] = {
    "default": {},
    "std": {"normalise": "mean_std", "gamma": 0.5, "step_weight": 0.5},
    "std, each once": {"normalise": "mean_std", "episode_rows": "rollouts", "ddof": 0, "eps": 0.01},
    "raw where nothing compares": {
        "singleton": "reward",
        "equal": "reward",
        "anchor_singleton": "reward",
        "anchor_equal": "reward",
        "gamma": 0.75,
    },
    "step rewards": {"normalise": "mean_std", "gamma": 1.0, "anchor_singleton": "reward"},
}


@pytest.mark.parametrize("name", GIGPO)
def test_gigpo_slow_oracle_agrees(cases: list[tuple[list[Rollout], Arrays]], name: str):
    options = GIGPO[name]
    with_rewards = name == "step rewards"

    def method(arrays: Arrays) -> jax.Array:
        step_reward = arrays.step_reward if with_rewards else None
        return dg.gigpo_advantages(*arrays[:4], step_reward=step_reward, **options)

    common = {key: options[key] for key in ("normalise", "ddof", "eps") if key in options}
    rules = {key: options[key] for key in ("singleton", "equal") if key in options}
    anchor = {
        key: options[f"anchor_{key}"]
        for key in ("singleton", "equal")
        if f"anchor_{key}" in options
    }
    slow = partial(
        slow_peers.gigpo,
        rules=Rules(**common, **rules),
        anchor=Rules(**common, **anchor),
        gamma=Fraction(options.get("gamma", 0.95)),
        weight=options.get("step_weight", 1.0),
        over_steps=options.get("episode_rows", "steps") == "steps",
        with_step_rewards=with_rewards,
    )
    check(cases, method, slow)


def test_without_step_part_it_is_the_group_advantage():
    rng = np.random.default_rng(3)
    reward, group = jnp.asarray(rng.normal(size=8).astype(np.float32)), jnp.arange(8) % 3
    state = jnp.asarray(rng.integers(0, 3, (8, 4), np.int32))
    found = dg.gigpo_advantages(
        reward,
        group,
        state,
        state >= 0,
        step_weight=0.0,
        normalise="mean_std",
        episode_rows="rollouts",
    )
    plain = dg.group_advantages(reward, group)
    np.testing.assert_allclose(found, np.repeat(np.asarray(plain)[:, None], 4, axis=1), rtol=1e-6)


# GraphGPO.


@pytest.mark.parametrize("final", [False, True], ids=["end unknown", "end known"])
@pytest.mark.parametrize(
    "options",
    [
        {"omega": 0.5, "normalise": "mean", "success_reward": 8.0},
        {"omega": 0.25, "step_weight": 0.5, "episode_weight": 2.0, "singleton": "reward"},
        {"omega": 0.5, "eps": 0.0, "ddof": 0, "episode_rows": "rollouts", "equal": "reward"},
    ],
    ids=["mean", "std", "std, each once"],
)
def test_graph_gpo_slow_oracle_agrees(
    cases: list[tuple[list[Rollout], Arrays]], options: dict[str, Any], final: bool
):
    def method(arrays: Arrays) -> jax.Array:
        return dg.graph_gpo_advantages(
            *arrays[:4],
            arrays.success,
            final_state=arrays.final_state if final else None,
            **options,
        )

    def slow(rollouts: list[Rollout]) -> list[list[float]]:
        for rollout in rollouts:
            rollout.final_state = rollout.final_state if final else None
        return slow_peers.graph_gpo(
            rollouts,
            rules_of(options, normalise="mean_std"),
            omega=Fraction(options["omega"]),
            success_reward=Fraction(options.get("success_reward", 10.0)),
            step_weight=options.get("step_weight", 1.0),
            episode_weight=options.get("episode_weight", 1.0),
            over_steps=options.get("episode_rows", "steps") == "steps",
        )

    copies = [([Rollout(**vars(r)) for r in rollouts], arrays) for rollouts, arrays in cases]
    check(copies, method, slow)


def test_distances_may_be_longer_than_any_rollout():
    """Three rollouts of three steps that only together lead from 0 to the goal, nine steps on."""
    state = jnp.array([[6, 7, 8], [3, 4, 5], [0, 1, 2]])
    final = jnp.array([9, 6, 3])
    found = distance_after_step(
        jnp.zeros(3, jnp.int32),
        state,
        state >= 0,
        jnp.array([True, False, False]),
        final,
    )
    np.testing.assert_array_equal(found, [[2, 1, 0], [5, 4, 3], [8, 7, 6]])
    unknown = distance_after_step(
        jnp.zeros(3, jnp.int32), state, state >= 0, jnp.array([True, False, False])
    )
    np.testing.assert_array_equal(unknown, [[2, 1, 0], [4, 4, 4], [4, 4, 4]])


def test_a_failure_gets_credit_for_the_step_that_was_right():
    state = jnp.array([[0, 1, 2], [0, 2, 1]])
    found = dg.graph_gpo_advantages(
        OUTCOMES,
        ONE_GROUP,
        state,
        EVERY,
        jnp.array([True, False]),
        normalise="mean",
        omega=0.5,
        success_reward=8.0,
        episode_weight=0.0,
    )
    np.testing.assert_array_equal(found, [[-0.5, 0.75, 1.5], [0.5, -1.5, -0.75]])


def test_a_group_without_a_success_has_no_graph_part():
    nobody = jnp.zeros(2, bool)
    found = dg.graph_gpo_advantages(OUTCOMES, ONE_GROUP, ABC, EVERY, nobody, episode_weight=0.0)
    np.testing.assert_array_equal(found, 0.0)


# MT-GRPO.


def test_mt_grpo_by_hand():
    step_reward = jnp.array([[1.0, 0.0, 9.0], [0.0, 0.5, -9.0]])
    mt_grpo = partial(
        dg.mt_grpo_advantages, OUTCOMES, ONE_GROUP, step_reward, EVERY, normalise="mean"
    )
    np.testing.assert_array_equal(mt_grpo(), [[1.0, 0.25, 0.5], [-1.0, -0.25, -0.5]])
    np.testing.assert_array_equal(
        mt_grpo(turn_weight=2.0, outcome_weight=0.5, turn_on_last=True),
        [[1.25, -0.25, 18.5], [-1.25, 0.25, -18.5]],
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalise": "mean", "turn_weight": 0.5, "outcome_weight": 2.0, "turn_on_last": True},
        {"ddof": 0, "eps": 0.01, "singleton": "reward", "equal": "reward"},
        {"turn_singleton": "reward", "turn_equal": "reward"},
    ],
    ids=["default", "weights", "raw outcomes", "raw turns"],
)
def test_mt_grpo_slow_oracle_agrees(
    cases: list[tuple[list[Rollout], Arrays]], options: dict[str, Any]
):
    def method(arrays: Arrays) -> jax.Array:
        return dg.mt_grpo_advantages(
            arrays.reward, arrays.group, arrays.step_reward, arrays.is_step, **options
        )

    slow = partial(
        slow_peers.mt_grpo,
        rules=rules_of(options, normalise="mean_std"),
        turn_rules=rules_of(options, "turn_", normalise="mean_std"),
        turn_weight=options.get("turn_weight", 1.0),
        outcome_weight=options.get("outcome_weight", 1.0),
        turn_on_last=options.get("turn_on_last", False),
    )
    check(cases, method, slow)


# What holds for all of them.

METHODS: dict[str, Method] = {
    "gigpo": lambda a: dg.gigpo_advantages(*a[:4], step_reward=a.step_reward),
    "graph_gpo": lambda a: dg.graph_gpo_advantages(*a[:4], a.success, final_state=a.final_state),
    "mt_grpo": lambda a: dg.mt_grpo_advantages(a.reward, a.group, a.step_reward, a.is_step),
}


@pytest.mark.parametrize("name", METHODS)
def test_padding_between_steps_and_rows_changes_nothing(name: str):
    rng = np.random.default_rng(7)
    run = jax.jit(METHODS[name])
    for _ in range(20):
        rollouts = random_rollouts(rng)
        plain, holes = padded(rollouts, rng), padded(rollouts, rng, holes=True)
        with jax.debug_nans(False):  # the NaN here is padding
            left, right = (np.asarray(run(jax.tree.map(jnp.asarray, a))) for a in (plain, holes))
        for one, other in zip(unpadded(left, plain), unpadded(right, holes), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_order_and_other_groups_change_nothing(name: str):
    rng = np.random.default_rng(11)
    run = jax.jit(METHODS[name])
    for _ in range(20):
        rollouts = random_rollouts(rng)
        arrays = padded(rollouts, rng)
        order = rng.permutation(ROLLOUTS)
        mixed = Arrays(*(array[order] for array in arrays))
        alone = arrays._replace(group=np.where(arrays.group == 3, 3, -1).astype(np.int32))
        with jax.debug_nans(False):  # the NaN here is padding
            found, permuted, only = (
                np.asarray(run(jax.tree.map(jnp.asarray, a))) for a in (arrays, mixed, alone)
            )
        np.testing.assert_allclose(permuted, found[order], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(
            only[arrays.group == 3], found[arrays.group == 3], rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("b", "t"), [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_empty_batches(name: str, b: int, t: int):
    arrays = Arrays(
        reward=jnp.ones(b),
        group=jnp.zeros(b, jnp.int32),
        state=jnp.zeros((b, t), jnp.int32),
        is_step=jnp.ones((b, t), bool),
        step_reward=jnp.ones((b, t)),
        success=jnp.ones(b, bool),
        final_state=jnp.zeros(b, jnp.int32),
    )
    np.testing.assert_array_equal(METHODS[name](arrays), np.zeros((b, t)))


# Refusals.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalise": "std"}, "normalise is 'std'; it must be one of 'mean', 'mean_std'"),
        ({"episode_rows": "all"}, "episode_rows is 'all'; it must be one of 'steps', 'rollouts'"),
        ({"gamma": 1.5}, "gamma is 1.5; it must be a number from 0 to 1, such as 0.95"),
        ({"step_weight": float("nan")}, "step_weight is nan; it must be a number from -1e"),
    ],
)
def test_refused_options_of_gigpo(options: dict[str, Any], message: str, unchecked: None):
    with pytest.raises(ConfigError, match=f"gigpo_advantages: {message}"):
        dg.gigpo_advantages(OUTCOMES, ONE_GROUP, ABC, EVERY, **options)


@pytest.mark.parametrize("option", ["omega", "success_reward", "step_weight", "episode_weight"])
def test_refused_options_of_graph_gpo(option: str):
    options: dict[str, Any] = {option: float("inf")}
    with pytest.raises(ConfigError, match=f"graph_gpo_advantages: {option} is inf; it must be"):
        dg.graph_gpo_advantages(OUTCOMES, ONE_GROUP, ABC, EVERY, EVERY[:, 0], **options)


@pytest.mark.parametrize("option", ["turn_weight", "outcome_weight"])
def test_refused_options_of_mt_grpo(option: str):
    options: dict[str, Any] = {option: float("inf")}
    with pytest.raises(ConfigError, match=f"mt_grpo_advantages: {option} is inf; it must be"):
        dg.mt_grpo_advantages(OUTCOMES, ONE_GROUP, ABC * 1.0, EVERY, **options)


def test_refused_shapes(unchecked: None):
    with pytest.raises(
        ShapeError,
        match=r"gigpo_advantages: found reward \(3,\), group \(2,\), state \(2, 3\), is_step "
        r"\(2, 3\); allowed: \[B\] for reward, group and \[B, T\] for state, is_step",
    ):
        dg.gigpo_advantages(jnp.zeros(3), ONE_GROUP, ABC, EVERY)
    with pytest.raises(ShapeError, match=r"gigpo_advantages: .*step_reward \(2,\); allowed"):
        dg.gigpo_advantages(OUTCOMES, ONE_GROUP, ABC, EVERY, step_reward=OUTCOMES)
    with pytest.raises(ShapeError, match=r"graph_gpo_advantages: .*final_state \(3,\)"):
        dg.graph_gpo_advantages(
            OUTCOMES, ONE_GROUP, ABC, EVERY, EVERY[:, 0], final_state=jnp.zeros(3, jnp.int32)
        )
    with pytest.raises(ShapeError, match=r"mt_grpo_advantages: .*step_reward \(3,\)"):
        dg.mt_grpo_advantages(OUTCOMES, ONE_GROUP, jnp.zeros(3), EVERY)
