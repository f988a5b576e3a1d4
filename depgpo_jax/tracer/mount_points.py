"""Mount points for a verifier in a tree that a command may have filled with anything."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from depgpo_jax.tracer.sandbox_config import check_mount_point

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def clear_way(root: int, base: int, point: str) -> None:
    """Makes every part of a mount point a real directory, whatever was planted there.

    Args:
        root: descriptor of the root directory of commands.
        base: descriptor of the sandbox's tmpfs, with its spare directories.
        point: the path inside.

    Raises:
        ConfigError: nothing may be mounted there.
        OSError: it lies in a part that is read-only.
    """
    check_mount_point(point, "sandbox: private directory")
    at = os.dup(root)
    try:
        _make_passable(at)
        for part in point.strip("/").split("/"):
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISDIR(os.stat(part, dir_fd=at, follow_symlinks=False).st_mode):
                    os.unlink(part, dir_fd=at)
            with contextlib.suppress(FileExistsError):
                _make_directory(part, at, base)
            below = os.open(part, _PLACE, dir_fd=at)
            os.close(at)
            at = below
            _make_passable(at)
    finally:
        os.close(at)


def _make_passable(directory: int) -> None:
    """Gives its owner the right to enter and change a directory, whatever a command took away."""
    mode = stat.S_IMODE(os.fstat(directory).st_mode)
    if mode & 0o700 != 0o700:
        # Through the descriptor: by name it may be a link by now.
        Path(f"/proc/self/fd/{directory}").chmod(mode | 0o700)


def _make_directory(name: str, at: int, base: int) -> None:
    """Makes a directory, even if a command has used up every file: spare ones make room."""
    while True:
        try:
            return os.mkdir(name, 0o755, dir_fd=at)
        except OSError as error:
            spare = os.open("spare", _DIRECTORY, dir_fd=base)
            try:
                left = os.listdir(spare)  # noqa: PTH208 - a descriptor
                if error.errno != errno.ENOSPC or not left:
                    raise
                os.rmdir(left[0], dir_fd=spare)
            finally:
                os.close(spare)
