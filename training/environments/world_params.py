"""What may differ between runs in the file world without compiling anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from depgpo_jax.errors import ConfigError
from training.environments.commands import NUM_FAMILIES, Family
from training.environments.prompts import Split


class WorldParams(NamedTuple):
    """What may differ between runs without compiling anew; scalars but for the weights.

    Attributes:
        family_weights: how often each family is drawn, in any unit; 0: never.
        split: which prompts, a `Split`.
        submit: whether the verb `submit` is there; without it every rollout has all its commands.
        empty_target: probability that the target z is empty at the start.
    """

    family_weights: Float32[Array, " 5"]
    split: Int32[Array, ""]
    submit: Bool[Array, ""]
    empty_target: Float32[Array, ""]


def world_params(
    *,
    families: Sequence[Family] = tuple(Family),
    split: Split = Split.TRAIN,
    submit: bool = True,
    empty_target: float = 0.5,
) -> WorldParams:
    """Checked parameters.

    Args:
        families: the families to draw from, all equally often.
        split: training, validation or test prompts.
        submit: whether a rollout may be ended by a command.
        empty_target: probability that z is empty at the start.

    Raises:
        ConfigError: no family, or a probability outside [0, 1].
    """
    if not families or any(family not in tuple(Family) for family in families):
        raise ConfigError(
            f"world_params: families is {families!r}; it must name at least one of "
            + ", ".join(f"Family.{family.name}" for family in Family)
        )
    if not 0.0 <= empty_target <= 1.0:
        raise ConfigError(
            f"world_params: empty_target is {empty_target!r}; it must be a probability in [0, 1]"
        )
    weights = [float(family in families) for family in range(NUM_FAMILIES)]
    return WorldParams(
        family_weights=jnp.array(weights, jnp.float32),
        split=jnp.array(split, jnp.int32),
        submit=jnp.array(submit),
        empty_target=jnp.array(empty_target, jnp.float32),
    )
