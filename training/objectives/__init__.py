"""Token objectives as pure functions of [B, L] arrays; `docs/objectives.md` lists them.

Everything that enters has one number a token; nothing here knows where the advantages came from.
Position l of a row speaks of token l: its log-probability is read from the logits at l - 1.

What is deliberately so:

* A token whose advantage is zero, or that an objective drops, stays in every denominator. Only
  `loss_mask` takes tokens out.
* Outside `loss_mask` arrays may hold anything, NaN included, and no gradient flows there.
* An empty mask gives the argument `empty`, 0 unless told otherwise, and a zero gradient.
* A row without loss tokens is padding: it takes no part in the means over rows.
"""

from training.objectives.aggregation import Aggregation, aggregate, aggregation_count
from training.objectives.dppo import dppo_objective
from training.objectives.log_probs import (
    LARGEST_LOG_RATIO,
    sequence_ratio,
    token_entropy,
    token_log_probs,
    token_ratio,
)
from training.objectives.objective import Objective, Surrogate
from training.objectives.penalties import overlong_penalty, reference_kl
from training.objectives.surrogates import clipped_objective, clipped_token_loss, gspo_objective

__all__ = [
    "LARGEST_LOG_RATIO",
    "Aggregation",
    "Objective",
    "Surrogate",
    "aggregate",
    "aggregation_count",
    "clipped_objective",
    "clipped_token_loss",
    "dppo_objective",
    "gspo_objective",
    "overlong_penalty",
    "reference_kl",
    "sequence_ratio",
    "token_entropy",
    "token_log_probs",
    "token_ratio",
]
