"""Checks that every config shares; each names the field, what it found and what is allowed."""

from __future__ import annotations

import math
import operator
from numbers import Real

from depgpo_jax.errors import ConfigError

MAX_SEED = 2**32 - 1
"""JAX keeps 32 bits of a seed; a larger one would be another one's double."""


def one_of(config: object, name: str, allowed: tuple[str, ...]) -> None:
    """Refuse a word that is not among the allowed ones."""
    value = getattr(config, name)
    if value not in allowed:
        raise ConfigError(
            f"{type(config).__name__}.{name} is {value!r}; it must be one of "
            + ", ".join(repr(word) for word in allowed)
        )


def whole(
    config: object, name: str, value: object, *, at_least: int = 1, at_most: int | None = None
) -> None:
    """Refuse what is no whole number, bools among it, or outside the bounds."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or value < at_least
        or (at_most is not None and value > at_most)
    ):
        allowed = f">= {at_least}" if at_most is None else f"from {at_least} to {at_most}"
        raise ConfigError(
            f"{type(config).__name__}.{name} is {value!r}; it must be a whole number {allowed}"
        )


def number(
    config: object,
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> None:
    """Refuse what is no number, bools among it, or outside the bounds, as NaN is of any."""
    bounds = [
        (above, ">", operator.gt),
        (at_least, ">=", operator.ge),
        (below, "<", operator.lt),
        (at_most, "<=", operator.le),
    ]
    set_bounds = [(bound, sign, holds) for bound, sign, holds in bounds if bound is not None]
    if (
        isinstance(value, Real)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and all(holds(value, bound) for bound, _, holds in set_bounds)
    ):
        return
    allowed = " and ".join(f"{sign} {bound:g}" for bound, sign, _ in set_bounds)
    allowed = f"a finite number {allowed}".rstrip()
    raise ConfigError(f"{type(config).__name__}.{name} is {value!r}; it must be {allowed}")
