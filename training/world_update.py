"""One update in the file world as one jitted function, from drawn tasks to new parameters.

    rollout → verifier → credit → group advantage → token advantages → clipped objective → optax

Nothing visits the host. The parts are functions of their own (`Parts`), so that they can be timed,
or one of them exchanged: another credit method is another `assign`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import optax
from flax import nnx
from jaxtyping import Array, Float32, Key, PyTree

from training.assignments import Assign, make_assign
from training.config import WorldUpdateConfig
from training.environments.file_world import FileWorld
from training.environments.rollouts import Rollout, rollout, start_groups
from training.environments.world_params import WorldParams
from training.improve import Improve, Reference, make_improve
from training.objectives import aggregate
from training.policy.recurrent import RecurrentPolicy, recurrent_sampler
from training.sampling import Collect, make_collect
from training.update import TrainState, make_optimizer
from training.world_metrics import WorldMetrics, world_metrics

WorldUpdate = Callable[..., tuple[TrainState, WorldMetrics]]


class Parts(NamedTuple):
    """An update's parts, none of them jitted.

    Attributes:
        collect: `(params, key, world params) -> (rollouts, what was drawn in all)`.
        assign: `(rollouts, key) -> advantages of their tokens`.
        improve: `(state, key, rollouts, advantages, reference) -> (state, Learnt)`.
    """

    collect: Collect
    assign: Assign
    improve: Improve


def world_update_parts(
    world: FileWorld, model: RecurrentPolicy, config: WorldUpdateConfig
) -> Parts:
    """The parts of an update; see `make_world_update`."""
    sampler = recurrent_sampler(model)

    def draw(params: PyTree[Array], key: Key[Array, ""], world_params: WorldParams) -> Rollout:
        for_tasks, for_policy = jax.random.split(key)
        starts = start_groups(world, for_tasks, world_params, config.groups, config.group_size)
        return rollout(world, sampler, params, for_policy, starts, world_params)

    return Parts(make_collect(draw, config), make_assign(config), make_improve(model, config))


class UpdateKeys(NamedTuple):
    """The chance in an update."""

    collect: Key[Array, ""]
    improve: Key[Array, ""]
    assign: Key[Array, ""]

    @classmethod
    def of(cls, key: Key[Array, ""]) -> UpdateKeys:
        """From one key."""
        collect, improve = jax.random.split(key)
        return cls(collect, improve, jax.random.fold_in(key, 2))


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
        update(state, key, world params, reference=None) -> (state, metrics).
    """
    parts = world_update_parts(world, model, config)
    assign = parts.assign if assign is None else assign

    def update(
        state: TrainState, key: Key[Array, ""], params: WorldParams, reference: Reference = None
    ) -> tuple[TrainState, WorldMetrics]:
        keys = UpdateKeys.of(key)
        rollouts, drawn = parts.collect(state.params, keys.collect, params)
        assigned = assign(rollouts, keys.assign)
        state, learnt = parts.improve(state, keys.improve, rollouts, assigned.advantages, reference)
        return state, world_metrics(drawn, assigned.credit, learnt)

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
