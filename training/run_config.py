"""Everything that decides about a run, as one frozen object: presets, overrides, JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from depgpo_jax.errors import ConfigError
from training.checks import MAX_SEED, number, one_of, whole
from training.config import OptimizerConfig, RecurrentConfig, WorldUpdateConfig
from training.environments.presets import (
    EASY,
    HARD,
    SMALL,
    STANDARD,
    Preset,
    Size,
    regime_a,
    regime_b,
    regime_c,
)
from training.environments.prompts import Split
from training.methods import METHODS, with_method

Regime = Literal["a", "b", "c"]
SizeName = Literal["small", "easy", "standard", "hard"]

REGIMES: Final = MappingProxyType({"a": regime_a, "b": regime_b, "c": regime_c})
SIZES: Final = MappingProxyType[str, Size](
    {"small": SMALL, "easy": EASY, "standard": STANDARD, "hard": HARD}
)


def preset_of(regime: str, size: str, split: Split) -> Preset:
    """World, world parameters and noise by the names of `REGIMES` and `SIZES`."""
    return REGIMES[regime](SIZES[size], split)


@dataclass(frozen=True)
class WarmStartConfig:
    """Imitation of noisy demonstrations, until a share of the policy's own rollouts succeeds.

    Attributes:
        success: in [0, 1); where imitation stops; 0: no warm start, the weights are random.
        max_steps: of the optimiser; the run is refused if they do not suffice.
        check_every: steps between two looks at the success.
        rollouts: demonstrations of a step, and rollouts of a look.
        learning_rate: of Adam.
    """

    success: float = 0.08
    max_steps: int = 4000
    check_every: int = 25
    rollouts: int = 512
    learning_rate: float = 2e-3

    def __post_init__(self) -> None:
        number(self, "success", self.success, at_least=0.0, below=1.0)
        for name in ("max_steps", "check_every", "rollouts"):
            whole(self, name, getattr(self, name))
        number(self, "learning_rate", self.learning_rate, above=0.0)


@dataclass(frozen=True)
class ExamConfig:
    """How the policy is examined: on validation prompts as it learns, on test prompts once.

    Attributes:
        every: updates between two validations; each is a checkpoint too.
        prompts: tasks of a validation, the same each time.
        test_prompts: tasks of the test.
        samples: rollouts of each task.
        batch: rollouts at a time.
    """

    every: int = 10
    prompts: int = 256
    test_prompts: int = 1024
    samples: int = 4
    batch: int = 1024

    def __post_init__(self) -> None:
        for name in ("every", "prompts", "test_prompts", "samples", "batch"):
            whole(self, name, getattr(self, name))


@dataclass(frozen=True)
class HealthConfig:
    """When a run is stopped because its numbers have gone wrong.

    Attributes:
        grad_norm: > 0; a larger norm of the gradient stops the run.
        grad_norm_ratio: > 1; so does one that many times the median of the updates before it.
        window: of how many updates the median is taken; fewer than ten say nothing.
    """

    grad_norm: float = 1e4
    grad_norm_ratio: float = 1e3
    window: int = 50

    def __post_init__(self) -> None:
        number(self, "grad_norm", self.grad_norm, above=0.0)
        number(self, "grad_norm_ratio", self.grad_norm_ratio, above=1.0)
        whole(self, "window", self.window, at_least=10)


@dataclass(frozen=True)
class RunConfig:
    """A run of training in the file world.

    Attributes:
        method: its name; what it sets already stands in `update`.
        regime: `"a"`, `"b"` or `"c"`.
        size: of the world.
        seed: of everything: first weights, demonstrations, tasks, rollouts, order.
        updates: how many.
        policy: its size.
        update: of one update.
        warm_start: before the first update.
        exam: validation and test.
        health: when to stop.

    Raises:
        ConfigError: a value outside its range.
    """

    method: str = "depgpo"
    regime: Regime = "b"
    size: SizeName = "standard"
    seed: int = 0
    updates: int = 150
    policy: RecurrentConfig = field(default_factory=RecurrentConfig)
    update: WorldUpdateConfig = field(default_factory=WorldUpdateConfig)
    warm_start: WarmStartConfig = field(default_factory=WarmStartConfig)
    exam: ExamConfig = field(default_factory=ExamConfig)
    health: HealthConfig = field(default_factory=HealthConfig)

    def __post_init__(self) -> None:
        one_of(self, "method", tuple(METHODS))
        one_of(self, "regime", get_args(Regime))
        one_of(self, "size", get_args(SizeName))
        whole(self, "seed", self.seed, at_least=0, at_most=MAX_SEED)
        whole(self, "updates", self.updates)

    def preset(self, split: Split) -> Preset:
        """World, world parameters and noise, with the prompts of a split."""
        return preset_of(self.regime, self.size, split)


_UPDATE: Final = WorldUpdateConfig(optimizer=OptimizerConfig(learning_rate=1e-3))

PRESETS: Final = MappingProxyType[str, RunConfig](
    {
        "regime-a": RunConfig(regime="a", update=_UPDATE),
        "regime-b": RunConfig(regime="b", update=_UPDATE),
        "regime-c": RunConfig(regime="c", update=_UPDATE),
        "small": RunConfig(
            regime="a",
            size="small",
            updates=60,
            policy=RecurrentConfig(width=64, head_width=32),
            update=replace(
                _UPDATE, groups=16, group_size=16, optimizer=OptimizerConfig(learning_rate=3e-3)
            ),
            exam=ExamConfig(prompts=64, test_prompts=256),
        ),
        "tiny": RunConfig(
            regime="a",
            size="small",
            updates=4,
            policy=RecurrentConfig(width=16, head_width=8),
            update=replace(_UPDATE, groups=4, group_size=4),
            warm_start=WarmStartConfig(success=0.2, rollouts=64, learning_rate=1e-2),
            exam=ExamConfig(every=2, prompts=8, test_prompts=8, samples=2, batch=16),
        ),
    }
)
"""Runs by name. Regimes: the standard world, a minute or so of updates; `small`: half a minute;
`tiny`: seconds, to see that everything works."""


def run_config(
    preset: str, *, method: str | None = None, overrides: Iterable[str] = ()
) -> RunConfig:
    """A preset with a method and with overrides, in that order.

    Args:
        preset: one of `PRESETS`.
        method: one of `training.methods.METHODS`; None: the preset's.
        overrides: `path=value`, such as `update.optimizer.learning_rate=3e-3`; the value is JSON,
            or a word.

    Raises:
        ConfigError: an unknown preset, method or path, or a value that is refused.
    """
    if preset not in PRESETS:
        raise ConfigError(f"preset is {preset!r}; it must be one of {', '.join(PRESETS)}")
    config = PRESETS[preset]
    name = config.method if method is None else method
    config = replace(config, method=name, update=with_method(name, config.update))
    tree: dict[str, Any] = msgspec.to_builtins(config)
    for override in overrides:
        _apply(tree, override)
    return config_of(tree, where="--set")


def config_of(tree: Mapping[str, Any], *, where: str) -> RunConfig:
    """A config from what its JSON holds.

    Args:
        tree: nested dictionaries.
        where: names the source in messages.

    Raises:
        ConfigError: a field is unknown, missing or of another type, or its value is refused.
    """
    _check_names(tree, msgspec.to_builtins(RunConfig()), where)
    try:
        return msgspec.convert(tree, RunConfig)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        place, words = path.rstrip("`"), _words_at(path.rstrip("`"))
        allowed = f"; it must be one of {', '.join(map(repr, words))}" if words else ""
        raise ConfigError(f"{where}{f' {place}' if place else ''}: {message}{allowed}") from None


def _words_at(path: str) -> tuple[Any, ...]:
    """What a field with a fixed set of words may hold; nothing for any other."""
    kind: Any = RunConfig
    for name in path.split("."):
        kind = get_type_hints(kind).get(name) if is_dataclass(kind) else None
    return get_args(kind) if get_origin(kind) is Literal else ()


def differences(one: RunConfig, other: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Where two configs differ: path to both values."""
    return {
        path: (value, flat)
        for (path, value), (_, flat) in zip(_flat(one), _flat(other), strict=True)
        if value != flat
    }


def _flat(config: RunConfig) -> list[tuple[str, Any]]:
    def walk(tree: Mapping[str, Any], before: str) -> Iterable[tuple[str, Any]]:
        for name, value in tree.items():
            if isinstance(value, dict):
                yield from walk(value, f"{before}{name}.")
            else:
                yield before + name, value

    return list(walk(msgspec.to_builtins(config), ""))


def _apply(tree: dict[str, Any], override: str) -> None:
    path, sign, text = override.partition("=")
    if not sign:
        raise ConfigError(f"--set {override!r} has no value; write path=value, such as updates=50")
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = text  # a word, such as slice
    if path in ("method", "update.assignment"):
        raise ConfigError(
            f"--set {path}: a method sets several fields; choose one with --method instead"
        )
    *folders, name = path.split(".")
    here: Any = tree
    for folder in folders:
        here = here.get(folder) if isinstance(here, dict) else None
    if not isinstance(here, dict) or name not in here or isinstance(here[name], dict):
        known = ", ".join(path for path, _ in _flat(RunConfig()))
        raise ConfigError(f"--set {path}: there is no such field; there are {known}")
    here[name] = value


def _check_names(tree: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    for name in tree:
        if name not in known:
            raise ConfigError(
                f"{where}: field {name!r} is unknown; it must be one of {', '.join(known)}"
            )
    for name in known:
        if name not in tree:
            raise ConfigError(
                f"{where}: field {name!r} is missing; a config has all of {', '.join(known)}. "
                "Was it written by another version?"
            )
    for name, value in tree.items():
        if isinstance(value, dict) and isinstance(known[name], dict):
            _check_names(value, known[name], where)
