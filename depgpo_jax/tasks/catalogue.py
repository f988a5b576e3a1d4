"""The task that a trajectory was recorded on: one for all, or found by its name in a folder."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from depgpo_jax.errors import printable
from depgpo_jax.tasks.errors import TaskError
from depgpo_jax.tasks.settings import parse_settings

MARK: Final = "task.toml"
MAX_SHOWN: Final = 4


class Place(NamedTuple):
    """A task's directory, and a digest of all that is in it."""

    directory: str
    digest: str


class Catalogue:
    """The tasks of a folder by name, or the one task that the folder is.

    A task's names are its directory's, its path inside the folder, and `task.name` of task.toml.

    Args:
        folder: a task directory, or a folder that holds task directories, however deep.

    Raises:
        TaskError: it is neither.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        root = Path(folder)
        self._digests: dict[str, str] = {}
        self._named: dict[str, list[str]] = {}
        self.only = str(root) if (root / MARK).is_file() else None
        if self.only is None:
            seen: set[str] = set()
            for directory, folders, files in os.walk(root, followlinks=True):
                real = os.path.realpath(directory)
                if MARK in files:
                    self._enter(Path(directory))
                if MARK in files or real in seen:  # no task is inside another, no link leads back
                    folders.clear()
                seen.add(real)
                folders.sort()
            if not self._named:
                raise TaskError(
                    "no task in it" if root.is_dir() else "no folder there",
                    "a task directory, or a folder that holds some",
                    "Give the folder that holds task.toml, or one above it.",
                    file=folder,
                )

    def _enter(self, directory: Path) -> None:
        names = {directory.name, directory.relative_to(self.folder).as_posix()}
        toml = directory / MARK
        with suppress(TaskError, OSError, UnicodeDecodeError):  # whoever runs it is told
            names.add(parse_settings(toml.read_text("utf-8"), file=str(toml)).name or "")
        for name in names - {""}:
            self._named.setdefault(name, []).append(str(directory))

    def find(self, name: str | None, folder: str, source: str) -> Place:
        """The task of a trajectory.

        Args:
            name: what the trajectory calls it; None: it does not say.
            folder: the name of the folder that the trajectory lies in, which counts where it does
                not say.
            source: the trajectory's file, for messages.

        Raises:
            TaskError: no task, or more than one, has that name.
            OSError: a file of the task cannot be read.
        """
        if self.only is not None:
            return self._place(self.only)
        wanted = folder if name is None else name
        found = self._named.get(wanted, [])
        if len(found) != 1:
            what = "its folder's name" if name is None else "the task"
            known = (printable(each, 80) for each in (found or list(self._named))[:MAX_SHOWN])
            raise TaskError(
                f"{what} {printable(repr(wanted), 80)}, which {len(found) or 'no'} tasks in "
                f"{printable(self.folder)} have",
                f"a name of one of them, such as {', '.join(known)}",
                "Name the task in the trajectory, or give the task's own directory with --task.",
                file=source,
            )
        return self._place(found[0])

    def _place(self, directory: str) -> Place:
        if directory not in self._digests:
            self._digests[directory] = _digest(Path(directory))
        return Place(directory, self._digests[directory])


def _digest(directory: Path) -> str:
    """Of the names, modes and contents of all files: another one, another task."""
    total = hashlib.sha256()
    for place, folders, names in os.walk(directory):
        folders.sort()
        for name in sorted([*names, *(each for each in folders if Path(place, each).is_symlink())]):
            path = Path(place, name)
            status = path.lstat()
            content = b""
            if path.is_symlink():
                content = os.fsencode(os.readlink(path))  # noqa: PTH115 - the text as it stands
            elif path.is_file():
                content = path.read_bytes()
            key = os.fsencode(path.relative_to(directory))
            for part in (key, str(status.st_mode).encode(), content):
                total.update(len(part).to_bytes(8, "big") + part)
    return total.hexdigest()
