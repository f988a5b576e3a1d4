"""Options of the credit computation and what they refuse."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

from depgpo_jax.credit import CreditConfig
from depgpo_jax.errors import ConfigError


def test_defaults_are_the_methods():
    config = CreditConfig()
    assert dataclasses.astuple(config) == (
        *(0.5, "paper", None, True),
        *("fraction", "verifier", True),
    )


def test_frozen_and_hashable():
    config = CreditConfig(beta=0.9, max_weight=2)
    assert hash(config) == hash(CreditConfig(beta=0.9, max_weight=2.0))
    assert config == CreditConfig(beta=0.9, max_weight=2.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.beta = 0.1  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "options",
    [
        {"beta": 1},
        {"beta": 1e-30},
        {"beta": np.float64(0.25)},
        {"max_weight": 1},
        {"max_weight": 1e30},
        {"relevance": "slice", "inspect": "all", "write_credit": "binary"},
        {"read_credit": False, "subtract_min": False},
    ],
    ids=str,
)
def test_allowed(options: dict[str, Any]):
    config = CreditConfig(**options)
    assert all(getattr(config, name) == value for name, value in options.items())


BETA = "allowed: a number with 0 < beta <= 1, at least 1.2e-38"
CAP = "allowed: None or a number from 1 to 3.4e+38"


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        *(("beta", value, BETA) for value in (0, 0.0, -0.5, 1.0001, float("nan"), float("inf"))),
        *(("beta", value, BETA) for value in ("0.5", None, True, [0.5])),
        *(("max_weight", value, CAP) for value in (0.999, 0, -2.0, float("nan"), float("inf"))),
        *(("max_weight", value, CAP) for value in ("2", True, (2,))),
        ("relevance", "Paper", 'allowed: "paper" or "stdout" or "slice"'),
        ("relevance", None, 'allowed: "paper" or "stdout" or "slice"'),
        ("write_credit", "count", 'allowed: "fraction" or "binary"'),
        ("inspect", ["all"], 'allowed: "verifier" or "all"'),
        ("read_credit", 1, "allowed: True or False"),
        ("read_credit", "no", "allowed: True or False"),
        ("subtract_min", None, "allowed: True or False"),
    ],
)
def test_refused(field: str, value: object, allowed: str):
    message = f"CreditConfig.{field}: found {value!r}; {allowed}"
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        CreditConfig(**{field: value})  # pyright: ignore[reportArgumentType]
