"""What every surrogate gives, and how it is put together from one number a token."""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from training.objectives.aggregation import Aggregation, aggregate
from training.objectives.shapes import same_shapes

Surrogate = Literal["clip", "gspo", "dppo"]


class Objective(NamedTuple):
    """A loss to minimise and what is worth watching; scalars, 0 (ratio: 1) for an empty mask."""

    loss: Float[Array, ""]
    clip_fraction: Float[Array, ""]  # loss tokens that a bound keeps from moving the policy
    mean_ratio: Float[Array, ""]  # over loss tokens


def check_tokens(
    where: str, log_probs: Array, sampling_log_probs: Array, advantages: Array, loss_mask: Array
) -> None:
    """Checks that the four arrays of an objective share one shape."""
    same_shapes(
        where,
        log_probs=log_probs,
        sampling_log_probs=sampling_log_probs,
        advantages=advantages,
        loss_mask=loss_mask,
    )


def objective_of(
    loss: Float[Array, "B L"],
    bound: Bool[Array, "B L"],
    ratio: Float[Array, "B L"],
    loss_mask: Bool[Array, "B L"],
    aggregation: Aggregation,
    norm_length: int | None,
    count: Float[Array, ""] | None,
    empty: float,
) -> Objective:
    """Aggregates losses of tokens; `bound` marks those that a bound keeps from moving anything."""
    return Objective(
        loss=aggregate(
            loss, loss_mask, aggregation, norm_length=norm_length, count=count, empty=empty
        ),
        clip_fraction=aggregate(bound.astype(jnp.float32), loss_mask, "token_mean"),
        mean_ratio=aggregate(ratio, loss_mask, "token_mean", empty=1.0),
    )
