"""Named settings of the file world: sizes, and the regimes in which credit methods are compared.

A size says which tasks and how many commands; a regime says whether a rollout may end itself, and
what noise the demonstrations have that a policy starts from:

=====  =============================  ==========================================
A      submit                         stopping early can be learnt
B      no submit: always all          more reads in the noise; what matters is
       commands                       to tell the useful commands from the others
C      B with submit
=====  =============================  ==========================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from training.environments.commands import Family
from training.environments.experts import Noise, noise
from training.environments.file_world import FileWorld
from training.environments.prompts import Split
from training.environments.world_params import WorldParams, world_params


@dataclass(frozen=True)
class Size:
    """Which tasks, and how much room.

    Attributes:
        families: the families of tasks.
        max_commands: steps of a rollout at most.
        empty_target: probability that z is empty at the start.
    """

    families: tuple[Family, ...] = tuple(Family)
    max_commands: int = 16
    empty_target: float = 0.5


STANDARD: Final = Size()
"""All five families, 16 commands."""

SMALL: Final = Size(families=(Family.CHAIN, Family.POINTER), max_commands=8)
"""Two commands suffice in both families: for tests and a first look."""

EASY: Final = Size(families=(Family.CHAIN, Family.PRINTED, Family.POINTER))
"""The families without a second source and without a demand on how z is written."""

HARD: Final = Size(families=(Family.JOIN, Family.REPORT), empty_target=0.0)
"""Three right commands in a row, and z never empty."""


class Preset(NamedTuple):
    """A world ready to use."""

    world: FileWorld
    params: WorldParams
    noise: Noise


def regime_a(size: Size = STANDARD, split: Split = Split.TRAIN) -> Preset:
    """Regime A: a rollout ends with `submit`, or after all its commands."""
    return _preset(size, split, submit=True, rate=0.3, reads=0.3)


def regime_b(size: Size = STANDARD, split: Split = Split.TRAIN) -> Preset:
    """Regime B: no `submit`, so every rollout has all its commands, useful or not."""
    return _preset(size, split, submit=False, rate=0.4, reads=0.6)


def regime_c(size: Size = STANDARD, split: Split = Split.TRAIN) -> Preset:
    """Regime C: B with `submit`."""
    return _preset(size, split, submit=True, rate=0.4, reads=0.6)


def _preset(size: Size, split: Split, *, submit: bool, rate: float, reads: float) -> Preset:
    params = world_params(
        families=size.families, split=split, submit=submit, empty_target=size.empty_target
    )
    return Preset(FileWorld(size.max_commands), params, noise(rate=rate, reads=reads))
