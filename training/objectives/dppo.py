"""DPPO: a bound on probabilities instead of ratios."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from depgpo_jax.errors import ConfigError
from training.objectives.aggregation import Aggregation
from training.objectives.log_probs import token_ratio
from training.objectives.objective import Objective, check_tokens, objective_of


def dppo_objective(
    log_probs: Float[Array, "B L"],
    sampling_log_probs: Float[Array, "B L"],
    advantages: Float[Array, "B L"],
    loss_mask: Bool[Array, "B L"],
    *,
    delta: float = 0.15,
    aggregation: Aggregation = "token_mean",
    norm_length: int | None = None,
    count: Float[Array, ""] | None = None,
    empty: float = 0.0,
) -> Objective:
    """DPPO: no clipping of ratios; tokens that have moved away too far are dropped.

        loss_l = -r * A_l, or 0 where |mu - pi| > delta and the update would move pi away further:
                 A_l > 0 with r > 1, or A_l < 0 with r < 1

    A ratio is large for a rare token whose probability has hardly moved, and small for a frequent
    one that has lost a third of it; the difference of probabilities sees both as they are. It is
    the total variation between the two policies, on the token against all others. Dropped tokens
    stay in the denominator.

    Outside `loss_mask` the arrays may hold anything, NaN included.

    Reference: DPPO, arXiv 2602.04879, its binary total variation.

    Args:
        log_probs: of the policy being trained; the only argument that a gradient should reach.
        sampling_log_probs: of the policy that wrote the tokens.
        advantages: one a token, zero allowed.
        loss_mask: tokens that enter the loss.
        delta: largest difference of probabilities, in [0, 1].
        aggregation: see `aggregate`.
        norm_length: see `aggregate`.
        count: see `aggregate`.
        empty: see `aggregate`.

    Returns:
        The objective; `clip_fraction` is the share of dropped tokens.

    Raises:
        ConfigError: an unknown aggregation, a norm_length below 1, or a delta outside [0, 1].
        ShapeError: the arrays differ in shape.
    """
    if not 0.0 <= delta <= 1.0:
        raise ConfigError(
            f"dppo_objective: delta is {delta!r}; it is a difference of probabilities and must be "
            "in [0, 1], such as 0.15"
        )
    check_tokens("dppo_objective", log_probs, sampling_log_probs, advantages, loss_mask)
    ratio = token_ratio(log_probs, sampling_log_probs, loss_mask)
    advantages = jnp.where(loss_mask, advantages, 0.0)
    move = jax.lax.stop_gradient(
        jnp.exp(jnp.where(loss_mask, log_probs, 0.0))
        - jnp.exp(jnp.where(loss_mask, sampling_log_probs, 0.0))
    )
    away = ((advantages > 0) & (move > 0)) | ((advantages < 0) & (move < 0))
    dropped = away & (jnp.abs(move) > delta)
    loss = jnp.where(dropped, 0.0, -(ratio * advantages))
    return objective_of(loss, dropped, ratio, loss_mask, aggregation, norm_length, count, empty)
