"""The processes of a pid namespace and of those nested in it, seen from outside; ending them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import time
from pathlib import Path
from typing import NamedTuple

_NS_GET_PARENT = 0xB702


class Member(NamedTuple):
    """A process of a sandbox.

    Args:
        pid: seen from here.
        inner_pid: in its own pid namespace; 1 is the process with which the namespace ends.
        namespace: inode of its pid namespace.
        nested: whether that namespace lies in the one asked for, rather than being it.
    """

    pid: int
    inner_pid: int
    namespace: int
    nested: bool


def root_of(pid: int) -> str:
    """The host path of a process's root directory."""
    return f"/proc/{pid}/root"


def pid_namespace(pid: int) -> int:
    """The inode of a process's pid namespace.

    Raises:
        OSError: it ended, or may not be looked at.
    """
    return Path(f"/proc/{pid}/ns/pid").stat().st_ino


def members(namespace: int) -> list[Member]:
    """Every process of a pid namespace and of its direct children.

    Args:
        namespace: inode of the pid namespace.
    """
    found = []
    own_depth = len(_inner_pids("self") or [0])
    for entry in (path.name for path in Path("/proc").iterdir()):
        if not entry.isdigit():
            continue
        pids = _inner_pids(entry)
        # Most processes are in this process's own namespace, and are ruled out by one small read.
        if pids is None or len(pids) <= own_depth:
            continue
        with contextlib.suppress(OSError):
            own = pid_namespace(int(entry))
            if own == namespace:
                found.append(Member(int(entry), pids[-1], own, False))
            elif _parent_namespace(entry) == namespace:
                found.append(Member(int(entry), pids[-1], own, True))
    return found


def _inner_pids(entry: str) -> list[int] | None:
    try:
        status = Path("/proc", entry, "status").read_bytes()
    except OSError:
        return None
    if b"\nState:\tZ" in status:
        return None  # ended, only its parent has not asked yet
    _, found, rest = status.partition(b"\nNSpid:")
    return [int(word) for word in rest.split(b"\n", 1)[0].split()] if found else None


def _parent_namespace(entry: str) -> int | None:
    fd = os.open(f"/proc/{entry}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        parent = fcntl.ioctl(fd, _NS_GET_PARENT)
    except OSError:
        return None  # the parent is above this process's own namespace
    finally:
        os.close(fd)
    try:
        return os.fstat(parent).st_ino
    finally:
        os.close(parent)


def end_members(namespace: int, seconds: float, keep: int = 2) -> bool:
    """Kills everything in a pid namespace and in those nested in it.

    Args:
        namespace: inode of the pid namespace.
        seconds: how long to wait for the ends.
        keep: how many of the namespace's own first processes stay: bwrap and the shell that waits.

    Returns:
        Whether nothing is left.
    """
    deadline = time.monotonic() + seconds
    while True:
        left = [m for m in members(namespace) if m.nested or m.inner_pid > keep]
        if not left:
            return True
        # A namespace's first process takes all others with it and ends as the last.
        heads = [m for m in left if not m.nested or m.inner_pid == 1] or left
        for member in heads:
            _kill_and_wait(member, deadline)
        if time.monotonic() > deadline:
            return False


def _kill_and_wait(member: Member, deadline: float) -> None:
    try:
        handle = os.pidfd_open(member.pid)
    except OSError:
        return
    try:
        # The number may have gone to another process since it was listed; the handle has not.
        if pid_namespace(member.pid) == member.namespace:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            waiting = select.poll()  # select() takes no descriptor above 1023
            waiting.register(handle, select.POLLIN)
            waiting.poll(max(0.0, deadline - time.monotonic()) * 1000)
    except OSError:
        return
    finally:
        os.close(handle)
