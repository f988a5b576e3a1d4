"""From what processes did to what commands read and wrote.

Which files a command touched, the event stream says; what changed in them, a comparison of their
contents says. So a program that opens a file for writing and leaves it as it was wrote nothing.

Between the end of a command and the next one's beginning, and in the background of later ones, its
processes may go on: what they do belongs to the command that started them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from depgpo_jax.tracer.content import resource_name, resource_path
from depgpo_jax.tracer.file_watch import Change, FileWatch
from depgpo_jax.tracer.noise import is_noise
from depgpo_jax.tracer.processes import Processes
from depgpo_jax.tracer.record import Draft
from depgpo_jax.tracer.shell import DIED
from depgpo_jax.tracer.strace_log import Parser
from depgpo_jax.tracer.tree import Entry

if TYPE_CHECKING:
    from depgpo_jax.tracer.events import Event
    from depgpo_jax.tracer.processes import Process
    from depgpo_jax.tracer.tree import Identity

_WRITING = frozenset({"O_WRONLY", "O_RDWR"})
_NO_CONTENT = frozenset({"O_WRONLY", "O_DIRECTORY", "O_PATH"})
_DEADLY = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGABRT"})


class Recorder:
    """Collects the records of one rollout.

    Args:
        root: the folder that is `/` for the commands, such as /proc/PID/root.
        watched: folders below it that commands may change.
        marks: the path under which marks lie, see `shell`.
        identify: as in `group_names`.
    """

    def __init__(
        self,
        root: bytes,
        watched: Sequence[bytes],
        marks: str,
        identify: Callable[[bytes], Identity] | None = None,
    ) -> None:
        self._root = root.rstrip(b"/")
        self._workplaces = tuple(folder.rstrip(b"/") + b"/" for folder in watched)
        self._marks = marks.encode() + b"/"
        self._parser = Parser()
        self._processes = Processes()
        self._watch = FileWatch(root, watched, identify)
        self._drafts: dict[int, Draft] = {}
        self._written: set[str] = set()
        self._writers: dict[str, int] = {}  # file -> the command that changed it last
        self._ports: dict[str, int] = {}  # port -> the host's pid of the process that listens
        self._lasting: dict[int, Process] = {}  # by host pid: those that outlived their command
        self._active: set[int] = set()  # commands with processes at the last comparison
        self._folders: dict[bytes, bool] = {}
        self.ended = -1
        """The last command whose end was seen."""
        self.deaths = 0
        """How many shells were seen to end."""

    def feed(self, chunk: bytes) -> None:
        """Takes in what the tracer wrote since the last time."""
        for event in self._parser.feed(chunk):
            if event.call == "open" and event.path.startswith(self._marks):
                self._mark(event)
                continue
            self._processes.update(event)
            number = self._processes.command_of(event.pid)
            if number is not None:
                self._note(event, self._draft(number))

    def settle(self) -> None:
        """Before a command: what the background did until now is told apart from what it does."""
        if self._running():
            self._compare()

    def finish(self, number: int) -> Draft:
        """The record of a command that has just ended, as far as it is known now."""
        draft = self._draft(number)
        self._compare()
        draft.background = bool(self._processes.still_running(number))
        return draft

    def drafts(self) -> list[Draft]:
        """Every command's record, with what came late, and without what everything reads."""
        self._compare()
        self._note_lasting()
        return [self._finished(draft) for _, draft in sorted(self._drafts.items())]

    def undecided(self) -> bool:
        """Whether a process was sent a deadly signal and has not been seen to die."""
        killed = (process for draft in self._drafts.values() for process, _ in draft.killed)
        return any(not process.status for process in killed)

    def pids(self) -> list[int]:
        """The host's pids of all processes that were not seen to end."""
        return list(self._processes.alive)

    def _finished(self, draft: Draft) -> Draft:
        done = replace(draft, reads={}, writes=dict(draft.writes))
        for name in draft.reads:
            if name in self._written or not self._is_noise(name):
                done.reads[name] = None
        for process, ports in draft.killed:
            if process.status:
                for name in (_process_name(process), *ports):
                    if name not in done.writes:
                        done.write_whole(name, deleted=True)
        for process in draft.lasting:
            # By now it runs what it was started for, not the shell that started it.
            done.write_whole(_process_name(process))
        return done

    def _draft(self, number: int) -> Draft:
        draft = self._drafts.get(number)
        if draft is None:
            draft = self._drafts[number] = Draft(number)
        return draft

    def _mark(self, event: Event) -> None:
        number, _, place = event.path.removeprefix(self._marks).partition(b"/")
        if number == DIED.encode():
            self.deaths += 1
        elif number.isdigit() and place == b"begin" and int(number) > self.ended:
            self._note_lasting()
            self._processes.begin(int(number), event.pid)
            self._draft(int(number))
        elif number.isdigit() and place == b"end" and event.pid == self._processes.shell:
            self.ended = max(self.ended, int(number))

    def _running(self) -> set[int]:
        processes = self._processes
        alive = (process for process in processes.alive.values() if process.pid != processes.shell)
        return {process.command for process in alive if process.command is not None}

    def _note_lasting(self) -> None:
        """Those that are still there when the next command begins outlived their own."""
        for number in self._running():
            for process in self._processes.still_running(number):
                if process.pid not in self._lasting:
                    self._lasting[process.pid] = process
                    self._draft(number).lasting.append(process)

    # Events.

    def _note(self, event: Event, draft: Draft) -> None:
        if event.call == "rename" and event.error == "EXDEV":
            source, target = self._renamed(event)
            self._watch.move_refused(source, target, draft.number)
        if event.result < 0 and event.error not in ("?", "EINPROGRESS"):
            return
        handler = getattr(self, f"_on_{event.call}", None)
        if handler is not None:
            handler(event, draft)

    def _on_open(self, event: Event, draft: Draft) -> None:
        path, flags, tree = event.path, event.flags, self._watch.tree
        if "DELETED" in flags:
            return
        writing = bool(flags & _WRITING) or "O_CREAT" in flags
        main = self._watch.database_of(path)
        if writing and self._watch.is_watched(path):
            entry = tree.get(path)
            if entry is None:
                entry = Entry("file", maker=draft.number)
                tree.put(path, entry)
            elif "O_TRUNC" in flags:
                entry.maker = draft.number
            # A background process's call may be told only after the file was compared.
            draft.untraced.pop(resource_name(path), None)
            self._watch.opened(entry, event.pid, draft.number)
            self._watch.touch(path, draft.number)
            if main is not None:
                self._watch.touch(main, draft.number)
        elif writing and flags & {"O_TRUNC", "O_EXCL"}:
            draft.made.add(path)
        if not flags & _NO_CONTENT:
            self._read(path if main is None else main, draft)

    def _on_exec(self, event: Event, draft: Draft) -> None:
        path = self._watch.tree.resolve(event.path)
        self._read(path, draft)
        meta = "meta:" + resource_name(path)
        if meta in self._written and meta not in draft.writes:
            draft.reads.setdefault(meta)

    def _renamed(self, event: Event) -> tuple[bytes, bytes]:
        tree = self._watch.tree
        return tree.resolve(event.path, last=False), tree.resolve(event.path2, last=False)

    def _on_rename(self, event: Event, draft: Draft) -> None:
        tree = self._watch.tree
        source, target = self._renamed(event)
        if source == target or (tree.get(source) and tree.get(source) is tree.get(target)):
            return  # two names of one file: the kernel leaves both
        exchange = "RENAME_EXCHANGE" in event.flags
        for old, new, entry in tree.rename(source, target, draft.number, exchange=exchange):
            is_folder = entry.kind == "directory"
            if entry.origin is not None:
                self._read(new, draft)
            elif entry.maker != draft.number and old not in draft.made and not is_folder:
                draft.reads.setdefault(resource_name(old))  # it came from elsewhere
            self._watch.touch(old, draft.number)
            self._watch.touch(new, draft.number)

    def _on_link(self, event: Event, draft: Draft) -> None:
        tree = self._watch.tree
        source, target = self._renamed(event)
        self._read(source, draft)
        tree.put(target, tree.get(source) or Entry("file", maker=draft.number))
        self._watch.touch(target, draft.number)

    def _on_symlink(self, event: Event, draft: Draft) -> None:
        target = event.detail.encode("utf-8", "surrogateescape")
        self._put(event.path2, Entry("symlink", maker=draft.number, target=target), draft)

    def _on_unlink(self, event: Event, draft: Draft) -> None:
        path = self._watch.tree.resolve(event.path, last=False)
        self._watch.tree.remove(path)
        self._watch.touch(path, draft.number)
        draft.made.discard(path)

    def _on_mkdir(self, event: Event, draft: Draft) -> None:
        self._put(event.path, Entry("directory", maker=draft.number), draft)

    def _on_mknod(self, event: Event, draft: Draft) -> None:
        self._put(event.path, Entry("device", maker=draft.number), draft)

    def _on_truncate(self, event: Event, draft: Draft) -> None:
        path = self._watch.tree.resolve(event.path)
        self._watch.touch(self._watch.database_of(path) or path, draft.number)

    def _on_meta(self, event: Event, draft: Draft) -> None:
        for last in (True, False):  # of the link itself, or of what it points to
            path = self._watch.tree.resolve(event.path, last=last)
            self._watch.touch_meta(path, draft.number)

    def _on_listen(self, event: Event, draft: Draft) -> None:
        self._open_port(event, draft)

    def _on_bind(self, event: Event, draft: Draft) -> None:
        if event.detail.startswith("udp:"):
            self._open_port(event, draft)

    def _on_connect(self, event: Event, draft: Draft) -> None:
        port = self._port(event)
        if port and port not in draft.writes:
            draft.reads.setdefault(port)

    def _on_kill(self, event: Event, draft: Draft) -> None:
        if not event.flags & _DEADLY:
            return
        for process in self._processes.targets(event):
            if process.pid in self._lasting and process.command != draft.number:
                ports = [port for port, pid in self._ports.items() if pid == process.pid]
                draft.killed.append((process, ports))

    def _open_port(self, event: Event, draft: Draft) -> None:
        port = self._port(event)
        if port:
            self._ports[port] = event.pid
            self._written.add(port)
            draft.write_whole(port)

    def _port(self, event: Event) -> str:
        """The resource of a socket; empty where it is none."""
        if event.detail == "unix":
            path = self._watch.tree.resolve(event.path) if event.path.startswith(b"/") else b""
            return "unix:" + resource_name(path) if path else ""
        kind, _, port = event.detail.partition(":")
        return event.detail if kind in ("tcp", "udp") and port not in ("", "0") else ""

    # Files.

    def _on_guess(self, event: Event, draft: Draft) -> None:
        others = {self._processes.command_of(int(pid)) for pid in event.detail.split(",")}
        numbers = {number for number in (*others, draft.number) if number is not None}
        for number in numbers:
            self._draft(number).rivals |= numbers - {number}

    def _put(self, path: bytes, entry: Entry, draft: Draft) -> None:
        path = self._watch.tree.resolve(path, last=False)
        if self._watch.is_watched(path):
            self._watch.tree.put(path, entry)
            self._watch.touch(path, draft.number)
        else:
            draft.made.add(path)

    def _read(self, path: bytes, draft: Draft) -> None:
        entry = self._watch.tree.get(path)
        if path in draft.made or self._is_folder(path, entry):
            return
        if entry is not None:
            if entry.maker == draft.number:
                return
            if entry.origin is not None and entry.mover in (None, draft.number):
                path = entry.origin
        if path not in draft.made:
            draft.reads.setdefault(resource_name(path))

    def _is_folder(self, path: bytes, entry: Entry | None) -> bool:
        if entry is not None and entry.kind != "unknown":
            return entry.kind == "directory"
        if self._watch.is_watched(path):
            return Path(os.fsdecode(self._root + path)).is_dir()
        known = self._folders.get(path)
        if known is None:
            known = self._folders[path] = Path(os.fsdecode(self._root + path)).is_dir()
        return known

    def _compare(self) -> None:
        current, running = self._processes.command, self._running()
        active, self._active = self._active | running, running
        changes, meta = self._watch.compare()
        for change in changes:
            numbers = change.numbers or self._holding(change, active)
            if numbers:
                self._change(change, numbers)
            elif current is not None and self._change(change, [current]):
                self._draft(current).untraced.setdefault(change.resource)
        for resource, number in meta:
            by = current if number is None else number
            if by is not None:
                self._written.add(resource)
                self._draft(by).write_whole(resource)
                if number is None:
                    self._draft(by).untraced.setdefault(resource)
        self._watch.forget_holders(
            lambda pid, number: number not in running and pid != self._processes.shell
        )
        for number, draft in self._drafts.items():
            if number not in running and number != current:
                draft.before.clear()

    def _holding(self, change: Change, active: set[int]) -> list[int]:
        """The commands that may have written through a file that they had opened earlier."""
        current = self._processes.command
        shell = self._processes.shell
        numbers = [n for pid, n in change.holders.items() if pid != shell and n in active]
        if shell in change.holders and current is not None:
            numbers.append(current)  # a descriptor that the shell keeps
        return list(dict.fromkeys(numbers))

    def _change(self, change: Change, numbers: list[int]) -> bool:
        """Enters a change in the records; whether there was anything to enter."""
        draft, name = self._draft(numbers[-1]), change.resource
        gone = change.after is None
        earlier = draft.writes.get(name)
        if change.moved_from and not gone:
            draft.write_whole(name, moved_from=change.moved_from)
            recorded = True
        elif change.rewritten:
            draft.write_whole(name)
            recorded = True
        elif earlier is not None and earlier.moved_from and not gone:
            return True
        elif earlier is not None and self._writers.get(name) != draft.number:
            # Somebody else wrote in between: lines of both can no longer be told apart.
            draft.write_whole(name, deleted=gone)
            recorded = True
        else:
            recorded = draft.write_change(name, change.before, change.after)
        if not recorded:
            return False
        if change.before is None and not change.moved_from:
            draft.made.add(resource_path(name))
        for number in numbers[:-1]:
            # Several had a hand in it at one time: each is owed all, and builds on the other.
            self._draft(number).write_whole(name)
            draft.write_whole(name, deleted=gone)
            draft.reads.setdefault(name)
        self._written.add(name)
        self._writers[name] = draft.number
        return True

    def _is_noise(self, resource: str) -> bool:
        return resource.startswith("/") and is_noise(resource_path(resource), self._workplaces)


def _process_name(process: Process) -> str:
    return "process:" + resource_name(process.name or b"unknown")
