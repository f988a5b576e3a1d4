r"""What files held when they were last looked at, and the names of their resources.

Source: docs/trace.md, "Resources".
"""

import re
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from depgpo_jax.tracer.files import Snapshot, Stamp

BUDGET: Final = 256 * 1024**2
"""Bytes of file contents that `Contents` holds."""


class Contents:
    """The last known contents of files, by resource name, and which names are one file.

    Holds at most `budget` bytes of contents; those not used for longest go first, and then only
    their stamps are known.

    Args:
        budget: Bytes of contents to hold.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self.held = 0
        """Bytes of contents held now."""
        self._snapshots: dict[str, Snapshot] = {}
        self._used: OrderedDict[str, int] = OrderedDict()  # bytes held, the latest used last
        self._names: dict[tuple[int, int], str] = {}  # by device and inode

    def __contains__(self, resource: str) -> bool:
        return resource in self._snapshots

    def __len__(self) -> int:
        return len(self._snapshots)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._snapshots))

    def get(self, resource: str) -> Snapshot | None:
        """What was seen last; None where nothing was, or the file was gone."""
        if resource in self._used:
            self._used.move_to_end(resource)
        return self._snapshots.get(resource)

    def remember(self, resource: str, snapshot: Snapshot | None) -> None:
        """Take down what a look found; None, for a file that is gone, forgets it."""
        self.forget(resource)
        if snapshot is None:
            return
        self._snapshots[resource] = snapshot
        if snapshot.stamp.is_file:
            self._names.setdefault(_identity(snapshot.stamp), resource)
        if snapshot.content:
            self._used[resource] = len(snapshot.content)
            self.held += len(snapshot.content)
            while self.held > self.budget:
                oldest, size = self._used.popitem(last=False)
                self.held -= size
                self._snapshots[oldest] = self._snapshots[oldest]._replace(content=None)

    def forget(self, resource: str) -> None:
        """Drop a resource: it is gone, and its inode may come back as another file's."""
        snapshot = self._snapshots.pop(resource, None)
        if snapshot is None:
            return
        self.held -= self._used.pop(resource, 0)
        identity = _identity(snapshot.stamp)
        if self._names.get(identity) == resource:
            del self._names[identity]

    def move(self, source: str, target: str) -> None:
        """A rename: what was known of the source is known of the target, which it replaces."""
        snapshot = self._snapshots.get(source)
        self.forget(source)
        self.remember(target, snapshot)

    def resource_of(self, resource: str, stamp: Stamp) -> str:
        """The one name that stands for a file with several hard links: the first one remembered.

        Names that were removed or replaced must be remembered anew before, as inodes come back.

        Args:
            resource: The name it was met under.
            stamp: From a look at that name now.

        Returns:
            `resource` itself where the file has one link, or no other name of it is known.
        """
        if stamp.links < 2 or not stamp.is_file:
            return resource
        return self._names.get(_identity(stamp), resource)


def _identity(stamp: Stamp) -> tuple[int, int]:
    return stamp.device, stamp.inode


# Resource names.

_ESCAPED = re.compile("\\\\|[\udc80-\udcff]")
_ESCAPE = re.compile(rb"\\(?:\\|x([0-9A-Fa-f]{2}))")


def resource_name(path: bytes) -> str:
    r"""The resource that stands for a file: its path, a backslash as `\\`, a bad byte as `\xNN`.

    A bad byte is one that is no part of valid UTF-8. Source: trace page, "Resources".

    Args:
        path: Absolute and normalised; any bytes but NUL.
    """
    if path.isascii() and b"\\" not in path:
        return path.decode("ascii")
    text = path.decode("utf-8", "surrogateescape")
    return _ESCAPED.sub(
        lambda match: "\\\\" if match[0] == "\\" else f"\\x{ord(match[0]) - 0xDC00:02x}", text
    )


def resource_path(name: str) -> bytes:
    """The path that a file's valid resource name stands for: the inverse of `resource_name`."""
    return _ESCAPE.sub(
        lambda match: b"\\" if match[1] is None else bytes.fromhex(match[1].decode()), name.encode()
    )
