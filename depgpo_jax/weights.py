"""From step credits to token weights (method, sections 5 and 6).

Every function works on axis 0, the steps, and carries any trailing axes along: the dense family
passes one rollout `[T]`, the packed family a tile of rollouts `[T, B]`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Float32

TIE_TOLERANCE = 1e-6
"""Credits closer than this times `max(1, max c)` count as equal (method, section 5)."""


def ordered_sum(values: Float32[Array, "T *B"]) -> Float32[Array, "*B"]:
    """Sum over axis 0 by halves, zeros filling up to a power of two.

    The same additions in the same order whatever the padding, the batch and the number of devices;
    a reduction's order is the compiler's choice, and depends on all three.
    """
    size = values.shape[0]
    width = 1 << max(0, size - 1).bit_length()
    values = jnp.pad(values, [(0, width - size), *((0, 0) for _ in values.shape[1:])])
    while width > 1:
        width //= 2
        values = values[:width] + values[width:]
    return values[0]


class StepFactors(NamedTuple):
    """What section 5 says about the steps of a rollout.

    Attributes:
        factor: `g / mean(g)` on recorded steps, 1 on all others and everywhere in a tie.
        tie: True where no step stands out, so that the weights fall back to 1.
    """

    factor: Float32[Array, "T *B"]
    tie: Bool[Array, "*B"]


def step_factors(
    step_credit: Float32[Array, "T *B"],
    step_recorded: Bool[Array, "T *B"],
    *,
    subtract_min: bool = True,
) -> StepFactors:
    """How much each step stands out among the recorded steps of its rollout.

    `g_t = c_t - min c` (or `c_t` without `subtract_min`), zero below the tie threshold, and
    `factor_t = g_t / mean(g)`; minimum, maximum and mean run over recorded steps only.

    Padding: steps with `step_recorded` False may hold any finite credit.

    Source: DepGPO (arXiv 2610.03634); method page, section 5.

    Args:
        step_credit: credit summed over a step's commands, >= 0.
        step_recorded: steps with at least one command, all of them recorded.
        subtract_min: ablation switch of section 8.

    Returns:
        The factors and the tie flag.
    """
    top = jnp.max(jnp.where(step_recorded, step_credit, 0.0), axis=0, initial=0.0)
    low = jnp.min(jnp.where(step_recorded, step_credit, jnp.inf), axis=0, initial=jnp.inf)
    low = jnp.where(jnp.isfinite(low), low, 0.0)
    threshold = TIE_TOLERANCE * jnp.maximum(1.0, top)
    gain = step_credit - low[None] if subtract_min else step_credit
    gain = jnp.where(step_recorded & (gain > threshold[None]), gain, 0.0)
    total = ordered_sum(gain)
    tie = (top - low <= threshold) | (total <= 0.0)
    mean = total / jnp.maximum(jnp.sum(step_recorded, axis=0), 1)
    factor = gain / jnp.where(tie, 1.0, mean)[None]
    return StepFactors(jnp.where(tie[None] | ~step_recorded, 1.0, factor), tie)


def token_weights(
    factor: Float32[Array, "T *B"],
    loss_tokens: Float32[Array, "T *B"],
    max_weight: Float32[Array, "*B"],
) -> tuple[Float32[Array, "T *B"], Bool[Array, "*B"]]:
    """Scales step factors so that the token-weighted mean is one, under a cap.

    `w_t = min(m, scale * factor_t)` with `sum(w * n) = sum(n)`. Where no scale reaches it,
    steps with a positive factor get `m` and the others share what is left equally.

    Padding: steps without loss tokens never count; their weight is what the formula gives.

    Source: DepGPO (arXiv 2610.03634); method page, section 6 (the cap is decided there).

    Args:
        factor: step factors, >= 0.
        loss_tokens: loss tokens of each step, >= 0.
        max_weight: the cap m >= 1; infinity turns it off.

    Returns:
        The weights, and True where `sum(n)` or `sum(factor * n)` is 0, so that they are all 1.
    """
    total = ordered_sum(loss_tokens)
    weighted = ordered_sum(factor * loss_tokens)
    no_scale = (total <= 0.0) | (weighted <= 0.0)
    scale = jnp.where(no_scale, 1.0, total / jnp.where(no_scale, 1.0, weighted))
    weight = _fill_to_cap(factor, loss_tokens, scale, max_weight)
    return jnp.where(no_scale[None], 1.0, weight), no_scale


def _fill_to_cap(
    factor: Float32[Array, "T *B"],
    loss_tokens: Float32[Array, "T *B"],
    scale: Float32[Array, "*B"],
    max_weight: Float32[Array, "*B"],
) -> Float32[Array, "T *B"]:
    """Water-filling: the scale grows, each round caps at least one more step or ends."""
    positive = factor > 0.0
    rest_tokens = ordered_sum(jnp.where(positive, 0.0, loss_tokens))
    cap = jnp.where(jnp.isfinite(max_weight), max_weight, 0.0)

    def capped_by(scale: Float[Array, "*B"]) -> Bool[Array, "T *B"]:
        return positive & (scale[None] * factor >= max_weight[None])

    def raise_scale(
        state: tuple[Float[Array, "*B"], Bool[Array, "T *B"], Bool[Array, ""]],
    ) -> tuple[Float[Array, "*B"], Bool[Array, "T *B"], Bool[Array, ""]]:
        scale, capped, _ = state
        # (m - 1) * capped tokens are the surplus that the cap pushes onto the other steps.
        surplus_taken = ordered_sum(jnp.where(capped, (cap[None] - 1.0) * loss_tokens, 0.0))
        open_tokens = ordered_sum(jnp.where(capped, 0.0, loss_tokens))
        open_weighted = ordered_sum(jnp.where(capped, 0.0, factor * loss_tokens))
        found = open_weighted > 0.0
        left = jnp.maximum(open_tokens - surplus_taken, 0.0)
        raised = jnp.where(found, left / jnp.where(found, open_weighted, 1.0), scale)
        scale = jnp.where(jnp.any(capped, axis=0), jnp.maximum(raised, scale), scale)
        now = capped | capped_by(scale)
        return scale, now, jnp.any(now != capped)

    start = capped_by(scale)
    scale, capped, _ = lax.while_loop(
        lambda state: state[2], raise_scale, (scale, start, jnp.any(start))
    )
    open_weighted = ordered_sum(jnp.where(capped, 0.0, factor * loss_tokens))
    surplus = ordered_sum(jnp.where(positive, (cap[None] - 1.0) * loss_tokens, 0.0))
    unreachable = jnp.any(capped, axis=0) & (open_weighted <= 0.0) & (rest_tokens > 0.0)
    share = jnp.maximum(rest_tokens - surplus, 0.0) / jnp.where(unreachable, rest_tokens, 1.0)
    spread = jnp.where(positive, cap[None], share[None])
    filled = jnp.where(capped, cap[None], scale[None] * factor)
    return jnp.where(unreachable[None], spread, filled)
