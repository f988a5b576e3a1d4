"""The whole loss that a config names: surrogate, distance to a reference, entropy bonus."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from depgpo_jax.errors import ConfigError
from training.config import ObjectiveConfig
from training.objectives import (
    Objective,
    aggregate,
    clipped_objective,
    dppo_objective,
    gspo_objective,
    reference_kl,
)


class PolicyLoss(NamedTuple):
    """A loss to minimise and its parts; scalars."""

    loss: Float[Array, ""]  # surrogate + kl_coefficient * kl - entropy_coefficient * entropy
    surrogate: Float[Array, ""]
    kl: Float[Array, ""]  # aggregated like the surrogate; 0 without a reference
    entropy: Float[Array, ""]  # aggregated like the surrogate; 0 where none was given
    clip_fraction: Float[Array, ""]
    mean_ratio: Float[Array, ""]


def policy_loss(
    log_probs: Float[Array, "B L"],
    sampling_log_probs: Float[Array, "B L"],
    advantages: Float[Array, "B L"],
    loss_mask: Bool[Array, "B L"],
    config: ObjectiveConfig,
    *,
    reference_log_probs: Float[Array, "B L"] | None = None,
    entropy: Float[Array, "B L"] | None = None,
    count: Float[Array, ""] | None = None,
) -> PolicyLoss:
    """The loss of a config, from one number a token.

    Outside `loss_mask` the arrays may hold anything, NaN included.

    Args:
        log_probs: of the policy being trained.
        sampling_log_probs: of the policy that wrote the tokens.
        advantages: one a token, zero allowed.
        loss_mask: tokens that enter the loss.
        config: which surrogate, its bounds, the coefficients, how it is aggregated.
        reference_log_probs: of the policy to stay near; needed when `kl_coefficient` > 0.
        entropy: from `token_entropy`; needed when `entropy_coefficient` > 0.
        count: see `training.objectives.aggregate`.

    Returns:
        The loss and its parts.

    Raises:
        ConfigError: a coefficient is positive and its array is missing.
        ShapeError: the arrays differ in shape.
    """
    for name, coefficient, array, source in (
        ("kl_coefficient", config.kl_coefficient, reference_log_probs, "reference_log_probs"),
        ("entropy_coefficient", config.entropy_coefficient, entropy, "entropy"),
    ):
        if coefficient > 0 and array is None:
            raise ConfigError(
                f"policy_loss: ObjectiveConfig.{name} is {coefficient!r}, but {source} is None; "
                f"give {source} as [B, L], or set {name} to 0"
            )
    objective = _surrogate(log_probs, sampling_log_probs, advantages, loss_mask, config, count)

    def mean(values: Float[Array, "B L"]) -> Float[Array, ""]:
        return aggregate(
            values, loss_mask, config.aggregation, norm_length=config.norm_length, count=count
        )

    zero = jnp.zeros((), jnp.float32)
    kl = (
        zero
        if reference_log_probs is None
        else mean(reference_kl(log_probs, reference_log_probs, loss_mask))
    )
    mean_entropy = zero if entropy is None else mean(entropy)
    return PolicyLoss(
        # A coefficient of 0 is left out, so that an infinite part cannot turn into NaN.
        loss=objective.loss
        + (config.kl_coefficient * kl if config.kl_coefficient else 0.0)
        - (config.entropy_coefficient * mean_entropy if config.entropy_coefficient else 0.0),
        surrogate=objective.loss,
        kl=kl,
        entropy=mean_entropy,
        clip_fraction=objective.clip_fraction,
        mean_ratio=objective.mean_ratio,
    )


def _surrogate(
    log_probs: Float[Array, "B L"],
    sampling_log_probs: Float[Array, "B L"],
    advantages: Float[Array, "B L"],
    loss_mask: Bool[Array, "B L"],
    config: ObjectiveConfig,
    count: Float[Array, ""] | None,
) -> Objective:
    match config.surrogate:
        case "clip":
            objective = partial(
                clipped_objective,
                clip_low=config.clip_low,
                clip_high=config.clip_high,
                dual_clip=config.dual_clip,
            )
        case "gspo":
            objective = partial(
                gspo_objective, clip_low=config.clip_low, clip_high=config.clip_high
            )
        case "dppo":
            objective = partial(dppo_objective, delta=config.delta)
    return objective(
        log_probs,
        sampling_log_probs,
        advantages,
        loss_mask,
        aggregation=config.aggregation,
        norm_length=config.norm_length,
        count=count,
        empty=config.empty,
    )
