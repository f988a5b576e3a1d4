"""A small system call filter: what would hide from the tracer or reach past namespaces.

Namespaces and missing capabilities close most doors. These are left: io_uring and CLONE_UNTRACED
hide from any system call tracer, 32-bit calls have other numbers, keyrings and the kernel log are
shared with the host, TIOCSTI types into the terminal, and bwrap's own first process has no filter,
so that nothing may write into its memory. `clone3` hides its flags behind a pointer that a filter
cannot read, so it does not exist inside; C libraries then use `clone`. `ptrace` fails for a traced
process anyway.
"""

from __future__ import annotations

import errno
import platform
import struct
from typing import NamedTuple

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENT_0, _ARGUMENT_1 = 0, 4, 16, 24
_CLONE_UNTRACED = 0x00800000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_X32 = 0x40000000

# io_uring_setup, io_uring_enter, io_uring_register, clone3: new calls have one number everywhere.
_EVERYWHERE = (425, 426, 427, 435)
_PIDFD_GETFD = 438


class Machine(NamedTuple):
    """The numbers of one kind of processor."""

    audit: int
    clone: int
    ioctl: int
    absent: tuple[int, ...]  # add_key, request_key, keyctl, bpf, perf_event_open, userfaultfd
    refused: tuple[int, ...]  # syslog, ptrace, process_vm_writev


MACHINES = {
    "x86_64": Machine(0xC000003E, 56, 16, (248, 249, 250, 321, 298, 323), (103, 101, 311)),
    "aarch64": Machine(0xC00000B7, 220, 29, (217, 218, 219, 280, 241, 282), (116, 117, 271)),
}


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _answer(error: int) -> bytes:
    return _op(_RETURN, _ERRNO | error)


def filter_program(machine: str | None = None) -> bytes:
    """The filter as the kernel takes it; nothing for a processor whose numbers are not known.

    Args:
        machine: as `platform.machine()` says it; None is this one.
    """
    kind = MACHINES.get(machine or platform.machine())
    if kind is None:
        return b""
    missing = _answer(errno.ENOSYS)
    parts = [
        _op(_LOAD, _ARCHITECTURE),
        _op(_EQUAL, kind.audit, yes=1),
        missing,
        _op(_LOAD, _NUMBER),
    ]
    if kind.audit == MACHINES["x86_64"].audit:
        parts += [_op(_AT_LEAST, _X32, no=1), missing]
    for number in (*_EVERYWHERE, *kind.absent):
        parts += [_op(_EQUAL, number, no=1), missing]
    refused = _answer(errno.EPERM)
    for number in (_PIDFD_GETFD, *kind.refused):
        parts += [_op(_EQUAL, number, no=1), refused]
    parts += [
        _op(_EQUAL, kind.clone, no=3),
        _op(_LOAD, _ARGUMENT_0),
        _op(_ANY_BIT, _CLONE_UNTRACED, no=6),
        refused,
    ]
    parts += [
        _op(_EQUAL, kind.ioctl, no=4),
        _op(_LOAD, _ARGUMENT_1),
        _op(_EQUAL, _TIOCSTI, yes=1),
        _op(_EQUAL, _TIOCLINUX, no=1),
        refused,
    ]
    return b"".join([*parts, _op(_RETURN, _ALLOW)])
