"""The methods by name, each as an `WorldUpdateConfig`: what `--method` chooses from."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from depgpo_jax.credit import CreditConfig
from depgpo_jax.errors import ConfigError
from training.config import ObjectiveConfig, WorldUpdateConfig

LONGEST_ROLLOUT: Final = 48
"""Loss tokens of 16 commands of three: what Dr.GRPO's sums are divided by."""

METHODS: Final = MappingProxyType[str, dict[str, Any]](
    {
        "grpo": {"assignment": "group"},
        "rloo": {"assignment": "group", "advantage": "rloo"},
        "dr_grpo": {
            "assignment": "group",
            "advantage": "dr_grpo",
            "objective": ObjectiveConfig.dr_grpo(LONGEST_ROLLOUT),
        },
        "dapo": {"assignment": "group", "objective": ObjectiveConfig.dapo(), "refills": 3},
        "gspo": {"assignment": "group", "objective": ObjectiveConfig.gspo()},
        "dppo": {"assignment": "group", "objective": ObjectiveConfig.dppo()},
        "gigpo": {"assignment": "gigpo"},
        "graph_gpo": {"assignment": "graph_gpo"},
        "depgpo": {"assignment": "depgpo"},
        "depgpo-stdout": {"assignment": "depgpo", "credit": CreditConfig(relevance="stdout")},
        "depgpo-slice": {"assignment": "depgpo", "credit": CreditConfig(relevance="slice")},
        "shuffled": {"assignment": "shuffled"},
        "last_write": {"assignment": "last_write"},
        "uniform": {"assignment": "uniform"},
    }
)
"""What each method sets; everything else is as the rest of the run says."""


def with_method(name: str, config: WorldUpdateConfig) -> WorldUpdateConfig:
    """The config with what a method sets.

    Args:
        name: one of `METHODS`.
        config: sizes and everything that the method leaves alone.

    Raises:
        ConfigError: no such method.
    """
    if name not in METHODS:
        raise ConfigError(f"method is {name!r}; it must be one of {', '.join(METHODS)}")
    return replace(config, **METHODS[name])
