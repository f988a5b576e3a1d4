"""Reads files of a sandbox from outside; a link planted there never leads out.

An absolute symbolic link that is met below /proc/PID/root leads to the *reader's* root. So every
path is resolved by the kernel's `openat2` with RESOLVE_IN_ROOT, which treats a directory as the
root for links and for `..` and holds even while the tree changes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from pathlib import Path

from depgpo_jax.errors import printable
from depgpo_jax.tracer.sandbox_config import SandboxError

_OPENAT2 = 437  # the same on every architecture
_NO_MAGICLINKS, _IN_ROOT = 0x02, 0x10
_CREATING = os.O_CREAT | (os.O_TMPFILE & ~os.O_DIRECTORY)

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def open_in(root: int, path: bytes, flags: int = os.O_PATH) -> int:
    """Opens a path as a process whose root directory is `root` would see it.

    Args:
        root: descriptor of a directory.
        path: absolute or relative to `root`.
        flags: of `os.open`; O_CLOEXEC is added. Nothing is ever created.

    Returns:
        A descriptor that the caller closes.

    Raises:
        OSError: as from `os.open`.
    """
    how = _OpenHow((flags | os.O_CLOEXEC) & ~_CREATING, 0, _NO_MAGICLINKS | _IN_ROOT)
    number = errno.EAGAIN
    for _ in range(100):
        fd = _libc.syscall(_OPENAT2, root, path, ctypes.byref(how), ctypes.sizeof(how))
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        # The kernel gives up with EAGAIN when something is renamed meanwhile; it asks to try again.
        if number != errno.EAGAIN:
            break
    raise OSError(number, os.strerror(number), path)


def path_of(root: int, fd: int) -> bytes:
    """The path of an open file, seen from the directory `root`."""
    shown, top = (os.fsencode(Path(f"/proc/self/fd/{each}").readlink()) for each in (fd, root))
    return b"/" + shown.removeprefix(top).lstrip(b"/")


def resolve_in(root: int, path: bytes) -> bytes:
    """The path that is left when every link on the way is followed, seen from `root`.

    Raises:
        OSError: there is no such file.
    """
    fd = open_in(root, path)
    try:
        return path_of(root, fd)
    finally:
        os.close(fd)


def read_in(root: int, path: bytes, limit: int, *, follow: bool = True) -> bytes:
    """The content of a regular file.

    Args:
        root: descriptor of the directory that is the root.
        path: absolute or relative to `root`.
        limit: the most bytes to read.
        follow: whether a link as the last part is followed.

    Raises:
        OSError: there is no such file, or it may not be read.
        SandboxError: it is no regular file (a pipe would block, a device is not the sandbox's), or
            larger than `limit`.
    """
    fd = open_in(root, path, os.O_PATH | (0 if follow else os.O_NOFOLLOW))
    try:
        kind = os.fstat(fd).st_mode
        if not stat.S_ISREG(kind):
            raise SandboxError(
                f"sandbox file {printable(os.fsdecode(path))!r}: found {_kind(kind)}. Allowed: a "
                "regular "
                "file. Read the file itself."
            )
        # Not the path again: only through the descriptor is it still the file that was looked at.
        with open(f"/proc/self/fd/{fd}", "rb") as file:  # noqa: PTH123 - a descriptor, no path
            content = file.read(limit + 1)
    finally:
        os.close(fd)
    if len(content) > limit:
        raise SandboxError(
            f"sandbox file {printable(os.fsdecode(path))!r}: found more than {limit} bytes. "
            "Allowed: at most "
            "that. Read it with a higher limit."
        )
    return content


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a directory",
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")
