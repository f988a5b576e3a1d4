"""Unbiased pass@k, and bootstrap intervals over prompts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Integer

from depgpo_jax.errors import ConfigError

RESAMPLES = 10_000
CHUNK = 4_000_000
"""Drawn indices held at a time: 32 MB."""


class Interval(NamedTuple):
    """A mean and its bootstrap interval."""

    mean: float
    low: float
    high: float


def pass_at_k(
    successes: Integer[np.ndarray, " _"], samples: int, k: int
) -> Float64[np.ndarray, " _"]:
    """The probability that at least one of k rollouts succeeds, of each prompt.

        pass@k = 1 - C(n - c, k) / C(n, k)    c successes in n rollouts

    the expectation over all choices of k of the n rollouts, hence without bias. Written as a
    product, 1 - prod (1 - k / i) over i = n - c + 1 … n, so that no binomial overflows.

    Reference: Chen et al., arXiv 2107.03374.

    Args:
        successes: c, of each prompt, 0 to n; at least one prompt.
        samples: n, rollouts of each prompt.
        k: 1 to n.

    Returns:
        One number a prompt, in [0, 1].

    Raises:
        ConfigError: there are no prompts, or k or a count is no whole number or out of range.

    >>> pass_at_k(np.array([0, 1, 4]), samples=4, k=2).tolist()
    [0.0, 0.5, 1.0]
    """
    check_k(k, samples)
    if not successes.size or not np.issubdtype(successes.dtype, np.integer):
        raise ConfigError(
            f"pass_at_k: found {successes.size} successes of dtype {successes.dtype}; it takes at "
            "least one, as whole numbers. Give counts, not shares"
        )
    if ((successes < 0) | (successes > samples)).any():
        raise ConfigError(
            f"pass_at_k: successes range from {successes.min()} to {successes.max()}; with "
            f"{samples} rollouts of each prompt they must be from 0 to {samples}"
        )
    i = np.arange(1, samples + 1, dtype=np.float64)[None]
    factor = np.where(i > samples - successes[:, None], np.maximum(1.0 - k / i, 0.0), 1.0)
    return 1.0 - np.prod(factor, axis=1)


def check_k(k: int, samples: int) -> None:
    """Refuses a k that `pass_at_k` would refuse, before anybody has played.

    Args:
        k: of pass@k.
        samples: rollouts of each prompt.

    Raises:
        ConfigError: k is no whole number from 1 to `samples`.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= samples:
        raise ConfigError(
            f"pass_at_k: k is {k!r} with {samples} rollouts of each prompt; "
            f"it must be a whole number from 1 to {samples}. Take more samples for a larger k"
        )


def check_level(level: float) -> None:
    """Refuses a level that `bootstrap` would refuse, before anybody has played.

    Args:
        level: of an interval.

    Raises:
        ConfigError: it is not in (0, 1).
    """
    if not 0.0 < level < 1.0:
        raise ConfigError(f"bootstrap: level is {level!r}; it must be in (0, 1), such as 0.95")


def bootstrap(
    values: Float64[np.ndarray, " _"],
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """The mean over prompts and its percentile interval.

    Prompts are drawn, not rollouts: those of one prompt are alike. For two players on the same
    prompts give the differences, prompt by prompt: that is the paired interval.

    Args:
        values: one number a prompt, such as its pass@k.
        level: of the interval, in (0, 1).
        resamples: how often all prompts are drawn anew.
        seed: decides about the draws.

    Returns:
        Mean, lower and upper end.

    Raises:
        ConfigError: there are no prompts, a value is not finite, or an option is out of range.

    >>> bootstrap(np.array([1.0, 1.0, 1.0]))
    Interval(mean=1.0, low=1.0, high=1.0)
    """
    if not values.size or not np.isfinite(values).all():
        raise ConfigError(
            f"bootstrap: found {values.size} values, {np.isfinite(values).sum()} of them finite; "
            "it takes at least one, all finite"
        )
    check_level(level)
    if isinstance(resamples, bool) or resamples < 1:
        raise ConfigError(f"bootstrap: resamples is {resamples!r}; it must be at least 1")
    random, rows = np.random.default_rng(seed), max(1, CHUNK // values.size)
    means = np.concatenate(
        [
            values[
                random.integers(values.size, size=(min(rows, resamples - begin), values.size))
            ].mean(axis=1)
            for begin in range(0, resamples, rows)
        ]
    )
    low, high = np.quantile(means, [(1.0 - level) / 2, (1.0 + level) / 2])
    return Interval(float(values.mean()), float(low), float(high))
