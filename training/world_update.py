"""One update in the file world as one jitted function, from drawn tasks to new parameters.

    rollout → verifier → credit → group advantage → token advantages → clipped objective → optax

Nothing visits the host. The parts are functions of their own (`Parts`), so that they can be timed,
or one of them exchanged: another credit method is another `assign`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float32, Key, PyTree

from depgpo_jax.advantages import group_advantages, token_advantages
from training.config import WorldUpdateConfig
from training.environments.file_world import FileWorld
from training.environments.rollouts import (
    Rollout,
    credit_of_rollouts,
    rollout,
    start_groups,
)
from training.environments.world_params import WorldParams
from training.objectives import aggregate
from training.policy.recurrent import RecurrentPolicy, recurrent_sampler
from training.policy_loss import policy_loss
from training.update import TrainState, make_optimizer
from training.world_metrics import Assigned, Learnt, Rows, WorldMetrics, world_metrics

Collect = Callable[[PyTree[Array], Key[Array, ""], WorldParams], Rollout]
Assign = Callable[[Rollout], Assigned]
Improve = Callable[
    [TrainState, Key[Array, ""], Rollout, Float32[Array, "B L"]], tuple[TrainState, Learnt]
]
WorldUpdate = Callable[[TrainState, Key[Array, ""], WorldParams], tuple[TrainState, WorldMetrics]]


class Parts(NamedTuple):
    """An update's parts, none of them jitted.

    Attributes:
        collect: `(params, key, world params) -> rollouts`: tasks, commands, rewards.
        assign: `rollouts -> advantages of their tokens`.
        improve: `(state, key, rollouts, advantages) -> (state, Learnt)`: all minibatches.
    """

    collect: Collect
    assign: Assign
    improve: Improve


def world_update_parts(
    world: FileWorld, model: RecurrentPolicy, config: WorldUpdateConfig
) -> Parts:
    """The parts of an update; see `make_world_update`."""
    sampler = recurrent_sampler(model)

    def collect(params: PyTree[Array], key: Key[Array, ""], world_params: WorldParams) -> Rollout:
        for_tasks, for_policy = jax.random.split(key)
        starts = start_groups(world, for_tasks, world_params, config.groups, config.group_size)
        return rollout(world, sampler, params, for_policy, starts, world_params)

    def assign(rollouts: Rollout) -> Assigned:
        credit = credit_of_rollouts(rollouts, config.credit)
        advantage = group_advantages(rollouts.reward, rollouts.group, kind=config.advantage)
        mask = rollouts.tokens(rollouts.loss_mask)
        if config.weighted:
            advantages = token_advantages(credit, advantage, rollouts.step_of_token(), mask)
        else:
            advantages = jnp.where(mask, advantage[:, None], 0.0)
        return Assigned(advantages, advantage, credit)

    return Parts(collect, assign, _improver(model, config))


def make_world_update(
    world: FileWorld,
    model: RecurrentPolicy,
    config: WorldUpdateConfig,
    *,
    assign: Assign | None = None,
) -> WorldUpdate:
    """One update as one jitted function of state, key and world parameters.

    Its first argument is donated: use the state that it returns. It compiles once for a world
    and a config; regime, families and split are traced.

    Args:
        world: the world.
        model: says which architecture; its parameter values are not used.
        config: sizes, credit, objective, optimiser.
        assign: another way from rollouts to token advantages; None: as `config` says.

    Returns:
        update(state, key, world params) -> (state, metrics).
    """
    parts = world_update_parts(world, model, config)
    assign = parts.assign if assign is None else assign

    def update(
        state: TrainState, key: Key[Array, ""], params: WorldParams
    ) -> tuple[TrainState, WorldMetrics]:
        for_rollouts, for_order = jax.random.split(key)
        rollouts = parts.collect(state.params, for_rollouts, params)
        assigned = assign(rollouts)
        state, learnt = parts.improve(state, for_order, rollouts, assigned.advantages)
        return state, world_metrics(rollouts, assigned, learnt)

    return jax.jit(update, donate_argnums=0)


def make_imitation(
    model: RecurrentPolicy, config: WorldUpdateConfig
) -> Callable[[TrainState, Rollout], tuple[TrainState, Float32[Array, ""]]]:
    """A jitted step of imitation, for a warm start on demonstrations.

    Args:
        model: says which architecture.
        config: whose optimiser is used.

    Returns:
        step(state, demonstrations) -> (state, mean log-loss of a token before it); the state is
        donated.
    """
    graph, transform = nnx.graphdef(model), make_optimizer(config.optimizer)

    def loss(params: PyTree[Array], shown: Rollout) -> Float32[Array, ""]:
        prompt = shown.starts.observation.prompt
        scores = nnx.merge(graph, params).scores(prompt, shown.feedback, shown.action)
        mask = shown.tokens(shown.loss_mask)
        return aggregate(-shown.tokens(scores.log_probs), mask, "token_mean")

    def step(state: TrainState, shown: Rollout) -> tuple[TrainState, Float32[Array, ""]]:
        value, grads = jax.value_and_grad(loss)(state.params, shown)
        changes, moments = transform.update(grads, state.optimizer, state.params)
        params = optax.apply_updates(state.params, changes)
        return TrainState(params, moments, state.step + 1), value

    return jax.jit(step, donate_argnums=0)


def _improver(model: RecurrentPolicy, config: WorldUpdateConfig) -> Improve:
    graph, transform = nnx.graphdef(model), make_optimizer(config.optimizer)

    def loss(params: PyTree[Array], rows: Rows) -> tuple[Float32[Array, ""], Learnt]:
        policy = nnx.merge(graph, params)
        scores = policy.scores(rows.prompt, rows.feedback, rows.action)
        shape = rows.loss_mask.shape
        token_entropy = scores.entropy.reshape(shape)
        found = policy_loss(
            scores.log_probs.reshape(shape),
            rows.log_probs,
            rows.advantages,
            rows.loss_mask,
            config.objective,
            entropy=token_entropy,
        )
        entropy = aggregate(token_entropy, rows.loss_mask, "token_mean")
        no_norm = jnp.zeros(())
        learnt = Learnt(found.loss, no_norm, found.clip_fraction, found.mean_ratio, entropy)
        return found.loss, learnt

    def improve(
        state: TrainState, key: Key[Array, ""], rollouts: Rollout, advantages: Float32[Array, "B L"]
    ) -> tuple[TrainState, Learnt]:
        order = jax.random.permutation(key, config.rollouts)
        shape = (config.minibatches, -1)
        minibatches = jax.tree.map(
            lambda leaf: leaf[order].reshape(*shape, *leaf.shape[1:]),
            Rows.of(rollouts, advantages),
        )

        def one(state: TrainState, rows: Rows) -> tuple[TrainState, Learnt]:
            grads, learnt = jax.grad(loss, has_aux=True)(state.params, rows)
            changes, moments = transform.update(grads, state.optimizer, state.params)
            params = optax.apply_updates(state.params, changes)
            learnt = learnt._replace(grad_norm=optax.tree.norm(grads))
            return TrainState(params, moments, state.step + 1), learnt

        state, learnt = jax.lax.scan(one, state, minibatches)
        return state, jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), learnt)

    return improve
