"""From step factors, or step advantages, to the advantage of every token in the loss."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Int, Shaped

from depgpo_jax.errors import ShapeError
from depgpo_jax.summary import Credit
from depgpo_jax.weights import token_weights


def token_advantages(
    credit: Credit,
    advantage: Float[Array, " B"],
    step_of_token: Int[Array, "B L"],
    loss_mask: Shaped[Array, "B L"],
) -> Float32[Array, "B L"]:
    """A rollout's advantage, aimed: `A_token = w_t * A` for every token of step t in the loss.

    Tokens are counted from the mask given here, not from the trace, so the weights keep the mean
    on what really enters the loss after a trainer cut or masked rows:
    `sum(A_token) = A * number of loss tokens`. The cap of the credit's config stays in force.
    Where no step stands out, or none with tokens in the mask does, every weight is 1. Works with
    any scalar advantage (GRPO, RLOO, ...) and multiplies into any token objective; tokens of weight
    0 stay in its denominator.

    Padding: tokens outside the mask get 0, whatever their step. A loss token of no step (-1, or
    past the last step) is treated like one of an unrecorded step: factor 1.

    Source: DepGPO (arXiv 2610.03634); method page, section 6.

    Args:
        credit: what `dependency_credit` gave for these B rollouts.
        advantage: one finite number a rollout.
        step_of_token: the step, from 0, that wrote the token; -1: none (prompt, tool output).
        loss_mask: nonzero where the token enters the loss.

    Returns:
        Token advantages, 0 outside the mask.

    Raises:
        ShapeError: the arguments disagree on B or L, the credit has no B, or steps are no integers.
    """
    if credit.step_factor.ndim != 2:
        raise ShapeError(
            f"token_advantages: found a credit of step_factor {credit.step_factor.shape}; allowed: "
            "[B, T], as dependency_credit gives it; add an axis in front for one rollout"
        )
    rollouts, steps = credit.step_factor.shape
    if (
        advantage.shape != (rollouts,)
        or step_of_token.ndim != 2
        or step_of_token.shape[0] != rollouts
        or loss_mask.shape != step_of_token.shape
        or not jnp.issubdtype(step_of_token.dtype, jnp.integer)
    ):
        raise ShapeError(
            f"token_advantages: found advantage {advantage.shape}, step_of_token "
            f"{step_of_token.dtype} {step_of_token.shape}, loss_mask {loss_mask.shape} for credit "
            f"of {rollouts} rollouts; allowed: [B], integers [B, L] and [B, L] with the credit's "
            "B, padding rows included"
        )
    in_loss = loss_mask != 0
    step, counts = _count_tokens(step_of_token, in_loss, steps)
    factor = jnp.pad(credit.step_factor, ((0, 0), (0, 1)), constant_values=1.0)
    weight, _ = token_weights(factor.T, counts.T, credit.max_weight)
    weighted = jnp.take_along_axis(weight.T, step, axis=1) * advantage[:, None]
    return jnp.where(in_loss, weighted, 0.0).astype(jnp.float32)


def step_token_advantages(
    step_advantage: Float[Array, "B T"],
    step_of_token: Int[Array, "B L"],
    loss_mask: Shaped[Array, "B L"],
) -> Float32[Array, "B L"]:
    """The advantage of each token's step: `A_token = A_t` for every loss token of step t.

    For methods that give every step an advantage of its own (`gigpo_advantages` and its like),
    where `token_advantages` spreads one advantage a rollout by weights. Nothing is rescaled.

    Padding: tokens outside the mask get 0, whatever their step, and loss tokens of no step (-1, or
    past the last step) get 0 too, since nobody compared them with anything.

    Args:
        step_advantage: one finite number a step; anything at padding.
        step_of_token: the step, from 0, that wrote the token; -1: none (prompt, tool output).
        loss_mask: nonzero where the token enters the loss.

    Returns:
        Token advantages, 0 outside the mask.

    Raises:
        ShapeError: the arguments disagree on B or L, or steps are no integers.
    """
    if (
        step_advantage.ndim != 2
        or step_of_token.ndim != 2
        or step_of_token.shape[0] != step_advantage.shape[0]
        or loss_mask.shape != step_of_token.shape
        or not jnp.issubdtype(step_of_token.dtype, jnp.integer)
    ):
        raise ShapeError(
            f"step_token_advantages: found step_advantage {step_advantage.shape}, step_of_token "
            f"{step_of_token.dtype} {step_of_token.shape}, loss_mask {loss_mask.shape}; allowed: "
            "[B, T], integers [B, L] and [B, L] with one B, padding rows included"
        )
    steps = step_advantage.shape[1]
    written = (loss_mask != 0) & (step_of_token >= 0) & (step_of_token < steps)
    # One more column, so that there is a place to read from even without any step.
    padded = jnp.pad(step_advantage, ((0, 0), (0, 1)))
    chosen = jnp.take_along_axis(padded, jnp.where(written, step_of_token, steps), axis=1)
    return jnp.where(written, chosen, 0.0).astype(jnp.float32)


def _count_tokens(
    step_of_token: Int[Array, "B L"], in_loss: Bool[Array, "B L"], steps: int
) -> tuple[Int[Array, "B L"], Float32[Array, "B _"]]:
    """The place of each token's step, and loss tokens by place; the last place is "no step"."""
    known = (step_of_token >= 0) & (step_of_token < steps)
    step = jnp.where(known, step_of_token, steps)
    rows = jnp.arange(step.shape[0], dtype=step.dtype)[:, None]
    counts = jnp.zeros((step.shape[0], steps + 1), jnp.float32)
    return step, counts.at[rows, step].add(in_loss.astype(jnp.float32))
