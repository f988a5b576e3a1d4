"""The host path as one writes it first: `json.loads`, and one list entry for every line of a file.

Stops at the lists of `PlainTrace`: it neither validates nor pads, which the package's path does.
Knows the writes that the workload makes (`lines`, `hunks`, `whole`), no moves.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from benchmarks.plain_python import SURVIVES, PlainTrace

FILLER = -1
"""A line from before the rollout. Other entries: an owner, or `~owner - 1` for its gap."""


def plain_host_path(line: bytes) -> PlainTrace:
    """One line of a trace file to segments, reads and steps."""
    trace = json.loads(line)
    commands = [command for step in trace["steps"] for command in step["commands"]]
    files = _Files()
    for i, command in enumerate(commands):
        for write in command["writes"]:
            files.write(write, i)
    segments = files.finish()
    numbers = files.numbers
    return PlainTrace(
        owner=[segment[0] for segment, _ in segments],
        resource=[segment[1] for segment, _ in segments],
        killer=[segment[2] for segment, _ in segments],
        in_place=[segment[3] for segment, _ in segments],
        count=[count for _, count in segments],
        reads=[
            (numbers[resource], i)
            for i, command in enumerate(commands)
            for resource in dict.fromkeys(command["reads"])
            if resource in numbers
        ],
        stdout=[(j, i) for i, command in enumerate(commands) for j in set(command["stdout_from"])],
        inspected={numbers[resource] for resource in trace["verifier"] if resource in numbers},
        recorded=[command.get("recorded", True) for command in commands],
        step_sizes=[len(step["commands"]) for step in trace["steps"]],
        loss_tokens=[step["loss_tokens"] for step in trace["steps"]],
    )


_Fate = tuple[int, int, int, bool]
"""(owner, resource, killer, in place)"""


class _Files:
    """The lines of every file, top to bottom, and the records that are over."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.lines: list[list[int]] = []
        self.whole: list[int | None] = []
        self.records: Counter[_Fate] = Counter()

    def write(self, write: dict[str, Any], command: int) -> None:
        r = self.numbers.setdefault(write["resource"], len(self.numbers))
        if r == len(self.lines):
            self.lines.append([])
            self.whole.append(None)
        if "lines" in write:
            for first, last in write["lines"]:
                self._write_lines(r, first, last, command)
        elif "hunks" in write:
            for hunk in reversed(write["hunks"]):
                self._apply_hunk(r, hunk, command)
        else:
            self._kill_all(r, command, in_place=True)
            self.whole[r] = command

    def finish(self) -> list[tuple[_Fate, int]]:
        """Segments in ascending order of owner."""
        for r in range(len(self.lines)):
            self._kill_all(r, SURVIVES, in_place=False)
        return sorted(self.records.items())

    def _write_lines(self, r: int, first: int, last: int, command: int) -> None:
        lines = self.lines[r]
        at = _place(lines, first)
        for _ in range(first, last + 1):
            while at < len(lines) and lines[at] < FILLER:
                at += 1
            if at == len(lines):
                lines.append(FILLER)
            self._kill(r, lines[at : at + 1], command, in_place=True)
            lines[at] = command
            at += 1

    def _apply_hunk(self, r: int, hunk: list[int], command: int) -> None:
        old_start, old_count, _, new_count = hunk
        lines = self.lines[r]
        if old_count:
            first = _place(lines, old_start)
            end = _place(lines, old_start + old_count - 1) + 1
        else:
            first = _place(lines, old_start) + 1 if old_start else 0
            while first < len(lines) and lines[first] < FILLER:
                first += 1
            end = first
        self._kill(r, lines[first:end], command, in_place=True)
        lines[first:end] = [command] * new_count or [~command - 1]

    def _kill_all(self, r: int, command: int, *, in_place: bool) -> None:
        owner = self.whole[r]
        gone = self.lines[r] if owner is None else [owner, *self.lines[r]]
        self._kill(r, gone, command, in_place=in_place)
        self.lines[r], self.whole[r] = [], None

    def _kill(self, r: int, gone: list[int], command: int, *, in_place: bool) -> None:
        for entry in gone:
            if entry != FILLER:
                owner = entry if entry >= 0 else ~(entry + 1)
                self.records[owner, r, command, in_place] += 1


def _place(lines: list[int], number: int) -> int:
    """Where the line of this number, from 1, stands among lines and gaps."""
    seen = 0
    for at, entry in enumerate(lines):
        seen += entry >= FILLER
        if seen == number:
            return at
    lines += [FILLER] * (number - seen)
    return len(lines) - 1
