"""The recurrent policy in the file world, and the update that is one jitted function."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from depgpo_jax.credit import CreditConfig
from depgpo_jax.errors import ConfigError
from tests.test_update import copied
from training.config import OptimizerConfig, RecurrentConfig, WorldUpdateConfig
from training.environments.commands import Family
from training.environments.experts import demonstrations, noise
from training.environments.file_world import FileWorld
from training.environments.presets import SMALL, Preset, regime_a, regime_b
from training.environments.rollouts import Rollout, start_groups
from training.policy.recurrent import RecurrentPolicy
from training.sampling import Collect
from training.update import TrainState, init_state
from training.world_metrics import WorldMetrics
from training.world_update import (
    Parts,
    UpdateKeys,
    WorldUpdate,
    make_imitation,
    make_world_update,
    world_update_parts,
)

WORLD = FileWorld(SMALL.max_commands)
CONFIG = WorldUpdateConfig(
    groups=8,
    group_size=8,
    credit=CreditConfig(relevance="slice", max_weight=2.0),
    optimizer=OptimizerConfig(learning_rate=1e-2),
)
PLAIN = replace(CONFIG, assignment="group")


@pytest.fixture(scope="module")
def model() -> RecurrentPolicy:
    return RecurrentPolicy(RecurrentConfig(width=32, head_width=16), rngs=nnx.Rngs(0))


@pytest.fixture(scope="module")
def preset() -> Preset:
    return regime_a(SMALL)


@pytest.fixture(scope="module")
def parts(model: RecurrentPolicy) -> Parts:
    return world_update_parts(WORLD, model, CONFIG)


@pytest.fixture(scope="module")
def collect(parts: Parts) -> Collect:
    return jax.jit(parts.collect)


@pytest.fixture(scope="module")
def update(model: RecurrentPolicy) -> WorldUpdate:
    return make_world_update(WORLD, model, CONFIG)


@pytest.fixture(scope="module")
def warm(model: RecurrentPolicy, preset: Preset) -> TrainState:
    """After some imitation of a script without noise, so that a part of the rollouts succeeds."""

    @jax.jit
    def shown(key: jax.Array) -> Rollout:
        for_tasks, for_noise = jax.random.split(key)
        starts = start_groups(WORLD, for_tasks, preset.params, 64, 1)
        return demonstrations(WORLD, for_noise, starts, preset.params, noise(rate=0.0, reads=0.0))

    imitate = make_imitation(model, CONFIG)
    state = init_state(model, CONFIG.optimizer)
    losses: list[float] = []
    for number in range(80):
        state, loss = imitate(state, shown(jax.random.key(number)))
        losses.append(float(loss))
    assert losses[-1] < 0.5 * losses[0]
    return init_state(model, CONFIG.optimizer)._replace(params=state.params)


# The policy.


def test_what_was_sampled_is_what_is_scored(
    model: RecurrentPolicy, preset: Preset, warm: TrainState, collect: Collect
):
    rollouts, _ = collect(warm.params, jax.random.key(0), preset.params)
    policy = nnx.merge(nnx.graphdef(model), warm.params)
    scores = policy.scores(rollouts.starts.observation.prompt, rollouts.feedback, rollouts.action)
    mask = np.asarray(rollouts.loss_mask)
    found = np.asarray(scores.log_probs)[mask]
    np.testing.assert_allclose(found, np.asarray(rollouts.log_probs)[mask], atol=2e-5)
    assert (np.asarray(rollouts.log_probs)[~mask] == 0).all()
    assert (np.asarray(scores.entropy)[mask] >= 0).all()
    assert found.min() < -1.0


def test_a_source_that_is_no_token_changes_nothing(model: RecurrentPolicy):
    """`paste` and `delete` have a target only: what was drawn as source may not shift it."""
    prompt, feedback = jnp.ones((1, 7), jnp.int32), jnp.ones((1, 1, 6), jnp.int32)

    def target_score(verb: int, source: int) -> float:
        action = jnp.array([[[verb, source, 3]]], jnp.int32)
        return float(model.scores(prompt, feedback, action).log_probs[0, 0, 2])

    assert target_score(7, 1) == target_score(7, 5)
    assert target_score(2, 1) != target_score(2, 5)


def test_rollouts_are_reproducible(preset: Preset, warm: TrainState, collect: Collect):
    one, again, other = (
        collect(warm.params, jax.random.key(seed), preset.params)[0] for seed in (5, 5, 6)
    )
    jax.tree.map(np.testing.assert_array_equal, one, again)
    assert (one.action != other.action).any()


# The update.


def test_it_is_its_parts_one_after_another(
    model: RecurrentPolicy,
    preset: Preset,
    warm: TrainState,
    parts: Parts,
    collect: Collect,
    update: WorldUpdate,
):
    key = jax.random.key(3)
    keys = UpdateKeys.of(key)
    rollouts, _ = collect(warm.params, keys.collect, preset.params)
    assigned = jax.jit(parts.assign)(rollouts, keys.assign)
    improve = jax.jit(parts.improve)
    by_parts, learnt = improve(warm, keys.improve, rollouts, assigned.advantages, None)
    state, metrics = update(copied(warm), key, preset.params)
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    jax.tree.map(close, state.params, by_parts.params)
    close(metrics.loss, learnt.loss)
    assert state.step == 2
    check_metrics(metrics, rollouts)


def check_metrics(metrics: WorldMetrics, rollouts: Rollout) -> None:
    """The numbers about the rollouts, counted by hand."""
    reward, family = np.asarray(rollouts.reward), np.asarray(rollouts.starts.state.task.family)
    groups = reward.reshape(CONFIG.groups, CONFIG.group_size)
    assert metrics.reward == pytest.approx(reward.mean())
    assert 0 < reward.mean() < 1
    assert metrics.flat_groups == pytest.approx(np.mean(np.ptp(groups, axis=1) == 0))
    assert metrics.num_steps == pytest.approx(np.mean(rollouts.num_steps))
    for number in Family:
        chosen = reward[family == number]
        assert metrics.family_count[number] == len(chosen)
        assert metrics.family_success[number] == pytest.approx(chosen.mean() if len(chosen) else 0)
    assert metrics.mean_ratio == pytest.approx(1.0, abs=0.1)
    assert 0 < metrics.entropy < np.log(11)
    assert 1 <= metrics.max_weight <= 2.001
    assert 0 < metrics.fallback < 1
    for value in jax.tree.leaves(metrics):
        assert np.isfinite(value).all()


def test_plain_grpo_is_the_same_loss_and_another_gradient(
    model: RecurrentPolicy, preset: Preset, warm: TrainState, update: WorldUpdate
):
    plain_update = make_world_update(WORLD, model, PLAIN)
    key = jax.random.key(4)
    weighted_state, weighted = update(copied(warm), key, preset.params)
    plain_state, plain = plain_update(copied(warm), key, preset.params)
    assert plain.reward == weighted.reward
    difference = jax.tree.map(
        lambda a, b: float(jnp.abs(a - b).max()), plain_state.params, weighted_state.params
    )
    assert max(jax.tree.leaves(difference)) > 1e-3
    assert float(plain.grad_norm) != float(weighted.grad_norm)


def test_another_credit_method_is_another_assign(
    model: RecurrentPolicy, preset: Preset, warm: TrainState, parts: Parts
):
    def nothing(rollouts: Rollout, key: jax.Array) -> Any:
        assigned = parts.assign(rollouts, key)
        return assigned._replace(advantages=jnp.zeros_like(assigned.advantages))

    update = make_world_update(WORLD, model, CONFIG, assign=nothing)
    state, metrics = update(copied(warm), jax.random.key(4), preset.params)
    assert metrics.loss == metrics.grad_norm == 0.0
    jax.tree.map(np.testing.assert_array_equal, state.params, warm.params)


def test_regimes_and_splits_compile_nothing_anew(
    preset: Preset, warm: TrainState, update: WorldUpdate
):
    update(copied(warm), jax.random.key(0), preset.params)
    compiled = update._cache_size()  # pyright: ignore[reportFunctionMemberAccess]
    _, metrics = update(copied(warm), jax.random.key(0), regime_b(SMALL).params)
    assert metrics.num_steps == SMALL.max_commands
    assert update._cache_size() == compiled == 1  # pyright: ignore[reportFunctionMemberAccess]


def test_nothing_visits_the_host(preset: Preset, warm: TrainState, update: WorldUpdate):
    shown = str(jax.make_jaxpr(update)(warm, jax.random.key(0), preset.params))
    assert "callback" not in shown
    assert "scan" in shown


def test_reward_rises(preset: Preset, warm: TrainState, update: WorldUpdate):
    state, rewards = copied(warm), []
    for number in range(40):
        state, metrics = update(state, jax.random.key(100 + number), preset.params)
        rewards.append(float(metrics.reward))
    assert np.mean(rewards[-8:]) > np.mean(rewards[:8]) + 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": 0}, r"WorldUpdateConfig.groups is 0; it must be a whole number >= 1"),
        ({"minibatches": True}, r"minibatches is True; it must be a whole number"),
        (
            {"minibatches": 3},
            r"minibatches is 3 with 32 groups of 16; it must divide the 512 rollouts",
        ),
        ({"advantage": "gae"}, r"WorldUpdateConfig.advantage is 'gae'; it must be one of 'grpo'"),
    ],
)
def test_refused_configs(options: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        WorldUpdateConfig(**options)
    with pytest.raises(ConfigError, match=r"RecurrentConfig.width is 0; it must be a whole"):
        RecurrentConfig(width=0)
