"""`python -m training.tasks FAMILY SEED DIRECTORY`: writes one task directory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from depgpo_jax.errors import ConfigError, DepgpoError, printable
from training.tasks import FAMILIES, SPLITS, Difficulty, split_of
from training.tasks.difficulty import DEFAULT, MAX_DEPTH, MAX_DISTRACTORS

_FOLDER: Final = "a folder that is not there yet, or empty"
_SEEDS: Final = ", ".join(f"{seeds[0]} to {seeds[-1]} ({name})" for name, seeds in SPLITS.items())


def main(arguments: Sequence[str] | None = None) -> int:
    """Write one task; an error of ours or of the system becomes a message and exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m training.tasks", description=__doc__)
    parser.add_argument("family", choices=sorted(FAMILIES))
    parser.add_argument("seed", type=int, help=f"equal seeds give equal files: {_SEEDS}")
    parser.add_argument("directory", help=_FOLDER)
    parser.add_argument(
        "--depth",
        type=int,
        default=DEFAULT.depth,
        help=f"links of the chain of dependent commands, 1 to {MAX_DEPTH} (%(default)s)",
    )
    parser.add_argument(
        "--distractors",
        type=int,
        default=DEFAULT.distractors,
        help=f"files that lead astray, 0 to {MAX_DISTRACTORS} (%(default)s)",
    )
    options = parser.parse_args(arguments)
    try:
        difficulty = Difficulty(options.depth, options.distractors)
        _check(options.seed, options.directory)
        FAMILIES[options.family](options.seed, Path(options.directory), difficulty)
    except DepgpoError as error:
        message = str(error)
    except OSError as error:
        message = _in_words(error, options.directory)
    else:
        return 0
    print(f"error: {message}", file=sys.stderr)
    return 1


def _check(seed: int, directory: str) -> None:
    """Refuses a seed of no split, and an empty name, which `Path` takes for the current folder."""
    if split_of(seed) is None:
        raise ConfigError(f"seed: found {seed}. Allowed: {_SEEDS}. Choose one of them.")
    if not directory:
        raise ConfigError(
            f"directory: found ''. Allowed: {_FOLDER}. Name one; the current folder is '.'."
        )


def _in_words(error: OSError, directory: str) -> str:
    """The message of an error of the system; one of ours has no number and says it all already."""
    if error.errno is None:
        return str(error)
    place = printable(str(error.filename or directory))
    return (
        f"{place}: found no way to write there ({error.strerror}). Allowed: {_FOLDER}, on a disk "
        "with room and where you may write. Name another one, or remove what is in the way."
    )


if __name__ == "__main__":
    sys.exit(main())
