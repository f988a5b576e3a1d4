"""Frozen configs; each refuses a value by naming it, the allowed range and the field."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field
from numbers import Real
from typing import get_args

from depgpo_jax.advantages import AdvantageKind
from depgpo_jax.credit_config import CreditConfig
from depgpo_jax.errors import ConfigError
from training.objectives import Aggregation, Surrogate


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
class RecurrentConfig:
    """Size of the GRU policy of the file world; 110,000 parameters at the defaults."""

    width: int = 128
    head_width: int = 64

    def __post_init__(self) -> None:
        for name in ("width", "head_width"):
            _whole(self, name, getattr(self, name))


@dataclass(frozen=True)
class ObjectiveConfig:
    """The loss; see `training.policy_loss.policy_loss`. The default is PPO's, as GRPO uses it.

    Attributes:
        surrogate: `"clip"` (PPO, DAPO), `"gspo"` or `"dppo"`.
        clip_low: in (0, 1]; ratios are clipped below at 1 - clip_low (`"clip"`, `"gspo"`).
        clip_high: > 0; ratios are clipped above at 1 + clip_high (`"clip"`, `"gspo"`).
        dual_clip: > 1, or None: off (`"clip"` only).
        delta: in [0, 1]; largest difference of probabilities (`"dppo"` only).
        kl_coefficient: >= 0; of the k3 distance to a reference policy.
        entropy_coefficient: >= 0; of the entropy bonus.
        aggregation: how tokens become one number.
        norm_length: >= 1, or None: L (`"sequence_mean_token_sum_norm"` only).
        empty: the surrogate of a batch without a loss token.
    """

    surrogate: Surrogate = "clip"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None
    delta: float = 0.15
    kl_coefficient: float = 0.0
    entropy_coefficient: float = 0.0
    aggregation: Aggregation = "token_mean"
    norm_length: int | None = None
    empty: float = 0.0

    def __post_init__(self) -> None:
        _one_of(self, "surrogate", get_args(Surrogate))
        _number(self, "clip_low", self.clip_low, above=0.0, at_most=1.0)
        _number(self, "clip_high", self.clip_high, above=0.0)
        if self.dual_clip is not None:
            _number(self, "dual_clip", self.dual_clip, above=1.0)
        _number(self, "delta", self.delta, at_least=0.0, at_most=1.0)
        _number(self, "kl_coefficient", self.kl_coefficient, at_least=0.0)
        _number(self, "entropy_coefficient", self.entropy_coefficient, at_least=0.0)
        _one_of(self, "aggregation", get_args(Aggregation))
        if self.norm_length is not None:
            _whole(self, "norm_length", self.norm_length)
        _number(self, "empty", self.empty)
        for name, choice, users in (
            ("dual_clip", "surrogate", ("clip",)),
            ("delta", "surrogate", ("dppo",)),
            ("clip_low", "surrogate", ("clip", "gspo")),
            ("clip_high", "surrogate", ("clip", "gspo")),
            ("norm_length", "aggregation", ("sequence_mean_token_sum_norm",)),
        ):
            default = getattr(ObjectiveConfig, name)
            if getattr(self, name) != default and getattr(self, choice) not in users:
                raise ConfigError(
                    f"ObjectiveConfig.{name} is {getattr(self, name)!r} with {choice} "
                    f"{getattr(self, choice)!r}, which does not use it; leave it at {default}, or "
                    f"set {choice} to {' or '.join(map(repr, users))}"
                )

    @classmethod
    def dapo(cls) -> ObjectiveConfig:
        """DAPO (arXiv 2503.14476): a wider upper bound, the mean over the batch's tokens."""
        return cls(clip_high=0.28)

    @classmethod
    def gspo(cls) -> ObjectiveConfig:
        """GSPO (arXiv 2507.18071): the row's ratio, its bounds, the mean of the rows' means."""
        return cls(
            surrogate="gspo",
            clip_low=3e-4,
            clip_high=4e-4,
            aggregation="sequence_mean_token_mean",
        )

    @classmethod
    def dppo(cls) -> ObjectiveConfig:
        """DPPO (arXiv 2602.04879): tokens that moved away by more than 0.15 are dropped."""
        return cls(surrogate="dppo")

    @classmethod
    def dr_grpo(cls, norm_length: int) -> ObjectiveConfig:
        """Dr.GRPO (arXiv 2503.20783): token sums over one constant instead of each row's length."""
        return cls(aggregation="sequence_mean_token_sum_norm", norm_length=norm_length)


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


@dataclass(frozen=True)
class WorldUpdateConfig:
    """One update of `groups * group_size` rollouts in the file world.

    Attributes:
        groups: tasks of an update.
        group_size: rollouts of each task.
        minibatches: steps of the optimiser; must divide the number of rollouts.
        advantage: what a rollout's reward is compared with.
        credit: rules of the dependency credit.
        weighted: False: every token of a rollout gets its group advantage (plain GRPO); the credit
            is then only reported.
        objective: clipping and aggregation.
        optimizer: AdamW.

    Raises:
        ConfigError: a size is no whole number >= 1, or minibatches do not divide the rollouts.
    """

    groups: int = 32
    group_size: int = 16
    minibatches: int = 2
    advantage: AdvantageKind = "grpo"
    credit: CreditConfig = field(default_factory=CreditConfig)
    weighted: bool = True
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)

    def __post_init__(self) -> None:
        for name in ("groups", "group_size", "minibatches"):
            _whole(self, name, getattr(self, name))
        _one_of(self, "advantage", get_args(AdvantageKind))
        if self.rollouts % self.minibatches:
            raise ConfigError(
                f"WorldUpdateConfig.minibatches is {self.minibatches} with {self.groups} groups "
                f"of {self.group_size}; it must divide the {self.rollouts} rollouts"
            )

    @property
    def rollouts(self) -> int:
        """Rollouts of an update."""
        return self.groups * self.group_size


def _one_of(config: object, name: str, allowed: tuple[str, ...]) -> None:
    value = getattr(config, name)
    if value not in allowed:
        raise ConfigError(
            f"{type(config).__name__}.{name} is {value!r}; it must be one of "
            + ", ".join(repr(word) for word in allowed)
        )


def _whole(config: object, name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(
            f"{type(config).__name__}.{name} is {value!r}; it must be a whole number >= 1"
        )


def _number(
    config: object,
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> None:
    """Refuse what is no number, bools among it, or outside the bounds, as NaN is of any."""
    bounds = [
        (above, ">", operator.gt),
        (at_least, ">=", operator.ge),
        (below, "<", operator.lt),
        (at_most, "<=", operator.le),
    ]
    set_bounds = [(bound, sign, holds) for bound, sign, holds in bounds if bound is not None]
    if (
        isinstance(value, Real)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and all(holds(value, bound) for bound, _, holds in set_bounds)
    ):
        return
    allowed = " and ".join(f"{sign} {bound:g}" for bound, sign, _ in set_bounds)
    allowed = f"a finite number {allowed}".rstrip()
    raise ConfigError(f"{type(config).__name__}.{name} is {value!r}; it must be {allowed}")
