"""GraphGPO: steps are worth how near they bring a rollout to a success, over all its group saw."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from depgpo_jax.advantages import EqualRule, SingletonRule
from depgpo_jax.peers.distances import distance_between, numbered_states
from depgpo_jax.peers.rows import (
    EpisodeRows,
    Normalise,
    check_number,
    check_options,
    check_steps,
    compare_rows,
    episode_advantages,
    last_step,
)


def graph_gpo_advantages(
    reward: Float[Array, " B"],
    group: Int[Array, " B"],
    state: Int[Array, "B T"],
    is_step: Bool[Array, "B T"],
    success: Bool[Array, " B"],
    *,
    final_state: Int[Array, " B"] | None = None,
    omega: float | Float[Array, ""] = 0.1,
    success_reward: float | Float[Array, ""] = 10.0,
    step_weight: float | Float[Array, ""] = 1.0,
    episode_weight: float | Float[Array, ""] = 1.0,
    normalise: Normalise = "mean_std",
    episode_rows: EpisodeRows = "steps",
    ddof: int = 1,
    eps: float = 1e-6,
    singleton: SingletonRule = "zero",
    equal: EqualRule = "zero",
) -> Float[Array, "B T"]:
    """Graph-based advantages, one a step.

        A_it = episode_weight * A_i + step_weight * A_t

    The union graph of a group has the states of its rollouts as nodes and their steps as edges,
    each from the state before the step to the next one; a successful rollout's last step leads to
    the goal. d(s) is the number of steps on the shortest way from s to the goal, and one more than
    the largest such number of the group where there is no way. A step into s' is worth

        R_t = success_reward * omega ** (d(s') + 1)

    and A_t compares this among all steps of the group that set out from the same state, the
    rollout's own among them; a state that only one step leaves gets 0. A_i compares outcomes. With
    `normalise="mean"` a comparison is x - mean, with `"mean_std"` (x - mean) / (std + eps).

    Rows with a negative group, and steps off `is_step`, are padding: they may hold anything, NaN
    included, take part in nothing and get 0. Groups must be whole, as for `group_advantages`.

    Reference: GraphGPO, arXiv 2605.26684, with all costs 1 (as in its experiments). Its full text
    was not at hand; the formulas are those of its public descriptions. **Decided here**: the last
    step of a rollout that failed leads to a state of no way out, unless `final_state` names one.

    Args:
        reward: outcome of each rollout, finite.
        group: rollouts with equal ids >= 0 form a group; negative: padding.
        state: equal numbers are equal states, within a group; from `step_states`, or an
            environment's own hashes.
        is_step: the steps of each rollout. False for all of a rollout leaves it out.
        success: the rollout reached the goal.
        final_state: the state after the last step, numbered like `state`; None: not known.
        omega: how much a step further away is worth less, in (0, 1); in `jax.jit` this and the next
            three may be traced, and their ranges are not checked.
        success_reward: r of the goal, finite; matters through eps, or with `normalise="mean"`.
        step_weight: of A_t, finite.
        episode_weight: of A_i, finite.
        normalise: of both parts.
        episode_rows: whether a rollout enters the episode's mean once a step, or once.
        ddof: as for `group_advantages`.
        eps: as for `group_advantages`.
        singleton: A_i of the only rollout of a group, as for `group_advantages`.
        equal: A_i where all outcomes of a group are equal, as for `group_advantages`.

    Returns:
        Advantages of steps, float32, for `step_token_advantages`.

    Raises:
        ConfigError: an option outside its allowed values.
        ShapeError: the arrays do not share B and T, or hold entries of another kind.

    >>> state = jnp.array([[0, 1, 2], [0, 2, 1]])  # the second takes the short way, but fails
    >>> graph_gpo_advantages(
    ...     jnp.array([1.0, 0.0]), jnp.array([0, 0]), state, state >= 0, jnp.array([True, False]),
    ...     normalise="mean", omega=0.5, success_reward=8.0, episode_weight=0.0,
    ... ).tolist()
    [[-0.5, 0.75, 1.5], [0.5, -1.5, -0.75]]
    """
    where = "graph_gpo_advantages"
    check_options(
        where,
        normalise=normalise,
        episode_rows=episode_rows,
        ddof=ddof,
        eps=eps,
        singleton=singleton,
        equal=equal,
    )
    check_number(where, "omega", omega, 1e-6, 1.0 - 1e-6, "such as 0.1")
    check_number(where, "success_reward", success_reward, -1e6, 1e6, "such as 10.0")
    check_number(where, "step_weight", step_weight, -1e6, 1e6, "such as 1.0")
    check_number(where, "episode_weight", episode_weight, -1e6, 1e6, "such as 1.0")
    rollouts = {"reward": reward, "group": group, "success": success}
    if final_state is not None:
        rollouts["final_state"] = final_state
    check_steps(where, rollouts, {"state": state, "is_step": is_step})
    return _graph_gpo(
        reward,
        group,
        state,
        is_step,
        success,
        final_state,
        omega,
        success_reward,
        step_weight,
        episode_weight,
        normalise=normalise,
        episode_rows=episode_rows,
        ddof=ddof,
        eps=eps,
        singleton=singleton,
        equal=equal,
    )


@partial(
    jax.jit, static_argnames=("normalise", "episode_rows", "ddof", "eps", "singleton", "equal")
)
def _graph_gpo(
    reward: Float[Array, " B"],
    group: Int[Array, " B"],
    state: Int[Array, "B T"],
    is_step: Bool[Array, "B T"],
    success: Bool[Array, " B"],
    final_state: Int[Array, " B"] | None,
    omega: float | Float[Array, ""],
    success_reward: float | Float[Array, ""],
    step_weight: float | Float[Array, ""],
    episode_weight: float | Float[Array, ""],
    *,
    normalise: Normalise,
    episode_rows: EpisodeRows,
    ddof: int,
    eps: float,
    singleton: SingletonRule,
    equal: EqualRule,
) -> Float[Array, "B T"]:
    is_step = is_step & (group >= 0)[:, None]
    episode = episode_advantages(
        reward,
        group,
        is_step,
        normalise=normalise,
        episode_rows=episode_rows,
        ddof=ddof,
        eps=eps,
        singleton=singleton,
        equal=equal,
    )
    node, next_node = numbered_states(group, state, is_step, final_state)
    distance = distance_between(group, node, next_node, last_step(is_step) & success[:, None])
    exponent = (distance + 1).astype(jnp.float32)
    worth = success_reward * jnp.power(jnp.asarray(omega, jnp.float32), exponent)
    step = compare_rows(
        jnp.where(is_step, worth, 0.0),
        node,
        normalise=normalise,
        ddof=ddof,
        eps=eps,
    )
    return episode_weight * episode + step_weight * step
