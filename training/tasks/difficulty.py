"""How hard a task is: how long its chain of dependent commands, how many files that lead astray."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from depgpo_jax.errors import ConfigError, printable
from training.tasks.writing import generator

MAX_DEPTH: Final = 5
MAX_DISTRACTORS: Final = 50


@dataclass(frozen=True)
class Difficulty:
    """What makes one task harder than another of the same family and seed.

    Each field has random numbers of its own. So the data of a seed stay the same at every depth,
    and distractors change neither the answers nor the reference solution.

    Attributes:
        depth: links of the family's chain, 1 to `MAX_DEPTH`; each makes the reference solution at
            least one command longer, which uses what an earlier one wrote or printed.
        distractors: files more in `/app` that have nothing to do with the answer but look as if, 0
            to `MAX_DISTRACTORS`.

    Raises:
        ConfigError: a field is not a whole number of its range.
    """

    depth: int = 1
    distractors: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (("depth", 1, MAX_DEPTH), ("distractors", 0, MAX_DISTRACTORS)):
            value: object = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ConfigError(
                    f"Difficulty.{name}: found {printable(repr(value), 60)}. Allowed: a whole "
                    f"number from {least} to {most}. Choose one of them."
                )


DEFAULT: Final = Difficulty()


def task_name(family: str, seed: int, difficulty: Difficulty) -> str:
    """The name of one task: another one for each seed and difficulty."""
    name = f"{family}-{seed}"
    if difficulty == DEFAULT:
        return name
    return f"{name}-depth{difficulty.depth}-distractors{difficulty.distractors}"


def distractors(
    family: str,
    seed: int,
    difficulty: Difficulty,
    make: Callable[[random.Random, int], tuple[str, str | bytes]],
) -> dict[str, str | bytes]:
    """Files that lead astray; fewer of them are the first ones of more.

    Args:
        family: the family's name.
        seed: the task's.
        difficulty: how many.
        make: path below `/app` and content of one, from random numbers and its own number, which
            has to stand in the path.
    """
    rng = generator(f"{family}/distractors", seed)
    return dict(make(rng, number) for number in range(difficulty.distractors))


class Trail(NamedTuple):
    """Files of which each names the next, and what the last one says.

    Attributes:
        files: contents by path below `/app`, in order.
        commands: reading them, one command a file.
    """

    files: dict[str, str]
    commands: list[str]


TRAIL: Final = """
A file that has a line `see = FILE` leaves what it should say to FILE, a path below `/app`.
"""


def trail(family: str, seed: int, difficulty: Difficulty, first: str, text: str) -> Trail:
    """Hides a file's text at the end of a trail of as many files as the task is deep.

    Args:
        family: the family's name.
        seed: the task's.
        difficulty: how many files; with a depth of 1 the first one has the text itself.
        first: the file that everybody is told about, such as `policy.ini`.
        text: what the last file says.
    """
    rng = generator(f"{family}/depth", seed)
    stem, _, ending = first.partition(".")
    numbers = rng.sample(range(1000, 10_000), difficulty.depth - 1)
    paths = [first, *(f"{stem}.d/{stem}{number}.{ending}" for number in numbers)]
    files = {path: f"# moved\nsee = {following}\n" for path, following in pairwise(paths)}
    files[paths[-1]] = text
    return Trail(files, [f"cat {path}" for path in paths])
