"""Group advantages: one scalar a rollout, from the rewards of the rollouts that share its prompt.

The dependency weights multiply whatever scalar advantage stands here; none of these rules knows of
commands or credit. Every hidden choice in which trainers differ (ddof, eps, what a group of one
gets) is an argument.
"""

from __future__ import annotations

from typing import Literal, get_args

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from depgpo_jax.errors import ConfigError, ShapeError
from depgpo_jax.groups import GroupMembers, centred, ranks
from depgpo_jax.tokens import token_advantages

__all__ = ["AdvantageKind", "EqualRule", "SingletonRule", "group_advantages", "token_advantages"]

AdvantageKind = Literal["grpo", "dr_grpo", "rloo", "mean"]
SingletonRule = Literal["zero", "reward"]
EqualRule = Literal["zero", "reward"]


def group_advantages(
    reward: Float[Array, " B"],
    group: Int[Array, " B"],
    valid: Bool[Array, " B"] | None = None,
    *,
    kind: AdvantageKind = "grpo",
    ddof: int = 1,
    eps: float = 1e-6,
    singleton: SingletonRule = "zero",
    equal: EqualRule = "zero",
) -> Float[Array, " B"]:
    """Compare every rollout's reward with its group's; G counts the group's valid rollouts.

    With m the mean reward and s the standard deviation, sqrt(sum (r - m)^2 / (G - ddof)):

        grpo             A_i = (r_i - m) / (s + eps)
        dr_grpo, mean    A_i = r_i - m
        rloo             A_i = r_i - mean of the others = (r_i - m) * G / (G - 1)

    `dr_grpo` and `mean` are one formula under the two names people look for: Dr.GRPO removes the
    division by s and, in the loss, the division by each rollout's length. Only the first half is
    here; the second is the choice of `aggregation` in the objective.

    Guarantees: a group of equal rewards gets exactly what `equal` says (the float mean of three 0.1
    is not 0.1, so equality is decided by minimum and maximum); the result is finite for every
    finite reward, and an `rloo` or centred value beyond float32's range becomes its largest number;
    rollouts that are not valid are no part of the baseline and get 0.

    Groups must be whole: inside `shard_map` only a shard's own rows are compared, so compute it
    outside (it is one number a rollout), or keep every group on one device.

    Rows with a negative group id (`NO_GROUP`) or `valid` False are padding: their reward may hold
    anything, NaN included. Groups need not be contiguous, of equal size, or numbered densely. The
    order of rows changes the sums' rounding only.

    Reference: GRPO, arXiv 2402.03300; Dr.GRPO, arXiv 2503.20783; RLOO, arXiv 2402.14740.

    Args:
        reward: the verifier's rewards, finite where valid.
        group: rollouts with equal ids >= 0 form a group; negative: padding.
        valid: rollouts that take part; None: all with a group.
        kind: the rule above.
        ddof: 1 divides the squares by G - 1 (the sample's deviation), 0 by G. Only `grpo` uses it.
        eps: added to s, in units of reward, finite and >= 0. Only `grpo` uses it.
        singleton: what the only valid rollout of a group gets: "zero", since there is nothing to
            compare it with, or "reward", its raw reward, as some trainers have it.
        equal: what the rollouts of a larger group get whose rewards are all equal: "zero", or
            "reward", their raw reward, so that a prompt that always fails or always succeeds still
            teaches something (to leave such groups out, as DAPO does, drop them before).

    Returns:
        The advantages, float32.

    Raises:
        ConfigError: an option outside its allowed values.
        ShapeError: the arrays are not one-dimensional and of one length.

    >>> group_advantages(jnp.arange(1.0, 7.0), jnp.array([0, 0, 0, 1, 1, 1]), kind="rloo").tolist()
    [-1.5, 0.0, 1.5, -1.5, 0.0, 1.5]
    """
    check_options(kind, ddof, eps, singleton, equal)
    _check_shapes(reward, group, valid)
    if reward.shape[0] == 0:
        return jnp.zeros(0, jnp.float32)

    takes_part = group >= 0 if valid is None else valid & (group >= 0)
    return compare(
        reward,
        ranks(group),
        takes_part,
        kind=kind,
        ddof=ddof,
        eps=eps,
        singleton=singleton,
        equal=equal,
    )


def compare(
    reward: Float[Array, " B"],
    rank: Int[Array, " B"],
    takes_part: Bool[Array, " B"],
    *,
    kind: AdvantageKind,
    ddof: int,
    eps: float,
    singleton: SingletonRule,
    equal: EqualRule,
) -> Float[Array, " B"]:
    """`group_advantages` of rows whose groups are numbered from 0 to B - 1 already, unchecked."""
    reward = jnp.where(takes_part, reward, 0.0).astype(jnp.float32)
    members = GroupMembers(rank, takes_part)
    unit, scale = centred(reward, members)
    size = members.size

    if kind == "grpo":
        squares = members.sum(unit * unit)
        deviation = jnp.sqrt(squares / jnp.maximum(size - ddof, 1))
        # Numerator and denominator are both in units of `scale`, so nothing here can overflow.
        divisor = deviation + eps / scale
        advantage = unit / jnp.where(divisor > 0, divisor, 1.0)
    else:
        unit = unit * (size / jnp.maximum(size - 1, 1)) if kind == "rloo" else unit
        largest = jnp.finfo(jnp.float32).max
        advantage = jnp.clip(unit * scale, -largest, largest)

    if singleton == "reward":
        advantage = jnp.where(size == 1, reward, advantage)
    if equal == "reward":
        advantage = jnp.where((size > 1) & members.equal(reward), reward, advantage)
    return jnp.where(takes_part, advantage, 0.0)


def check_options(kind: str, ddof: int, eps: float, singleton: str, equal: str) -> None:
    """Refuses options of `group_advantages` outside their allowed values."""
    if kind not in get_args(AdvantageKind):
        raise ConfigError(f"kind is {kind!r}; it must be one of {_names(AdvantageKind)}")
    if ddof not in (0, 1):
        raise ConfigError(f"ddof is {ddof!r}; it must be 0 (divide by G) or 1 (divide by G - 1)")
    if not 0.0 <= eps < float("inf"):
        raise ConfigError(f"eps is {eps!r}; it must be a finite number >= 0, such as 1e-6")
    if singleton not in get_args(SingletonRule):
        raise ConfigError(f"singleton is {singleton!r}; it must be one of {_names(SingletonRule)}")
    if equal not in get_args(EqualRule):
        raise ConfigError(f"equal is {equal!r}; it must be one of {_names(EqualRule)}")


def _names(literal: object) -> str:
    return ", ".join(repr(name) for name in get_args(literal))


def _check_shapes(
    reward: Float[Array, " B"], group: Int[Array, " B"], valid: Bool[Array, " B"] | None
) -> None:
    shapes = {"reward": reward.shape, "group": group.shape}
    if valid is not None:
        shapes["valid"] = valid.shape
    if len(reward.shape) != 1 or len(set(shapes.values())) != 1:
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ShapeError(
            f"group_advantages: found {found}; all must be [B], one entry a rollout. "
            "For several batches at once use jax.vmap"
        )
