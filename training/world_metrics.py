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


class Drawn(NamedTuple):
    """What sampling cost and gave, groups that were dropped again included. Parts may be added up.

    Attributes:
        rollouts: how many.
        tokens: of the policy, in all of them.
        steps: commands, `submit` included, in all of them.
        family_count: rollouts of each family.
        family_successes: those of them whose reward is positive.
        reward: sum over the rollouts.
        groups: how many.
        flat_groups: those whose rewards are all equal, so that nothing can be learnt from them.
    """

    rollouts: Int32[Array, ""]
    tokens: Int32[Array, ""]
    steps: Int32[Array, ""]
    family_count: Int32[Array, " 5"]
    family_successes: Int32[Array, " 5"]
    reward: Float32[Array, ""]
    groups: Int32[Array, ""]
    flat_groups: Int32[Array, ""]

    @classmethod
    def of(cls, rollouts: Rollout) -> Drawn:
        """Of finished rollouts."""
        family = rollouts.starts.state.task.family
        of_family = family[None] == jnp.arange(NUM_FAMILIES, dtype=jnp.int32)[:, None]
        succeeds = (rollouts.reward > 0)[None]
        same_group = rollouts.group[None] == rollouts.group[:, None]
        differs = jnp.any(same_group & (rollouts.reward[None] != rollouts.reward[:, None]), axis=1)
        # A group is counted at its first rollout.
        first = ~jnp.any(jnp.tril(same_group, -1), axis=1)
        return cls(
            rollouts=jnp.array(rollouts.reward.shape[0], jnp.int32),
            tokens=jnp.sum(rollouts.loss_mask, dtype=jnp.int32),
            steps=jnp.sum(rollouts.num_steps, dtype=jnp.int32),
            family_count=jnp.sum(of_family, axis=1, dtype=jnp.int32),
            family_successes=jnp.sum(of_family & succeeds, axis=1, dtype=jnp.int32),
            reward=jnp.sum(rollouts.reward),
            groups=jnp.sum(first, dtype=jnp.int32),
            flat_groups=jnp.sum(first & ~differs, dtype=jnp.int32),
        )


class WorldMetrics(NamedTuple):
    """Numbers of one update. Those of the objective are means over its minibatches.

    Those about reward, families, length, flat groups and budget count all rollouts that were
    drawn; those about credit the rollouts that the update learnt from.

    Attributes:
        rollouts: that were drawn.
        tokens: of the policy in them.
        reward: mean over the rollouts.
        family_success: share of successes of each family; 0 for one without a rollout.
        family_count: rollouts of each family.
        num_steps: mean length of a rollout.
        flat_groups: share of groups whose rewards are all equal, so that nothing is learnt.
        loss: of the objective.
        grad_norm: before clipping.
        clip_fraction: loss tokens whose clipped term is the active one.
        mean_ratio: over loss tokens; 1 in the first minibatch.
        entropy: mean over loss tokens, in nats, of what each was drawn from.
        kl: k3 distance to the reference, aggregated as the objective says; 0 without one.
        max_weight: largest token weight of the batch.
        effective_fraction: mean over the rollouts.
        fallback: share of rollouts without weights of their own.
        on_path_fraction: mean over the rollouts.
    """

    rollouts: Int32[Array, ""]
    tokens: Int32[Array, ""]
    reward: Float32[Array, ""]
    family_success: Float32[Array, " 5"]
    family_count: Int32[Array, " 5"]
    num_steps: Float32[Array, ""]
    flat_groups: Float32[Array, ""]
    loss: Float32[Array, ""]
    grad_norm: Float32[Array, ""]
    clip_fraction: Float32[Array, ""]
    mean_ratio: Float32[Array, ""]
    entropy: Float32[Array, ""]
    kl: Float32[Array, ""]
    max_weight: Float32[Array, ""]
    effective_fraction: Float32[Array, ""]
    fallback: Float32[Array, ""]
    on_path_fraction: Float32[Array, ""]


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
    kl: Float32[Array, ""]


def world_metrics(drawn: Drawn, credit: Credit, learnt: Learnt) -> WorldMetrics:
    """What is worth watching about an update; see `WorldMetrics`."""
    rollouts = drawn.rollouts.astype(jnp.float32)
    return WorldMetrics(
        rollouts=drawn.rollouts,
        tokens=drawn.tokens,
        reward=drawn.reward / rollouts,
        family_success=drawn.family_successes / jnp.maximum(drawn.family_count, 1),
        family_count=drawn.family_count,
        num_steps=drawn.steps / rollouts,
        flat_groups=drawn.flat_groups / drawn.groups,
        max_weight=jnp.max(credit.max_weight_seen),
        effective_fraction=jnp.mean(credit.effective_fraction),
        fallback=jnp.mean(credit.fallback.astype(jnp.float32)),
        on_path_fraction=jnp.mean(credit.on_path_fraction),
        **learnt._asdict(),
    )
