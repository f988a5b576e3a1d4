"""Right and wrong edges, counted, with intervals that say how much the counts can tell."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from depgpo_jax.tracer.stdout_reuse import ReuseConfig, StdoutReuse

OLD, NEW = "design page", "matcher"
CONFIGS = {OLD: ReuseConfig.design(), NEW: ReuseConfig()}

Z95 = 1.959964
"""Quantile of the normal distribution for an interval that holds the truth in 95 of 100 cases."""


@dataclass(frozen=True)
class Share:
    """A part of a whole, with its 95 % interval by Wilson's formula."""

    part: int
    whole: int
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.part / self.whole if self.whole else math.nan

    def __str__(self) -> str:
        if not self.whole:
            return "–"
        return f"{self.value:.3f} ({self.low:.3f}–{self.high:.3f}), {self.part}/{self.whole}"


def share(part: int, whole: int) -> Share:
    """Wilson's interval, which is right also near 0 and 1."""
    if not whole:
        return Share(0, 0, 0.0, 1.0)
    rate, z2 = part / whole, Z95**2
    middle = (rate + z2 / (2 * whole)) / (1 + z2 / whole)
    half = Z95 * math.sqrt(rate * (1 - rate) / whole + z2 / (4 * whole**2)) / (1 + z2 / whole)
    return Share(part, whole, max(0.0, middle - half), min(1.0, middle + half))


@dataclass
class Score:
    """Edges that were found rightly, found wrongly and not found."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    def add(self, found: Iterable[int], true: Iterable[int]) -> None:
        found, true = set(found), set(true)
        self.right += len(found & true)
        self.wrong += len(found - true)
        self.missed += len(true - found)

    def __add__(self, other: Score) -> Score:
        return Score(self.right + other.right, self.wrong + other.wrong, self.missed + other.missed)

    @property
    def precision(self) -> Share:
        return share(self.right, self.right + self.wrong)

    @property
    def recall(self) -> Share:
        return share(self.right, self.right + self.missed)


def edges(
    prompt: str, earlier: Iterable[tuple[str, str]], text: str, config: ReuseConfig
) -> list[int]:
    """Producers of a later text, by a matcher that starts anew."""
    matcher = StdoutReuse(prompt, config)
    for command, output in earlier:
        matcher.add(command, output)
    return list(matcher.sources(text))
