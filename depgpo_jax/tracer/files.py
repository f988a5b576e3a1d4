"""Looks at files and folders that the agent may change at any moment.

Everything here runs outside the sandbox, so nothing trusts a path: below a given root no symlink is
followed, in no component; only regular files are opened; reads, walks and memory are bounded; a
file that vanishes is no error.
"""

import errno
import os
import stat
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from depgpo_jax.tracer.linediff import MAX_TEXT

MAX_ENTRIES: Final = 500_000
"""Entries that one scan looks at: some 200 MB of stamps."""

MAX_DEPTH: Final = 128
"""Folders inside each other that a scan goes down; each one holds a file descriptor."""

_BESIDE: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = os.O_DIRECTORY | _BESIDE


class Stamp(NamedTuple):
    """What `stat` says about one directory entry, symlinks not followed.

    A content that changes changes the stamp, except on file systems whose clock is coarse (4 ms
    before Linux 6.13) when two writes of equal length fall into one tick.
    """

    mode: int
    """Kind and permissions: `st_mode`."""
    device: int
    inode: int
    links: int
    """Number of names of the inode."""
    size: int
    """Bytes."""
    mtime_ns: int
    """Nanoseconds since 1970; a program can set it."""
    ctime_ns: int
    """The same, of the inode; no program can set it."""
    uid: int
    gid: int

    @property
    def kind(self) -> str:
        """One of 'file', 'directory', 'symlink', 'fifo', 'socket', 'device', 'unknown'."""
        return _KINDS.get(stat.S_IFMT(self.mode), "unknown")

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.mode)


_KINDS: Final = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


_WITH_CONTENT: Final = ("file", "symlink")  # a pipe's time stamps change with what passes through


class Snapshot(NamedTuple):
    """One look at a path."""

    stamp: Stamp
    """From before the content was read: a change during the read gives the next look another."""
    content: bytes | None
    """A regular file's bytes; None where it is larger than `MAX_TEXT`, may not be read, or was
    forgotten for the sake of the budget: its next change is `whole`. None for all other kinds."""
    target: bytes = b""
    """A symlink's target, as it stands there."""


HIDDEN: Final = Snapshot(Stamp(0, 0, 0, 0, 0, 0, 0, 0, 0), None)
"""What a look gives where this process may not look; its kind is 'unknown'."""


class Scan(NamedTuple):
    """All entries below a folder at one time."""

    stamps: dict[bytes, Stamp]
    """By absolute path inside the root; the folder itself is not among them."""
    complete: bool
    """False where a bound, or a folder that may not be opened, kept entries out."""


class Changes(NamedTuple):
    """What differs between two scans: sorted paths."""

    created: list[bytes]
    removed: list[bytes]
    modified: list[bytes]
    """Regular files and symlinks that may hold something else now, and what is of another kind now;
    compare contents before believing it, for a new hard link or a repeated chmod looks the same."""
    meta: list[bytes]
    """Entries whose permissions or owner changed; may be in `modified` too."""


def look(path: bytes, root: bytes = b"/") -> Snapshot | None:
    """Stat one path and read it if it is a regular file.

    Never blocks on a fifo or device, follows no symlink and reads at most `MAX_TEXT` bytes.

    Args:
        path: Absolute and normalised, as inside the root.
        root: The folder that is `/` there, such as /proc/PID/root. It is trusted: symlinks on the
            way to it are followed.

    Returns:
        None where the path does not exist or has a symlink as a component above the last; `HIDDEN`
        where it may exist, but not for this process.
    """
    try:
        with _parent(path, root) as (folder, name):
            entry = os.open(name or b".", os.O_PATH | _BESIDE, dir_fd=folder)
            try:
                return _snapshot(entry)
            finally:
                os.close(entry)
    except OSError as error:
        return None if _is_missing(error) else HIDDEN


def scan(
    root: bytes,
    under: bytes = b"/",
    *,
    skip: Collection[bytes] = (),
    max_entries: int = MAX_ENTRIES,
    max_depth: int = MAX_DEPTH,
) -> Scan:
    """Stat everything below a folder, following no symlink.

    Args:
        root: The folder that is `/` for the paths; trusted.
        under: Absolute path inside the root to begin at.
        skip: Absolute paths inside the root; the folders among them are not entered.
        max_entries: Where to stop.
        max_depth: Folders inside each other that are entered, at most.

    Returns:
        The stamps by path inside the root. Nothing, and complete, where `under` does not exist.
    """
    stamps: dict[bytes, Stamp] = {}
    try:
        with _parent(under, root) as (parent, name):
            folder = os.open(name or b".", os.O_RDONLY | _FOLDER, dir_fd=parent)
    except OSError as error:
        return Scan(stamps, complete=_is_missing(error))
    try:
        complete = _walk(
            folder, under.rstrip(b"/"), stamps, frozenset(skip), max_entries, max_depth
        )
    finally:
        os.close(folder)
    return Scan(stamps, complete)


def changed(before: Scan, after: Scan) -> Changes:
    """What happened between two scans of one folder.

    A folder's own time stamps say nothing: its entries are compared. Where a scan is not complete,
    what is missing in it does not count as created or removed.
    """
    old, new = before.stamps, after.stamps
    created = sorted(new.keys() - old.keys()) if before.complete else []
    removed = sorted(old.keys() - new.keys()) if after.complete else []
    modified: list[bytes] = []
    meta: list[bytes] = []
    for path, stamp in new.items():
        earlier = old.get(path)
        if earlier is None or earlier == stamp:
            continue
        same_kind = stat.S_IFMT(earlier.mode) == stat.S_IFMT(stamp.mode)
        permissions = (earlier.mode, earlier.uid, earlier.gid) != (stamp.mode, stamp.uid, stamp.gid)
        if same_kind and permissions:
            meta.append(path)
        if not same_kind or (
            stamp.kind in _WITH_CONTENT
            and (_content_part(earlier) != _content_part(stamp) or not permissions)
        ):
            modified.append(path)
    return Changes(created, removed, sorted(modified), sorted(meta))


def unchanged(before: Snapshot, after: Snapshot) -> bool:
    """Whether a path still holds what it held, whoever may use it now.

    Bytes are compared where both are known; of larger files the inode, the size and the mtime.
    """
    if stat.S_IFMT(before.stamp.mode) != stat.S_IFMT(after.stamp.mode):
        return False
    if before.content is not None and after.content is not None:
        return before.content == after.content
    if before.stamp.kind == "symlink":
        return before.target == after.target
    return _content_part(before.stamp) == _content_part(after.stamp)


def _content_part(stamp: Stamp) -> tuple[int, ...]:
    """What a chmod leaves alone; ctime it does not."""
    return stamp.device, stamp.inode, stamp.size, stamp.mtime_ns


# Walking and reading.


@contextmanager
def _parent(path: bytes, root: bytes) -> Generator[tuple[int, bytes]]:
    """A descriptor of the folder above a path and the path's last component, b"" for the root.

    Goes down component by component, so that no symlink leads out of the root.
    """
    *above, name = path.strip(b"/").split(b"/")
    if b".." in path.split(b"/"):
        raise FileNotFoundError(errno.ENOENT, "a path that is not normalised", os.fsdecode(path))
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for component in above:
            below = os.open(component, os.O_PATH | _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder, name
    finally:
        os.close(folder)


def _snapshot(entry: int) -> Snapshot:
    """Of an O_PATH descriptor: it pins the inode, so what is opened is what was checked."""
    stamp = _stamp(os.fstat(entry))
    if stat.S_ISLNK(stamp.mode):
        return Snapshot(stamp, None, os.readlink(b"", dir_fd=entry))
    if not stamp.is_file or stamp.size > MAX_TEXT:
        return Snapshot(stamp, None)
    content = None
    with suppress(OSError):  # no right to read it: known by its stamp only
        reader = os.open(f"/proc/self/fd/{entry}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            content = _read(reader, stamp.size)
        finally:
            os.close(reader)
    return Snapshot(stamp, content)


def _read(reader: int, size: int) -> bytes | None:
    """The whole file, whatever its stat says of the size; None beyond `MAX_TEXT`."""
    parts: list[bytes] = []
    total = 0
    while part := os.read(reader, max(size - total, 0) + 4096):
        parts.append(part)
        total += len(part)
        if total > MAX_TEXT:
            return None
    return b"".join(parts)


def _stamp(found: os.stat_result) -> Stamp:
    return Stamp(
        found.st_mode,
        found.st_dev,
        found.st_ino,
        found.st_nlink,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        found.st_uid,
        found.st_gid,
    )


def _walk(
    folder: int,
    path: bytes,
    stamps: dict[bytes, Stamp],
    skip: frozenset[bytes],
    max_entries: int,
    depth: int,
) -> bool:
    """Adds all entries below an open folder; returns whether that was everything."""
    complete = True
    folders: list[str] = []
    prefix = path + b"/"
    with os.scandir(folder) as entries:
        for entry in entries:
            if len(stamps) >= max_entries:
                return False
            name = entry.name
            try:
                stamp = _stamp(entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
            except OSError:
                complete = False
                continue
            stamps[prefix + name.encode("utf-8", "surrogateescape")] = stamp
            if stat.S_ISDIR(stamp.mode):
                folders.append(name)
    for name in folders:
        below = path + b"/" + os.fsencode(name)
        if below in skip:
            continue
        if not depth or len(stamps) >= max_entries:
            return False
        try:
            inner = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=folder)
        except OSError as error:
            complete = complete and _is_missing(error)
            continue
        try:
            complete = _walk(inner, below, stamps, skip, max_entries, depth - 1) and complete
        finally:
            os.close(inner)
    return complete


def _is_missing(error: OSError) -> bool:
    """Whether there is nothing; else there may be something that this process may not see."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
