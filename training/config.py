"""Frozen configs; each refuses a value by naming it, the allowed range and the field."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

from depgpo_jax.errors import ConfigError
from training.objectives import Aggregation


@dataclass(frozen=True)
class PolicyConfig:
    """Size of the decoder-only transformer; the defaults update in milliseconds on a CPU."""

    vocab_size: int = 512
    width: int = 64
    num_layers: int = 2
    num_heads: int = 4
    mlp_width: int = 176
    rope_base: float = 10_000.0

    def __post_init__(self) -> None:
        for name in ("vocab_size", "width", "num_layers", "num_heads", "mlp_width"):
            _whole(self, name, getattr(self, name))
        _number(self, "rope_base", self.rope_base, above=1.0)
        if self.width % (2 * self.num_heads):
            raise ConfigError(
                f"PolicyConfig.width is {self.width} with num_heads {self.num_heads}; it must be "
                "a multiple of 2 * num_heads, since rotary positions turn pairs inside a head"
            )

    @property
    def head_width(self) -> int:
        """Features of one attention head."""
        return self.width // self.num_heads


@dataclass(frozen=True)
class ObjectiveConfig:
    """The clipped objective's switches; see `training.objectives.clipped_objective`."""

    clip_low: float = 0.2
    clip_high: float = 0.2
    aggregation: Aggregation = "token_mean"

    def __post_init__(self) -> None:
        _number(self, "clip_low", self.clip_low, above=0.0, at_most=1.0)
        _number(self, "clip_high", self.clip_high, above=0.0)
        allowed = get_args(Aggregation)
        if self.aggregation not in allowed:
            raise ConfigError(
                f"ObjectiveConfig.aggregation is {self.aggregation!r}; it must be one of "
                + ", ".join(repr(name) for name in allowed)
            )


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with gradient clipping by global norm."""

    learning_rate: float = 3e-4
    b1: float = 0.9
    b2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0

    def __post_init__(self) -> None:
        _number(self, "learning_rate", self.learning_rate, above=0.0)
        _number(self, "b1", self.b1, at_least=0.0, below=1.0)
        _number(self, "b2", self.b2, at_least=0.0, below=1.0)
        _number(self, "eps", self.eps, above=0.0)
        _number(self, "weight_decay", self.weight_decay, at_least=0.0)
        _number(self, "max_grad_norm", self.max_grad_norm, above=0.0)


def _whole(config: object, name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(
            f"{type(config).__name__}.{name} is {value!r}; it must be a whole number >= 1"
        )


def _number(
    config: object,
    name: str,
    value: float,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> None:
    """Refuse a value outside the bounds; NaN and infinities are outside any."""
    bounds = [
        (above, ">", above is None or value > above),
        (at_least, ">=", at_least is None or value >= at_least),
        (below, "<", below is None or value < below),
        (at_most, "<=", at_most is None or value <= at_most),
    ]
    if math.isfinite(value) and all(holds for _, _, holds in bounds):
        return
    allowed = " and ".join(f"{sign} {bound:g}" for bound, sign, _ in bounds if bound is not None)
    raise ConfigError(
        f"{type(config).__name__}.{name} is {value!r}; it must be a finite number {allowed}"
    )
