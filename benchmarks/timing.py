"""Contestants timed in turn, so that a slow minute of the machine meets all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

TURN = 0.02
"""Least seconds of one turn: shorter calls are repeated, so that few begin in cold caches."""


@dataclass(frozen=True)
class Spread:
    """A median and the quartiles around it."""

    median: float
    low: float
    high: float
    rounds: int


class Timed(NamedTuple):
    """What `alternate` measured."""

    samples: dict[str, list[float]]
    """Seconds a call of each contestant, one entry a round."""
    core_share: float
    """Processor time of this process over the time that passed: near 1 on a quiet core."""


def alternate(contestants: Mapping[str, Callable[[], object]], *, rounds: int) -> Timed:
    """Times each contestant once a round; every other round goes the other way round.

    Whatever a contestant does only once, as compiling, must lie behind it.
    """
    gc.collect()
    # What lives now is not looked at again by the collector, however often a contestant wakes it.
    gc.freeze()
    try:
        repeats = {name: _repeats(call) for name, call in contestants.items()}
        samples: dict[str, list[float]] = {name: [] for name in contestants}
        order = list(contestants)
        processor, start = time.process_time(), time.perf_counter()
        for _ in range(rounds):
            for name in order:
                samples[name].append(_turn(contestants[name], repeats[name]))
            order.reverse()
        processor, passed = time.process_time() - processor, time.perf_counter() - start
    finally:
        gc.unfreeze()
    return Timed(samples, processor / passed)


def spread(samples: Sequence[float]) -> Spread:
    if len(samples) == 1:
        return Spread(samples[0], samples[0], samples[0], 1)
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(statistics.median(samples), low, high, len(samples))


def ratio(above: Sequence[float], below: Sequence[float]) -> Spread:
    """The ratio of the medians; the quartiles are those of the ratios within the rounds."""
    rounds = spread([a / b for a, b in zip(above, below, strict=True)])
    median = statistics.median(above) / statistics.median(below)
    return Spread(median, rounds.low, rounds.high, len(above))


def _repeats(call: Callable[[], object]) -> int:
    return max(1, round(TURN / max(_turn(call, 1), 1e-6)))


def _turn(call: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats
