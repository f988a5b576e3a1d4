"""Containers of an update in the file world, and the numbers that are worth watching."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from depgpo_jax.credit import Credit
from training.environments.commands import NUM_FAMILIES
from training.environments.rollouts import Rollout


class Assigned(NamedTuple):
    """Who gets which advantage.

    Attributes:
        advantages: of every token, [B, L] with L = 3 N; 0 off the loss mask.
        group_advantage: of every rollout.
        credit: the dependency credit, also where it is only reported.
    """

    advantages: Float32[Array, "B L"]
    group_advantage: Float32[Array, " B"]
    credit: Credit


class WorldMetrics(NamedTuple):
    """Numbers of one update. Those of the objective are means over its minibatches.

    Attributes:
        reward: mean over the rollouts.
        family_reward: the same for each family; 0 for one without a rollout.
        family_count: rollouts of each family.
        num_steps: mean length of a rollout.
        loss: of the objective.
        grad_norm: before clipping.
        clip_fraction: loss tokens whose clipped term is the active one.
        mean_ratio: over loss tokens; 1 in the first minibatch.
        entropy: mean over loss tokens, in nats, of what each was drawn from.
        max_weight: largest token weight of the batch.
        effective_fraction: mean over the rollouts.
        fallback: share of rollouts without weights of their own.
        on_path_fraction: mean over the rollouts.
        flat_groups: share of groups whose rewards are all equal, so that nothing is learnt.
    """

    reward: Float32[Array, ""]
    family_reward: Float32[Array, " 5"]
    family_count: Int32[Array, " 5"]
    num_steps: Float32[Array, ""]
    loss: Float32[Array, ""]
    grad_norm: Float32[Array, ""]
    clip_fraction: Float32[Array, ""]
    mean_ratio: Float32[Array, ""]
    entropy: Float32[Array, ""]
    max_weight: Float32[Array, ""]
    effective_fraction: Float32[Array, ""]
    fallback: Float32[Array, ""]
    on_path_fraction: Float32[Array, ""]
    flat_groups: Float32[Array, ""]


class Rows(NamedTuple):
    """What of some rollouts enters the objective; tokens as [B, L]."""

    prompt: Int32[Array, "*B 7"]
    feedback: Int32[Array, "*B N 6"]
    action: Int32[Array, "*B N 3"]
    log_probs: Float32[Array, "*B L"]
    loss_mask: Bool[Array, "*B L"]
    advantages: Float32[Array, "*B L"]

    @classmethod
    def of(cls, rollouts: Rollout, advantages: Float32[Array, "B L"]) -> Rows:
        """Of finished rollouts."""
        return cls(
            prompt=rollouts.starts.observation.prompt,
            feedback=rollouts.feedback,
            action=rollouts.action,
            log_probs=rollouts.tokens(rollouts.log_probs),
            loss_mask=rollouts.tokens(rollouts.loss_mask),
            advantages=advantages,
        )


class Learnt(NamedTuple):
    """What one minibatch gave, at the parameters before it; scalars."""

    loss: Float32[Array, ""]
    grad_norm: Float32[Array, ""]
    clip_fraction: Float32[Array, ""]
    mean_ratio: Float32[Array, ""]
    entropy: Float32[Array, ""]


def world_metrics(rollouts: Rollout, assigned: Assigned, learnt: Learnt) -> WorldMetrics:
    """What is worth watching about an update; see `WorldMetrics`."""
    family = rollouts.starts.state.task.family
    of_family = family[None] == jnp.arange(NUM_FAMILIES, dtype=jnp.int32)[:, None]
    count = jnp.sum(of_family, axis=1, dtype=jnp.int32)
    rewards = jnp.sum(jnp.where(of_family, rollouts.reward[None], 0.0), axis=1)
    same_group = rollouts.group[None] == rollouts.group[:, None]
    differs = jnp.any(same_group & (rollouts.reward[None] != rollouts.reward[:, None]), axis=1)
    credit = assigned.credit
    return WorldMetrics(
        reward=jnp.mean(rollouts.reward),
        family_reward=rewards / jnp.maximum(count, 1),
        family_count=count,
        num_steps=jnp.mean(rollouts.num_steps.astype(jnp.float32)),
        max_weight=jnp.max(credit.max_weight_seen),
        effective_fraction=jnp.mean(credit.effective_fraction),
        fallback=jnp.mean(credit.fallback.astype(jnp.float32)),
        on_path_fraction=jnp.mean(credit.on_path_fraction),
        flat_groups=jnp.mean(~differs, dtype=jnp.float32),
        **learnt._asdict(),
    )
