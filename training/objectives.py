"""The clipped token objective, as pure functions of [B, L] arrays.

Everything that enters has one number a token; nothing here knows where the advantages came from.
Position l of a row speaks of token l: its log-probability is read from the logits at l - 1.

What is deliberately so:

* A token whose advantage is zero stays in every denominator. Only `loss_mask` takes tokens out.
* An empty mask gives the value 0 (and a zero gradient), never NaN.
* A row without loss tokens is padding: it takes no part in the means over rows.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from depgpo_jax.errors import ConfigError, ShapeError

Aggregation = Literal["token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum"]

LARGEST_LOG_RATIO = 20.0
"""exp(20) is 5e8: beyond it the ratio says nothing more and only endangers float32."""


class Objective(NamedTuple):
    """A loss to minimise and what is worth watching; scalars, 0 (ratio: 1) for an empty mask."""

    loss: Float[Array, ""]
    clip_fraction: Float[Array, ""]  # loss tokens whose clipped term is the active one
    mean_ratio: Float[Array, ""]  # over loss tokens


def token_log_probs(
    logits: Float[Array, "B L _"], tokens: Int[Array, "B L"]
) -> Float[Array, "B L"]:
    """log pi(token l | tokens before l), aligned with the tokens.

    out[b, l] = log_softmax(logits[b, l - 1])[tokens[b, l]];  out[b, 0] = 0, as nothing predicts a
    row's first token: keep it out of the loss mask.

    Padding tokens may hold any id inside the vocabulary; their values mean nothing.

    Args:
        logits: next-token logits of the policy.
        tokens: the row that the logits were computed from, ids in [0, vocabulary).

    Returns:
        Log-probabilities <= 0, float32.

    Raises:
        ShapeError: the arrays do not share B and L.
    """
    if logits.ndim != 3 or logits.shape[:2] != tokens.shape:
        raise ShapeError(
            f"token_log_probs: found logits {logits.shape} and tokens {tokens.shape}; "
            "they must be [B, L, vocabulary] and [B, L]"
        )
    log_probs = jax.nn.log_softmax(logits[:, :-1].astype(jnp.float32), axis=-1)
    chosen = jnp.take_along_axis(log_probs, tokens[:, 1:, None], axis=-1)[..., 0]
    return jnp.pad(chosen, ((0, 0), (1, 0)))


def clipped_objective(
    log_probs: Float[Array, "B L"],
    sampling_log_probs: Float[Array, "B L"],
    advantages: Float[Array, "B L"],
    loss_mask: Bool[Array, "B L"],
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    aggregation: Aggregation = "token_mean",
) -> Objective:
    """PPO's clipped surrogate for every token, aggregated.

    With r = exp(log_prob - sampling_log_prob), the exponent kept within +-20:

        loss_l = -min(r * A_l, clip(r, 1 - clip_low, 1 + clip_high) * A_l)

    At r = 1 the loss is minus the aggregated advantage, so advantages that keep every rollout's
    token mean (as dependency weights do) leave its value unchanged and move only the gradient.

    Outside `loss_mask` the arrays may hold anything, NaN included.

    Reference: PPO, arXiv 1707.06347; separate bounds: DAPO, arXiv 2503.14476.

    Args:
        log_probs: of the policy being trained; the only argument that a gradient should reach.
        sampling_log_probs: of the policy that wrote the tokens.
        advantages: one a token, zero allowed.
        loss_mask: tokens that enter the loss.
        clip_low: in (0, 1]; the ratio is clipped below at 1 - clip_low.
        clip_high: > 0; the ratio is clipped above at 1 + clip_high.
        aggregation: see `aggregate`.

    Returns:
        The objective; `loss` is to be minimised.

    Raises:
        ConfigError: an unknown aggregation.
        ShapeError: the arrays differ in shape.
    """
    _same_shapes(
        "clipped_objective",
        log_probs=log_probs,
        sampling_log_probs=sampling_log_probs,
        advantages=advantages,
        loss_mask=loss_mask,
    )
    # Masked before the exponential: a gradient through exp of padding could be inf * 0.
    log_ratio = jnp.where(loss_mask, log_probs, 0.0) - jnp.where(loss_mask, sampling_log_probs, 0.0)
    ratio = jnp.exp(jnp.clip(log_ratio, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))
    advantages = jnp.where(loss_mask, advantages, 0.0)
    plain = ratio * advantages
    clipped = jnp.clip(ratio, 1.0 - clip_low, 1.0 + clip_high) * advantages
    no_tokens = ~loss_mask.any()
    return Objective(
        loss=aggregate(-jnp.minimum(plain, clipped), loss_mask, aggregation),
        clip_fraction=aggregate((clipped < plain).astype(jnp.float32), loss_mask, "token_mean"),
        mean_ratio=jnp.where(no_tokens, 1.0, aggregate(ratio, loss_mask, "token_mean")),
    )


def aggregate(
    values: Float[Array, "B L"], loss_mask: Bool[Array, "B L"], aggregation: Aggregation
) -> Float[Array, ""]:
    """One number from one a token.

        token_mean                  sum over all tokens / number of tokens of the batch
        sequence_mean_token_mean    mean over rows of each row's token mean
        sequence_mean_token_sum     mean over rows of each row's token sum

    Rows without a token in the mask are in none of the means; an empty mask gives 0. Outside the
    mask `values` may hold anything.

    Args:
        values: one a token.
        loss_mask: tokens that count.
        aggregation: which of the three.

    Returns:
        A scalar.

    Raises:
        ConfigError: an unknown aggregation.
        ShapeError: the arrays differ in shape.

    >>> values = jnp.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    >>> mask = jnp.array([[True, True, False], [True, True, True]])
    >>> print(f"{aggregate(values, mask, 'token_mean'):.2f}")
    0.36
    """
    if aggregation not in get_args(Aggregation):
        names = ", ".join(repr(name) for name in get_args(Aggregation))
        raise ConfigError(f"aggregation is {aggregation!r}; it must be one of {names}")
    _same_shapes("aggregate", values=values, loss_mask=loss_mask)
    row_sum = jnp.where(loss_mask, values, 0.0).sum(axis=1)
    row_tokens = loss_mask.sum(axis=1)
    rows = jnp.maximum((row_tokens > 0).sum(), 1)
    match aggregation:
        case "token_mean":
            return row_sum.sum() / jnp.maximum(row_tokens.sum(), 1)
        case "sequence_mean_token_mean":
            return (row_sum / jnp.maximum(row_tokens, 1)).sum() / rows
        case "sequence_mean_token_sum":
            return row_sum.sum() / rows


def _same_shapes(where: str, **arrays: Array) -> None:
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) != 1 or any(len(shape) != 2 for shape in shapes.values()):
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ShapeError(f"{where}: found {found}; all must be [B, L], one entry a token")
