"""What the tracer saw: one system call that matters, or the end of a process."""

from __future__ import annotations

from typing import NamedTuple

NO_FLAGS: frozenset[str] = frozenset()


class Event(NamedTuple):
    """What one process did; which fields say what depends on `call`.

    Args:
        pid: the host's pid of the process (of a thread: of the process it belongs to).
        call: `open`, `exec`, `rename`, `link`, `symlink`, `unlink`, `mkdir`, `mknod`, `truncate`,
            `meta`, `look`, `chdir`: a path. `bind`, `listen`, `connect`: a socket. `kill`, `fork`,
            `guess`, `exit`, `group`: processes.
        path: absolute and normalised by its text; of a successful open, and of a call on a
            descriptor, what the kernel resolved. Empty where there is none or it is not known. Of a
            UNIX socket its path, of an abstract one its name.
        path2: of rename, link and symlink the new name.
        flags: names as strace prints them (`O_CREAT`, `AT_REMOVEDIR`, `RENAME_EXCHANGE`,
            `SIGTERM`), `DELETED` (the descriptor's file has no name any more), `CUT` (the name was
            longer than a path may be).
        result: 0, or -1 on an error. Of fork and guess the child's host pid.
        error: the error's name, '' for none, '?' where a process was killed inside the call.
        detail: of a socket `tcp:PORT`, `udp:PORT` (port 0: not known yet; if it becomes known,
            another event says so), `unix`, `abstract`; of kill a host pid, `group:PID`,
            `group:own`, `all`, or `?PID` (a pid as the sender sees it that belongs to nobody
            known); of exit its status or the signal's name; of group (setpgid, setsid)
            `MEMBER:GROUP`; of guess the host pids of others that may be the parent, with commas
            between; of symlink its target (bytes that are not UTF-8 as surrogates).
    """

    pid: int
    call: str
    path: bytes = b""
    path2: bytes = b""
    flags: frozenset[str] = NO_FLAGS
    result: int = 0
    error: str = ""
    detail: str = ""
