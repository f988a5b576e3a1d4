"""What a sandbox changed in a workspace, and writing it back to the real directory.

The overlay's upper layer holds every changed file whole, a 0:0 character device for a removed name,
and marks a directory that replaces an older one as opaque. It was written by whatever ran inside,
so nothing in it is followed: each directory is opened relative to its parent and without links, on
both sides.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPAQUE = "user.overlay.opaque"
_CHUNK = 1 << 20

Kind = Literal["created", "modified", "deleted", "skipped"]
FileType = Literal["file", "directory", "link", "other"]


class Change(NamedTuple):
    """One changed name.

    Args:
        kind: "modified" also says that only the mode or the times may differ; "skipped" is a
            device, pipe or socket, which is never written back.
        path: relative to the workspace.
        type: what stands there now; for "deleted" what stood there.
    """

    kind: Kind
    path: bytes
    type: FileType


def find_changes(upper: int, lower: int) -> list[Change]:
    """Lists what an upper layer changes, parents before what they hold.

    Args:
        upper: descriptor of the upper layer's directory.
        lower: descriptor of the real directory.
    """
    return list(_walk(upper, lower, b"", apply=False))


def apply_changes(upper: int, lower: int) -> list[Change]:
    """Writes the changes into the real directory, each file in one step, and lists them.

    Setuid and setgid bits are dropped; owners are whoever calls this; holes stay holes.

    Args:
        upper: descriptor of the upper layer's directory; nothing may run inside any more.
        lower: descriptor of the real directory.

    Raises:
        OSError: the real directory cannot be written; what was written before stays.
    """
    return list(_walk(upper, lower, b"", apply=True))


def _type(mode: int) -> FileType:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


def _look(directory: int | None, name: bytes) -> os.stat_result | None:
    if directory is None:
        return None
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _walk(upper: int, lower: int | None, above: bytes, *, apply: bool) -> Iterator[Change]:
    """The changes below one directory.

    Args:
        upper: descriptor in the upper layer.
        lower: descriptor of the real directory; None where it has none.
        above: the directory's path with a slash at its end, or nothing.
        apply: whether to write them.
    """
    for name in sorted(os.fsencode(entry) for entry in os.listdir(upper)):
        new = os.stat(name, dir_fd=upper, follow_symlinks=False)
        old = _look(lower, name)
        path = above + name
        if stat.S_ISCHR(new.st_mode) and new.st_rdev == 0:
            if old is not None:
                if apply:
                    _remove(lower, name, old)
                yield Change("deleted", path, _type(old.st_mode))
        elif stat.S_ISDIR(new.st_mode):
            yield from _walk_directory(upper, lower, name, path, new, old, apply=apply)
        else:
            kind: Kind = "created" if old is None else "modified"
            if _type(new.st_mode) == "other":
                kind = "skipped"
            elif apply:
                _write(upper, lower, name, new, old)
            yield Change(kind, path, _type(new.st_mode))


def _walk_directory(
    upper: int,
    lower: int | None,
    name: bytes,
    path: bytes,
    new: os.stat_result,
    old: os.stat_result | None,
    *,
    apply: bool,
) -> Iterator[Change]:
    above = _open_own(name, _DIRECTORY, upper)
    below: int | None = None
    try:
        merges = old is not None and stat.S_ISDIR(old.st_mode)
        if merges and lower is not None:
            below = os.open(name, _DIRECTORY, dir_fd=lower)
        else:
            yield Change("created" if old is None else "modified", path, "directory")
        if apply and lower is not None:
            if not merges:
                if old is not None:
                    _remove(lower, name, old)
                os.mkdir(name, 0o700, dir_fd=lower)
                below = os.open(name, _DIRECTORY, dir_fd=lower)
            assert below is not None
            os.fchmod(below, stat.S_IMODE(new.st_mode) & 0o777 | 0o700)
        if merges and below is not None and _is_opaque(above):
            yield from _drop_hidden(above, below, path + b"/", apply=apply)
        yield from _walk(above, below, path + b"/", apply=apply)
        if apply and below is not None:
            os.fchmod(below, stat.S_IMODE(new.st_mode) & 0o777)
    finally:
        os.close(above)
        if below is not None:
            os.close(below)


def _open_own(name: bytes, flags: int, directory: int) -> int:
    """Opens what the upper layer holds, also if its mode forbids that to its owner."""
    try:
        return os.open(name, flags, dir_fd=directory)
    except PermissionError:
        place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        mode = stat.S_IMODE(os.fstat(place).st_mode)
        Path(f"/proc/self/fd/{place}").chmod(mode | 0o500)
        try:
            return os.open(name, flags, dir_fd=directory)
        finally:
            if not flags & os.O_DIRECTORY:  # whose names still have to be reached
                Path(f"/proc/self/fd/{place}").chmod(mode)
    finally:
        os.close(place)


def _is_opaque(directory: int) -> bool:
    try:
        return os.getxattr(directory, _OPAQUE) == b"y"
    except OSError:
        return False


def _drop_hidden(upper: int, lower: int, above: bytes, *, apply: bool) -> Iterator[Change]:
    """What an opaque directory hides and does not have itself."""
    kept = {os.fsencode(entry) for entry in os.listdir(upper)}
    for name in sorted({os.fsencode(entry) for entry in os.listdir(lower)} - kept):
        old = os.stat(name, dir_fd=lower, follow_symlinks=False)
        if apply:
            _remove(lower, name, old)
        yield Change("deleted", above + name, _type(old.st_mode))


def _remove(directory: int | None, name: bytes, old: os.stat_result) -> None:
    if stat.S_ISDIR(old.st_mode):
        # rmtree follows no links; it must not begin at one either, which `old` has ruled out.
        shutil.rmtree(os.fsdecode(name), dir_fd=directory)
    else:
        os.unlink(name, dir_fd=directory)


def _write(
    upper: int, lower: int | None, name: bytes, new: os.stat_result, old: os.stat_result | None
) -> None:
    """Writes a file or link beside the old one and then takes its place."""
    aside = b".depgpo-" + secrets.token_hex(8).encode()
    try:
        if stat.S_ISLNK(new.st_mode):
            os.symlink(os.readlink(name, dir_fd=upper), aside, dir_fd=lower)
        else:
            _copy(upper, name, lower, aside, new)
        if old is not None and stat.S_ISDIR(old.st_mode):
            _remove(lower, name, old)
        os.replace(aside, name, src_dir_fd=lower, dst_dir_fd=lower)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside, dir_fd=lower)
        raise


def _copy(upper: int, name: bytes, lower: int | None, aside: bytes, new: os.stat_result) -> None:
    source = _open_own(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, upper)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        target = os.open(aside, flags, 0o600, dir_fd=lower)
        try:
            _copy_data(source, target, new.st_size)
            os.fchmod(target, stat.S_IMODE(new.st_mode) & 0o777)
            os.utime(target, ns=(new.st_atime_ns, new.st_mtime_ns))
        finally:
            os.close(target)
    finally:
        os.close(source)


def _copy_data(source: int, target: int, size: int) -> None:
    """Copies data but not holes: a file of a terabyte of nothing must not fill the real disk."""
    position = 0
    while position < size:
        try:
            position = os.lseek(source, position, os.SEEK_DATA)
        except OSError:
            break  # only a hole is left
        end = os.lseek(source, position, os.SEEK_HOLE)
        while position < end:
            data = os.pread(source, min(_CHUNK, end - position), position)
            if not data:
                break
            written = os.pwrite(target, data, position)
            position += written
    os.ftruncate(target, size)
