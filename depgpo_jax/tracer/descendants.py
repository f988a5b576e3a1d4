"""The processes below a process, read from /proc."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_START_FIELD = 19  # of the fields behind the program's name in /proc/PID/stat: field 22


def descendants(pid: int, *, since: float | None = None) -> list[int]:
    """Children, their children and so on, oldest first.

    Args:
        pid: the process; itself not among them.
        since: only those that started after this time, in seconds since the epoch.

    Returns:
        Process ids of this process's own namespace.
    """
    found: list[tuple[int, int]] = []
    waiting = [pid]
    while waiting:
        for child in children(waiting.pop()):
            start = _start_ticks(child)
            if start is not None:
                found.append((start, child))
                waiting.append(child)
    earliest = 0 if since is None else _ticks(since)
    return [child for start, child in sorted(found) if start >= earliest]


def cmdline(pid: int) -> bytes:
    """Its arguments, each with a NUL behind it; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def belonging(pid: int) -> list[int]:
    """All that a process started, is the session of, or traces: what has to end with it.

    A daemon has left the tree, and what left the session may still be traced.

    Args:
        pid: the process; itself not among them.

    Returns:
        Live process ids of this process's own namespace.
    """
    parents: dict[int, int] = {}
    found: set[int] = set()
    for entry in os.scandir("/proc"):
        facts = _facts(int(entry.name)) if entry.name.isdigit() else None
        if facts is not None:
            parent, tracer, session = facts
            parents[int(entry.name)] = parent
            if pid in (tracer, session):
                found.add(int(entry.name))
    below = {pid} | found
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    return sorted(below - {pid})


def _facts(pid: int) -> tuple[int, int, int] | None:
    """Parent, tracer and session; None if it is gone or only waited for."""
    try:
        text = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = {line.partition(":")[0]: line.partition(":")[2] for line in text.splitlines()}
    if fields.get("State", "").strip()[:1] in ("Z", "X", ""):
        return None
    session = (fields.get("NSsid") or "0").split()[0]
    return int(fields["PPid"]), int(fields["TracerPid"]), int(session)


def started_after(pid: int, since: float) -> bool:
    """Whether a process lives and started after a time, in seconds since the epoch."""
    start = _start_ticks(pid)
    return start is not None and start >= _ticks(since)


def children(pid: int) -> list[int]:
    """Its children, none if it is gone."""
    children: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                children += map(int, (task / "children").read_text("ascii").split())
    return children


def _stat(pid: int) -> list[str] | None:
    """What stands behind its name in /proc/PID/stat; None if it is gone or only waited for."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].decode("ascii").split()
    return None if fields[:1] in ([], ["Z"], ["X"]) else fields


def _start_ticks(pid: int) -> int | None:
    """When it started, in clock ticks since the machine did; None if it is gone."""
    fields = _stat(pid)
    return int(fields[_START_FIELD]) if fields else None


def _ticks(moment: float) -> int:
    # The kernel cuts fractions of a tick off.
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return int((moment - boot) * _TICKS)
