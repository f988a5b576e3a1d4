"""Who can be evaluated: learnt policies, the script that knows the answer, and chance."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from jaxtyping import Array, Key, PyTree

from depgpo_jax.errors import ConfigError
from training.environments.experts import RANDOM, demonstrations, noise
from training.environments.file_world import FileWorld
from training.environments.presets import Preset
from training.environments.rollouts import Rollout, Starts, rollout
from training.environments.world_params import WorldParams
from training.policy.recurrent import RecurrentPolicy, recurrent_sampler

Play = Callable[[PyTree[Array], Key[Array, ""], Starts, WorldParams], Rollout]


class Player(NamedTuple):
    """Somebody who plays.

    Attributes:
        name: for tables and files.
        play: `(params, key, starts, world params) -> finished rollouts`, to be jitted.
        params: its first argument; traced, so that other parameters compile nothing.
    """

    name: str
    play: Play
    params: PyTree[Array]


def learned(name: str, world: FileWorld, model: RecurrentPolicy, params: PyTree[Array]) -> Player:
    """A policy with parameters."""
    sampler = recurrent_sampler(model)

    def play(
        params: Any, key: Key[Array, ""], starts: Starts, world_params: WorldParams
    ) -> Rollout:
        return rollout(world, sampler, params, key, starts, world_params)

    return Player(name, play, params)


def _script(preset: Preset) -> Player:
    """Knows the answer and makes no mistake."""
    silent = noise(rate=0.0, reads=0.0)

    def play(
        params: Any, key: Key[Array, ""], starts: Starts, world_params: WorldParams
    ) -> Rollout:
        return demonstrations(preset.world, key, starts, world_params, params)

    return Player("script", play, silent)


def _noisy_script(preset: Preset) -> Player:
    """The demonstrations of the regime, as a warm start sees them."""
    return _script(preset)._replace(name="noisy-script", params=preset.noise)


def _random(preset: Preset) -> Player:
    """Every verb, source and target equally likely."""

    def play(
        params: Any, key: Key[Array, ""], starts: Starts, world_params: WorldParams
    ) -> Rollout:
        return rollout(preset.world, RANDOM, params, key, starts, world_params)

    return Player("random", play, None)


SCRIPTED_PLAYERS: Final = MappingProxyType[str, Callable[[Preset], Player]](
    {"script": _script, "noisy-script": _noisy_script, "random": _random}
)
"""Players without a network, by name."""


def scripted(name: str, preset: Preset) -> Player:
    """A player without a network.

    Args:
        name: one of `SCRIPTED_PLAYERS`.
        preset: the world it plays in.

    Raises:
        ConfigError: there is no such player.
    """
    if name not in SCRIPTED_PLAYERS:
        raise ConfigError(f"player is {name!r}; it must be one of {', '.join(SCRIPTED_PLAYERS)}")
    return SCRIPTED_PLAYERS[name](preset)
