"""GiGPO: steps that set out from the same state are compared with each other."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from depgpo_jax.advantages import EqualRule, SingletonRule
from depgpo_jax.peers.rows import (
    EpisodeRows,
    Normalise,
    anchors,
    check_number,
    check_options,
    check_steps,
    compare_rows,
    episode_advantages,
    last_step,
    returns_to_go,
)


def gigpo_advantages(
    reward: Float[Array, " B"],
    group: Int[Array, " B"],
    state: Int[Array, "B T"],
    is_step: Bool[Array, "B T"],
    *,
    step_reward: Float[Array, "B T"] | None = None,
    gamma: float | Float[Array, ""] = 0.95,
    step_weight: float | Float[Array, ""] = 1.0,
    normalise: Normalise = "mean",
    episode_rows: EpisodeRows = "steps",
    ddof: int = 1,
    eps: float = 1e-6,
    singleton: SingletonRule = "zero",
    equal: EqualRule = "zero",
    anchor_singleton: SingletonRule = "zero",
    anchor_equal: EqualRule = "zero",
) -> Float[Array, "B T"]:
    """Group-in-group advantages, one a step.

        A_it = A_i + step_weight * A_t

    A_i compares the rollout's outcome with its group's. A_t compares the return from step t on,
    R_t = r_t + gamma * R_(t + 1), with that of all steps of the group that set out from the same
    state (the anchor), the rollout's own among them. The outcome is the reward of the last step,
    on top of `step_reward` if there is one. With `normalise="mean"` a comparison is x - mean, with
    `"mean_std"` (x - mean) / (std + eps).

    Rows with a negative group, and steps off `is_step`, are padding: they may hold anything, NaN
    included, take part in nothing and get 0. Groups must be whole, as for `group_advantages`.

    Reference: GiGPO, arXiv 2505.10978. Its reference implementation takes the episode's mean and
    deviation over steps, so that a longer rollout counts for more: `episode_rows="steps"`; as
    written in the paper each rollout counts once: `"rollouts"`.

    Args:
        reward: outcome of each rollout, finite.
        group: rollouts with equal ids >= 0 form a group; negative: padding.
        state: equal numbers are equal states, within a group; from `step_states`, or an
            environment's own hashes.
        is_step: the steps of each rollout. False for all of a rollout leaves it out.
        step_reward: further rewards of single steps; None: none.
        gamma: discount, in [0, 1]; in `jax.jit` it may be traced, and its range is not checked.
        step_weight: omega, of the step's part, finite; like gamma.
        normalise: of both parts.
        episode_rows: whether a rollout enters the episode's mean once a step, or once.
        ddof: as for `group_advantages`.
        eps: as for `group_advantages`.
        singleton: A_i of the only rollout of a group, as for `group_advantages`.
        equal: A_i where all outcomes of a group are equal, as for `group_advantages`.
        anchor_singleton: A_t of the only step at an anchor; `"reward"` gives its return.
        anchor_equal: A_t where all returns at an anchor are equal.

    Returns:
        Advantages of steps, float32, for `step_token_advantages`.

    Raises:
        ConfigError: an option outside its allowed values.
        ShapeError: the arrays do not share B and T, or hold entries of another kind.

    >>> state = jnp.array([[0, 1, 2], [0, 1, 3]])
    >>> gigpo_advantages(
    ...     jnp.array([1.0, 0.0]), jnp.array([0, 0]), state, state >= 0, gamma=0.5
    ... ).tolist()
    [[0.625, 0.75, 0.5], [-0.625, -0.75, -0.5]]
    """
    where = "gigpo_advantages"
    check_options(
        where,
        normalise=normalise,
        episode_rows=episode_rows,
        ddof=ddof,
        eps=eps,
        singleton=singleton,
        equal=equal,
        anchor_singleton=anchor_singleton,
        anchor_equal=anchor_equal,
    )
    check_number(where, "gamma", gamma, 0.0, 1.0, "such as 0.95")
    check_number(where, "step_weight", step_weight, -1e6, 1e6, "such as 1.0")
    steps = {"state": state, "is_step": is_step}
    if step_reward is not None:
        steps["step_reward"] = step_reward
    check_steps(where, {"reward": reward, "group": group}, steps)
    return _gigpo(
        reward,
        group,
        state,
        is_step,
        step_reward,
        gamma,
        step_weight,
        normalise=normalise,
        episode_rows=episode_rows,
        ddof=ddof,
        eps=eps,
        singleton=singleton,
        equal=equal,
        anchor_singleton=anchor_singleton,
        anchor_equal=anchor_equal,
    )


@partial(
    jax.jit,
    static_argnames=(
        "normalise",
        "episode_rows",
        "ddof",
        "eps",
        "singleton",
        "equal",
        "anchor_singleton",
        "anchor_equal",
    ),
)
def _gigpo(
    reward: Float[Array, " B"],
    group: Int[Array, " B"],
    state: Int[Array, "B T"],
    is_step: Bool[Array, "B T"],
    step_reward: Float[Array, "B T"] | None,
    gamma: float | Float[Array, ""],
    step_weight: float | Float[Array, ""],
    *,
    normalise: Normalise,
    episode_rows: EpisodeRows,
    ddof: int,
    eps: float,
    singleton: SingletonRule,
    equal: EqualRule,
    anchor_singleton: SingletonRule,
    anchor_equal: EqualRule,
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
    rewards = jnp.where(last_step(is_step), reward[:, None], 0.0).astype(jnp.float32)
    if step_reward is not None:
        rewards = rewards + jnp.where(is_step, step_reward, 0.0)
    step = compare_rows(
        returns_to_go(rewards, is_step, gamma),
        anchors(group, state, is_step),
        normalise=normalise,
        ddof=ddof,
        eps=eps,
        singleton=anchor_singleton,
        equal=anchor_equal,
    )
    return episode + step_weight * step
