"""The clipped surrogates that bound how far one update goes: PPO and DAPO, dual clip, GSPO."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from depgpo_jax.errors import ConfigError
from training.objectives.aggregation import Aggregation
from training.objectives.log_probs import sequence_ratio, token_ratio
from training.objectives.objective import Objective, check_tokens, objective_of


def clipped_token_loss(
    ratio: Float[Array, "B L"],
    advantages: Float[Array, "B L"],
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Float[Array, "B L"]:
    """PPO's clipped surrogate, one loss a token.

        loss = -min(r * A, clip(r, 1 - clip_low, 1 + clip_high) * A)

    and where A < 0, with `dual_clip` = c, no more than -c * A: a token of negative advantage
    whose ratio ran away would otherwise have a loss without bound.

    Reference: PPO, arXiv 1707.06347; separate bounds: DAPO, arXiv 2503.14476; dual clip: arXiv
    1912.09729.

    Args:
        ratio: pi / mu, > 0.
        advantages: one a token.
        clip_low: in (0, 1]; the ratio is clipped below at 1 - clip_low.
        clip_high: > 0; the ratio is clipped above at 1 + clip_high.
        dual_clip: c > 1, such as 3; None: off.

    Returns:
        Losses, to be minimised.

    Raises:
        ConfigError: a dual_clip of 1 or less.

    >>> ratio, advantages = jnp.array([[0.5, 1.0, 10.0]]), jnp.array([[1.0, -1.0, -4.0]])
    >>> clipped_token_loss(ratio, advantages, dual_clip=3.0).tolist()
    [[-0.5, 1.0, 12.0]]
    """
    if dual_clip is not None and not 1.0 < dual_clip < float("inf"):
        raise ConfigError(
            f"dual_clip is {dual_clip!r}; it must be a finite number > 1, such as 3.0, or None to "
            "turn it off"
        )
    clipped = jnp.clip(ratio, 1.0 - clip_low, 1.0 + clip_high) * advantages
    loss = -jnp.minimum(ratio * advantages, clipped)
    if dual_clip is None:
        return loss
    return jnp.where(advantages < 0, jnp.minimum(loss, -dual_clip * advantages), loss)


def clipped_objective(
    log_probs: Float[Array, "B L"],
    sampling_log_probs: Float[Array, "B L"],
    advantages: Float[Array, "B L"],
    loss_mask: Bool[Array, "B L"],
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
    aggregation: Aggregation = "token_mean",
    norm_length: int | None = None,
    count: Float[Array, ""] | None = None,
    empty: float = 0.0,
) -> Objective:
    """PPO's clipped surrogate for every token, aggregated; see `clipped_token_loss`.

    With r = exp(log_prob - sampling_log_prob), the exponent kept within +-20. At r = 1 the loss is
    minus the aggregated advantage, so advantages that keep every rollout's token mean (as
    dependency weights do) leave its value unchanged and move only the gradient.

    Outside `loss_mask` the arrays may hold anything, NaN included.

    Reference: as for `clipped_token_loss`.

    Args:
        log_probs: of the policy being trained; the only argument that a gradient should reach.
        sampling_log_probs: of the policy that wrote the tokens.
        advantages: one a token, zero allowed.
        loss_mask: tokens that enter the loss.
        clip_low: as for `clipped_token_loss`; DAPO has 0.2.
        clip_high: as for `clipped_token_loss`; DAPO has 0.28.
        dual_clip: as for `clipped_token_loss`.
        aggregation: see `aggregate`.
        norm_length: see `aggregate`.
        count: see `aggregate`.
        empty: see `aggregate`.

    Returns:
        The objective; `loss` is to be minimised.

    Raises:
        ConfigError: an unknown aggregation, a norm_length below 1, or a dual_clip of 1 or less.
        ShapeError: the arrays differ in shape.
    """
    check_tokens("clipped_objective", log_probs, sampling_log_probs, advantages, loss_mask)
    ratio = token_ratio(log_probs, sampling_log_probs, loss_mask)
    advantages = jnp.where(loss_mask, advantages, 0.0)
    loss = clipped_token_loss(
        ratio, advantages, clip_low=clip_low, clip_high=clip_high, dual_clip=dual_clip
    )
    # A bound is active where it changed the loss, from either side.
    bound = loss != -(ratio * advantages)
    return objective_of(loss, bound, ratio, loss_mask, aggregation, norm_length, count, empty)


def gspo_objective(
    log_probs: Float[Array, "B L"],
    sampling_log_probs: Float[Array, "B L"],
    advantages: Float[Array, "B L"],
    loss_mask: Bool[Array, "B L"],
    *,
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
    aggregation: Aggregation = "sequence_mean_token_mean",
    norm_length: int | None = None,
    count: Float[Array, ""] | None = None,
    empty: float = 0.0,
) -> Objective:
    """GSPO in its token form: the clipped surrogate with the row's ratio; see `sequence_ratio`.

        loss_l = -min(s_l * A_l, clip(s_l, 1 - clip_low, 1 + clip_high) * A_l)

    The row's ratio is a geometric mean over its tokens, so it stays far closer to 1 than a token's
    and the bounds are smaller by orders of magnitude. With one advantage a row it is GSPO itself.

    Outside `loss_mask` the arrays may hold anything, NaN included.

    Reference: GSPO, arXiv 2507.18071.

    Args:
        log_probs: of the policy being trained; the only argument that a gradient should reach.
        sampling_log_probs: of the policy that wrote the tokens.
        advantages: one a token, zero allowed.
        loss_mask: tokens that enter the loss.
        clip_low: in (0, 1]; the row's ratio is clipped below at 1 - clip_low.
        clip_high: > 0; the row's ratio is clipped above at 1 + clip_high.
        aggregation: see `aggregate`; the paper's is the mean of means.
        norm_length: see `aggregate`.
        count: see `aggregate`.
        empty: see `aggregate`.

    Returns:
        The objective; `mean_ratio` is that of the rows' ratios, a row counted by its tokens.

    Raises:
        ConfigError: an unknown aggregation, or a norm_length below 1.
        ShapeError: the arrays differ in shape.
    """
    check_tokens("gspo_objective", log_probs, sampling_log_probs, advantages, loss_mask)
    ratio = sequence_ratio(log_probs, sampling_log_probs, loss_mask)
    advantages = jnp.where(loss_mask, advantages, 0.0)
    loss = clipped_token_loss(ratio, advantages, clip_low=clip_low, clip_high=clip_high)
    bound = loss != -(ratio * advantages)
    return objective_of(loss, bound, ratio, loss_mask, aggregation, norm_length, count, empty)
