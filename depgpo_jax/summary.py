"""What a credit computation returns, and the steps that both kernel families share."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from depgpo_jax.weights import ordered_sum, step_factors, token_weights


class Credit(NamedTuple):
    """Credit of a batch of rollouts; without the `B` axis for one rollout.

    Attributes:
        command_credit: section 4; 0 at padding.
        step_credit: sum over the step's commands; 0 at padding.
        step_factor: section 5; 1 at padding.
        token_weight: weight of each of the step's tokens, section 6; 1 at padding.
        fallback: no step stands out, or none with tokens does: every weight is 1.
        relevant_fraction: relevant records over all records; 0 if there are none.
        on_path_fraction: recorded commands with credit over recorded commands; 0 if there are none.
        max_weight_seen: largest weight of a step with loss tokens; 1 if there are none.
        effective_fraction: `sum(n) / sum(w**2 n)`, in (0, 1]; 1 without loss tokens.
        max_weight: the cap that was in force; infinity where there was none.
        segment_relevant: the segment's records are relevant; False at padding.
    """

    command_credit: Float32[Array, "*B N"]
    step_credit: Float32[Array, "*B T"]
    step_factor: Float32[Array, "*B T"]
    token_weight: Float32[Array, "*B T"]
    fallback: Bool[Array, "*B"]
    relevant_fraction: Float32[Array, "*B"]
    on_path_fraction: Float32[Array, "*B"]
    max_weight_seen: Float32[Array, "*B"]
    effective_fraction: Float32[Array, "*B"]
    max_weight: Float32[Array, "*B"]
    segment_relevant: Bool[Array, "*B S"]


class CommandCredit(NamedTuple):
    """What a kernel family found out about the commands; axis 0 is the commands.

    Attributes:
        credit: write credit or support; 0 at padding.
        on_path: the credit is positive, exactly, even where its float underflows.
        relevant: relevant records; 0 at padding.
        records: all records; 0 at padding.
    """

    credit: Float32[Array, "N *B"]
    on_path: Bool[Array, "N *B"]
    relevant: Int32[Array, "N *B"]
    records: Int32[Array, "N *B"]


class StepSummary(NamedTuple):
    """The fields of `Credit` that follow from the commands' credit; axis 0 is the steps."""

    step_credit: Float32[Array, "T *B"]
    step_factor: Float32[Array, "T *B"]
    token_weight: Float32[Array, "T *B"]
    fallback: Bool[Array, "*B"]
    relevant_fraction: Float32[Array, "*B"]
    on_path_fraction: Float32[Array, "*B"]
    max_weight_seen: Float32[Array, "*B"]
    effective_fraction: Float32[Array, "*B"]


def summarise(
    commands: CommandCredit,
    recorded: Bool[Array, "N *B"],
    step_credit: Float32[Array, "T *B"],
    step_recorded: Bool[Array, "T *B"],
    loss_tokens: Float32[Array, "T *B"],
    max_weight: Float32[Array, "*B"],
    *,
    subtract_min: bool,
) -> StepSummary:
    """Step factors, token weights and the reported numbers (method, sections 5, 6 and 8)."""
    factor, tie = step_factors(step_credit, step_recorded, subtract_min=subtract_min)
    weight, no_scale = token_weights(factor, loss_tokens, max_weight)
    largest, effective = _spread(weight, loss_tokens)
    return StepSummary(
        step_credit=step_credit,
        step_factor=factor,
        token_weight=weight,
        fallback=tie | no_scale,
        relevant_fraction=_fraction(
            ordered_sum(commands.relevant.astype(jnp.float32)),
            ordered_sum(commands.records.astype(jnp.float32)),
        ),
        on_path_fraction=_fraction(
            jnp.sum(commands.on_path & recorded, axis=0, dtype=jnp.float32),
            jnp.sum(recorded, axis=0, dtype=jnp.float32),
        ),
        max_weight_seen=largest,
        effective_fraction=effective,
    )


def reweighted(
    credit: Credit, step_factor: Float32[Array, "*B T"], loss_tokens: Float32[Array, "*B T"]
) -> Credit:
    """The credit with other step factors, and what follows from them; the rest stays.

    Args:
        credit: of one rollout or of a batch.
        step_factor: what takes the place of its own, >= 0.
        loss_tokens: loss tokens of each step.

    Returns:
        The credit with new factors, weights, `fallback` (every weight is 1), largest weight and
        effective fraction, under the cap that was in force.
    """
    factor = jnp.moveaxis(step_factor, -1, 0)
    tokens = jnp.moveaxis(loss_tokens, -1, 0)
    weight, no_scale = token_weights(factor, tokens, credit.max_weight)
    largest, effective = _spread(weight, tokens)
    return credit._replace(
        step_factor=step_factor,
        token_weight=jnp.moveaxis(weight, 0, -1),
        fallback=no_scale | jnp.all(step_factor == 1.0, axis=-1),
        max_weight_seen=largest,
        effective_fraction=effective,
    )


def _spread(
    weight: Float32[Array, "T *B"], loss_tokens: Float32[Array, "T *B"]
) -> tuple[Float32[Array, "*B"], Float32[Array, "*B"]]:
    """Largest weight and effective fraction over steps with loss tokens."""
    tokens = ordered_sum(loss_tokens)
    squares = ordered_sum(weight * weight * loss_tokens)
    any_tokens = tokens > 0.0
    largest = jnp.max(jnp.where(loss_tokens > 0.0, weight, 0.0), axis=0, initial=0.0)
    return (
        jnp.where(any_tokens, largest, 1.0),
        jnp.where(any_tokens, tokens / jnp.where(any_tokens, squares, 1.0), 1.0),
    )


def _fraction(part: Float32[Array, "*B"], whole: Float32[Array, "*B"]) -> Float32[Array, "*B"]:
    return part / jnp.maximum(whole, 1.0)
