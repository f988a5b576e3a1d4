"""One number from one a token: the five ways in which trainers take the mean."""

from __future__ import annotations

from typing import Literal, get_args

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from depgpo_jax.errors import ConfigError
from training.objectives.shapes import same_shapes

Aggregation = Literal[
    "token_mean",
    "sequence_mean_token_mean",
    "sequence_mean_token_sum",
    "sequence_mean_token_sum_norm",
    "token_sum",
]


def aggregate(
    values: Float[Array, "B L"],
    loss_mask: Bool[Array, "B L"],
    aggregation: Aggregation,
    *,
    norm_length: int | None = None,
    count: Float[Array, ""] | None = None,
    empty: float = 0.0,
) -> Float[Array, ""]:
    """One number from one a token.

        token_mean                    sum over all tokens / number of tokens of the batch
        sequence_mean_token_mean      mean over rows of each row's token mean
        sequence_mean_token_sum       mean over rows of each row's token sum
        sequence_mean_token_sum_norm  the same / norm_length
        token_sum                     sum over all tokens

    Rows without a token in the mask are in none of the means. Outside the mask `values` may hold
    anything, NaN included. Padding changes nothing, except that `norm_length` left at None is L.

    Reference: the token mean is DAPO's (arXiv 2503.14476), the mean of means GRPO's (arXiv
    2402.03300), the normed sum Dr.GRPO's (arXiv 2503.20783).

    Args:
        values: one a token.
        loss_mask: tokens that count.
        aggregation: which of the five.
        norm_length: the constant that the normed sum is divided by, >= 1: the longest row that a
            run allows, so that it stays the same from batch to batch; None: L.
        count: what the sums are divided by instead of this batch's own `aggregation_count`. Give
            every part of a batch that is taken in parts the count of the whole: the parts' results,
            and gradients, then add up to the whole's.
        empty: the result where there is nothing to take a mean of (no token in the mask, or a
            `count` of 0); its gradient is zero.

    Returns:
        A scalar.

    Raises:
        ConfigError: an unknown aggregation, or a norm_length below 1.
        ShapeError: the arrays differ in shape.

    >>> values = jnp.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    >>> mask = jnp.array([[True, True, False], [True, True, True]])
    >>> print(f"{aggregate(values, mask, 'token_mean'):.2f}")
    0.36
    """
    _check(aggregation, norm_length)
    same_shapes("aggregate", values=values, loss_mask=loss_mask)
    row_sum = jnp.where(loss_mask, values, 0.0).sum(axis=1)
    if aggregation == "sequence_mean_token_mean":
        row_sum = row_sum / jnp.maximum(loss_mask.sum(axis=1), 1)
    if aggregation == "sequence_mean_token_sum_norm":
        row_sum = row_sum / (loss_mask.shape[1] if norm_length is None else norm_length)
    nothing = ~loss_mask.any() if count is None else count == 0
    divisor = aggregation_count(loss_mask, aggregation) if count is None else count
    return jnp.where(nothing, empty, row_sum.sum() / jnp.where(nothing, 1.0, divisor))


def aggregation_count(loss_mask: Bool[Array, "B L"], aggregation: Aggregation) -> Float[Array, ""]:
    """What `aggregate` divides by: tokens, rows with tokens, or 1 for a plain sum.

    Args:
        loss_mask: tokens that count, of a whole batch.
        aggregation: as given to `aggregate`.

    Returns:
        The count, float32; 0 where a mean has nothing to run over.

    Raises:
        ConfigError: an unknown aggregation.
    """
    _check(aggregation, None)
    match aggregation:
        case "token_mean":
            counted = loss_mask.sum()
        case "token_sum":
            counted = jnp.ones(())
        case _:
            counted = loss_mask.any(axis=1).sum()
    return counted.astype(jnp.float32)


def _check(aggregation: str, norm_length: int | None) -> None:
    if aggregation not in get_args(Aggregation):
        names = ", ".join(repr(name) for name in get_args(Aggregation))
        raise ConfigError(f"aggregation is {aggregation!r}; it must be one of {names}")
    if norm_length is not None and norm_length < 1:
        raise ConfigError(
            f"norm_length is {norm_length!r}; it must be at least 1, such as the longest row that "
            "a run allows, or None for L"
        )
