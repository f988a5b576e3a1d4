"""What each system call's line in the log means: a table of shapes, and handlers for the others.

A shape says where a call's names stand: `D` a folder's descriptor, `P` a path, `F` the
descriptor itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from depgpo_jax.tracer.events import NO_FLAGS, Event
from depgpo_jax.tracer.strace_names import decode, quiet

if TYPE_CHECKING:
    from depgpo_jax.tracer.strace_log import Parser

CLONES = frozenset({b"clone", b"clone3", b"fork", b"vfork"})

# Calls with one name, so common that the parser's one regular expression takes them apart: the kind
# of event, whether the rest of the arguments holds flags, whether kernel files are left out.
SIMPLE_CALLS = {
    b"openat": ("open", True, True),
    b"newfstatat": ("look", False, True),
    b"access": ("look", False, True),
    b"stat": ("look", False, True),
    b"lstat": ("look", False, True),
    b"statx": ("look", False, True),
    b"faccessat2": ("look", False, True),
    b"faccessat": ("look", False, True),
    b"readlink": ("look", False, True),
    b"execve": ("exec", False, False),
    b"unlinkat": ("unlink", True, False),
    b"unlink": ("unlink", False, False),
    b"mkdir": ("mkdir", False, False),
    b"open": ("open", True, True),
}

_FOLDER = rb"(AT_FDCWD|-?\d+)(?:<([^<>]*)(?:<[^<>]*>)?>)?(\(deleted\))?"
_PATH = rb'(?:"([^"]*)"(\.\.\.)?|NULL|0x[0-9a-f]+)'
_REST = rb"(?:, (.*))?"
_SHAPES = {
    "P": re.compile(_PATH + _REST),
    "DP": re.compile(_FOLDER + rb", " + _PATH + _REST),
    "PP": re.compile(_PATH + rb", " + _PATH + _REST),
    "DPDP": re.compile(_FOLDER + rb", " + _PATH + rb", " + _FOLDER + rb", " + _PATH + _REST),
    "PDP": re.compile(_PATH + rb", " + _FOLDER + rb", " + _PATH + _REST),
    "F": re.compile(_FOLDER + _REST),
}
_SOCKET = re.compile(rb"\d+<([^>]*(?:->[^>]*)?)>(?:, (.*))?")
_ADDRESS = re.compile(
    rb"\{sa_family=(AF_INET6?|AF_UNIX), "
    rb'(?:sin6?_port=htons\((\d+)\)|sun_path=(@?)"([^"]*)")'
)
_NUMBERS = re.compile(rb"-?\d+")
_PIDFD = re.compile(rb"\d+<pid:(\d+)>")
_SIGNAL = re.compile(rb"SIG[A-Z0-9_]+")


class Call(NamedTuple):
    """One complete line, taken apart.

    Args:
        process: the host's pid of the process.
        name: the system call.
        arguments: their text.
        result: the return value, -1 on an error.
        error: the error's name, '?' where the process was killed inside the call.
        resolved: the name that stands beside a descriptor that was returned, in hex.
        deleted: that descriptor's file has no name any more.
    """

    process: int
    name: bytes
    arguments: bytes
    result: int
    error: str
    resolved: bytes | None
    deleted: bool


Handler = Callable[["Parser", Call], None]


def _base(parser: Parser, call: Call, number: bytes, folder: bytes | None) -> bytes | None:
    """The folder that a descriptor stands for; None where strace could not tell."""
    if folder:
        name = decode(folder)
        if number == b"AT_FDCWD":
            parser.set_cwd(call.process, name)
        return name if name.startswith(b"/") else None
    return parser.cwd.get(call.process) if number == b"AT_FDCWD" else None


def _names(parser: Parser, call: Call, shape: str) -> tuple[list[bytes], bytes, bool, bool] | None:
    """The call's paths, the text after them, and whether one was cut or has no name any more."""
    match = _SHAPES[shape].fullmatch(call.arguments)
    if match is None:
        return None
    groups, paths, cut, deleted = list(match.groups()), [], False, False
    base, at = parser.cwd.get(call.process), 0
    for letter in shape:
        if letter == "P":
            name = groups[at]
            cut = cut or groups[at + 1] is not None
            # An empty name stands for the descriptor itself, where the call has one.
            paths.append(parser.join(call.process, base, decode(name)) if name else base or b"")
            base, at = parser.cwd.get(call.process), at + 2
            continue
        base = _base(parser, call, groups[at], groups[at + 1])
        deleted, at = deleted or groups[at + 2] is not None, at + 3
        if letter == "F":
            paths.append(base or b"")
    return paths, groups[-1] or b"", cut, deleted


def _flags(parser: Parser, text: bytes, cut: bool, deleted: bool) -> frozenset[str]:
    flags = parser.flags_of(text) if text else NO_FLAGS
    if cut or deleted:
        return flags | {name for name, there in (("CUT", cut), ("DELETED", deleted)) if there}
    return flags


def _by_shape(kind: str, shape: str) -> Handler:
    def handle(parser: Parser, call: Call) -> None:
        found = _names(parser, call, shape)
        if found is None:
            return
        paths, text, cut, deleted = found
        if shape == "F" and not paths[0]:
            return  # a pipe or a socket
        if kind == "look" and (not quiet(paths[0]) or b', "", ' in call.arguments):
            return  # at a kernel file, or at what is already open
        flags = NO_FLAGS if kind in ("look", "exec") else _flags(parser, text, cut, deleted)
        second = paths[1] if len(paths) > 1 else b""
        result = min(call.result, 0)
        parser.emit(Event(call.process, kind, paths[0], second, flags, result, call.error))

    return handle


def _open(shape: str, implied: frozenset[str] = NO_FLAGS) -> Handler:
    def handle(parser: Parser, call: Call) -> None:
        found = _names(parser, call, shape)
        if found is None:
            return
        paths, text, cut, _ = found
        path = paths[0]
        if call.result >= 0:
            path = decode(call.resolved) if call.resolved else path
        path = quiet(path)
        if path:
            flags = _flags(parser, text, cut, call.deleted) | implied
            result = min(call.result, 0)
            parser.emit(Event(call.process, "open", path, b"", flags, result, call.error))

    return handle


def _open_by_handle(parser: Parser, call: Call) -> None:
    if call.resolved:
        path, text = decode(call.resolved), call.arguments.rpartition(b", ")[2]
        flags = _flags(parser, text, False, call.deleted)
        parser.emit(Event(call.process, "open", path, b"", flags))


def _symlink(shape: str) -> Handler:
    def handle(parser: Parser, call: Call) -> None:
        match = _SHAPES[shape].fullmatch(call.arguments)
        found = _names(parser, call, shape)
        if match is None or found is None:
            return
        paths = found[0]
        target = decode(match[1] or b"").decode("utf-8", "surrogateescape")
        result = min(call.result, 0)
        parser.emit(
            Event(call.process, "symlink", b"", paths[1], NO_FLAGS, result, call.error, target)
        )

    return handle


def _chdir(parser: Parser, call: Call) -> None:
    found = _names(parser, call, "F" if call.name == b"fchdir" else "P")
    if found and call.result == 0 and found[0][0]:
        parser.set_cwd(call.process, found[0][0])
        parser.emit(Event(call.process, "chdir", found[0][0]))


def _chroot(parser: Parser, call: Call) -> None:
    found = _names(parser, call, "P")
    if found and call.result == 0:
        parser.root[call.process] = found[0][0].rstrip(b"/")


def _pivot_root(parser: Parser, call: Call) -> None:
    if call.result == 0:
        parser.root.pop(call.process, None)


# sockets


def _address(parser: Parser, call: Call, text: bytes, protocol: bytes) -> tuple[str, bytes] | None:
    match = _ADDRESS.match(text)
    if match is None:
        return None
    _, port, abstract, name = match.groups()
    if port is not None:
        return f"{'udp' if protocol.startswith(b'UDP') else 'tcp'}:{int(port)}", b""
    name = decode(name)
    if abstract:
        return "abstract", name
    return "unix", parser.join(call.process, parser.cwd.get(call.process), name)


def _socket(call: Call) -> tuple[bytes, bytes, bytes] | None:
    """A socket's protocol, its number or address, and the text of the other arguments."""
    match = _SOCKET.fullmatch(call.arguments)
    if match is None:
        return None
    inside = match[1]
    if inside.startswith(b"\\x"):
        inside = decode(inside)
    protocol, _, name = inside.partition(b":[")
    return protocol, name.rstrip(b"]"), match[2] or b""


def _bind(parser: Parser, call: Call) -> None:
    socket = _socket(call)
    found = socket and _address(parser, call, socket[2], socket[0])
    if not socket or not found:
        return
    detail, path = found
    if call.result == 0 and detail.endswith(":0"):
        parser.awaiting[socket[1]] = "bind"
    if call.result == 0:
        parser.remember_socket(socket[1], detail, path)
    parser.emit(Event(call.process, "bind", path, b"", NO_FLAGS, call.result, call.error, detail))


def _listen(parser: Parser, call: Call) -> None:
    socket = _socket(call)
    if not socket:
        return
    protocol, name, _ = socket
    detail, path = parser.sockets.get(name.split(b",")[0], ("", b""))
    port = name.rpartition(b":")[2]
    if (not detail or detail.endswith(":0")) and b":" in name and port.isdigit():
        detail = f"tcp:{int(port)}"  # outside of another network namespace strace names the address
    if not detail and protocol.startswith(b"UNIX"):
        return
    detail = detail or "tcp:0"
    if call.result == 0 and detail == "tcp:0":
        parser.awaiting[name] = "listen"
    parser.emit(Event(call.process, "listen", path, b"", NO_FLAGS, call.result, call.error, detail))


def _getsockname(parser: Parser, call: Call) -> None:
    """Says which port a socket got that left it to the kernel; otherwise nothing."""
    socket = _socket(call)
    waiting = parser.awaiting.pop(socket[1], None) if socket else None
    found = _address(parser, call, socket[2], socket[0]) if socket and waiting else None
    if socket and waiting and found:
        parser.remember_socket(socket[1], *found)
        parser.emit(Event(call.process, waiting, detail=found[0]))


def _connect(parser: Parser, call: Call) -> None:
    socket = _socket(call)
    found = socket and _address(parser, call, socket[2], socket[0])
    if found:
        detail, path = found
        result = min(call.result, 0)
        parser.emit(Event(call.process, "connect", path, b"", NO_FLAGS, result, call.error, detail))


# processes


def _host(parser: Parser, call: Call, pid: int) -> int | None:
    """The host's pid, 0 if nobody has it; None: the call comes again when its bearer is known."""
    host = parser.pids.target(call.process, pid)
    birth = None if host else parser.pids.unborn(call.process, pid)
    if birth is None:
        return host
    birth.later.append(call)
    return None


def _kill(parser: Parser, call: Call) -> None:
    by_descriptor = _PIDFD.match(call.arguments)
    numbers = _NUMBERS.match(call.arguments)
    if by_descriptor:
        detail = by_descriptor[1].decode()
    elif numbers is None or call.name == b"pidfd_send_signal":
        return
    else:
        number = int(numbers[0])
        if number in (0, -1):
            detail = "all" if number else "group:own"
        else:
            host = _host(parser, call, abs(number))
            if host is None:
                return
            host = parser.pids.leader.get(b"%d" % host, host)
            detail = ("group:" if number < 0 else "") + (str(host) if host else f"?{abs(number)}")
    signal = _SIGNAL.search(call.arguments)
    flags = parser.flags_of(signal[0]) if signal else NO_FLAGS
    result = min(call.result, 0)
    parser.emit(Event(call.process, "kill", b"", b"", flags, result, call.error, detail))


def _group(parser: Parser, call: Call) -> None:
    numbers = [int(number) for number in _NUMBERS.findall(call.arguments)]
    if call.result < 0 or (call.name == b"setpgid" and len(numbers) != 2):
        return
    member, group = numbers if call.name == b"setpgid" else (0, 0)
    host = _host(parser, call, member) if member else call.process
    leader = _host(parser, call, group) if group and host is not None else host
    if host and leader:
        parser.pids.group_leaders.add(leader)
        parser.emit(Event(call.process, "group", detail=f"{host}:{leader}"))


def _namespace(parser: Parser, call: Call) -> None:
    if call.result == 0 and b"CLONE_NEWPID" in call.arguments:
        parser.pids.child_space[call.process] = -1


def _table() -> dict[bytes, Handler]:
    look = (
        "stat lstat stat64 lstat64 access readlink statfs getxattr lgetxattr listxattr llistxattr"
    )
    look_at = "newfstatat fstatat64 statx faccessat faccessat2 readlinkat name_to_handle_at"
    shapes = {
        ("rename", "PP"): "rename",
        ("rename", "DPDP"): "renameat renameat2",
        ("link", "PP"): "link",
        ("link", "DPDP"): "linkat",
        ("unlink", "P"): "unlink rmdir",
        ("unlink", "DP"): "unlinkat",
        ("mkdir", "P"): "mkdir",
        ("mkdir", "DP"): "mkdirat",
        ("mknod", "P"): "mknod",
        ("mknod", "DP"): "mknodat",
        ("truncate", "P"): "truncate truncate64",
        ("truncate", "F"): "ftruncate ftruncate64 fallocate",
        ("meta", "P"): "chmod chown lchown",
        ("meta", "DP"): "fchmodat fchmodat2 fchownat",
        ("meta", "F"): "fchmod fchown",
        ("look", "P"): look,
        ("look", "DP"): look_at + " utimensat inotify_add_watch",
        ("look", "F"): "getdents getdents64",
    }
    table = {
        name.encode(): _by_shape(kind, shape)
        for (kind, shape), names in shapes.items()
        for name in names.split()
    }
    created = frozenset({"O_CREAT", "O_WRONLY", "O_TRUNC"})
    return table | {
        b"open": _open("P"),
        b"openat": _open("DP"),
        b"openat2": _open("DP"),
        b"creat": _open("P", created),
        b"open_by_handle_at": _open_by_handle,
        b"execve": _by_shape("exec", "P"),
        b"execveat": _by_shape("exec", "DP"),
        b"symlink": _symlink("PP"),
        b"symlinkat": _symlink("PDP"),
        b"chdir": _chdir,
        b"fchdir": _chdir,
        b"chroot": _chroot,
        b"pivot_root": _pivot_root,
        b"bind": _bind,
        b"listen": _listen,
        b"connect": _connect,
        b"getsockname": _getsockname,
        b"kill": _kill,
        b"tkill": _kill,
        b"tgkill": _kill,
        b"pidfd_send_signal": _kill,
        b"setpgid": _group,
        b"setsid": _group,
        b"unshare": _namespace,
        b"setns": _namespace,
    }


HANDLERS = _table()
