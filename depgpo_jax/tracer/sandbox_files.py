"""Files of a sandbox, seen from outside: reading, telling apart, and keeping what changed."""

from __future__ import annotations

import contextlib
import os
import re
from abc import ABC, abstractmethod

from depgpo_jax.errors import printable
from depgpo_jax.tracer import changes, inside
from depgpo_jax.tracer.limits import Limits
from depgpo_jax.tracer.namespaces import root_of
from depgpo_jax.tracer.sandbox_config import SandboxConfig, SandboxError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class SandboxFiles(ABC):
    """The part of a `Sandbox` that has to do with files.

    Args:
        config: what the sandbox is given.
    """

    def __init__(self, config: SandboxConfig) -> None:
        self.config = config
        self._holder = -1
        self._root = -1
        self._base = -1

    @abstractmethod
    def _started(self) -> Limits:
        """Refuses to go on unless the sandbox lives."""

    @abstractmethod
    def stop(self) -> None:
        """Kills every process inside."""

    def _make_private(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise SandboxError(
                f"sandbox: found the name {printable(name)!r} of a private directory. Allowed: a "
                "lower-case "
                "letter, then up to 31 letters, digits, '-' and '_'. Rename it."
            )
        with contextlib.suppress(FileExistsError):
            os.mkdir(f"private/{name}", 0o755, dir_fd=self._base)

    @property
    def root_path(self) -> bytes:
        """The host path of the folder that is `/` for commands; follow no link below it.

        Raises:
            SandboxError: it has ended.
        """
        self._started()
        return f"{root_of(self._holder)}/r".encode()

    def private_path(self, name: str) -> str:
        """The host path of a private directory; made on first use.

        No command of an agent reaches it. What a verifier wrote there is still to be read by
        `read_private`.

        Raises:
            SandboxError: it has ended, or the name is bad.
        """
        self._started()
        self._make_private(name)
        return f"{root_of(self._holder)}/b/private/{name}"

    def read_private(self, name: str, path: bytes, limit: int) -> bytes:
        """The content of a regular file below a private directory; no link is followed out of it.

        Raises:
            OSError: there is no such file.
            SandboxError: no regular file, or more than `limit` bytes.
        """
        self._started()
        self._make_private(name)
        top = os.open(f"private/{name}", _DIRECTORY, dir_fd=self._base)
        try:
            return inside.read_in(top, path, limit)
        finally:
            os.close(top)

    def open(self, path: bytes, flags: int = os.O_PATH) -> int:
        """A descriptor of a path as commands see it, links followed inside; see `inside.open_in`.

        Raises:
            OSError: there is no such file.
            SandboxError: it has ended.
        """
        self._started()
        return inside.open_in(self._root, path, flags)

    def stat(self, path: bytes, *, follow: bool = True) -> os.stat_result:
        """What `os.stat` says of a path as commands see it.

        Raises:
            OSError: there is no such file.
            SandboxError: it has ended.
        """
        fd = self.open(path, os.O_PATH | (0 if follow else os.O_NOFOLLOW))
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def read(self, path: bytes, limit: int, *, follow: bool = True) -> bytes:
        """The content of a regular file as commands see it.

        Raises:
            OSError: there is no such file.
            SandboxError: it has ended; no regular file; more than `limit` bytes.
        """
        self._started()
        return inside.read_in(self._root, path, limit, follow=follow)

    def identity(self, path: bytes, *, follow: bool = True) -> tuple[int, int]:
        """Device and inode that are the same for two names of one file, and for no other.

        What `stat` says does not do: of an overlay's file it may name the real file's inode under
        one name and the changed file's under another.

        Raises:
            OSError: there is no such file.
            SandboxError: it has ended.
        """
        self._started()
        flags = os.O_PATH | (0 if follow else os.O_NOFOLLOW)
        fd = inside.open_in(self._root, path, flags)
        try:
            found = os.fstat(fd)
            place = inside.path_of(self._root, fd)
        finally:
            os.close(fd)
        points = [os.fsencode(point) for point in self.config.workspaces.values()]
        above = [point for point in points if place.startswith(point + b"/")]
        if above:
            point = max(above, key=len)
            upper = os.open(f"u{points.index(point)}", _DIRECTORY, dir_fd=self._base)
            try:
                changed = inside.open_in(upper, place[len(point) + 1 :], os.O_PATH | os.O_NOFOLLOW)
                try:
                    found = os.fstat(changed)
                finally:
                    os.close(changed)
            except OSError:
                pass  # only the real directory has it
            finally:
                os.close(upper)
        return found.st_dev, found.st_ino

    def host_path(self, path: bytes) -> bytes:
        """Where a path of the inside lies outside, every link in it resolved inside.

        A command that runs now may put a link there a moment later: use `open` or `read` for
        anything but messages and files that nobody can change any more.

        Raises:
            OSError: there is no such file.
            SandboxError: it has ended.
        """
        self._started()
        return f"{root_of(self._holder)}/r".encode() + inside.resolve_in(self._root, path)

    def find_changes(self, workspace: str) -> list[changes.Change]:
        """What differs from a workspace's real directory.

        Args:
            workspace: the host directory, as in the config.

        Raises:
            SandboxError: it has ended, or there is no such workspace.
        """
        return self._changes(workspace, apply=False)

    def apply_changes(self, workspace: str) -> list[changes.Change]:
        """Kills what runs inside, writes the changes to the real directory, and lists them.

        Raises:
            SandboxError: it has ended, or there is no such workspace.
            OSError: the real directory cannot be written.
        """
        self.stop()
        return self._changes(workspace, apply=True)

    def _changes(self, workspace: str, *, apply: bool) -> list[changes.Change]:
        self._started()
        places = list(self.config.workspaces)
        if workspace not in places:
            raise SandboxError(
                f"sandbox: found the workspace {printable(workspace)!r}. Allowed: one of "
                f"{', '.join(printable(repr(place)) for place in places) or 'none'}. Give its "
                "host directory."
            )
        upper = os.open(f"u{places.index(workspace)}", _DIRECTORY, dir_fd=self._base)
        try:
            lower = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                return (changes.apply_changes if apply else changes.find_changes)(upper, lower)
            finally:
                os.close(lower)
        finally:
            os.close(upper)
