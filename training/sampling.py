"""DAPO's dynamic sampling on the device: groups that teach nothing are drawn anew.

Reference: DAPO, arXiv 2503.14476. Whether a group teaches anything is asked of its raw rewards,
before any shaping. What is drawn in vain counts in the budget: see `Drawn.rollouts`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Key, PyTree

from training.config import WorldUpdateConfig
from training.environments.rollouts import Rollout
from training.environments.world_params import WorldParams
from training.world_metrics import Drawn

Draw = Callable[[PyTree[Array], Key[Array, ""], WorldParams], Rollout]
Collect = Callable[[PyTree[Array], Key[Array, ""], WorldParams], tuple[Rollout, Drawn]]


class _Held(NamedTuple):
    """Slots for groups, the first `kept` of them filled with groups whose rewards differ."""

    rollouts: Rollout
    kept: Int32[Array, ""]
    drawn: Drawn
    round: Int32[Array, ""]


def make_collect(draw: Draw, config: WorldUpdateConfig) -> Collect:
    """`draw`, with refills where the config asks for them.

    With `refills` > 0, groups with equal rewards are dropped, and `groups` new ones drawn at a
    time until all slots are filled or the refills used up. Slots that stay empty hold a dropped
    group without loss tokens: it enters neither loss nor any of its denominators.

    Args:
        draw: (params, key, world params) -> `groups * group_size` rollouts, group by group.
        config: its groups, group_size and refills.

    Returns:
        collect(params, key, world params) -> (rollouts, what was drawn in all), not jitted.
    """

    def collect(
        params: PyTree[Array], key: Key[Array, ""], world_params: WorldParams
    ) -> tuple[Rollout, Drawn]:
        if config.refills == 0:
            rollouts = draw(params, key, world_params)
            return rollouts, Drawn.of(rollouts)
        keys = jax.random.split(key, config.refills + 1)
        first = draw(params, keys[0], world_params)
        held = _fill(config, first, jnp.zeros((), jnp.int32), first)
        state = _Held(*held, Drawn.of(first), jnp.ones((), jnp.int32))

        def refill(state: _Held) -> _Held:
            new = draw(params, keys[state.round], world_params)
            held = _fill(config, state.rollouts, state.kept, new)
            drawn = jax.tree.map(jnp.add, state.drawn, Drawn.of(new))
            return _Held(*held, drawn, state.round + 1)

        def wanted(state: _Held) -> Bool[Array, ""]:
            return (state.kept < config.groups) & (state.round <= config.refills)

        state = jax.lax.while_loop(wanted, refill, state)
        rollouts = state.rollouts
        slot = jnp.repeat(jnp.arange(config.groups, dtype=jnp.int32), config.group_size)
        rollouts = rollouts._replace(
            starts=rollouts.starts._replace(group=slot),
            loss_mask=rollouts.loss_mask & (slot < state.kept)[:, None, None],
        )
        return rollouts, state.drawn

    return collect


def _fill(
    config: WorldUpdateConfig, old: Rollout, kept: Int32[Array, ""], new: Rollout
) -> tuple[Rollout, Int32[Array, ""]]:
    """The groups of `new` that teach something, put into the slots from `kept` on."""
    shape = (config.groups, config.group_size)
    rewards = new.reward.reshape(shape)
    teaches = jnp.any(rewards != rewards[:, :1], axis=1)
    useful_first = jnp.argsort(~teaches, stable=True)
    slot = jnp.arange(config.groups, dtype=jnp.int32)
    # Slot s takes the (s - kept)-th useful group; slots before `kept` stay as they are.
    source = useful_first[jnp.maximum(slot - kept, 0)]
    takes = slot >= kept

    def merged(before: Any, drawn: Any) -> Any:
        by_group = (config.groups, config.group_size)
        before = before.reshape(*by_group, *before.shape[1:])
        chosen = drawn.reshape(*by_group, *drawn.shape[1:])[source]
        mask = takes.reshape(-1, *(1,) * (before.ndim - 1))
        return jnp.where(mask, chosen, before).reshape(-1, *before.shape[2:])

    filled = jnp.minimum(kept + jnp.sum(teaches, dtype=jnp.int32), config.groups)
    return jax.tree.map(merged, old, new), filled
