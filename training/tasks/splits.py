"""Which seeds are for training, which to choose by, which only to report.

============  ======================  ====================================================
split         seeds                   for
============  ======================  ====================================================
`train`       0 to 999,999            rollouts that a policy is updated on; examples, demos
`validation`  1,000,000 to 1,009,999  choosing between runs, early stopping
`test`        2,000,000 to 2,009,999  figures that are reported
============  ======================  ====================================================

A task's data, names and answers all come from its seed, so tasks of different splits have nothing
in common but their family. Every family has the same splits, at every difficulty.
"""

from __future__ import annotations

from typing import Final

from depgpo_jax.errors import ConfigError, printable

SPLITS: Final = {
    "train": range(1_000_000),
    "validation": range(1_000_000, 1_010_000),
    "test": range(2_000_000, 2_010_000),
}
"""Split -> its seeds."""


def split_seeds(split: str) -> range:
    """The seeds of a split.

    Raises:
        ConfigError: there is no such split.
    """
    if split not in SPLITS:
        raise ConfigError(
            f"split: found {printable(repr(split), 60)}. Allowed: {', '.join(SPLITS)}. "
            "Choose one of them."
        )
    return SPLITS[split]


def split_of(seed: int) -> str | None:
    """The split that a seed is in; None: it is in none."""
    return next((name for name, seeds in SPLITS.items() if seed in seeds), None)
