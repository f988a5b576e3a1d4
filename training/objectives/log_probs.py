"""From logits to log-probabilities, entropies and ratios, aligned with the tokens."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from depgpo_jax.errors import ShapeError

LARGEST_LOG_RATIO = 20.0
"""exp(20) is 5e8: beyond it the ratio says nothing more and only endangers float32."""


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


def token_entropy(logits: Float[Array, "B L _"]) -> Float[Array, "B L"]:
    """Entropy, in nats, of the distribution that each token was drawn from.

    out[b, l] = -sum p log p with p = softmax(logits[b, l - 1]);  out[b, 0] = 0, as for
    `token_log_probs`. A logit of -inf (a forbidden token) adds nothing and gets no gradient.

    Args:
        logits: next-token logits of the policy.

    Returns:
        Entropies >= 0, float32.

    Raises:
        ShapeError: the logits are not [B, L, vocabulary].
    """
    if logits.ndim != 3:
        raise ShapeError(
            f"token_entropy: found logits {logits.shape}; they must be [B, L, vocabulary]"
        )
    log_probs = jax.nn.log_softmax(logits[:, :-1].astype(jnp.float32), axis=-1)
    # -inf * 0 is NaN, so forbidden tokens are taken out before the product.
    log_probs = jnp.where(jnp.isneginf(log_probs), 0.0, log_probs)
    terms = jnp.where(jnp.isneginf(logits[:, :-1]), 0.0, jnp.exp(log_probs) * log_probs)
    return jnp.pad(-terms.sum(axis=-1), ((0, 0), (1, 0)))


def masked_difference(
    log_probs: Float[Array, "B L"],
    other: Float[Array, "B L"],
    loss_mask: Bool[Array, "B L"],
) -> Float[Array, "B L"]:
    """log_probs - other in the mask, 0 elsewhere.

    Masked before the subtraction: a gradient through an exponential of padding could be inf * 0.
    """
    return jnp.where(loss_mask, log_probs, 0.0) - jnp.where(loss_mask, other, 0.0)


def token_ratio(
    log_probs: Float[Array, "B L"],
    sampling_log_probs: Float[Array, "B L"],
    loss_mask: Bool[Array, "B L"],
) -> Float[Array, "B L"]:
    """pi(token) / mu(token) = exp(log_prob - sampling_log_prob), the exponent kept within +-20.

    Args:
        log_probs: of the policy being trained.
        sampling_log_probs: of the policy that wrote the tokens.
        loss_mask: tokens that enter the loss.

    Returns:
        Ratios > 0; 1 outside the mask.
    """
    return _exp(masked_difference(log_probs, sampling_log_probs, loss_mask))


def sequence_ratio(
    log_probs: Float[Array, "B L"],
    sampling_log_probs: Float[Array, "B L"],
    loss_mask: Bool[Array, "B L"],
) -> Float[Array, "B L"]:
    """GSPO's ratio of a row, one a token: each has the row's value and its own token's gradient.

        s_i = (pi(row) / mu(row)) ** (1 / tokens of the row)
        s_il = sg[s_i] * pi(token l) / sg[pi(token l)]

    with sg the stop of a gradient, so that advantages may differ from token to token while the
    ratio that is clipped is the row's.

    Reference: GSPO, arXiv 2507.18071, GSPO-token.

    Args:
        log_probs: of the policy being trained.
        sampling_log_probs: of the policy that wrote the tokens.
        loss_mask: tokens that enter the loss.

    Returns:
        Ratios > 0; 1 outside the mask.
    """
    difference = masked_difference(log_probs, sampling_log_probs, loss_mask)
    tokens = jnp.maximum(loss_mask.sum(axis=1, keepdims=True), 1)
    of_row = jax.lax.stop_gradient(difference.sum(axis=1, keepdims=True) / tokens)
    own = jnp.where(loss_mask, log_probs, 0.0)
    # The bracket is exactly 0; added to `of_row` one by one, its terms would round the ratio.
    log_ratio = of_row + (own - jax.lax.stop_gradient(own))
    return _exp(jnp.where(loss_mask, log_ratio, 0.0))


def _exp(log_ratio: Float[Array, "B L"]) -> Float[Array, "B L"]:
    return jnp.exp(jnp.clip(log_ratio, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))
