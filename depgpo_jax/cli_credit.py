"""From a file of traces to results, in two passes and in batches: for all that computes.

The first pass validates the whole file and collects groups and rewards, so that nothing is written
for a file that turns out to be bad, and so that a group may be spread over it. The second computes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from depgpo_jax.advantages import AdvantageKind, group_advantages
from depgpo_jax.batch import BatchShape, TraceBatch, TraceCredit, batch_traces, unpad
from depgpo_jax.credit import Credit, CreditConfig, dependency_credit
from depgpo_jax.errors import ShapeError
from depgpo_jax.padding import LARGEST

if TYPE_CHECKING:
    from depgpo_jax.traces import Trace, TraceIndex

MAX_PAIRS = 256 * 1024**2
"""Largest B · N² of a batch, since the dependency bits grow so: long traces, small batches."""


@dataclass(frozen=True)
class CreditOptions:
    """What one run computes.

    Attributes:
      config: which credit is meant.
      advantage: how a rollout is compared with its group; None: not at all.
    """

    config: CreditConfig
    advantage: AdvantageKind | None


def file_advantages(index: TraceIndex, kind: AdvantageKind | None) -> np.ndarray | None:
    """The advantage of every trace of a file within its group.

    Args:
        index: the file's first pass.
        kind: which advantage; None: none.

    Returns:
        One float32 a trace, NaN for those that are not to be trained on; None for no kind.
    """
    if kind is None:
        return None
    reward = np.frombuffer(index.rewards, np.float64)
    group = np.frombuffer(index.groups, np.int64).astype(np.int32)
    rows = range(len(index))
    trainable = np.array([not index.is_invalid(row) for row in rows], np.bool_) & ~np.isnan(reward)
    reward = _centred(np.where(trainable, reward, 0.0), group, trainable)
    compare = jax.jit(partial(group_advantages, kind=kind))
    advantage = np.asarray(compare(reward, group, trainable))
    return np.where(trainable, advantage, np.float32(np.nan))


def _centred(reward: np.ndarray, group: np.ndarray, trainable: np.ndarray) -> np.ndarray:
    """Float32 rewards, each measured from the middle of its group's range.

    An advantage does not depend on what all rewards of a group have in common, but float32 would
    lose small differences next to it. A difference beyond float32 becomes its largest number.
    """
    groups = int(group.max(initial=-1)) + 1
    lowest, highest = np.full(groups, np.inf), np.full(groups, -np.inf)
    np.minimum.at(lowest, group[trainable], reward[trainable])
    np.maximum.at(highest, group[trainable], reward[trainable])
    nobody = lowest > highest
    lowest[nobody] = highest[nobody] = 0.0
    # Halves first: the sum of two rewards may exceed float64.
    middle = 0.5 * lowest + 0.5 * highest
    offset = np.where(trainable, reward - middle[group], 0.0)
    return np.clip(offset, -LARGEST, LARGEST).astype(np.float32)


class Credited(NamedTuple):
    """A trace, its credit, and its group advantage if there is one."""

    trace: Trace
    credit: TraceCredit
    advantage: float | None


def credit_traces(
    traces: Iterable[Trace],
    advantages: np.ndarray | None,
    config: CreditConfig,
    batch_size: int,
) -> Iterator[list[Credited]]:
    """Credit of a stream of traces, batch by batch, in order.

    Args:
        traces: valid traces.
        advantages: one for each, as `file_advantages` gives them, or None.
        config: which credit is meant.
        batch_size: the most traces in one batch.

    Returns:
        For each batch its traces with their results.
    """
    shapes = _Shapes()
    running: _Running | None = None
    for group in _groups(traces, batch_size):
        batch = shapes.batch(group)
        # JAX computes in the background: meanwhile the next traces are read and replayed.
        credit = dependency_credit(batch, config)
        if running is not None:
            yield running.results(advantages)
        first = 0 if running is None else running.first + len(running.traces)
        running = _Running(group, first, batch, credit)
    if running is not None:
        yield running.results(advantages)


class _Running(NamedTuple):
    """A batch that is being computed; `first` is the number of its first trace in the file."""

    traces: list[Trace]
    first: int
    batch: TraceBatch
    credit: Credit

    def results(self, advantages: np.ndarray | None) -> list[Credited]:
        own: list[float | None] = [None] * len(self.traces)
        if advantages is not None:
            found = advantages[self.first : self.first + len(own)].tolist()
            own = [None if math.isnan(advantage) else advantage for advantage in found]
        unpadded = unpad(self.batch, self.credit)
        return [Credited(*parts) for parts in zip(self.traces, unpadded, own, strict=True)]


def _groups(traces: Iterable[Trace], batch_size: int) -> Iterator[list[Trace]]:
    """Consecutive traces, as many as fit into one batch."""
    group: list[Trace] = []
    longest = 0
    for trace in traces:
        commands = max(longest, _count_commands(trace))
        if group and (len(group) == batch_size or (len(group) + 1) * commands**2 > MAX_PAIRS):
            yield group
            group, commands = [], _count_commands(trace)
        group.append(trace)
        longest = commands
    if group:
        yield group


class _Shapes:
    """The shapes of a run: batches of about the same number of commands share a compilation.

    For each power of two of commands there is one shape, which grows when a batch needs more of
    another axis. So a long file of mixed rollouts compiles a few times, not for every batch.
    """

    def __init__(self) -> None:
        self._shapes: dict[int, BatchShape] = {}

    def batch(self, traces: Sequence[Trace]) -> TraceBatch:
        longest = max(_count_commands(trace) for trace in traces)
        power = max(longest - 1, 0).bit_length()
        shape = self._shapes.get(power)
        if shape is not None:
            try:
                return batch_traces(traces, shape=shape)
            except ShapeError:
                pass  # an axis must grow
        batch = batch_traces(traces)
        needed = _shape_of(batch)
        if shape is None:
            self._shapes[power] = needed
            return batch
        larger = zip(astuple(shape), astuple(needed), strict=True)
        self._shapes[power] = BatchShape(*(max(pair) for pair in larger))
        return batch_traces(traces, shape=self._shapes[power])


def _shape_of(batch: TraceBatch) -> BatchShape:
    rollouts, commands = batch.recorded.shape
    return BatchShape(
        rollouts=rollouts,
        commands=commands,
        steps=batch.loss_tokens.shape[1],
        segments=batch.segment_owner.shape[1],
        resources=batch.inspected.shape[1],
    )


def _count_commands(trace: Trace) -> int:
    return sum(len(step.commands) for step in trace.steps)
