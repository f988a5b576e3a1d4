"""How the tokens of an update's rollouts get their advantages: one function a method.

Every method sees the same rollouts and rewards. It decides only how a rollout's advantage is
spread over its tokens, so that a comparison differs in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Key

from depgpo_jax.advantages import group_advantages, token_advantages
from depgpo_jax.credit import Credit
from depgpo_jax.peers.controls import rollout_last_write_credit, shuffled_credit, uniform_credit
from depgpo_jax.peers.gigpo import gigpo_advantages
from depgpo_jax.peers.graph import graph_gpo_advantages
from depgpo_jax.tokens import step_token_advantages
from training.config import WorldUpdateConfig
from training.environments.records import StepRecord, dense_rollout
from training.environments.rollouts import Rollout, credit_of_rollouts
from training.world_metrics import Assigned

Assign = Callable[[Rollout, Key[Array, ""]], Assigned]


def make_assign(config: WorldUpdateConfig) -> Assign:
    """The `assignment` of a config as a function of rollouts and a key.

    =============  ==============================================================================
    `group`        every token of a rollout gets the rollout's own advantage: GRPO and its like
    `depgpo`       weights from the dependency credit
    `shuffled`     the same step factors in random order within the rollout: the control
    `last_write`   weights from credit 1 for the last writer of the target
    `uniform`      weights of 1 through the same code as `depgpo`: must equal `group`
    `gigpo`        step advantages by equal states, arXiv 2505.10978
    `graph_gpo`    step advantages by distance to success, arXiv 2605.26684
    =============  ==============================================================================

    MT-GRPO is not among them: it needs rewards of single steps, which the file world does not have.

    Args:
        config: its assignment, its advantage and its credit rules.

    Returns:
        assign(rollouts, key) -> `Assigned`; only `shuffled` uses the key.
    """

    def assign(rollouts: Rollout, key: Key[Array, ""]) -> Assigned:
        credit = credit_of_rollouts(rollouts, config.credit)
        advantage = group_advantages(rollouts.reward, rollouts.group, kind=config.advantage)
        tokens = _spread(config, rollouts, credit, advantage, key)
        return Assigned(tokens, advantage, credit)

    return assign


def _spread(
    config: WorldUpdateConfig,
    rollouts: Rollout,
    credit: Credit,
    advantage: Float32[Array, " B"],
    key: Key[Array, ""],
) -> Float32[Array, "B L"]:
    mask, step_of_token = rollouts.tokens(rollouts.loss_mask), rollouts.step_of_token()
    record = rollouts.record
    match config.assignment:
        case "group":
            return jnp.where(mask, advantage[:, None], 0.0)
        case "gigpo":
            steps = gigpo_advantages(rollouts.reward, rollouts.group, record.state, record.is_step)
            return step_token_advantages(steps, step_of_token, mask)
        case "graph_gpo":
            steps = graph_gpo_advantages(
                rollouts.reward,
                rollouts.group,
                record.state,
                record.is_step,
                rollouts.reward > 0,
            )
            return step_token_advantages(steps, step_of_token, mask)
        case "shuffled":
            credit = shuffled_credit(key, credit, record.loss_tokens, record.is_step)
        case "last_write":
            credit = _last_write(rollouts, config)
        case "uniform":
            credit = uniform_credit(credit, record.loss_tokens)
        case "depgpo":
            pass
    return token_advantages(credit, advantage, step_of_token, mask)


def _last_write(rollouts: Rollout, config: WorldUpdateConfig) -> Credit:
    def credit(record: StepRecord, target: Array) -> Credit:
        return rollout_last_write_credit(dense_rollout(record, target), config.credit)

    return jax.vmap(credit)(rollouts.record, rollouts.starts.state.task.z)
