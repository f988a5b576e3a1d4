"""The files that one run of `depgpo` names must not be each other: writing one destroys another."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import click

from depgpo_jax.errors import printable
from depgpo_jax.traces.files import STANDARD


def refuse_same_file(paths: Mapping[str, str | None]) -> None:
    """Ends the command if two of its arguments name one file; nothing is opened.

    Args:
        paths: the path that stands behind each argument or option; None: it was not given.

    Raises:
        UsageError: two are the same file, by whatever spelling or link.
    """
    known = {name: _identity(path) for name, path in paths.items() if path is not None}
    for (first, one), (second, other) in combinations(known.items(), 2):
        if one is not None and one == other:
            path = printable(str(paths[second]))
            raise click.UsageError(
                f"{first} and {second} are the same file, {path}, which would be overwritten. "
                "Give each a file of its own.",
                click.get_current_context(silent=True),
            )


def _identity(path: str) -> tuple[object, ...] | None:
    """What two spellings of one file share; None for what may be named twice, as /dev/null."""
    if path == STANDARD:
        return None
    try:
        status = Path(path).stat()
    except OSError:
        return (os.path.realpath(path),)  # not there yet
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None
