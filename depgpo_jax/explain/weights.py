"""Step factors and token weights once more, on the host in double precision.

The credit of a batch does not say which settings it was computed with. What this gives for the
settings at hand must be what the device gave, else they are others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from depgpo_jax.weights import TIE_TOLERANCE

if TYPE_CHECKING:
    from depgpo_jax.credit_config import CreditConfig
    from depgpo_jax.traces import Trace


class ExpectedWeights(NamedTuple):
    """What sections 5 and 6 of the method give for step credits.

    Attributes:
        factor: [T], `g / mean(g)`; 1 for steps that were not recorded and in a tie.
        weight: [T], of each token of the step; 1 everywhere in a fallback.
        settled: no credit lies so near the tie threshold, or so near the smallest one, that float32
            may have decided otherwise.
    """

    factor: np.ndarray
    weight: np.ndarray
    settled: bool


def expected_weights(
    trace: Trace, step_credit: np.ndarray, config: CreditConfig
) -> ExpectedWeights:
    """Factors and weights of a rollout's steps.

    Source: method sections 5 and 6.

    Args:
        trace: the rollout.
        step_credit: [T], as the device computed it.
        config: the settings.
    """
    credit = np.asarray(step_credit, np.float64)
    tokens = np.array([step.loss_tokens for step in trace.steps], np.float64)
    recorded = np.array(
        [bool(step.commands) and all(c.recorded for c in step.commands) for step in trace.steps],
        np.bool_,
    )
    factor = np.ones(len(credit))
    if not recorded.any():
        return ExpectedWeights(factor, np.ones(len(credit)), settled=True)
    top, low = credit[recorded].max(), credit[recorded].min()
    threshold = TIE_TOLERANCE * max(1.0, top)
    gain = credit - low if config.subtract_min else credit
    gain = np.where(recorded & (gain > threshold), gain, 0.0)
    settled = bool(gain.max() == 0.0 or gain.max() > 1e-3 * max(1.0, top))
    if top - low <= threshold or gain.sum() <= 0.0:
        return ExpectedWeights(factor, np.ones(len(credit)), settled)
    factor = np.where(recorded, gain / (gain.sum() / recorded.sum()), 1.0)
    if tokens.sum() <= 0.0 or (factor * tokens).sum() <= 0.0:
        return ExpectedWeights(factor, np.ones(len(credit)), settled)
    cap = np.inf if config.max_weight is None else config.max_weight
    return ExpectedWeights(factor, _filled(factor, tokens, cap), settled)


def _filled(factor: np.ndarray, tokens: np.ndarray, cap: float) -> np.ndarray:
    """Water-filling: what the cap takes from some steps goes to the others."""
    total, positive = tokens.sum(), factor > 0.0
    if cap * tokens[positive].sum() < total:
        rest = tokens[~positive].sum()
        share = (total - cap * tokens[positive].sum()) / rest if rest else 0.0
        return np.where(positive, cap, share)
    capped = np.zeros(len(factor), np.bool_)
    while True:
        left = (factor * tokens)[~capped].sum()
        spent = cap * tokens[capped].sum() if capped.any() else 0.0
        scale = (total - spent) / left if left > 0.0 else np.inf
        over = positive & ~capped & (scale * factor > cap)
        if not over.any():
            return np.where(capped, cap, np.where(positive, scale * factor, 0.0))
        capped |= over
