"""Stops a run whose numbers have gone wrong, and says what went wrong first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

import optax
from jaxtyping import Array, PyTree

from depgpo_jax.errors import DepgpoError
from training.run_config import HealthConfig

MIN_HISTORY: Final = 10
"""Updates before a gradient can be called large for this run."""


class TrainingDivergedError(DepgpoError, ArithmeticError):
    """A number of an update is not finite, or its gradient exploded."""


def check_health(
    row: Mapping[str, Any], history: Sequence[Mapping[str, Any]], config: HealthConfig
) -> None:
    """Looks at an update's numbers.

    Args:
        row: of the update at hand, with `update`, `grad_norm` and further numbers.
        history: rows of the updates before it, oldest first.
        config: the limits.

    Raises:
        TrainingDivergedError: what was found, what it was before, what may help.
    """
    update = row["update"]
    # The loss first: where it is not finite, everything behind it is not either.
    for name in ("loss", "mean_ratio", "entropy", "kl", "grad_norm"):
        if not math.isfinite(row[name]):
            raise TrainingDivergedError(
                f"update {update}: {name} is {row[name]}; it must be finite. "
                f"Before: {_course(name, history)}. {_remedy(name, row)}"
            )
    norms = [past["grad_norm"] for past in history[-config.window :]]
    limit, why = config.grad_norm, "HealthConfig.grad_norm"
    if len(norms) >= MIN_HISTORY and median(norms) > 0:
        relative = config.grad_norm_ratio * median(norms)
        if relative < limit:
            limit = relative
            why = (
                f"{config.grad_norm_ratio:g} times the median of the last {len(norms)} updates, "
                "HealthConfig.grad_norm_ratio"
            )
    if row["grad_norm"] > limit:
        raise TrainingDivergedError(
            f"update {update}: grad_norm is {row['grad_norm']:.3g}; it may be at most {limit:.3g} "
            f"({why}). Before: {_course('grad_norm', history)}. {_remedy('grad_norm', row)}"
        )


def check_parameters(params: PyTree[Array], update: int) -> None:
    """Looks at the parameters after an update: what is saved has to be finite.

    Raises:
        TrainingDivergedError: a parameter is not.
    """
    if not math.isfinite(float(optax.tree.norm(params))):
        raise TrainingDivergedError(
            f"update {update}: parameters after it are not finite. "
            "Lower the learning rate, or update.optimizer.max_grad_norm."
        )


def _course(name: str, history: Sequence[Mapping[str, Any]]) -> str:
    if not history:
        return "this is the first update"
    return ", ".join(f"{past[name]:.3g}" for past in history[-5:])


def _remedy(name: str, row: Mapping[str, Any]) -> str:
    if name == "mean_ratio" or row["clip_fraction"] > 0.5:
        return "The policy moved far within one update: lower the learning rate."
    if name == "entropy" or row["entropy"] < 0.01:
        return "The policy has become certain: add an entropy bonus, or lower the learning rate."
    if row["max_weight"] > 10:
        return "Token weights are large: set update.credit.max_weight, such as 2."
    return "Lower the learning rate, or update.optimizer.max_grad_norm."
