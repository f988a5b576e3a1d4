"""The file world in plain Python, written from docs/file-world.md: dicts, lists and ifs.

It shares no code with `training.environments`, not even its numbers: verbs and tokens are written
out again. The world on the device is tested against it, command by command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

VERBS = (
    "noop",
    "read",
    "copy",
    "put2",
    "op1",
    "op2",
    "op3",
    "paste",
    "const",
    "delete",
    "submit",
)
FAMILIES = ("chain", "join", "printed", "pointer", "report")
FORMULAS = {"op1": lambda v: (v + 1) % 8, "op2": lambda v: 7 - v, "op3": lambda v: 3 * v % 8}
VOCABULARY = [
    "nothing",
    *FAMILIES,
    *range(8),
    *VERBS,
    "start",
    "done",
    "invalid",
]


@dataclass
class SlowTask:
    """What is asked, as far as it decides about validity, reuse and reward."""

    family: str
    a: int
    z: int
    prompt_names: set[int]
    target: list[int]


@dataclass
class SlowWorld:
    """One rollout; `do` takes a command and returns what the policy is shown after it."""

    task: SlowTask
    files: dict[int, list[int]]
    submit_allowed: bool
    max_commands: int
    commands: list[dict[str, Any]] = field(default_factory=list)
    marked: set[int] = field(default_factory=set)
    printed: list[int] | None = None
    printer: int = -1
    printers: dict[int, int] = field(default_factory=dict)
    states: list[tuple[Any, ...]] = field(default_factory=list)
    over: bool = False
    reward: float = 0.0

    def do(self, verb: str, source: int, target: int) -> list[Any]:
        """One command: its words, its status, and two places for printed lines."""
        assert not self.over
        self.states.append(self._state())
        command = {"reads": [], "writes": [], "stdout_from": []}
        number = len(self.commands)
        ok = self._valid(verb, source, target)
        shown: list[Any] = []
        if ok:
            self._reuse(command, verb, source)
            if verb in ("read", "copy", "put2", *FORMULAS):
                command["reads"].append(source)
            if verb == "read":
                shown = list(self.files[source])
                self.printed, self.printer = shown, number
                self.printers |= dict.fromkeys(shown, number)
            elif verb not in ("noop", "submit"):
                self._write(command, verb, source, target)
        submitted = ok and verb == "submit"
        self.commands.append({"step_without_commands": submitted, **command})
        self.over = submitted or len(self.commands) == self.max_commands
        if self.over:
            self.reward = float(self.files.get(self.task.z, []) == self.task.target)
        words = [verb, source if verb in WITH_SOURCE else None, None]
        if verb in WITH_TARGET:
            words[2] = target
        return [*words, "done" if ok else "invalid", *shown, *[None] * (2 - len(shown))]

    def _valid(self, verb: str, source: int, target: int) -> bool:
        source_lines, target_lines = self.files.get(source, []), self.files.get(target, [])
        if verb == "submit":
            return self.submit_allowed
        if verb == "paste":
            return self.printed is not None
        if self.task.family == "report" and target == self.task.z and verb in WITH_TARGET:
            return False
        if verb in ("copy", "put2", *FORMULAS):
            if self.task.family == "printed" and source == self.task.a:
                return False
            if verb in ("copy", "put2") and source == target:
                return False
        if verb in ("read", "copy", "put2", *FORMULAS) and not source_lines:
            return False
        return not (verb in ("put2", "delete") and not target_lines)

    def _reuse(self, command: dict[str, Any], verb: str, source: int) -> None:
        if verb == "paste":
            command["stdout_from"].append(self.printer)
        elif verb in WITH_SOURCE and source not in self.task.prompt_names:
            command["stdout_from"] += [self.printers[source]] if source in self.printers else []

    def _write(self, command: dict[str, Any], verb: str, source: int, target: int) -> None:
        old = self.files.get(target, [])
        if verb == "put2":
            self.files[target] = [old[0], self.files[source][0]]
            command["writes"].append((target, "lines", [2]))
            return
        if verb == "copy":
            new = list(self.files[source])
        elif verb in FORMULAS:
            new = [FORMULAS[verb](value) for value in self.files[source]]
        elif verb == "paste":
            assert self.printed is not None
            new = list(self.printed)
        else:
            new = [source] if verb == "const" else []
        if len(new) < len(old) or target in self.marked:
            command["writes"].append((target, "whole", verb == "delete"))
            self.marked.add(target)
        else:
            command["writes"].append((target, "lines", list(range(1, len(new) + 1))))
        self.files[target] = new

    def _state(self) -> tuple[Any, ...]:
        files = tuple(sorted((name, tuple(lines)) for name, lines in self.files.items() if lines))
        return files, tuple(self.printed or ())


WITH_SOURCE = ("read", "copy", "put2", "op1", "op2", "op3", "const")
WITH_TARGET = ("copy", "put2", "op1", "op2", "op3", "paste", "const", "delete")


def loss_tokens(verb: str) -> int:
    if verb in ("noop", "submit"):
        return 1
    return 2 if verb in ("read", "paste", "delete") else 3


def wanted(
    family: str, a: Sequence[int], b: Sequence[int] | None, f: str, g: str | None
) -> list[int]:
    """What z must become, by family; b as lines too."""
    of_a = [FORMULAS[f](value) for value in a]
    if family == "chain":
        assert g is not None
        return [FORMULAS[g](value) for value in of_a]
    if family == "join":
        assert g is not None
        assert b is not None
        return [of_a[0], FORMULAS[g](b[0])]
    if family == "pointer":
        assert b is not None
        return [FORMULAS[f](value) for value in b]
    return of_a


def tokens_of(words: Sequence[Any]) -> list[int]:
    """Words, names and Nones in the vocabulary."""
    return [0 if word is None else VOCABULARY.index(word) for word in words]
