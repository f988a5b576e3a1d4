"""What is added to a loss or taken from a reward: distance to a reference, excess of length."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from depgpo_jax.errors import ConfigError
from training.objectives.log_probs import LARGEST_LOG_RATIO, masked_difference
from training.objectives.shapes import same_shapes


def reference_kl(
    log_probs: Float[Array, "B L"],
    reference_log_probs: Float[Array, "B L"],
    loss_mask: Bool[Array, "B L"],
) -> Float[Array, "B L"]:
    """KL(policy || reference), estimated on the sampled tokens, one value a token (k3).

        k3 = exp(d) - d - 1,  d = reference_log_prob - log_prob

    Never negative, and unbiased for tokens that the policy itself sampled. Beyond d = 20 it goes on
    as a straight line, so that it stays convex and keeps pulling without leaving float32.

    Reference: Schulman, "Approximating KL divergence" (2020); as a loss: GRPO, arXiv 2402.03300.

    Args:
        log_probs: of the policy being trained.
        reference_log_probs: of the policy it should stay near.
        loss_mask: tokens that enter the loss; elsewhere the arrays may hold anything.

    Returns:
        Values >= 0; 0 outside the mask.

    Raises:
        ShapeError: the arrays differ in shape.
    """
    same_shapes(
        "reference_kl",
        log_probs=log_probs,
        reference_log_probs=reference_log_probs,
        loss_mask=loss_mask,
    )
    distance = masked_difference(reference_log_probs, log_probs, loss_mask)
    near = jnp.minimum(distance, LARGEST_LOG_RATIO)
    # expm1 keeps the digits near 0, where k3 is d**2 / 2.
    value = jnp.expm1(near) - near
    slope = jnp.expm1(LARGEST_LOG_RATIO)
    return value + slope * jnp.maximum(distance - LARGEST_LOG_RATIO, 0.0)


def overlong_penalty(
    lengths: Int[Array, " B"],
    *,
    max_length: int,
    buffer: int,
    penalty: float,
    clamp: bool = True,
) -> Float[Array, " B"]:
    """DAPO's soft penalty for long answers, to be added to the reward.

    0 up to `max_length - buffer` tokens, then falling in a straight line to `-penalty` at
    `max_length`; from there on constant, or falling further with `clamp=False`.

    Reference: DAPO, arXiv 2503.14476, section 3.4.

    Args:
        lengths: tokens that the policy wrote in each rollout.
        max_length: the length with the full penalty, >= buffer.
        buffer: length of the slope in tokens, >= 1.
        penalty: the full penalty in units of reward, >= 0.
        clamp: no more than the full penalty.

    Returns:
        Values <= 0, float32.

    Raises:
        ConfigError: an option outside its allowed values.

    >>> lengths = jnp.array([80, 90, 100, 110])
    >>> overlong_penalty(lengths, max_length=100, buffer=20, penalty=10.0).tolist()
    [0.0, -5.0, -10.0, -10.0]
    """
    if buffer < 1 or max_length < buffer:
        raise ConfigError(
            f"overlong_penalty: buffer is {buffer!r} with max_length {max_length!r}; buffer must "
            "be at least 1 and at most max_length"
        )
    if not 0.0 <= penalty < float("inf"):
        raise ConfigError(
            f"overlong_penalty: penalty is {penalty!r}; it must be a finite number >= 0, as it is "
            "subtracted from the reward"
        )
    excess = (lengths - (max_length - buffer)).astype(jnp.float32)
    share = jnp.maximum(excess, 0.0) / buffer
    # 0 - x rather than -x: a rollout that is short enough gets 0, not -0.
    return 0.0 - penalty * (jnp.minimum(share, 1.0) if clamp else share)
