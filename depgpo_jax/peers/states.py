"""What step-level methods need from traces: which steps there are, their states, their rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32
from msgspec import UNSET

from depgpo_jax.batch import TraceBatch
from depgpo_jax.errors import ShapeError, TraceError
from depgpo_jax.padding import LARGEST

if TYPE_CHECKING:
    from depgpo_jax.traces import Trace

NO_STATE = -1
"""`step_states` at padding."""


def step_mask(batch: TraceBatch) -> Bool[Array, "B T"]:
    """Which places of `[B, T]` are steps of a rollout; False at padding.

    And it with `batch.trainable[:, None]` to leave rollouts out of a comparison that have no reward
    or are marked as invalid.

    Args:
        batch: padded traces.

    Returns:
        True for the first `num_steps` places of each row.
    """
    steps = jnp.arange(batch.loss_tokens.shape[1], dtype=jnp.int32)
    return steps[None, :] < batch.num_steps[:, None]


def step_states(traces: Sequence[Trace], batch: TraceBatch) -> Int32[Array, "B T"]:
    """Numbers for the environment's states before the steps: equal numbers, equal `Step.state`.

    States are numbered by first appearance, not hashed, so that no two of a batch share a number.
    Numbers of two batches have nothing to do with each other.

    Args:
        traces: the traces that `batch` was made from.
        batch: says the padded sizes.

    Returns:
        The numbers, int32; `NO_STATE` at padding.

    Raises:
        ShapeError: the batch was not made from these traces.
        TraceError: a step has no `state`; the message names trace and step.
    """
    _check_same(traces, batch, "step_states")
    numbers: dict[str, int] = {}
    states = np.full(batch.loss_tokens.shape, NO_STATE, np.int32)
    for row, trace in enumerate(traces):
        for place, step in enumerate(trace.steps):
            if step.state is UNSET:
                raise _missing(
                    trace,
                    place,
                    "state",
                    "a string that names the environment's state before the step, in every step",
                    "the state",
                )
            states[row, place] = numbers.setdefault(step.state, len(numbers))
    return jax.device_put(states)


def step_rewards(traces: Sequence[Trace], batch: TraceBatch) -> Float32[Array, "B T"]:
    """The steps' own rewards, `Step.reward`, cut to float32's range.

    Args:
        traces: the traces that `batch` was made from.
        batch: says the padded sizes.

    Returns:
        The rewards, float32; 0 at padding.

    Raises:
        ShapeError: the batch was not made from these traces.
        TraceError: a step has no `reward`; the message names trace and step.
    """
    _check_same(traces, batch, "step_rewards")
    rewards = np.zeros(batch.loss_tokens.shape, np.float32)
    for row, trace in enumerate(traces):
        for place, step in enumerate(trace.steps):
            if step.reward is UNSET:
                raise _missing(
                    trace, place, "reward", "a finite number, in every step", "rewards of steps"
                )
            rewards[row, place] = min(max(step.reward, -LARGEST), LARGEST)
    return jax.device_put(rewards)


def _missing(trace: Trace, place: int, field: str, allowed: str, what: str) -> TraceError:
    return TraceError(
        f"no {field}",
        allowed,
        f"Have the environment record {what}, or take a method that needs no {field} of steps, "
        "such as dependency_credit",
        trace_id=trace.trace_id,
        field=f"steps[{place}].{field}",
    )


def _check_same(traces: Sequence[Trace], batch: TraceBatch, where: str) -> None:
    found = [len(trace.steps) for trace in traces]
    filled = np.flatnonzero(np.asarray(batch.is_rollout))
    steps = np.asarray(batch.num_steps)[filled].tolist()
    if found != steps:
        row = next((b for b, (f, s) in enumerate(zip(found, steps, strict=False)) if f != s), None)
        detail = (
            f"{len(found)} traces for a batch of {len(steps)}"
            if row is None
            else f"{found[row]} steps in trace {traces[row].trace_id!r} where the batch has "
            f"{steps[row]}"
        )
        raise ShapeError(
            f"{where}: found {detail}; allowed: the traces that the batch was made from, in its "
            "order"
        )
