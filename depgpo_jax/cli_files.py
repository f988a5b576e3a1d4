"""Files and folders that a run of `depgpo` writes: none over another, each whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path

import click

from depgpo_jax.errors import TraceError, printable
from depgpo_jax.traces.files import STANDARD

REPORT_MARK = ".depgpo-report"
"""The file by which an earlier report is known."""

INDEX = "index.html"
FOLDERS = ("groups", "rollouts")
"""What else a report consists of; pages in the folders are numbered."""

_PAGES = re.compile(r"\d{6,}\.html")
_PART = ".depgpo-part-"
"""Begins the name of a folder in which a report is being written."""

ABANDONED_S = 24 * 3600.0
"""Such a folder that is older was left by a run that was killed."""


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


@contextmanager
def open_report(out: str, source: str) -> Generator[Path]:
    """A folder whose pages appear when the block ends well, and not at all otherwise.

    They are written inside of it under a hidden name and moved into place at the end, so that it
    may be a mount point or somebody's working directory. The pages of an earlier report make room;
    a folder that holds anything else is left alone, also if that came while the block ran.

    Args:
        out: the folder's path.
        source: the file that the report is about; it may not lie in there.

    Returns:
        The folder to write into.

    Raises:
        UsageError: something else is in the way, or `out` is no path.
        TraceError: the folder cannot be made.
    """
    if out in ("", STANDARD):
        raise _refused(f"found {out!r}. Give the path of a folder")
    place = Path(os.path.realpath(out))
    _refuse_others(place, out, source)
    is_new = not place.exists()
    part = place / f"{_PART}{secrets.token_hex(8)}"
    new = part / "new"
    # An interrupt may come at any moment, also when the folder has just appeared.
    try:
        try:
            place.mkdir(exist_ok=True)
            part.mkdir()
            new.mkdir()
        except OSError as error:
            raise TraceError(
                f"a place where no folder can be made ({error.strerror})",
                "a new folder in an existing, writable one",
                "Make the folder around it, or choose another path.",
                file=out,
            ) from None
        yield new
        (new / REPORT_MARK).touch()
        _refuse_others(place, out, source)
        _exchange(place, new, part / "old")
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        if is_new:
            with suppress(OSError):
                place.rmdir()
        raise
    shutil.rmtree(part, ignore_errors=True)
    for rest in place.glob(f"{_PART}*"):
        if rest.stat().st_mtime < time.time() - ABANDONED_S:
            shutil.rmtree(rest, ignore_errors=True)


def _refuse_others(place: Path, out: str, source: str) -> None:
    """Ends the command unless the folder is new, empty, or holds a report and nothing else."""
    if not place.exists():
        return
    other = None if place.is_dir() else place.name
    if other is None:
        strange = (path for path in place.iterdir() if not _is_ours(path))
        other = next((path.name for path in strange), None)
        if other is None and not (place / REPORT_MARK).exists():
            other = next((e.name for e in place.iterdir() if not e.name.startswith(_PART)), None)
    if other is None and source != STANDARD:
        within = Path(os.path.realpath(source)).is_relative_to(place)
        other = Path(source).name if within else None
    if other is not None:
        raise _refused(
            f"{printable(out)} holds something that is no page of a report: {printable(other)}. "
            "Give a new or empty folder, or the folder of an earlier report"
        )


def _is_ours(path: Path) -> bool:
    if path.name.startswith(_PART) or path.name in (REPORT_MARK, INDEX):
        return True
    if path.name not in FOLDERS or path.is_symlink() or not path.is_dir():
        return False
    return all(_PAGES.fullmatch(page.name) for page in path.iterdir())


def _exchange(place: Path, new: Path, old: Path) -> None:
    """Moves the earlier report out and the new one in; undone when something fails."""
    old.mkdir()
    done: list[tuple[Path, Path]] = []
    try:
        for name in (REPORT_MARK, INDEX, *FOLDERS):
            for start, end in ((place / name, old / name), (new / name, place / name)):
                if start.exists():
                    start.rename(end)
                    done.append((start, end))
    except BaseException:
        for start, end in reversed(done):
            end.rename(start)
        raise


def _refused(found: str) -> click.UsageError:
    return click.UsageError(f"--out {found}.", click.get_current_context(silent=True))
