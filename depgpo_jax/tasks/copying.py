"""Files into a tree that nothing can lead out of.

Every folder on the way is opened by itself, relative to the one above and never through a symbolic
link, so that neither a name nor a link (of the context, or made by a RUN) leads elsewhere.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from depgpo_jax.errors import printable
from depgpo_jax.tasks.errors import TaskError
from depgpo_jax.tasks.plan import Copy, Plan, Workdir

MAX_DEPTH: Final = 100
_CHUNK: Final = 2**20
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SOURCE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TARGET: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Limits:
    """What all COPY of a task may bring together."""

    bytes: int = 2 * 2**30
    entries: int = 100_000


class Copier:
    """Carries out the COPY and WORKDIR steps of one plan.

    Args:
        plan: whose steps they are, for messages.
        context: the folder that sources are in.
        root: a descriptor of the tree's root.
        limits: for all steps together.
    """

    def __init__(self, plan: Plan, context: Path, root: int, limits: Limits) -> None:
        self.plan = plan
        self.context = Path(os.path.realpath(context))
        self.root = root
        self.limits = limits
        self.bytes_left = limits.bytes
        self.entries_left = limits.entries

    def make(self, step: Workdir) -> None:
        """Makes a folder and those above it."""
        with self.folder(step.path, step):
            pass

    def copy(self, step: Copy) -> None:
        """Copies what a step's patterns match."""
        for pattern in step.sources:
            matches = self.matches(pattern, step)
            into = step.into or len(matches) > 1
            for source in matches:
                self.place(source, step, into=into)

    def place(self, source: Path, step: Copy, *, into: bool) -> None:
        """Copies one match: a folder's content, or a file by its name."""
        if source.is_dir():
            with self.folder(step.target, step) as target:
                self.tree(source, target, step)
            return
        above, _, name = step.target.rpartition("/")
        if into or self.is_folder(step):
            above, name = step.target, source.name
        # A file may be named by a link of the context: what it leads to is copied.
        with self.folder(above, step) as target:
            self.file(Path(os.path.realpath(source)), name, target, step)

    def is_folder(self, step: Copy) -> bool:
        """Whether the target is there already, as a folder."""
        above, _, name = step.target.rpartition("/")
        with self.folder(above, step) as target:
            try:
                return stat.S_ISDIR(os.lstat(name, dir_fd=target).st_mode)
            except OSError:
                return False

    def matches(self, pattern: str, step: Copy) -> list[Path]:
        """The context's files that a pattern names, in order."""
        found = [self.context]
        for part in [] if pattern == "." else pattern.split("/"):
            wanted = _glob(part)
            if wanted is None:
                found = [path / part for path in found if os.path.lexists(path / part)]
            else:
                found = [
                    path / name
                    for path in found
                    if path.is_dir()
                    for name in sorted(entry.name for entry in path.iterdir())
                    if wanted.fullmatch(name)
                ]
        if not found:
            raise self.error(
                step,
                f"nothing that {printable(pattern, 80)} names",
                "files of environment/",
                "Put the file there, or remove the instruction.",
            )
        for path in found:
            if not Path(os.path.realpath(path)).is_relative_to(self.context):
                raise self.error(
                    step,
                    f"{_shown(path)}, a link that leads out of environment/",
                    "files inside environment/",
                    "Replace the link by what it leads to.",
                )
        return found

    def tree(self, source: Path, target: int, step: Copy, depth: int = 0) -> None:
        """Copies a folder's content, links as links."""
        if depth > MAX_DEPTH:
            raise self.error(
                step,
                f"folders deeper than {MAX_DEPTH}",
                f"{MAX_DEPTH} folders inside each other",
                "Move the deepest ones up.",
            )
        with os.scandir(source) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
        for entry in ordered:
            path = Path(entry.path)
            if entry.is_symlink():
                self.count(step)
                self.clear(entry.name, target, step)
                # Path.readlink would tidy the text up; a copy has it as it stands.
                text = os.readlink(path)  # noqa: PTH115
                os.symlink(text, entry.name, dir_fd=target)
            elif entry.is_dir(follow_symlinks=False):
                self.count(step)
                mode = stat.S_IMODE(path.stat().st_mode) if step.mode is None else step.mode
                folder = self.enter(entry.name, target, step)
                try:
                    self.tree(path, folder, step, depth + 1)
                    os.fchmod(folder, mode & 0o777)
                finally:
                    os.close(folder)
            else:
                self.file(path, entry.name, target, step)

    def file(self, source: Path, name: str, target: int, step: Copy) -> None:
        """Copies one regular file, with its mode (but setuid and the like) and time."""
        self.count(step)
        try:
            reading = os.open(source, _SOURCE)
        except OSError as error:
            raise self.error(
                step,
                f"{_shown(source)}, which cannot be read ({error.strerror})",
                "files that can be read",
                "Give yourself the right to read it.",
            ) from None
        try:
            status = os.fstat(reading)
            if not stat.S_ISREG(status.st_mode):
                raise self.error(
                    step,
                    f"{_shown(source)}, which is no regular file",
                    "regular files, folders and symbolic links",
                    "Remove it from environment/.",
                )
            self.clear(name, target, step)
            writing = os.open(name, _TARGET, 0o600, dir_fd=target)
            try:
                while chunk := os.read(reading, _CHUNK):
                    self.count(step, bytes=len(chunk))
                    _write(writing, chunk)
                mode = status.st_mode if step.mode is None else step.mode
                os.fchmod(writing, mode & 0o777)
                os.utime(writing, ns=(status.st_mtime_ns, status.st_mtime_ns))
            finally:
                os.close(writing)
        finally:
            os.close(reading)

    @contextmanager
    def folder(self, path: str, step: Copy | Workdir) -> Generator[int]:
        """A descriptor of an absolute folder of the tree, made if need be."""
        current = os.dup(self.root)
        try:
            for part in path.split("/")[1:] if path else []:
                deeper = self.enter(part, current, step)
                os.close(current)
                current = deeper
            yield current
        finally:
            os.close(current)

    def enter(self, name: str, above: int, step: Copy | Workdir) -> int:
        """A descriptor of a folder's subfolder, made if need be; the caller closes it."""
        made = True
        try:
            os.mkdir(name, 0o755, dir_fd=above)
        except FileExistsError:
            made = False
        except OSError as error:
            raise self.name_error(step, name, error) from None
        try:
            descriptor = os.open(name, _FOLDER, dir_fd=above)
        except OSError as error:
            raise self.error(
                step,
                f"{printable(name, 80)} on the way to its target ({error.strerror})",
                "folders, not links or files",
                "Use the real folder's path.",
            ) from None
        if made:
            os.fchmod(descriptor, 0o755)
        return descriptor

    def clear(self, name: str, target: int, step: Copy) -> None:
        """Removes the file or link that a copy replaces."""
        try:
            os.unlink(name, dir_fd=target)
        except FileNotFoundError:
            pass
        except IsADirectoryError:
            raise self.error(
                step,
                f"a folder at {printable(name, 80)}, where a file goes",
                "files over files",
                "Rename one of the two.",
            ) from None
        except OSError as error:
            raise self.name_error(step, name, error) from None

    def count(self, step: Copy, *, bytes: int = 0) -> None:
        """Takes one entry, or some bytes of one, from what is left."""
        self.entries_left -= 0 if bytes else 1
        self.bytes_left -= bytes
        if self.entries_left < 0 or self.bytes_left < 0:
            raise self.error(
                step,
                "more files than a task may bring",
                f"{self.limits.bytes} bytes in {self.limits.entries} files and folders",
                "Copy less, or raise storage_mb in task.toml.",
            )

    def name_error(self, step: Copy | Workdir, name: str, error: OSError) -> TaskError:
        """The error for a name that the file system does not take."""
        return self.error(
            step,
            f"the name {printable(name, 80)} ({error.strerror})",
            "names that the file system takes",
            "Rename it.",
        )

    def error(self, step: Copy | Workdir, found: str, allowed: str, remedy: str) -> TaskError:
        """An error at a step's line."""
        return TaskError(found, allowed, remedy, file=self.plan.file, line=step.line)


def _write(descriptor: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _shown(path: Path) -> str:
    return printable(path.name, 80)


def _glob(part: str) -> re.Pattern[str] | None:
    """A part of a path as a pattern, with `*`, `?`, `[a-z]` and `[^a-z]`; None: a plain name."""
    if not any(character in part for character in "*?["):
        return None
    pattern, place = "", 0
    while place < len(part):
        character, end = part[place], part.find("]", place + 2)
        if character == "[" and end > 0:
            inside = part[place + 1 : end]
            negated = inside.startswith(("^", "!"))
            escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", inside[negated:])
            pattern += f"[{'^' * negated}{escaped}]"
            place = end + 1
        else:
            pattern += {"*": ".*", "?": "."}.get(character) or re.escape(character)
            place += 1
    try:
        return re.compile(pattern, re.DOTALL)
    except re.error:  # a range from high to low matches nothing
        return re.compile(r"(?!)")
