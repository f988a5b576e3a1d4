"""Options of the credit computation."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import get_args

import numpy as np

from depgpo_jax.errors import ConfigError
from depgpo_jax.padding import LARGEST
from depgpo_jax.relevance import Inspect, RelevanceRule, WriteCredit

SMALLEST = float(np.finfo(np.float32).smallest_normal)
"""A smaller number may count as 0 on a device."""


@dataclass(frozen=True)
class CreditConfig:
    """How credit is counted: the defaults are DepGPO as published, as far as that is known.

    Hashable, so it can be a static argument of a jitted function; `beta` and the value of
    `max_weight` are traced, so that sweeping over them compiles nothing anew.

    Attributes:
        beta: decay of read credit per dependency edge, in (0, 1].
        relevance: `"paper"`, `"stdout"` or `"slice"`: how far relevance travels (section 3).
        max_weight: largest token weight, >= 1; None: no cap (section 6).
        read_credit: False gives commands without records no credit (section 8).
        write_credit: `"fraction"` of relevant records, or `"binary"` (section 8).
        inspect: `"verifier"`, or `"all"`: every resource counts as inspected (section 8).
        subtract_min: False keeps step credits as they are instead of `c - min c` (section 8).

    Raises:
        ConfigError: a value is outside its range; the message names the field and the value.
    """

    beta: float = 0.5
    relevance: RelevanceRule = "paper"
    max_weight: float | None = None
    read_credit: bool = True
    write_credit: WriteCredit = "fraction"
    inspect: Inspect = "verifier"
    subtract_min: bool = True

    def __post_init__(self) -> None:
        if not _is_number(self.beta) or not SMALLEST <= self.beta <= 1.0:
            raise _refused(
                "beta", self.beta, f"a number with 0 < beta <= 1, at least {SMALLEST:.2g}"
            )
        if self.max_weight is not None and not (
            _is_number(self.max_weight) and 1.0 <= self.max_weight <= LARGEST
        ):
            raise _refused(
                "max_weight", self.max_weight, f"None or a number from 1 to {LARGEST:.2g}"
            )
        for name, allowed in (
            ("relevance", get_args(RelevanceRule)),
            ("write_credit", get_args(WriteCredit)),
            ("inspect", get_args(Inspect)),
        ):
            if getattr(self, name) not in allowed:
                listed = " or ".join(f'"{value}"' for value in allowed)
                raise _refused(name, getattr(self, name), listed)
        for name in ("read_credit", "subtract_min"):
            if not isinstance(getattr(self, name), bool):
                raise _refused(name, getattr(self, name), "True or False")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _refused(field: str, found: object, allowed: str) -> ConfigError:
    return ConfigError(f"CreditConfig.{field}: found {found!r}; allowed: {allowed}")
