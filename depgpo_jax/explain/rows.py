"""Which row of a batch a trace is, and whether a credit can be its own."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, SupportsIndex

import jax
import numpy as np

from depgpo_jax.errors import ShapeError, printable
from depgpo_jax.padding import Gathered, padded_arrays

if TYPE_CHECKING:
    from depgpo_jax.batch import TraceBatch, TraceCredit
    from depgpo_jax.traces import Trace

IN_CONTEXT = frozenset({"group"})
"""Fields that depend on the other rollouts of the batch."""


def whole_number(value: object) -> int | None:
    """An index as an int, those of numpy and jax too; None for what is none, as True or 1.0."""
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        return operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        return None


def find_row(batch: TraceBatch, trace: Trace, row: SupportsIndex | None = None) -> int:
    """The first row of a batch that holds a trace: rollouts that are equal have equal credit.

    Args:
        batch: the batch.
        trace: a valid trace.
        row: look in this row only.

    Returns:
        The row.

    Raises:
        ShapeError: the row is out of range, or the trace is not there.
    """
    rollouts = int(np.sum(jax.device_get(batch.is_rollout)))
    name = f"trace {printable(trace.trace_id)!r}"
    only = None if row is None else whole_number(row)
    if row is not None and (only is None or not 0 <= only < rollouts):
        found = row if only is None else only
        allowed = f"an integer from 0 to {rollouts - 1}" if rollouts else "none, the batch is empty"
        raise ShapeError(
            f"{name}: found row {found!r}; allowed: {allowed}; give the trace's place among those "
            "that the batch was made from, or no row to have it searched"
        )
    wanted = _padded(batch, trace)
    if wanted is not None:
        candidates = np.arange(rollouts) if only is None else np.array([only])
        for candidate in _likely(batch, candidates, wanted):
            if _holds(batch, candidate, wanted):
                return candidate
    where = "in the batch" if only is None else f"in row {only} of the batch"
    raise ShapeError(
        f"{name}: found no such rollout {where}; allowed: a trace that the batch was made from; "
        "give the batch and the credit of this trace"
    )


def _padded(batch: TraceBatch, trace: Trace) -> dict[str, np.ndarray] | None:
    """The trace as the one row of a batch of the same sizes; None if it would not fit."""
    gathered = Gathered([trace])
    room = {
        "commands": batch.recorded.shape[1],
        "steps": batch.loss_tokens.shape[1],
        "segments": batch.segment_owner.shape[1],
        "resources": batch.inspected.shape[1],
    }
    if any(getattr(gathered, axis)[0] > size for axis, size in room.items()):
        return None
    arrays = padded_arrays(gathered, rollouts=1, **room)
    return {name: array for name, array in arrays.items() if name not in IN_CONTEXT}


def _likely(batch: TraceBatch, candidates: np.ndarray, wanted: dict[str, np.ndarray]) -> list[int]:
    """The rows that agree in what is one number a rollout: few, so that few arrays are fetched."""
    for name, array in wanted.items():
        if array.ndim == 1:
            values = np.asarray(jax.device_get(getattr(batch, name)))
            candidates = candidates[values[candidates] == array[0]]
    return candidates.tolist()


def _holds(batch: TraceBatch, row: int, wanted: dict[str, np.ndarray]) -> bool:
    return all(
        np.array_equal(jax.device_get(getattr(batch, name)[row]), array[0])
        for name, array in wanted.items()
    )


def check_result(trace: Trace, result: TraceCredit, segments: int | None = None) -> None:
    """Checks that a credit can be that of a trace, by its sizes.

    Args:
        trace: a valid trace.
        result: a credit, from `unpad`.
        segments: how many record segments the trace has; None: that is not looked at.

    Raises:
        ShapeError: it counts other steps, commands or segments.
    """
    found = [len(result.step_credit), len(result.command_credit)]
    wanted = [len(trace.steps), len(trace.commands)]
    if segments is not None:
        found.append(len(result.segment_relevant))
        wanted.append(segments)
    if found != wanted:
        names = ("steps", "commands", "segments")[: len(found)]
        sizes, allowed = (
            ", ".join(f"{size} {name}" for size, name in zip(counts, names, strict=True))
            for counts in (found, wanted)
        )
        raise ShapeError(
            f"trace {printable(trace.trace_id)!r}: found a credit of {sizes}; allowed: {allowed}; "
            "give the credit of this trace"
        )
