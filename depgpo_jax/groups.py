"""Sums and extremes within groups of rows, broadcast back to the rows: what comparisons need."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def ranks(group: Int[Array, " B"]) -> Int[Array, " B"]:
    """Groups numbered from 0 without gaps: an id beyond B must not fall out of a sum over B."""
    return jnp.unique(group, return_inverse=True, size=group.shape[0])[1]


class GroupMembers:
    """Reductions over the valid rows of each row's group, broadcast back to the rows.

    Args:
        rank: the row's group, from 0 to B - 1, as `ranks` gives it; anything where not valid.
        takes_part: the valid rows.

    Attributes:
        size: valid rows of the group, a whole number.
    """

    def __init__(self, rank: Int[Array, " B"], takes_part: Bool[Array, " B"]) -> None:
        self._rows = rank.shape[0]
        self._takes_part = takes_part
        self._rank = jnp.where(takes_part, rank, 0)
        self.size = self.sum(jnp.ones(self._rows, jnp.float32))

    def sum(self, values: Float[Array, " B"]) -> Float[Array, " B"]:
        """Sum over the group's valid rows."""
        values = jnp.where(self._takes_part, values, 0.0)
        return jax.ops.segment_sum(values, self._rank, self._rows)[self._rank]

    def max(self, values: Float[Array, " B"]) -> Float[Array, " B"]:
        """Largest value of the group's valid rows; 0 at rows that are not valid."""
        values = jnp.where(self._takes_part, values, -jnp.inf)
        highest = jax.ops.segment_max(values, self._rank, self._rows)[self._rank]
        return jnp.where(self._takes_part, highest, 0.0)

    def min(self, values: Float[Array, " B"]) -> Float[Array, " B"]:
        """Smallest value of the group's valid rows; 0 at rows that are not valid."""
        return -self.max(-values)

    def equal(self, values: Float[Array, " B"]) -> Bool[Array, " B"]:
        """The group's valid rows all have one value; decided without rounding."""
        return self.max(values) == self.min(values)


def centred(
    reward: Float[Array, " B"], members: GroupMembers
) -> tuple[Float[Array, " B"], Float[Array, " B"]]:
    """r - m as (unit, scale) with r - m = unit * scale and |unit| <= 2.

    Rewards are measured from the middle of the group's range in units of half that range, so that
    rewards near 1e30 neither overflow when summed nor when squared, and a large common offset
    does not cost digits.
    """
    highest, lowest = members.max(reward), members.min(reward)
    differs = highest > lowest
    # Halves throughout: highest - lowest alone may exceed float32.
    offset = 0.5 * reward - (0.25 * highest + 0.25 * lowest)
    half_scale = jnp.where(differs, members.max(jnp.abs(offset)), 0.0)
    differs &= half_scale > 0  # a range below the smallest normal number may flush to zero
    half_scale = jnp.where(differs, half_scale, 0.5)
    unit = jnp.where(differs, offset, 0.0) / half_scale
    mean = members.sum(unit) / jnp.maximum(members.size, 1.0)
    return jnp.where(differs, unit - mean, 0.0), 2.0 * half_scale
