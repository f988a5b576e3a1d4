"""The one `token_advantages` under every group advantage and every objective."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import depgpo_jax as dg
from depgpo_jax.advantages import AdvantageKind
from tests.helpers import SMALL, f64, random_batch
from training.config import ObjectiveConfig
from training.objectives import Aggregation, overlong_penalty
from training.policy_loss import PolicyLoss, policy_loss

LENGTH, GROUP = 48, 8

OBJECTIVES: dict[str, ObjectiveConfig] = {
    "ppo": ObjectiveConfig(),
    "dapo": ObjectiveConfig.dapo(),
    "dual clip": ObjectiveConfig(dual_clip=3.0),
    "gspo": ObjectiveConfig.gspo(),
    "dppo": ObjectiveConfig.dppo(),
    "dr_grpo": ObjectiveConfig.dr_grpo(norm_length=LENGTH),
    "token sum": ObjectiveConfig(aggregation="token_sum"),
    "kl and entropy": ObjectiveConfig(kl_coefficient=0.1, entropy_coefficient=0.01),
}


@dataclasses.dataclass
class Data:
    """Random rollouts with their credit, and tokens in the loss after a random cut."""

    credit: dg.Credit
    reward: jax.Array
    group: jax.Array
    step_of_token: jax.Array
    loss_mask: jax.Array
    sampling: jax.Array
    log_probs: jax.Array


@pytest.fixture(scope="module")
def data() -> Data:
    batch = random_batch(51, SMALL.rollouts - 12, shape=SMALL)
    rng = np.random.default_rng(5)
    rows = SMALL.rollouts
    steps = np.maximum(np.asarray(batch.num_steps), 1)[:, None]
    step_of_token = np.sort(rng.integers(0, steps, (rows, LENGTH)), axis=1)
    mask = (rng.random((rows, LENGTH)) < rng.random((rows, 1))) & np.asarray(batch.is_rollout)[
        :, None
    ]
    sampling = -rng.exponential(size=(rows, LENGTH)).astype(np.float32)
    moved = rng.normal(scale=0.3, size=(rows, LENGTH)).astype(np.float32)
    group = np.where(batch.is_rollout, np.arange(rows) // GROUP, -1)
    return Data(
        credit=dg.dependency_credit(batch),
        reward=jnp.asarray(rng.integers(0, 2, rows).astype(np.float32)),
        group=jnp.asarray(group, jnp.int32),
        step_of_token=jnp.asarray(step_of_token, jnp.int32),
        loss_mask=jnp.asarray(mask),
        sampling=jnp.asarray(sampling),
        log_probs=jnp.asarray(np.minimum(sampling + moved, 0.0)),
    )


def scalar_advantage(data: Data, kind: str) -> jax.Array:
    """One advantage a rollout; DAPO's is GRPO's on rewards with the penalty for length."""
    if kind != "dapo":
        assert kind in get_args(AdvantageKind)
        options: Any = {"kind": kind}
        return dg.group_advantages(data.reward, data.group, **options)
    lengths = data.loss_mask.sum(axis=1)
    penalty = overlong_penalty(lengths, max_length=LENGTH, buffer=LENGTH // 2, penalty=0.5)
    return dg.group_advantages(data.reward + penalty, data.group)


def aimed(data: Data, advantage: jax.Array) -> jax.Array:
    return dg.token_advantages(data.credit, advantage, data.step_of_token, data.loss_mask)


def loss_of(
    data: Data, config: ObjectiveConfig, advantages: jax.Array, log_probs: jax.Array
) -> PolicyLoss:
    return policy_loss(
        log_probs,
        data.sampling,
        advantages,
        data.loss_mask,
        config,
        reference_log_probs=data.sampling - 0.1 if config.kl_coefficient else None,
        entropy=-log_probs if config.entropy_coefficient else None,
    )


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("kind", ["grpo", "dapo", "rloo", "dr_grpo"])
def test_token_advantages_compose(data: Data, kind: str, objective: str):
    config = OBJECTIVES[objective]
    advantage = scalar_advantage(data, kind)
    advantages = aimed(data, advantage)

    # The mean over a rollout's loss tokens is its scalar, and no sign flips.
    mask, tokens, scalar = np.asarray(data.loss_mask), f64(advantages), f64(advantage)
    count = mask.sum(axis=1)
    has_tokens = count > 0
    mean = tokens.sum(axis=1)[has_tokens] / count[has_tokens]
    np.testing.assert_allclose(mean, scalar[has_tokens], rtol=1e-5, atol=1e-6)
    assert (tokens * scalar[:, None] >= 0).all()
    assert (tokens[~mask] == 0).all()
    assert (np.abs(scalar[has_tokens]) > 0.01).sum() > 100  # the rewards do differ

    @jax.jit
    def value_and_grad(log_probs: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.value_and_grad(lambda x: loss_of(data, config, advantages, x).loss)(log_probs)

    value, gradient = value_and_grad(data.log_probs)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    assert (np.asarray(gradient)[~mask] == 0).all()
    _, at_ratio_one = value_and_grad(data.sampling)
    if not config.kl_coefficient:
        # At ratio 1 no bound is active: the gradient points where the advantage does.
        pushed = -np.asarray(at_ratio_one)[mask]
        np.testing.assert_array_equal(np.sign(pushed), np.sign(tokens[mask]))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("aggregation", get_args(Aggregation))
def test_at_ratio_one_weights_move_only_the_gradient(
    data: Data, objective: str, aggregation: Aggregation
):
    chosen = OBJECTIVES[objective]
    # A length to divide by belongs to one aggregation only.
    norm_length = chosen.norm_length if aggregation == chosen.aggregation else None
    config = dataclasses.replace(chosen, aggregation=aggregation, norm_length=norm_length)
    advantage = scalar_advantage(data, "grpo")
    plain = jnp.broadcast_to(advantage[:, None], data.sampling.shape)
    values = [
        loss_of(data, config, advantages, data.sampling).loss
        for advantages in (plain, aimed(data, advantage))
    ]
    np.testing.assert_allclose(values[1], values[0], rtol=1e-4, atol=1e-5)
