"""Reads strace's output in bulk into events.

One pass of one regular expression cuts a chunk into lines and takes the commonest calls apart
on the way; every other line goes through a table of calls. Names are hex in the log (`-xx`),
so nothing that a program chose, such as a file name, can look like a line, a quote or a bracket.
"""

from __future__ import annotations

import re

from depgpo_jax.tracer.events import NO_FLAGS, Event
from depgpo_jax.tracer.strace_calls import CLONES, HANDLERS, SIMPLE_CALLS, Call
from depgpo_jax.tracer.strace_names import decode, normalised, quiet
from depgpo_jax.tracer.strace_pids import Known, Pids

# Names that a memory of decoded names may hold before it starts again.
MOST_NAMES = 50_000
MOST_SOCKETS = 10_000
# A line longer than this is no line of strace: two full paths in hex, their folders and the rest.
LONGEST_LINE = 1 << 20

_LINE = re.compile(
    # One excluded character is matched faster than two: strace closes what it opens on one line.
    # What a program asks about a descriptor that it holds (glibc's fstat) says nothing new.
    rb'(?:\d+ +newfstatat\(\d+<[^>]*>, "", [^\n]*\n)*'
    rb"(?:(\d+) +(?:"
    rb"(%s)\((?:(AT_FDCWD|\d+)<([^>]*)>, )?"
    rb'"([^"]+)"(?:, ([^"<>\n]*))?\) += '
    rb"(?:0|\d+<([^>]*)>|-1 ([A-Z0-9]+) \([^()\n]*\))"
    rb"|([^\n]*))\n|[^\n]*\n)" % b"|".join(SIMPLE_CALLS)
)
_CALL = re.compile(
    rb"(\w+)\((.*)\) += (-?\d+|\?)(?:<([^<>]*)(?:<[^<>]*>)?>)?(\(deleted\))?(?: ([A-Z][A-Z0-9]+))?"
)
_RESUMED = re.compile(rb"<\.\.\. \w+ resumed>(.*)", re.DOTALL)
_PID_CHANGED = re.compile(rb"(.*) <pid changed to (\d+) \.\.\.>")
_FLAG = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+|SIG[A-Z0-9]+")
_CLONES = (b"clone(", b"clone3(", b"fork(", b"vfork(")
_UNFINISHED = b" <unfinished ...>"
_EXEC_DONE = b" <exec done>"


def parse(log: bytes) -> tuple[list[Event], bytes]:
    """Parses a whole log, or the beginning of one.

    Args:
        log: bytes as strace wrote them.

    Returns:
        The events of all complete lines, and the rest after the last line end.
    """
    parser = Parser()
    return parser.feed(log), parser.rest


class Parser:
    """A parser that is fed piece by piece; where the pieces are cut does not matter.

    Args:
        root: the working directory of the traced program's start, for its first relative names.
    """

    def __init__(self, root: bytes = b"/") -> None:
        self.pids = Pids()
        self.rest = b""
        self.start = root
        self.cwd: dict[int, bytes] = {}  # decoded
        self._last_cwd: dict[int, bytes] = {}  # the same as it stood in the log, for comparing fast
        self.root: dict[int, bytes] = {}  # of processes under a chroot
        self.sockets: dict[bytes, tuple[str, bytes]] = {}
        self.awaiting: dict[bytes, str] = {}  # sockets bound to a port that the kernel chose
        self._events: list[Event] = []
        self._pending: dict[bytes, bytes] = {}
        # Decoded names, empty for kernel files: by hex, or by folder and name in hex.
        self._names: dict[bytes | tuple[bytes, bytes], bytes] = {}
        self._flags: dict[bytes, frozenset[str]] = {}

    def feed(self, chunk: bytes) -> list[Event]:
        """Parses what came.

        Args:
            chunk: the next bytes of the log, cut anywhere.

        Returns:
            The events of the lines that are complete now, in the log's order, except that a child's
            come after its `fork`.
        """
        log = self.rest + chunk if self.rest else chunk
        end = log.rfind(b"\n") + 1
        self.rest = log[end:] if len(log) - end < LONGEST_LINE else b""
        if len(self._names) > MOST_NAMES:
            self._names.clear()
        if len(self._flags) > MOST_NAMES:
            self._flags.clear()
        self._events = events = []
        self._parse(log if end == len(log) else log[:end])
        return events

    def _parse(self, log: bytes) -> None:
        leader, last_cwd, kinds = self.pids.leader.get, self._last_cwd.get, SIMPLE_CALLS
        names, known_flags, append = self._names.get, self._flags.get, self._events.append
        new = tuple.__new__
        for pid, call, at, folder, path, rest, resolved, error, other in _LINE.findall(log):
            process = leader(pid)
            if not call or process is None:
                if pid:
                    text = other or _rebuilt(call, at, folder, path, rest, resolved, error)
                    self._line(pid, process, text)
                continue
            if at == b"AT_FDCWD" and last_cwd(process) != folder:
                self._last_cwd[process] = folder
                self.cwd[process] = decode(folder)
            if resolved:
                name = names(resolved)
                if name is None:
                    name = self._names[resolved] = quiet(decode(resolved))
            else:
                base = b"" if path.startswith(b"\\x2f") else folder or self.cwd[process]
                name = names((base, path))
                if name is None:
                    name = self._simple_name(process, base, path)
            kind, has_flags, quietly = kinds[call]
            if name:
                flags = NO_FLAGS
                if has_flags and rest:
                    flags = known_flags(rest) or self.flags_of(rest)
                if error:
                    append(new(Event, (process, kind, name, b"", flags, -1, error.decode(), "")))
                else:
                    append(new(Event, (process, kind, name, b"", flags, 0, "", "")))
            elif not quietly:
                text = _rebuilt(call, at, folder, path, rest, resolved, error)
                self._line(pid, process, text)

    def _simple_name(self, process: int, base: bytes, path: bytes) -> bytes:
        """A name's path, empty for kernel files; remembered unless a chroot makes it depend."""
        name = quiet(self.join(process, decode(base), decode(path)))
        if not self.root:
            self._names[base, path] = name
        return name

    # lines

    def _line(self, pid: bytes, process: int | None, text: bytes) -> None:
        if process is None:
            self._stranger(pid, text)
        elif text.startswith(b"set_robust_list("):
            pass
        elif text.endswith(_UNFINISHED):
            text = text[: -len(_UNFINISHED)]
            self._pending[pid] = text
            if text.startswith(_CLONES):
                self.pids.clone_begins(pid, process, text)
                self._introduce(self.pids.settle())
        elif text.startswith(b"<... "):
            self._resumed(pid, process, text)
        elif text.startswith(b"+++ "):
            self._ended(pid, process, text)
        elif changed := _PID_CHANGED.fullmatch(text):
            self._pending[changed[2]] = changed[1] + _EXEC_DONE
        elif not text.startswith(b"--- "):
            self._call(pid, process, text)

    def _stranger(self, pid: bytes, text: bytes) -> None:
        self._introduce(self.pids.appears(pid, text))

    def _introduce(self, known: list[Known]) -> None:
        """Reports the births of pids and then what they did while nobody knew them."""
        for pid, parent, thread, _later, rivals in known:
            child = int(pid)
            if rivals:
                others = ",".join(map(str, sorted(rivals)))
                self._events.append(Event(parent, "guess", result=child, detail=others))
            if not thread:
                self.cwd[child] = self.cwd.get(parent, self.start)
                self._last_cwd.pop(child, None)
                if parent in self.root:
                    self.root[child] = self.root[parent]
                if parent:
                    self._events.append(Event(parent, "fork", result=child, detail=str(child)))
        for pid, _parent, _thread, later, _rivals in known:
            for call in later:
                HANDLERS[call.name](self, call)
            stranger = self.pids.strangers.pop(pid, None)
            for line in stranger.lines if stranger else ():
                self._line(pid, self.pids.leader.get(pid), line)

    def _resumed(self, pid: bytes, process: int, text: bytes) -> None:
        begun = self._pending.pop(pid, None)
        resumed = _RESUMED.fullmatch(text)
        if begun is None or resumed is None:
            return
        if begun.endswith(_EXEC_DONE):  # strace 6.1 then prints a senseless result
            self._call(pid, process, begun[: -len(_EXEC_DONE)] + b") = 0")
        else:
            self._call(pid, process, begun + resumed[1])

    def _ended(self, pid: bytes, process: int, text: bytes) -> None:
        words = text.split()
        if words[1:2] == [b"superseded"]:
            begun = self._pending.pop(words[-2], None)
            if begun is not None:
                self._pending[pid] = begun + _EXEC_DONE
            self.pids.replaced(process)
            return
        begun = self._pending.pop(pid, None)
        if begun is not None and not begun.endswith(_EXEC_DONE):
            self._call(pid, process, begun + b") = ?")
        self.pids.ends(pid)
        if process == int(pid):
            self.cwd.pop(process, None)
            self._last_cwd.pop(process, None)
            self.root.pop(process, None)
            status = words[3].decode("ascii", "replace") if len(words) > 3 else "?"
            self._events.append(Event(process, "exit", detail=status))

    def _call(self, pid: bytes, process: int, text: bytes) -> None:
        match = _CALL.match(text)
        if match is None:
            return
        name, arguments, result, resolved, deleted, error = match.groups()
        if error and error.startswith(b"ERESTART"):
            return  # the kernel starts it again, and strace reports it again
        value = -1 if result == b"?" else int(result)
        reason = error.decode() if error else "?" if value < 0 else ""
        if name in CLONES and result == b"?":
            self.pids.clone_breaks(pid)
            return
        if name in CLONES:
            self._introduce(self.pids.clone_ends(pid, process, arguments, value))
            return
        handler = HANDLERS.get(name)
        if handler is not None:
            gone = bool(deleted)
            handler(self, Call(process, name, arguments, value, reason, resolved, gone))

    # names

    def emit(self, event: Event) -> None:
        """Adds an event to those of the chunk."""
        self._events.append(event)

    def set_cwd(self, process: int, cwd: bytes) -> None:
        """Notes a working directory, decoded."""
        self._last_cwd.pop(process, None)
        self.cwd[process] = cwd

    def remember_socket(self, number: bytes, detail: str, path: bytes) -> None:
        """Notes which address a socket has; sockets are never seen to close, so the oldest go."""
        self.sockets[number] = (detail, path)
        for known in (self.sockets, self.awaiting):
            if len(known) > MOST_SOCKETS:
                del known[next(iter(known))]

    def join(self, process: int, base: bytes | None, name: bytes) -> bytes:
        """A name as the process meant it: absolute, normalised; empty if its folder is not known.

        Args:
            process: whose root directory counts for absolute names.
            base: the folder of relative names.
            name: decoded.

        Returns:
            The path.
        """
        if name.startswith(b"/"):
            return normalised(self.root.get(process, b"") + name)
        if not base or not name or not base.startswith(b"/"):
            return b""
        return normalised(base + b"/" + name)

    def flags_of(self, text: bytes) -> frozenset[str]:
        """The flags in an argument's text."""
        known = self._flags.get(text)
        if known is None:
            known = self._flags[text] = _flag_names(text)
        return known


def _flag_names(text: bytes) -> frozenset[str]:
    return frozenset(_FLAG.findall(text.decode("ascii", "replace")))


def _rebuilt(
    call: bytes, at: bytes, folder: bytes, path: bytes, rest: bytes, resolved: bytes, error: bytes
) -> bytes:
    """A line that was taken apart, whole again."""
    start = b"%s<%s>, " % (at, folder) if at else b""
    result = b"-1 " + error if error else b"0<%s>" % resolved if resolved else b"0"
    return b'%s(%s"%s"%s) = %s' % (call, start, path, b", " + rest if rest else b"", result)
