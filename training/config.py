"""Frozen configs; each refuses a value by naming it, the allowed range and the field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from depgpo_jax.advantages import AdvantageKind
from depgpo_jax.credit_config import CreditConfig
from depgpo_jax.errors import ConfigError
from training.checks import number, one_of, whole
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
            whole(self, name, getattr(self, name))
        number(self, "rope_base", self.rope_base, above=1.0)
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
            whole(self, name, getattr(self, name))


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
        one_of(self, "surrogate", get_args(Surrogate))
        number(self, "clip_low", self.clip_low, above=0.0, at_most=1.0)
        number(self, "clip_high", self.clip_high, above=0.0)
        if self.dual_clip is not None:
            number(self, "dual_clip", self.dual_clip, above=1.0)
        number(self, "delta", self.delta, at_least=0.0, at_most=1.0)
        number(self, "kl_coefficient", self.kl_coefficient, at_least=0.0)
        number(self, "entropy_coefficient", self.entropy_coefficient, at_least=0.0)
        one_of(self, "aggregation", get_args(Aggregation))
        if self.norm_length is not None:
            whole(self, "norm_length", self.norm_length)
        number(self, "empty", self.empty)
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
        number(self, "learning_rate", self.learning_rate, above=0.0)
        number(self, "b1", self.b1, at_least=0.0, below=1.0)
        number(self, "b2", self.b2, at_least=0.0, below=1.0)
        number(self, "eps", self.eps, above=0.0)
        number(self, "weight_decay", self.weight_decay, at_least=0.0)
        number(self, "max_grad_norm", self.max_grad_norm, above=0.0)


Assignment = Literal["group", "depgpo", "shuffled", "last_write", "uniform", "gigpo", "graph_gpo"]


@dataclass(frozen=True)
class WorldUpdateConfig:
    """One update of `groups * group_size` rollouts in the file world.

    Attributes:
        groups: tasks of an update.
        group_size: rollouts of each task.
        minibatches: steps of the optimiser; must divide the number of rollouts.
        micro_batches: parts of a minibatch whose gradients are added before a step; must divide
            its rollouts. It saves memory and changes nothing but the order of a sum.
        refills: DAPO's dynamic sampling. Groups whose rewards are all equal are dropped, and
            drawn anew up to that many times; 0: off, they stay.
        advantage: what a rollout's reward is compared with.
        assignment: how tokens get their advantage; see `training.assignments`.
        credit: rules of the dependency credit; it is reported whatever the assignment.
        objective: clipping and aggregation.
        optimizer: AdamW.

    Raises:
        ConfigError: a size is no whole number in its range, minibatches do not divide the rollouts
            or micro-batches a minibatch, or a word is unknown.
    """

    groups: int = 32
    group_size: int = 16
    minibatches: int = 2
    micro_batches: int = 1
    refills: int = 0
    advantage: AdvantageKind = "grpo"
    assignment: Assignment = "depgpo"
    credit: CreditConfig = field(default_factory=CreditConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)

    def __post_init__(self) -> None:
        for name in ("groups", "group_size", "minibatches", "micro_batches"):
            whole(self, name, getattr(self, name))
        whole(self, "refills", self.refills, at_least=0)
        one_of(self, "advantage", get_args(AdvantageKind))
        one_of(self, "assignment", get_args(Assignment))
        if self.rollouts % self.minibatches:
            raise ConfigError(
                f"WorldUpdateConfig.minibatches is {self.minibatches} with {self.groups} groups "
                f"of {self.group_size}; it must divide the {self.rollouts} rollouts"
            )
        rows = self.rollouts // self.minibatches
        if rows % self.micro_batches:
            raise ConfigError(
                f"WorldUpdateConfig.micro_batches is {self.micro_batches} with minibatches of "
                f"{rows} rollouts; it must divide {rows}"
            )

    @property
    def rollouts(self) -> int:
        """Rollouts that an update learns from, at most."""
        return self.groups * self.group_size
