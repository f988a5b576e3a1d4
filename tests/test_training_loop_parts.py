"""The loop's parts: assignments, micro-batches, dynamic sampling, logs, health, configs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest

from depgpo_jax.errors import ConfigError, MissingExtraError, TraceError
from depgpo_jax.peers.gigpo import gigpo_advantages
from training.assignments import make_assign
from training.checkpoints import new_model
from training.config import Assignment, ObjectiveConfig, RecurrentConfig, WorldUpdateConfig
from training.environments.experts import demonstrations
from training.environments.presets import SMALL, regime_a
from training.environments.rollouts import Rollout, start_groups
from training.health import TrainingDivergedError, check_health, check_parameters
from training.improve import make_improve
from training.methods import METHODS, with_method
from training.metric_log import MetricLog, read_rows
from training.run_config import PRESETS, HealthConfig, RunConfig, config_of, differences, run_config
from training.sampling import make_collect
from training.update import init_state
from training.world_metrics import Drawn

WORLD, PARAMS, NOISE = regime_a(SMALL)
CONFIG = WorldUpdateConfig(groups=4, group_size=4)


def drawn_rollouts(seed: int, groups: int = 4, size: int = 4) -> Rollout:
    """Demonstrations, most of which succeed; every second group is made to fail as a whole."""
    for_tasks, for_noise = jax.random.split(jax.random.key(seed))
    starts = start_groups(WORLD, for_tasks, PARAMS, groups, size)
    return demonstrations(WORLD, for_noise, starts, PARAMS, NOISE)


@pytest.fixture(scope="module")
def model():
    return new_model(RecurrentConfig(width=16, head_width=8))


@pytest.fixture(scope="module")
def rollouts() -> Rollout:
    found = jax.jit(drawn_rollouts, static_argnums=(1, 2))(3, 4, 4)
    reward = jnp.array([1, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0], jnp.float32)
    log_probs = jnp.where(found.loss_mask, -1.0, 0.0)
    return found._replace(reward=reward, log_probs=log_probs)


# Assignments.


@pytest.fixture(scope="module")
def assigned(rollouts: Rollout) -> dict[str, np.ndarray]:
    assigns = {name: make_assign(replace(CONFIG, assignment=name)) for name in get_args(Assignment)}

    @jax.jit  # one compilation, in which the credit that they share stands once
    def all_of_them(rollouts: Rollout, key: jax.Array) -> dict[str, jax.Array]:
        return {name: assign(rollouts, key).advantages for name, assign in assigns.items()}

    return jax.device_get(all_of_them(rollouts, jax.random.key(0)))


def test_uniform_weights_are_the_group_advantage(assigned: dict[str, np.ndarray]):
    np.testing.assert_allclose(assigned["uniform"], assigned["group"], rtol=1e-6)


@pytest.mark.parametrize("name", ["depgpo", "shuffled", "last_write"])
def test_weights_keep_sign_and_mean(name: str, rollouts: Rollout, assigned: dict[str, np.ndarray]):
    group, other = assigned["group"], assigned[name]
    assert (np.sign(other) * np.sign(group) >= 0).all()
    np.testing.assert_allclose(other.sum(axis=1), group.sum(axis=1), rtol=1e-4, atol=1e-5)
    assert np.abs(other - group).max() > 0.1


def test_gigpo_is_the_peers_own(rollouts: Rollout, assigned: dict[str, np.ndarray]):
    record = rollouts.record
    steps = gigpo_advantages(rollouts.reward, rollouts.group, record.state, record.is_step)
    step = np.asarray(rollouts.step_of_token())
    by_token = np.take_along_axis(np.asarray(steps), step, axis=1)
    mask = np.asarray(rollouts.tokens(rollouts.loss_mask))
    np.testing.assert_allclose(assigned["gigpo"], np.where(mask, by_token, 0), rtol=1e-6)
    assert np.abs(assigned["graph_gpo"] - assigned["gigpo"]).max() > 0.1


def test_methods_by_name():
    base = WorldUpdateConfig(groups=8)
    for name in METHODS:
        assert with_method(name, base).groups == 8
    assert with_method("dapo", base).refills > 0
    assert with_method("dapo", base).objective.clip_high == 0.28
    assert with_method("depgpo-slice", base).credit.relevance == "slice"
    with pytest.raises(ConfigError, match=r"method is 'ppo'; it must be one of grpo, rloo"):
        with_method("ppo", base)


# Micro-batches.


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean_token_mean"])
def test_micro_batches_are_one_batch(model: Any, rollouts: Rollout, aggregation: Any):
    objective = ObjectiveConfig(
        aggregation=aggregation, kl_coefficient=0.1, entropy_coefficient=0.01
    )
    base = replace(CONFIG, objective=objective)
    advantages = jnp.linspace(-1, 1, rollouts.loss_mask.size, dtype=jnp.float32)
    advantages = advantages.reshape(rollouts.reward.shape[0], -1)
    reference = init_state(new_model(model.config, 1), base.optimizer).params
    found = []
    for parts in (1, 4):
        improve = jax.jit(make_improve(model, replace(base, micro_batches=parts)))
        state = init_state(model, base.optimizer)
        found.append(improve(state, jax.random.key(0), rollouts, advantages, reference))
    close = partial(np.testing.assert_allclose, rtol=2e-4, atol=2e-6)
    jax.tree.map(close, *found)
    assert found[0][1].kl > 0


def test_a_distance_needs_something_to_be_near_to(model: Any, rollouts: Rollout):
    config = replace(CONFIG, objective=ObjectiveConfig(kl_coefficient=0.1))
    improve, state = make_improve(model, config), init_state(model, CONFIG.optimizer)
    advantages = jnp.zeros(rollouts.tokens(rollouts.loss_mask).shape)
    with pytest.raises(ConfigError, match=r"kl_coefficient is 0.1, but the update got no refer"):
        improve(state, jax.random.key(0), rollouts, advantages, None)


# Dynamic sampling.


def rewards_of(table: list[list[int]]) -> Callable[..., Rollout]:
    """Draws with these rewards, a row a draw; `num_steps` holds the number of the draw."""
    base = jax.jit(drawn_rollouts, static_argnums=(1, 2))(0, 3, 2)
    rewards = jnp.array(table, jnp.float32)

    def draw(params: Any, key: jax.Array, world_params: Any) -> Rollout:
        # The keys of the draws are told apart by comparing them with those that collect makes.
        keys = jax.random.split(jax.random.key(0), len(table))
        same = jnp.all(jax.random.key_data(keys) == jax.random.key_data(key)[None], axis=1)
        return base._replace(
            reward=rewards[jnp.argmax(same)],
            num_steps=jnp.full(6, jnp.argmax(same), jnp.int32),
        )

    return draw


def collected(table: list[list[int]]) -> tuple[Rollout, Drawn]:
    config = WorldUpdateConfig(groups=3, group_size=2, minibatches=1, refills=len(table) - 1)
    collect = jax.jit(make_collect(rewards_of(table), config))
    return collect({}, jax.random.key(0), PARAMS)


def test_flat_groups_are_dropped_and_drawn_anew():
    rollouts, drawn = collected([[1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 0]])
    np.testing.assert_array_equal(rollouts.reward, [1, 0, 0, 1, 1, 0])
    np.testing.assert_array_equal(rollouts.num_steps, [0, 0, 2, 2, 2, 2])  # the draw they are of
    np.testing.assert_array_equal(rollouts.group, [0, 0, 1, 1, 2, 2])
    assert np.asarray(rollouts.loss_mask).any(axis=(1, 2)).all()
    assert drawn.rollouts == 18
    assert drawn.groups == 9
    assert drawn.flat_groups == 6
    assert drawn.reward == 7


def test_enough_at_once_draws_once():
    rollouts, drawn = collected([[1, 0, 1, 0, 0, 1], [1, 0, 1, 0, 0, 1]])
    assert drawn.rollouts == 6
    np.testing.assert_array_equal(rollouts.num_steps, 0)


def test_slots_that_stay_empty_have_no_tokens():
    rollouts, drawn = collected([[1, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(rollouts.reward[:2], [0, 1])
    has_tokens = np.asarray(rollouts.loss_mask).any(axis=(1, 2))
    np.testing.assert_array_equal(has_tokens, [1, 1, 0, 0, 0, 0])
    assert drawn.rollouts == 12


def test_more_than_enough_is_cut():
    rollouts, _ = collected([[0, 0, 1, 1, 1, 0], [1, 0, 1, 0, 1, 0]])
    np.testing.assert_array_equal(rollouts.num_steps, [0, 0, 1, 1, 1, 1])


# Configs.


def test_presets_and_overrides():
    for name in PRESETS:
        assert run_config(name).method == "depgpo"
    config = run_config(
        "regime-b",
        method="dapo",
        overrides=["update.credit.relevance=slice", "seed=3", "update.credit.max_weight=2"],
    )
    assert (config.seed, config.update.refills) == (3, 3)
    assert config.update.credit.relevance == "slice"
    assert config.update.credit.max_weight == 2.0
    changed = differences(config, run_config("regime-b", method="dapo"))
    assert changed["seed"] == (3, 0)
    assert changed["update.credit.max_weight"] == (2.0, None)
    assert config_of(msgspec.to_builtins(config), where="here") == config


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("updates=0", r"RunConfig.updates is 0; it must be a whole number >= 1"),
        ("updates", r"--set 'updates' has no value; write path=value"),
        ("seed=abc", r"--set seed: Expected `int`, got `str`"),
        ("seed=-1", r"RunConfig.seed is -1; it must be a whole number from 0 to 4294967295"),
        ("regime=d", r"--set regime: Invalid enum value 'd'; it must be one of 'a', 'b', 'c'"),
        ("update.optimizer=1", r"--set update.optimizer: there is no such field; there are method"),
        ("update.credit.beta=2", r"--set update.*CreditConfig.beta: found 2"),
        ("method=grpo", r"--set method: a method sets several fields; choose one with --method"),
        ("update.assignment=group", r"--set update.assignment: a method sets several fields"),
        ("update.micro_batches=3", r"micro_batches is 3 with minibatches of 256 rollouts"),
        ("update.refills=-1", r"WorldUpdateConfig.refills is -1; it must be a whole number >= 0"),
        ("warm_start.success=1", r"WarmStartConfig.success is 1.0; it must be a finite number >="),
        ("health.window=9", r"HealthConfig.window is 9; it must be a whole number >= 10"),
        ("exam.every=0", r"ExamConfig.every is 0; it must be a whole number >= 1"),
    ],
)
def test_refused_overrides(override: str, message: str):
    with pytest.raises(ConfigError, match=message):
        run_config("regime-b", overrides=[override])


def test_refused_names():
    with pytest.raises(ConfigError, match=r"preset is 'huge'; it must be one of regime-a"):
        run_config("huge")
    with pytest.raises(ConfigError, match=r"RunConfig.method is 'ppo'; it must be one of 'grpo'"):
        RunConfig(method="ppo")
    with pytest.raises(ConfigError, match=r"here: field 'color' is unknown; it must be one of met"):
        config_of({"color": 1}, where="here")


# The log.


def row(update: int, **more: Any) -> dict[str, Any]:
    return {"kind": "update", "update": update, "reward": update / 10, **more}


def test_a_resumed_log_is_that_of_an_uninterrupted_run(tmp_path: Path):
    path = tmp_path / "m.jsonl"
    with MetricLog(path, None) as log:
        for update in range(1, 5):
            log.write(row(update, seconds={"rollout": 0.5}, loss=float("nan")))
    with path.open("ab") as file:
        file.write(b'{"kind": "upd')  # torn
    with MetricLog(path, None, resume_from=2) as log:
        assert [kept["update"] for kept in log.updates] == [1, 2]
        log.write(row(3))
    rows = read_rows(path)
    assert [kept["update"] for kept in rows] == [1, 2, 3]
    assert rows[0]["loss"] is None
    assert read_rows(tmp_path / "none.jsonl") == []
    path.write_text('{"a": 1}\n')
    with pytest.raises(TraceError, match=r"line 1: found a line without `update` and `kind`"):
        read_rows(path)
    path.write_text("[]\n")
    with pytest.raises(TraceError, match=r"m.jsonl, line 1: found a line that is no JSON object"):
        read_rows(path)


def test_tensorboard_files(tmp_path: Path):
    with MetricLog(tmp_path / "m.jsonl", tmp_path / "board") as log:
        log.write(row(1, success={"chain": 0.5}))
    (events,) = (tmp_path / "board").iterdir()
    assert b"update/success/chain" in events.read_bytes()
    assert b"update/reward" in events.read_bytes()


def test_tensorboard_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "tensorboardX", None)
    with pytest.raises(MissingExtraError, match=r"needs the optional extra 'tensorboard'"):
        MetricLog(tmp_path / "m.jsonl", tmp_path / "board")


# Health.

GOOD = {
    "update": 11,
    "loss": 0.1,
    "grad_norm": 1.0,
    "mean_ratio": 1.0,
    "entropy": 1.0,
    "kl": 0.0,
    "clip_fraction": 0.1,
    "max_weight": 3.0,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": float("nan")}, r"update 11: loss is nan; it must be finite. Before: 0.1, 0.1"),
        ({"mean_ratio": float("inf")}, r"mean_ratio is inf.*lower the learning rate"),
        ({"entropy": float("nan")}, r"entropy is nan.*has become certain"),
        ({"grad_norm": float("nan")}, r"grad_norm is nan.*update.optimizer.max_grad_norm"),
        ({"grad_norm": 2e4}, r"grad_norm is 2e\+04; it may be at most 1e\+03 \(1000 times the med"),
        (
            {"grad_norm": 2e3, "max_weight": 20.0},
            r"grad_norm is 2e\+03.*HealthConfig.grad_norm_ratio\).*set update.credit.max_weight",
        ),
        ({"kl": float("inf"), "clip_fraction": 0.7}, r"kl is inf.*moved far within one update"),
    ],
)
def test_a_sick_update_is_told(change: dict[str, Any], message: str):
    check_health(GOOD, [GOOD] * 10, HealthConfig())
    with pytest.raises(TrainingDivergedError, match=message):
        check_health({**GOOD, **change}, [GOOD] * 10, HealthConfig())


def test_without_a_past_only_the_fixed_limit_counts():
    check_health({**GOOD, "grad_norm": 2e3}, [], HealthConfig())
    with pytest.raises(
        TrainingDivergedError,
        match=r"at most 1e\+04 \(HealthConfig.grad_norm\). Before: this is the first update",
    ):
        check_health({**GOOD, "grad_norm": 2e4}, [], HealthConfig())


def test_parameters_are_looked_at_before_they_are_saved():
    check_parameters({"a": jnp.ones(3)}, 7)
    with pytest.raises(TrainingDivergedError, match=r"update 7: parameters after it are not fini"):
        check_parameters({"a": jnp.array([1.0, jnp.inf])}, 7)
