"""The names of files while commands run, followed call by call between two looks at the disk.

A look at the disk says what is there now, not how it came there. This says it: which file stands
under which name, where that file was before, and which command made it.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from depgpo_jax.tracer.files import Stamp
from depgpo_jax.tracer.sandbox_config import SandboxError

MOST_LINKS = 40
"""Symlinks that one name may go through, as in the kernel."""

Identity = tuple[int, int]


@dataclass(slots=True, eq=False)
class Entry:
    """One file, whatever it is called.

    Args:
        kind: as `Stamp.kind`.
        origin: the first of its names when the time began; None: it was made since.
        maker: the command that made it or cut it to nothing since then; None: none did.
        mover: the command that gave it its last new name since then; None: none did.
        target: of a symlink.
    """

    kind: str
    origin: bytes | None = None
    maker: int | None = None
    mover: int | None = None
    target: bytes = b""


class Tree:
    """Names below some folders, as calls change them.

    Args:
        stamps: a scan of the folders at the beginning, by path.
        groups: the names of each file that has several, the one that stands for it first.
        target_of: the target of a symlink that was there at the beginning.
        outside: the target of what is outside of the folders; empty where it is no symlink.
    """

    def __init__(
        self,
        stamps: Mapping[bytes, Stamp],
        groups: Mapping[Identity, list[bytes]],
        target_of: Callable[[bytes], bytes],
        outside: Callable[[bytes], bytes],
    ) -> None:
        self._stamps = stamps
        self._groups = groups
        self._group_of = {path: file for file, paths in groups.items() for path in paths}
        self._target_of = target_of
        self._outside = outside
        self._first: dict[bytes, Entry] = {}
        self._shared: dict[Identity, Entry] = {}
        self._now: dict[bytes, Entry | None] = {}
        self._resolved: dict[tuple[bytes, bool], bytes] = {}

    def first(self, path: bytes) -> Entry | None:
        """What the name stood for at the beginning."""
        stamp = self._stamps.get(path)
        if stamp is None:
            return None
        entry = self._first.get(path)
        if entry is None:
            entry = self._first[path] = self._make(path, stamp)
        return entry

    def get(self, path: bytes) -> Entry | None:
        """What the name stands for now; None: nothing that is known."""
        return self._now[path] if path in self._now else self.first(path)

    def put(self, path: bytes, entry: Entry) -> None:
        """Gives a file a name, instead of whatever had it."""
        old = self.get(path)
        self._now[path] = entry
        # A plain file decides nothing about where other names lead.
        if entry.kind != "file" or (old is not None and old.kind != "file"):
            self._resolved.clear()

    def remove(self, path: bytes) -> None:
        """Takes a name away."""
        old = self.get(path)
        self._now[path] = None
        if old is not None and old.kind != "file":
            self._resolved.clear()

    def below(self, path: bytes) -> list[bytes]:
        """The names inside a folder, at any depth, sorted."""
        folder = path + b"/"
        known = {name for name in self._stamps if name.startswith(folder)}
        known.update(name for name in self._now if name.startswith(folder))
        return sorted(name for name in known if self.get(name) is not None)

    def rename(
        self, source: bytes, target: bytes, number: int, *, exchange: bool = False
    ) -> list[tuple[bytes, bytes, Entry]]:
        """Moves a name and all below it.

        Args:
            source: the old name.
            target: the new one.
            number: the command that does it.
            exchange: the two change places.

        Returns:
            Old name, new name and file of all that was moved.
        """
        moves = [(source, target), (target, source)] if exchange else [(source, target)]
        taken: list[tuple[bytes, bytes, Entry]] = []
        for old, new in moves:
            for path in (old, *self.below(old)):
                # What nobody knows came from outside of the folders.
                entry = self.get(path) or Entry("unknown", maker=None)
                taken.append((path, new + path[len(old) :], entry))
        for path, _, _ in taken:
            self.remove(path)
        for _, path, entry in taken:
            entry.mover = number
            self.put(path, entry)
        return taken

    def homes(self) -> dict[Entry, list[bytes]]:
        """Where every file is now that was touched, or has several names."""
        homes: dict[Entry, list[bytes]] = {}
        for path in self._now:
            self.first(path)  # whose other names count too
        known = {**self._first, **self._now}
        for identity in self._shared:
            known.update(dict.fromkeys(self._groups[identity]))
        for path in known:
            entry = self.get(path)
            if entry is not None:
                homes.setdefault(entry, []).append(path)
        return homes

    def resolve(self, path: bytes, *, last: bool = True) -> bytes:
        """The path without symlinks, as far as they are known.

        Args:
            path: absolute.
            last: also where the last part is one.
        """
        known = self._resolved.get((path, last))
        if known is None:
            known = self._resolved[path, last] = self._resolve(path, last)
        return known

    def _resolve(self, path: bytes, last: bool) -> bytes:
        done, links = b"", 0
        parts = path.split(b"/")[::-1]
        while parts:
            part = parts.pop()
            if part in (b"", b"."):
                continue
            if part == b"..":
                done = posixpath.dirname(done).rstrip(b"/")
                continue
            done += b"/" + part
            target = self._target(done) if last or any(parts) else b""
            if target and links < MOST_LINKS:
                links += 1
                done = b"" if target.startswith(b"/") else posixpath.dirname(done).rstrip(b"/")
                parts += target.split(b"/")[::-1]
        return done or b"/"

    def _target(self, path: bytes) -> bytes:
        entry = self.get(path)
        if entry is not None:
            return entry.target
        return b"" if path in self._now else self._outside(path)

    def _make(self, path: bytes, stamp: Stamp) -> Entry:
        identity = self._group_of.get(path)
        if identity is not None:
            if identity not in self._shared:
                self._shared[identity] = Entry("file", self._groups[identity][0])
            return self._shared[identity]
        target = self._target_of(path) if stat.S_ISLNK(stamp.mode) else b""
        return Entry(stamp.kind, path, target=target)


def group_names(
    stamps: Mapping[bytes, Stamp], identify: Callable[[bytes], Identity] | None = None
) -> dict[Identity, list[bytes]]:
    """The names of each regular file that has several of them, sorted.

    Args:
        stamps: by path.
        identify: says what two names of one file have in common, where device and inode do not: in
            an overlay a file that was linked may keep its old inode under its old name. None: they
            do.
    """
    groups: dict[Identity, list[bytes]] = {}
    for path, stamp in stamps.items():
        if stamp.links > 1 and stat.S_ISREG(stamp.mode):
            identity = (stamp.device, stamp.inode)
            if identify is not None:
                with suppress(OSError, SandboxError):  # it is gone by now
                    identity = identify(path)
            groups.setdefault(identity, []).append(path)
    return {identity: sorted(paths) for identity, paths in groups.items()}


class Links:
    """Symlinks outside of the folders that are followed; each is read once.

    Args:
        root: the folder that is `/`.
    """

    def __init__(self, root: bytes) -> None:
        self._root = root.rstrip(b"/")
        self._known: dict[bytes, bytes] = {}

    def __call__(self, path: bytes) -> bytes:
        """The target; empty where there is no symlink."""
        target = self._known.get(path)
        if target is None:
            target = b""
            with suppress(OSError):
                target = bytes(Path(os.fsdecode(self._root + path)).readlink())
            if len(self._known) < 50_000:
                self._known[path] = target
        return target
