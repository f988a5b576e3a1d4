"""Which command each process belongs to, and who still lives.

A process belongs to the command of its parent at the time of the fork, for as long as it lives:
what a background process does after its command ended is still that command's doing. Only the shell
itself moves on from command to command.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass

from depgpo_jax.tracer.events import Event

# Ended processes that stay known by name, oldest forgotten first.
MOST_ENDED = 4096


@dataclass(slots=True)
class Process:
    """One process.

    Args:
        pid: the host's pid.
        parent: its parent's, 0 if it has none here.
        command: the number of the command it belongs to; None: none (the sandbox's own processes).
        name: the last part of the path of the program it runs last; before any exec its parent's.
        group: the host's pid of its process group's leader, 0 if it was never said.
        status: '' while it lives, then its exit status or the signal that killed it.
    """

    pid: int
    parent: int
    command: int | None
    name: bytes
    group: int
    status: str = ""


class Processes:
    """The tree of processes, fed with the events of one log."""

    def __init__(self) -> None:
        self.alive: dict[int, Process] = {}
        self.ended: dict[int, Process] = {}
        self.shell: int | None = None
        self.command: int | None = None

    def begin(self, command: int | None, shell: int) -> None:
        """Says which command runs now.

        Args:
            command: its number, None between commands.
            shell: the host's pid of the process that runs the commands.
        """
        self.command, self.shell = command, shell
        self._process(shell).command = command

    def update(self, event: Event) -> None:
        """Follows one event; to be called before `command_of` is asked about that event."""
        call = event.call
        if call == "fork":
            # A parent that was killed inside its clone is gone before its child is seen.
            parent = self.get(event.pid) or self._process(event.pid)
            child = Process(event.result, event.pid, parent.command, parent.name, parent.group)
            self.alive[event.result] = child
            self.ended.pop(event.result, None)
        elif call == "exec":
            if event.result == 0:
                self._process(event.pid).name = posixpath.basename(event.path)
        elif call == "exit":
            self._exit(event)
        elif call == "group":
            member, _, group = event.detail.partition(":")
            if int(member) in self.alive:
                self.alive[int(member)].group = int(group)

    def update_all(self, events: Iterable[Event]) -> None:
        """Follows events, in their order."""
        for event in events:
            if event.call in ("fork", "exec", "exit", "group"):
                self.update(event)

    def command_of(self, pid: int) -> int | None:
        """The number of the command that a process, alive or ended, belongs to; None: none."""
        process = self.get(pid)
        return process.command if process else None

    def get(self, pid: int) -> Process | None:
        """A process by the host's pid, alive or among the last that ended."""
        return self.alive.get(pid) or self.ended.get(pid)

    def still_running(self, command: int) -> list[Process]:
        """The live processes of a command, without the shell, oldest first."""
        return [
            process
            for process in self.alive.values()
            if process.command == command and process.pid != self.shell
        ]

    def targets(self, event: Event) -> list[Process]:
        """The processes that a `kill` event meant, as far as they are known; alive or just ended.

        Args:
            event: a `kill` event.

        Returns:
            The processes. `kill(-1)` means all but the sender and those without a command.
        """
        detail = event.detail
        if detail == "all":
            others = [process for process in self.alive.values() if process.pid != event.pid]
            return [process for process in others if process.command is not None]
        if detail.startswith("group:"):
            name = detail.removeprefix("group:")
            own = self.get(event.pid)
            group = (own.group if own else 0) if name == "own" else _number(name)
            # A member may have died before the line of the kill that it died of was complete.
            known = [*self.alive.values(), *self.ended.values()]
            return [
                process
                for process in known
                if group and process.group == group and process.status in ("", *event.flags)
            ]
        process = self.get(_number(detail))
        return [process] if process else []

    def _process(self, pid: int) -> Process:
        if pid not in self.alive:
            self.alive[pid] = Process(pid, 0, None, b"", 0)
        return self.alive[pid]

    def _exit(self, event: Event) -> None:
        process = self.alive.pop(event.pid, None)
        if process is None:
            return
        process.status = event.detail
        self.ended.pop(event.pid, None)
        self.ended[event.pid] = process
        if len(self.ended) > MOST_ENDED:
            del self.ended[next(iter(self.ended))]


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
