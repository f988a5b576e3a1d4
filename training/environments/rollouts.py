"""A policy in the file world: B rollouts as one scan over their commands.

A policy is two pure functions, so that a network, a script and chance run through one and the same
loop. Random numbers are drawn before the scan and handed over as uniforms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from depgpo_jax.credit import Credit, CreditConfig, rollout_credit
from training.environments.commands import COMMAND_LENGTH, used_tokens
from training.environments.file_world import FileWorld
from training.environments.records import StepRecord, dense_rollout
from training.environments.state import Observation, State
from training.environments.world_params import WorldParams

Memory = Any
Acted = tuple[Memory, Int32[Array, "B 3"], Float32[Array, "B 3"]]


class Policy(NamedTuple):
    """Who gives the commands.

    Attributes:
        start: `(params, prompt [B, 7]) -> memory`.
        act: `(params, memory, feedback [B, 6], uniforms [B, U]) -> (memory, action, log_probs)`,
            both [B, 3]. Log-probabilities of parts that the verb does not use may be anything.
        num_uniforms: U, how many numbers in [0, 1) it wants for a command.
    """

    start: Callable[[Any, Int32[Array, "B 7"]], Memory]
    act: Callable[[Any, Memory, Int32[Array, "B 6"], Float32[Array, "B _"]], Acted]
    num_uniforms: int


class Starts(NamedTuple):
    """B rollouts before their first command.

    Attributes:
        observation: fields with a leading axis of B.
        state: the same.
        group: rollouts with the same task and files share it, numbered from 0.
    """

    observation: Observation
    state: State
    group: Int32[Array, " B"]


class _Before(NamedTuple):
    """What a command follows from."""

    state: State
    feedback: Int32[Array, "B 6"]
    memory: Memory


class Rollout(NamedTuple):
    """B finished rollouts. Padding: steps after a rollout's last one (`record.is_step` False).

    Attributes:
        starts: tasks, prompts, files and groups.
        feedback: what stood there before each command, as tokens.
        action: the commands; at padding anything.
        log_probs: of each token under the policy that wrote it; 0 off `loss_mask`.
        loss_mask: the tokens of a command that enter the loss.
        record: what each step did.
        reward: 1 where z was right at the end, else 0.
        num_steps: steps, submit included.
    """

    starts: Starts
    feedback: Int32[Array, "B N 6"]
    action: Int32[Array, "B N 3"]
    log_probs: Float32[Array, "B N 3"]
    loss_mask: Bool[Array, "B N 3"]
    record: StepRecord
    reward: Float32[Array, " B"]
    num_steps: Int32[Array, " B"]

    @property
    def group(self) -> Int32[Array, " B"]:
        """The group of each rollout."""
        return self.starts.group

    def tokens(self, values: Array) -> Array:
        """`[B, N, 3]` as `[B, L]`, L = 3 N: what objectives and `token_advantages` take."""
        return values.reshape(values.shape[0], -1)

    def step_of_token(self) -> Int32[Array, "B L"]:
        """The step of each token in that order."""
        rollouts, steps, _ = self.action.shape
        step = jnp.repeat(jnp.arange(steps, dtype=jnp.int32), COMMAND_LENGTH)
        return jnp.broadcast_to(step[None], (rollouts, step.shape[0]))


def start_groups(
    world: FileWorld, key: Key[Array, ""], params: WorldParams, groups: int, group_size: int
) -> Starts:
    """Draws a task and its files for every group; its rollouts start alike.

    Args:
        world: the world.
        key: decides about the tasks.
        params: what tasks to draw.
        groups: how many tasks.
        group_size: rollouts of each, side by side.

    Returns:
        `groups * group_size` rollouts before their first command.
    """
    reset = jax.vmap(world.reset, in_axes=(0, None))
    observation, state = reset(jax.random.split(key, groups), params)
    observation, state = jax.tree.map(
        lambda leaf: jnp.repeat(leaf, group_size, axis=0), (observation, state)
    )
    group = jnp.repeat(jnp.arange(groups, dtype=jnp.int32), group_size)
    return Starts(observation, state, group)


def rollout(
    world: FileWorld,
    policy: Policy,
    policy_params: Any,
    key: Key[Array, ""],
    starts: Starts,
    params: WorldParams,
) -> Rollout:
    """Runs every rollout to its end, all in step, on the device.

    Args:
        world: the world.
        policy: who gives the commands.
        policy_params: as `policy` takes them.
        key: decides about the policy's uniforms; the world itself has no chance in it.
        starts: from `start_groups`.
        params: as given to `start_groups`.

    Returns:
        The finished rollouts.
    """
    rollouts = starts.group.shape[0]
    shape = (world.max_commands, rollouts, policy.num_uniforms)
    uniforms = jax.random.uniform(key, shape)
    step = jax.vmap(world.step, in_axes=(None, 0, 0, None))

    def one(before: _Before, uniforms: Float32[Array, "B _"]) -> tuple[_Before, tuple[Any, ...]]:
        state, feedback, memory = before
        memory, action, log_probs = policy.act(policy_params, memory, feedback, uniforms)
        observation, state, reward, _, info = step(key, state, action, params)
        kept = (feedback, action, log_probs, info.record, reward)
        return _Before(state, observation.feedback, memory), kept

    memory = policy.start(policy_params, starts.observation.prompt)
    first = _Before(starts.state, starts.observation.feedback, memory)
    _, kept = jax.lax.scan(one, first, uniforms)
    feedback, action, log_probs, record, reward = jax.tree.map(
        lambda leaf: jnp.swapaxes(leaf, 0, 1), kept
    )
    loss_mask = used_tokens(action[..., 0]) & record.is_step[..., None]
    return Rollout(
        starts=starts,
        feedback=feedback,
        action=action,
        log_probs=jnp.where(loss_mask, log_probs, 0.0),
        loss_mask=loss_mask,
        record=record,
        reward=jnp.sum(reward, axis=1),
        num_steps=jnp.sum(record.is_step, axis=1, dtype=jnp.int32),
    )


def credit_of_rollouts(rollouts: Rollout, config: CreditConfig) -> Credit:
    """The dependency credit of every rollout, from its records, without leaving the device.

    Args:
        rollouts: finished rollouts.
        config: rules and options.

    Returns:
        A `Credit` with N = T = the world's `max_commands`.
    """

    def credit(record: StepRecord, target: Int32[Array, ""]) -> Credit:
        return rollout_credit(dense_rollout(record, target), config)

    return jax.vmap(credit)(rollouts.record, rollouts.starts.state.task.z)


def sample(
    logits: Float32[Array, "B _"], uniform: Float32[Array, " B"]
) -> tuple[Int32[Array, " B"], Float32[Array, " B"]]:
    """Draws from a softmax by its inverse distribution function.

    The sums come from one product with a triangle of ones, which a CPU does faster than a
    cumulative sum or a Gumbel draw for each entry.

    Args:
        logits: unnormalised log-probabilities.
        uniform: in [0, 1).

    Returns:
        The drawn index and its log-probability.
    """
    choices = logits.shape[-1]
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    triangle = jnp.triu(jnp.ones((choices, choices), jnp.float32))
    below = jnp.matmul(jnp.exp(log_probs), triangle, precision=jax.lax.Precision.HIGHEST)
    threshold = uniform[:, None] * below[:, -1:]
    index = jnp.sum(below <= threshold, axis=-1, dtype=jnp.int32)
    index = jnp.minimum(index, choices - 1)  # a product that rounds up to the last sum
    chosen = jax.nn.one_hot(index, choices)
    return index, jnp.sum(chosen * log_probs, axis=-1)
