"""What became of the files in some folders between two looks, and which commands had a hand in it.

The calls say who touched what and where a file came from; the disk says what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from depgpo_jax.tracer.content import Contents, resource_name
from depgpo_jax.tracer.files import Scan, Snapshot, changed, look, scan, unchanged
from depgpo_jax.tracer.noise import owner_file
from depgpo_jax.tracer.tree import Entry, Identity, Links, Tree, group_names

_SKIPPED = ("directory", "unknown", "socket")
_DATABASE = b"SQLite format 3\0"


class Change(NamedTuple):
    """A file that may hold something else than before.

    Args:
        resource: its name.
        numbers: the commands that touched it, the last one last; none: no call explains it.
        holders: who may have written to it without a call: command by the pid that opened it.
        before: what it was; None: it was not there.
        after: what it is; None: it is gone.
        moved_from: the resource whose file it is now; empty: none.
        rewritten: it changed though its own content is the same.
    """

    resource: str
    numbers: list[int]
    holders: dict[int, int]
    before: Snapshot | None
    after: Snapshot | None
    moved_from: str = ""
    rewritten: bool = False


class MetaChange(NamedTuple):
    """A mode or owner that changed; number None: no call explains it."""

    resource: str
    number: int | None


class FileWatch:
    """Follows the files below some folders.

    Args:
        root: the folder that is `/` for the commands.
        watched: folders below it.
        identify: as in `group_names`.
    """

    def __init__(
        self,
        root: bytes,
        watched: Sequence[bytes],
        identify: Callable[[bytes], Identity] | None = None,
    ) -> None:
        self._root = root
        self._identify = identify
        self._watched = [(folder, folder.rstrip(b"/") + b"/") for folder in watched]
        self._folders = frozenset(watched)
        self._below = tuple(below for _, below in self._watched)
        self._contents = Contents()
        self._links = Links(root)
        self._holders: dict[Identity, dict[int, int]] = {}
        self._scan = self._look_around()
        groups = group_names(self._scan.stamps, identify)
        others = {path for names in groups.values() for path in names[1:]}
        for path, stamp in self._scan.stamps.items():
            if stamp.kind not in _SKIPPED and path not in others:
                self._contents.remember(resource_name(path), look(path, root))
        self._begin(groups)

    def _begin(self, groups: dict[Identity, list[bytes]]) -> None:
        self.tree = Tree(self._scan.stamps, groups, self._target_of, self._links)
        self._touched: dict[bytes, dict[int, None]] = {}
        self._meta: dict[bytes, int] = {}
        self._opened: list[tuple[Entry, int, int]] = []
        self._databases: dict[bytes, bool] = {}
        self._refused: list[tuple[bytes, bytes, int]] = []

    def is_watched(self, path: bytes) -> bool:
        """Whether the path is one of the folders or below."""
        return path.startswith(self._below) or path in self._folders

    def touch(self, path: bytes, number: int) -> None:
        """A command may have changed what stands under a name."""
        if self.is_watched(path):
            numbers = self._touched.setdefault(path, {})
            numbers.pop(number, None)
            numbers[number] = None

    def touch_meta(self, path: bytes, number: int) -> None:
        """A command set mode or owner."""
        if self.is_watched(path):
            self._meta[path] = number

    def move_refused(self, source: bytes, target: bytes, number: int) -> None:
        """A command asked for a move that the file system left to it: it may copy and remove."""
        self._refused.append((source, target, number))

    def opened(self, entry: Entry, pid: int, number: int) -> None:
        """A process holds a file open for writing from now on."""
        self._opened.append((entry, pid, number))

    def database_of(self, path: bytes) -> bytes | None:
        """The sqlite database that a helper file belongs to; None where it is none."""
        main = owner_file(path)
        if main == path:
            return None
        if main not in self._databases:
            found = look(main, self._root) or self._contents.get(resource_name(main))
            content = None if found is None else found.content
            self._databases[main] = found is not None and (
                not content or content.startswith(_DATABASE)
            )
        return main if self._databases[main] else None

    def forget_holders(self, is_over: Callable[[int, int], bool]) -> None:
        """Drops those that can no longer write.

        Args:
            is_over: of the pid that opened a file and its command.
        """
        for identity, holders in list(self._holders.items()):
            kept = {pid: number for pid, number in holders.items() if not is_over(pid, number)}
            if kept:
                self._holders[identity] = kept
            else:
                del self._holders[identity]

    def compare(self) -> tuple[list[Change], list[MetaChange]]:
        """Looks at the disk again; everything since the last time is settled with that."""
        before, tree = self._scan, self.tree
        after = self._look_around()
        groups = group_names(after.stamps, self._identify)
        self._follow_copies(after)
        self._sort(groups, before)
        differences = changed(before, after)
        homes = tree.homes()
        alive = {
            entry
            for entry, paths in homes.items()
            if any(path in after.stamps and self.is_watched(path) for path in paths)
        }
        self._note_holders(after, homes)
        paths = dict.fromkeys(
            [*self._touched, *differences.created, *differences.removed, *differences.modified]
        )
        for path in list(paths):  # a file whose first name is gone is called by another one now
            entry = tree.first(path)
            if path not in after.stamps and entry is not None and entry.origin == path:
                paths.update(dict.fromkeys(homes.get(entry, ())))
        rewritten = self._set_helpers_aside(paths, before, after)
        meta = self._meta_changes(differences.meta, before, after)
        changes = self._changes(paths, after, groups, alive, rewritten)
        self._scan = after
        self._begin(groups)
        return changes, meta

    def _changes(
        self,
        paths: Iterable[bytes],
        after: Scan,
        groups: dict[Identity, list[bytes]],
        alive: set[Entry],
        rewritten: dict[bytes, dict[int, int]],
    ) -> list[Change]:
        tree, contents = self.tree, self._contents
        heads = {path: names[0] for names in groups.values() for path in names}
        numbers: dict[bytes, dict[int, None]] = {}
        changes: list[Change] = []
        origins: list[bytes] = []
        for path in paths:
            head, touched = heads.get(path, path), self._touched.get(path, {})
            numbers.setdefault(head, {}).update(touched)
            first = tree.first(path)
            if head != path and first and first.origin == path and first not in alive:
                # Its file gave way to one that is called by another name.
                name = resource_name(path)
                changes.append(Change(name, list(touched), {}, contents.get(name), None))
        for path, commands in numbers.items():
            first, entry = tree.first(path), tree.get(path)
            stamp = after.stamps.get(path)
            old, moved_from = contents.get(resource_name(path)), ""
            if stamp is None:
                if first is None or first.kind in _SKIPPED:
                    continue
                if first.origin != path or first in alive:
                    continue  # only one of its names, or it has another one now
            elif stamp.kind in _SKIPPED:
                continue
            elif entry is None or entry.origin is None:
                old = None if first in alive else old
            elif entry.origin != path and self._stays(entry, heads, path, after):
                old = None  # an overlay gave one of two names of a real file a copy of its own
            elif entry.origin != path:
                origins.append(entry.origin)
                commands = commands or self._touched.get(entry.origin, {})
                moved_from = resource_name(entry.origin)
            changes.append(
                Change(
                    resource_name(path),
                    list(commands),
                    rewritten.get(path) or self._holders_of(after, path),
                    old,
                    None if stamp is None else look(path, self._root),
                    moved_from,
                    path in rewritten,
                )
            )
        for path in (*origins, *paths):
            contents.forget(resource_name(path))
        for change in changes:
            contents.remember(change.resource, change.after)
        return changes

    def _follow_copies(self, after: Scan) -> None:
        """Takes a folder's copy for the folder where it was meant to be moved.

        No folder of an overlay's real directory can be renamed.
        """
        for source, target, number in self._refused:
            for path in self._scan.stamps:
                if path != source and not path.startswith(source + b"/"):
                    continue
                new = target + path[len(source) :]
                entry, copy = self.tree.first(path), self.tree.get(new)
                if path in after.stamps or entry is None or copy is None or copy.maker != number:
                    continue
                old = self._contents.get(resource_name(path))
                found = look(new, self._root)
                if old is not None and found is not None and unchanged(old, found):
                    entry.mover = number
                    self.tree.put(new, entry)

    def _stays(self, entry: Entry, heads: dict[bytes, bytes], path: bytes, after: Scan) -> bool:
        """Whether a file is still under its old name too, and that is no other name of this one."""
        origin = entry.origin
        if origin is None or origin not in after.stamps or self.tree.get(origin) is not entry:
            return False
        return heads.get(origin, origin) != heads.get(path, path)

    def _sort(self, groups: dict[Identity, list[bytes]], before: Scan) -> None:
        """Puts the name that stands for a file with several first: the one that it had before."""
        places = {path: place for place, path in enumerate(self._touched)}

        def order(path: bytes) -> tuple[bool, bool, int, bytes]:
            entry = self.tree.get(path)
            at_home = entry is not None and entry.origin == path
            return not at_home, path not in before.stamps, places.get(path, len(places)), path

        for names in groups.values():
            names.sort(key=order)

    def _note_holders(self, after: Scan, homes: dict[Entry, list[bytes]]) -> None:
        for entry, pid, number in self._opened:
            for path in homes.get(entry, ()):
                stamp = after.stamps.get(path)
                if stamp is not None:
                    identity = (stamp.device, stamp.inode)
                    self._holders.setdefault(identity, {})[pid] = number

    def _holders_of(self, after: Scan, path: bytes) -> dict[int, int]:
        stamp = after.stamps.get(path)
        return {} if stamp is None else self._holders.get((stamp.device, stamp.inode), {})

    def _set_helpers_aside(
        self, paths: dict[bytes, None], before: Scan, after: Scan
    ) -> dict[bytes, dict[int, int]]:
        """Takes sqlite's helper files out; returns the databases whose log has new entries."""
        rewritten: dict[bytes, dict[int, int]] = {}
        for path in list(paths):
            main = self.database_of(path)
            if main is None:
                continue
            del paths[path]
            old, new = before.stamps.get(path), after.stamps.get(path)
            if new is None or not new.size or not path.endswith(b"-wal"):
                continue
            if old is None or (old.size, old.mtime_ns) != (new.size, new.mtime_ns):
                rewritten[main] = dict(self._holders_of(after, path))
                paths.setdefault(main)
        return rewritten

    def _meta_changes(self, strays: Iterable[bytes], before: Scan, after: Scan) -> list[MetaChange]:
        changes: list[MetaChange] = []
        for path in dict.fromkeys([*self._meta, *strays]):
            entry, new, number = self.tree.get(path), after.stamps.get(path), self._meta.get(path)
            if entry is None or entry.origin is None or new is None:
                continue  # it came with the file that the command made
            if number is None and (path in self._touched or entry.origin != path):
                continue
            old = before.stamps.get(entry.origin)
            if old and (old.mode, old.uid, old.gid) != (new.mode, new.uid, new.gid):
                changes.append(MetaChange("meta:" + resource_name(path), number))
        return changes

    def _look_around(self) -> Scan:
        found = Scan({}, complete=True)
        for folder, _ in self._watched:
            part = scan(self._root, folder)
            found.stamps.update(part.stamps)
            found = Scan(found.stamps, found.complete and part.complete)
        return found

    def _target_of(self, path: bytes) -> bytes:
        found = self._contents.get(resource_name(path))
        return b"" if found is None else found.target
