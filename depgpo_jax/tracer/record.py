"""One command's record while it is being made: reads in order, writes by resource."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import UNSET

from depgpo_jax.tracer.files import unchanged
from depgpo_jax.tracer.linediff import diff_hunks
from depgpo_jax.traces import Command, Write

if TYPE_CHECKING:
    from depgpo_jax.tracer.files import Snapshot
    from depgpo_jax.tracer.processes import Process

MAX_RECORDS = 2**24
"""Write records of one command, by the trace format; beyond it files are written as one record."""


@dataclass
class Draft:
    """What is known of one command so far; background processes may still add to it.

    Attributes:
        number: the command's number.
        reads: resources in order of the first read.
        writes: by resource.
        before: what each written file was before the command's first write.
        untraced: resources that changed without a system call that explains it.
        made: paths that this command created: reading them back is no read.
        lasting: its processes that still ran when the next command began.
        killed: earlier commands' processes that it sent a deadly signal to, with their ports.
        rivals: commands whose processes could not be told from its own.
        background: some of its processes were still running at its end.
        counts: write records of each file that is written by lines.
        total: their sum.
    """

    number: int
    reads: dict[str, None] = field(default_factory=dict)
    writes: dict[str, Write] = field(default_factory=dict)
    before: dict[str, Snapshot | None] = field(default_factory=dict)
    untraced: dict[str, None] = field(default_factory=dict)
    made: set[bytes] = field(default_factory=set)
    lasting: list[Process] = field(default_factory=list)
    killed: list[tuple[Process, list[str]]] = field(default_factory=list)
    rivals: set[int] = field(default_factory=set)
    background: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    total: int = 0

    def write_whole(self, resource: str, *, deleted: bool = False, moved_from: str = "") -> None:
        """The resource was replaced, removed, or came from another name."""
        self._count(resource, 0)
        self.writes[resource] = Write(
            resource=resource,
            whole=True,
            deleted=deleted or UNSET,
            moved_from=moved_from or UNSET,
        )

    def write_change(self, resource: str, before: Snapshot | None, after: Snapshot | None) -> bool:
        """What changed in a file between two looks, by lines where both are text.

        Args:
            resource: its name.
            before: the first look; None: it was not there.
            after: the second look; None: it is gone.

        Returns:
            Whether there is anything to record.
        """
        before = self.before.setdefault(resource, before)
        self.writes.pop(resource, None)
        self._count(resource, 0)
        if after is None:
            if before is None:
                return False
            self.write_whole(resource, deleted=True)
            return True
        if before is not None and unchanged(before, after):
            return False
        hunks = self._hunks(resource, before, after)
        if hunks is None:
            self.write_whole(resource)
        elif hunks:
            self.writes[resource] = Write(resource=resource, hunks=hunks)
        return hunks is None or bool(hunks)

    def _hunks(
        self, resource: str, before: Snapshot | None, after: Snapshot
    ) -> list[tuple[int, int, int, int]] | None:
        """The changed lines; None where the change is one record."""
        if not after.content:  # unknown, or empty: created so, emptied, or cut to nothing
            return None
        old = b"" if before is None else before.content
        if old is None or (before is not None and not before.stamp.is_file):
            return None
        hunks = diff_hunks(old, after.content)
        if hunks is None:
            return None
        records = sum(max(new, 1) for _, _, _, new in hunks)
        if self.total + records > MAX_RECORDS:
            return None
        self._count(resource, records)
        return hunks

    def _count(self, resource: str, records: int) -> None:
        self.total += records - self.counts.pop(resource, 0)
        if records:
            self.counts[resource] = records

    def command(self, **more: object) -> Command:
        """The finished record; `more` are the fields that this one does not know."""
        return Command(
            reads=list(self.reads),
            writes=list(self.writes.values()),
            untraced=list(self.untraced) or UNSET,
            background=self.background or UNSET,
            **more,  # pyright: ignore[reportArgumentType]
        )
