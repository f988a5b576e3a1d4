"""MT-GRPO: each turn's own reward is compared with that of the group's same turn."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from depgpo_jax.advantages import EqualRule, SingletonRule
from depgpo_jax.peers.rows import (
    Normalise,
    anchors,
    check_number,
    check_options,
    check_steps,
    compare_rows,
    episode_advantages,
    last_step,
)


def mt_grpo_advantages(
    reward: Float[Array, " B"],
    group: Int[Array, " B"],
    step_reward: Float[Array, "B T"],
    is_step: Bool[Array, "B T"],
    *,
    turn_weight: float | Float[Array, ""] = 1.0,
    outcome_weight: float | Float[Array, ""] = 1.0,
    turn_on_last: bool = False,
    normalise: Normalise = "mean_std",
    ddof: int = 1,
    eps: float = 1e-6,
    singleton: SingletonRule = "zero",
    equal: EqualRule = "zero",
    turn_singleton: SingletonRule = "zero",
    turn_equal: EqualRule = "zero",
) -> Float[Array, "B T"]:
    """Turn-level advantages, one a step.

        A_it = turn_weight * A_t + outcome_weight * A_i    before the last step
        A_it = A_i                                         at the last step

    A_i compares the rollout's outcome with its group's, each rollout once. A_t compares the reward
    of the rollout's k-th step with those of the group's other k-th steps, whatever the rollouts'
    lengths. With `normalise="mean"` a comparison is x - mean, with `"mean_std"`
    (x - mean) / (std + eps).

    Rows with a negative group, and steps off `is_step`, are padding: they may hold anything, NaN
    included, take part in nothing and get 0. Groups must be whole, as for `group_advantages`.

    Reference: MT-GRPO, arXiv 2505.11821, where a rollout has two turns and only the first has a
    reward of its own. **Decided here**: the same for any number of turns.

    Args:
        reward: outcome of each rollout, finite.
        group: rollouts with equal ids >= 0 form a group; negative: padding.
        step_reward: rewards of the steps, finite; from `step_rewards`, or an environment's own.
        is_step: the steps of each rollout. False for all of a rollout leaves it out.
        turn_weight: of A_t, finite; in `jax.jit` this and the next may be traced, and their ranges
            are not checked.
        outcome_weight: of A_i before the last step, finite.
        turn_on_last: the last step gets `turn_weight * A_t + A_i`.
        normalise: of both parts.
        ddof: as for `group_advantages`.
        eps: as for `group_advantages`.
        singleton: A_i of the only rollout of a group, as for `group_advantages`.
        equal: A_i where all outcomes of a group are equal, as for `group_advantages`.
        turn_singleton: A_t of a group's only k-th step; `"reward"` gives its reward.
        turn_equal: A_t where all k-th steps have one reward.

    Returns:
        Advantages of steps, float32, for `step_token_advantages`.

    Raises:
        ConfigError: an option outside its allowed values.
        ShapeError: the arrays do not share B and T, or hold entries of another kind.

    >>> step_reward = jnp.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.0]])
    >>> reward, group = jnp.array([1.0, 0.0]), jnp.array([0, 0])
    >>> is_step = jnp.ones((2, 3), bool)
    >>> mt_grpo_advantages(reward, group, step_reward, is_step, normalise="mean").tolist()
    [[1.0, 0.25, 0.5], [-1.0, -0.25, -0.5]]
    """
    where = "mt_grpo_advantages"
    check_options(
        where,
        normalise=normalise,
        ddof=ddof,
        eps=eps,
        singleton=singleton,
        equal=equal,
        turn_singleton=turn_singleton,
        turn_equal=turn_equal,
    )
    check_number(where, "turn_weight", turn_weight, -1e6, 1e6, "such as 1.0")
    check_number(where, "outcome_weight", outcome_weight, -1e6, 1e6, "such as 1.0")
    check_steps(
        where,
        {"reward": reward, "group": group},
        {"step_reward": step_reward, "is_step": is_step},
    )
    return _mt_grpo(
        reward,
        group,
        step_reward,
        is_step,
        turn_weight,
        outcome_weight,
        turn_on_last=turn_on_last,
        normalise=normalise,
        ddof=ddof,
        eps=eps,
        singleton=singleton,
        equal=equal,
        turn_singleton=turn_singleton,
        turn_equal=turn_equal,
    )


@partial(
    jax.jit,
    static_argnames=(
        "turn_on_last",
        "normalise",
        "ddof",
        "eps",
        "singleton",
        "equal",
        "turn_singleton",
        "turn_equal",
    ),
)
def _mt_grpo(
    reward: Float[Array, " B"],
    group: Int[Array, " B"],
    step_reward: Float[Array, "B T"],
    is_step: Bool[Array, "B T"],
    turn_weight: float | Float[Array, ""],
    outcome_weight: float | Float[Array, ""],
    *,
    turn_on_last: bool,
    normalise: Normalise,
    ddof: int,
    eps: float,
    singleton: SingletonRule,
    equal: EqualRule,
    turn_singleton: SingletonRule,
    turn_equal: EqualRule,
) -> Float[Array, "B T"]:
    is_step = is_step & (group >= 0)[:, None]
    outcome = episode_advantages(
        reward,
        group,
        is_step,
        normalise=normalise,
        episode_rows="rollouts",
        ddof=ddof,
        eps=eps,
        singleton=singleton,
        equal=equal,
    )
    turn_number = jnp.cumsum(is_step, axis=1, dtype=jnp.int32)
    turn = compare_rows(
        jnp.where(is_step, step_reward, 0.0).astype(jnp.float32),
        anchors(group, turn_number, is_step),
        normalise=normalise,
        ddof=ddof,
        eps=eps,
        singleton=turn_singleton,
        equal=turn_equal,
    )
    last = last_step(is_step)
    return jnp.where(last, outcome, outcome_weight * outcome) + jnp.where(
        last & (not turn_on_last), 0.0, turn_weight * turn
    )
