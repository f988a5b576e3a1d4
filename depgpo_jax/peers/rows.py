"""What the step-level methods share: steps as rows, anchors, normalising, checks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from depgpo_jax.advantages import AdvantageKind, EqualRule, SingletonRule, compare
from depgpo_jax.errors import ConfigError, ShapeError, printable
from depgpo_jax.groups import GroupMembers, ranks

Normalise = Literal["mean", "mean_std"]
"""`"mean"` subtracts the mean of the rows compared; `"mean_std"` divides by their deviation too."""

EpisodeRows = Literal["steps", "rollouts"]
"""Whether a rollout enters its group's mean and deviation once a step, or once."""

_WORDS: Mapping[str, tuple[str, ...]] = {
    "normalise": get_args(Normalise),
    "episode_rows": get_args(EpisodeRows),
    "singleton": get_args(SingletonRule),
    "equal": get_args(EqualRule),
}
"""Last part of an option's name -> its words: `anchor_equal` has those of `equal`."""

_NUMBERS = ("numbers", (jnp.floating, jnp.integer, jnp.bool_))
_WHOLE = ("whole numbers, such as int32", (jnp.integer,))
_BOOLS = ("bools", (jnp.bool_,))
# Some versions of JAX give jnp.bool_ a type of its own.
_DTYPES: Mapping[str, tuple[str, tuple[Any, ...]]] = {
    "reward": _NUMBERS,
    "step_reward": _NUMBERS,
    "loss_tokens": _NUMBERS,
    "group": _WHOLE,
    "state": _WHOLE,
    "final_state": _WHOLE,
    "is_step": _BOOLS,
    "success": _BOOLS,
}
"""Argument -> what its entries may be, in words and as kinds of dtypes."""

_KIND: Mapping[Normalise, AdvantageKind] = {"mean": "mean", "mean_std": "grpo"}


def anchors(
    group: Int[Array, " B"], state: Int[Array, "B T"], is_step: Bool[Array, "B T"]
) -> Int[Array, "B T"]:
    """One number for each pair of group and state, the same for equal pairs.

    Args:
        group: rollouts with equal ids >= 0 form a group.
        state: equal numbers are equal states.
        is_step: the steps that count.

    Returns:
        Numbers from 0 to B * T - 1; -1 at steps that do not count.
    """
    rows = state.size
    counts = (is_step & (group >= 0)[:, None]).ravel()
    groups = jnp.where(counts, jnp.broadcast_to(group[:, None], state.shape).ravel(), -1)
    states = jnp.where(counts, state.ravel(), 0)
    order = jnp.lexsort((states, groups))
    groups, states = groups[order], states[order]
    begins = jnp.concatenate(
        [jnp.zeros(min(rows, 1), bool), (groups[1:] != groups[:-1]) | (states[1:] != states[:-1])]
    )
    number = jnp.zeros(rows, jnp.int32).at[order].set(jnp.cumsum(begins, dtype=jnp.int32))
    return jnp.where(counts, number, -1).reshape(state.shape)


def compare_rows(
    values: Float[Array, "B T"],
    number: Int[Array, "B T"],
    *,
    normalise: Normalise,
    ddof: int,
    eps: float,
    singleton: SingletonRule = "zero",
    equal: EqualRule = "zero",
) -> Float[Array, "B T"]:
    """`group_advantages` over steps: each against those of one number; -1: none, and 0."""
    rows = number.ravel()
    kind = _KIND[normalise]
    flat = compare(
        values.ravel(),
        rows,
        rows >= 0,
        kind=kind,
        ddof=ddof,
        eps=eps,
        singleton=singleton,
        equal=equal,
    )
    return flat.reshape(values.shape)


def episode_advantages(
    reward: Float[Array, " B"],
    group: Int[Array, " B"],
    is_step: Bool[Array, "B T"],
    *,
    normalise: Normalise,
    episode_rows: EpisodeRows,
    ddof: int,
    eps: float,
    singleton: SingletonRule,
    equal: EqualRule,
) -> Float[Array, "B T"]:
    """Each rollout's outcome against its group's, given to all of its steps; 0 off `is_step`.

    Rollouts without steps take part in nothing; their reward may hold anything.
    """
    if is_step.size == 0:
        return jnp.zeros(is_step.shape, jnp.float32)
    takes_part = is_step.any(axis=1) & (group >= 0)
    outcome = jnp.where(takes_part, reward, 0.0).astype(jnp.float32)[:, None]
    number = jnp.where(takes_part, ranks(group), -1)[:, None]
    compared = partial(compare_rows, normalise=normalise, ddof=ddof, eps=eps, equal=equal)
    once = compared(outcome, number, singleton=singleton)
    if episode_rows == "rollouts":
        return jnp.where(is_step, once, 0.0)
    over_steps = compared(
        jnp.broadcast_to(outcome, is_step.shape), jnp.where(is_step, number, -1), singleton="zero"
    )
    # Its steps are equal rows to each other: that a rollout is alone, only rollouts can tell.
    alone = GroupMembers(number[:, 0], takes_part).size == 1
    return jnp.where(is_step, jnp.where(alone[:, None], once, over_steps), 0.0)


def returns_to_go(
    step_reward: Float[Array, "B T"], is_step: Bool[Array, "B T"], gamma: float | Float[Array, ""]
) -> Float[Array, "B T"]:
    """R_t = r_t + gamma * R_(t + 1) over the steps of each rollout; 0 off `is_step`."""

    def back(
        later: Float[Array, " B"], now: tuple[Float[Array, " B"], Bool[Array, " B"]]
    ) -> tuple[Float[Array, " B"], Float[Array, " B"]]:
        reward, counts = now
        total = jnp.where(counts, reward + gamma * later, later)
        return total, total

    rewards = jnp.where(is_step, step_reward, 0.0).astype(jnp.float32)
    _, returns = jax.lax.scan(
        back, jnp.zeros(rewards.shape[0], jnp.float32), (rewards.T, is_step.T), reverse=True
    )
    return jnp.where(is_step, returns.T, 0.0)


def last_step(is_step: Bool[Array, "B T"]) -> Bool[Array, "B T"]:
    """True at the last step of each rollout that has any."""
    steps_after = jnp.cumsum(is_step[:, ::-1], axis=1, dtype=jnp.int32)[:, ::-1] - is_step
    return is_step & (steps_after == 0)


def check_options(where: str, *, ddof: int, eps: float, **words: str) -> None:
    """Refuses an option outside its allowed values; the message names the method and the option."""
    for name, value in words.items():
        allowed = next(allowed for last, allowed in _WORDS.items() if name.endswith(last))
        if value not in allowed:
            listed = ", ".join(repr(word) for word in allowed)
            raise ConfigError(f"{where}: {name} is {value!r}; it must be one of {listed}")
    if not isinstance(ddof, Integral) or ddof not in (0, 1):
        raise ConfigError(
            f"{where}: ddof is {ddof!r}; it must be 0 (divide by G) or 1 (divide by G - 1)"
        )
    if not _is_real(eps) or not 0.0 <= eps < float("inf"):
        raise ConfigError(f"{where}: eps is {eps!r}; it must be a finite number >= 0, such as 1e-6")


def check_number(
    where: str, name: str, value: float | Array, low: float, high: float, hint: str
) -> None:
    """Refuses what is not a number in [low, high]; NaN is in no range.

    A tracer has no value yet: only that it is one number is checked, so that a sweep works in jit.
    """
    traced = isinstance(value, Tracer)
    if not _is_number(value) or not (traced or low <= value <= high):
        raise ConfigError(
            f"{where}: {name} is {printable(repr(value), 80)}; it must be a number from {low:g} to "
            f"{high:g}, {hint}"
        )


def check_arrays(where: str, arrays: Mapping[str, Any]) -> None:
    """Refuses what is no array, or one of another kind of entries than its name stands for."""
    for name, array in arrays.items():
        words, kinds = _DTYPES[name]
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            found = f"a value of type {type(array).__name__}"
        elif not any(jnp.issubdtype(array.dtype, kind) for kind in kinds):
            found = f"an array of {array.dtype}"
        else:
            continue
        raise ShapeError(
            f"{where}: found {found} for {name}; allowed: an array of {words}. Make one with "
            "jax.numpy.asarray(..., dtype=...)"
        )


def check_steps(where: str, rollouts: Mapping[str, Array], steps: Mapping[str, Array]) -> None:
    """Checks that arrays are [B] and [B, T] with one B and one T; the message names each."""
    check_arrays(where, {**rollouts, **steps})
    shape = next(iter(steps.values())).shape
    if (
        len(shape) == 2
        and all(array.shape == shape for array in steps.values())
        and all(array.shape == shape[:1] for array in rollouts.values())
    ):
        return
    found = ", ".join(f"{name} {array.shape}" for name, array in {**rollouts, **steps}.items())
    raise ShapeError(
        f"{where}: found {found}; allowed: [B] for {', '.join(rollouts)} and [B, T] for "
        f"{', '.join(steps)}, with one B and one T. For several batches at once use jax.vmap"
    )


def _is_number(value: object) -> bool:
    """Whether it is one real number, as an array without axes too."""
    if isinstance(value, jax.Array | np.ndarray):
        kinds = (jnp.floating, jnp.integer)
        return value.shape == () and any(jnp.issubdtype(value.dtype, kind) for kind in kinds)
    return _is_real(value)


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
