"""The union graph of a group's rollouts: how far each step leads from a success."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from depgpo_jax.groups import GroupMembers, ranks
from depgpo_jax.peers.rows import anchors, last_step

UNREACHED = 2**30
"""Distance of a state from which the group's graph leads to no success."""


def distance_after_step(
    group: Int[Array, " B"],
    state: Int[Array, "B T"],
    is_step: Bool[Array, "B T"],
    success: Bool[Array, " B"],
    final_state: Int[Array, " B"] | None = None,
) -> Int[Array, "B T"]:
    """How far the state that each step leads to is from a success: d(s') of GraphGPO.

    Args:
        group: as for `graph_gpo_advantages`, as are the others.
        state: states before the steps.
        is_step: the steps that count.
        success: the rollout reached the goal.
        final_state: the state after the last step; None: not known.

    Returns:
        Whole numbers >= 0; the group's largest finite distance + 1 where no way is known; 0 off
        `is_step`.
    """
    is_step = is_step & (group >= 0)[:, None]
    node, next_node = numbered_states(group, state, is_step, final_state)
    return distance_between(group, node, next_node, last_step(is_step) & success[:, None])


def distance_between(
    group: Int[Array, " B"],
    node: Int[Array, "B T"],
    next_node: Int[Array, "B T"],
    to_goal: Bool[Array, "B T"],
) -> Int[Array, "B T"]:
    """d(s') of each step: how far the state that it leads to is from a success of its group.

    Breadth-first from all successes at once: as many rounds as the largest distance, each one a
    minimum over the steps that leave a state.
    """
    if node.size == 0:
        return jnp.zeros(node.shape, jnp.int32)
    is_step = node >= 0
    nodes = node.size + len(group)  # final states have numbers too
    # Padding steps leave no state: they go past the last one, and are dropped there.
    start = jnp.where(is_step, node, nodes).ravel()

    def after(distance: Int[Array, " _"]) -> Int[Array, "B T"]:
        behind = jnp.where(next_node >= 0, distance[next_node], UNREACHED)
        return jnp.where(to_goal, 0, behind)

    def closer(
        known: tuple[Int[Array, " _"], Bool[Array, ""]],
    ) -> tuple[Int[Array, " _"], Bool[Array, ""]]:
        distance, _ = known
        through = jnp.minimum(after(distance) + 1, UNREACHED)
        found = distance.at[start].min(through.ravel(), mode="drop")
        return found, jnp.any(found != distance)

    nothing = jnp.full(nodes, UNREACHED, jnp.int32)
    distance, _ = jax.lax.while_loop(lambda known: known[1], closer, (nothing, jnp.array(True)))
    of_state = jnp.where(is_step, distance[jnp.maximum(node, 0)], 0)
    reached = jnp.where(of_state < UNREACHED, of_state, 0).max(axis=1)
    members = GroupMembers(ranks(group), group >= 0)
    largest = members.max(reached.astype(jnp.float32)).astype(jnp.int32)
    behind = after(distance)
    behind = jnp.where(behind < UNREACHED, behind, largest[:, None] + 1)
    return jnp.where(is_step, behind, 0)


def numbered_states(
    group: Int[Array, " B"],
    state: Int[Array, "B T"],
    is_step: Bool[Array, "B T"],
    final_state: Int[Array, " B"] | None,
) -> tuple[Int[Array, "B T"], Int[Array, "B T"]]:
    """Numbers of the states before and after each step; -1 where there is none or it is unknown."""
    rollouts, steps = state.shape
    if final_state is None:
        final_state = jnp.zeros(rollouts, state.dtype)
        has_final = jnp.zeros(rollouts, bool)
    else:
        has_final = is_step.any(axis=1)
    number = anchors(
        group,
        jnp.concatenate([state, final_state[:, None].astype(state.dtype)], axis=1),
        jnp.concatenate([is_step, has_final[:, None]], axis=1),
    )
    place = jnp.where(is_step, jnp.arange(steps, dtype=jnp.int32)[None], steps)
    from_here = jax.lax.cummin(place, axis=1, reverse=True)
    next_place = jnp.pad(from_here[:, 1:], ((0, 0), (0, 1)), constant_values=steps)
    after = jnp.take_along_axis(number, next_place, axis=1)
    return number[:, :steps], jnp.where(is_step, after, -1)
