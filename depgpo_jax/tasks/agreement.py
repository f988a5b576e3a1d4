"""How far a replay agrees with its recording: outputs, exit codes, reward.

Outputs are compared in this order, and the first that holds is the answer:

===========  ===================================================================================
`exact`      they are equal
`spaces`     they are, but for white space at the ends of lines, and blank lines at both ends
`cut`        the recording says that something is left out of it: what stands before its first such
             note begins the replay's output, and what stands behind the last one ends it
`numbers`    they are equal once every number is taken for the same: times, sizes, process ids (or
             another result); no agreement, but no divergence either
`differs`    none of these
===========  ===================================================================================
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final, Literal, NamedTuple

from msgspec import UNSET

from depgpo_jax.errors import printable
from depgpo_jax.traces import Command
from depgpo_jax.trajectories.structs import RecordedCommand

OutputMatch = Literal["exact", "spaces", "cut", "numbers", "differs"]
MATCHES: Final[tuple[OutputMatch, ...]] = ("exact", "spaces", "cut", "numbers", "differs")

_NUMBER: Final = re.compile(r"\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|\d+")
_WORD: Final = r"\b(?:truncated|omitted|elided|clipped|left out)\b"
# [... 9 lines truncated ...] inside a line, or a line such as <response clipped>. Of bounded
# length, since an output is as long, and as odd, as a program makes it.
_LEFT_OUT: Final = re.compile(
    rf"\n?(?:\[\.\.\.[^\]\n]{{0,200}}?{_WORD}[^\]\n]{{0,200}}\]"
    rf"|^(?:\.\.\.|…|<|\[|\()[^\n]{{0,200}}?{_WORD}[^\n]{{0,200}}$)\n?",
    re.MULTILINE | re.IGNORECASE,
)
_SHOWN: Final = 200
_REWARD_TOLERANCE: Final = 1e-6
_EQUAL: Final = {True: "equal", False: "differs", None: "not recorded"}


def compare_output(recorded: str, replayed: str) -> OutputMatch:
    """How far two outputs agree; see the module."""
    if recorded == replayed:
        return "exact"
    one, other = _plain(recorded), _plain(replayed)
    if one == other:
        return "spaces"
    if _is_cut_of(recorded, other):
        return "cut"
    if _NUMBER.sub("0", one) == _NUMBER.sub("0", other):
        return "numbers"
    return "differs"


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


def _is_cut_of(recorded: str, replayed: str) -> bool:
    parts = _LEFT_OUT.split(recorded)
    head, tail = _plain(parts[0]), _plain(parts[-1]).lstrip()
    return (
        len(parts) > 1
        and 0 < len(head) + len(tail) <= len(replayed)
        and replayed.startswith(head)
        and replayed.endswith(tail)
    )


class Difference(NamedTuple):
    """The first line, from 1, in which two outputs differ; None: one of them ends before it."""

    line: int
    recorded: str | None
    replayed: str | None


def first_difference(recorded: str, replayed: str) -> Difference:
    """Where two outputs differ that are not equal, and not but for white space either.

    Blank lines at their beginning do not count.
    """
    lines = [_plain(text).split("\n") for text in (recorded, replayed)]
    pairs = enumerate(zip_longest(*lines), 1)
    number, pair = next((number, pair) for number, pair in pairs if pair[0] != pair[1])
    return Difference(number, *(None if line is None else printable(line, _SHOWN) for line in pair))


@dataclass(frozen=True)
class CommandAgreement:
    """One command.

    Attributes:
        number: in the trace.
        output: None: not recorded.
        difference: where it differs; None unless it does, or does in numbers.
        exit_codes: the recorded one and the replay's; None: not recorded.
    """

    number: int
    output: OutputMatch | None
    difference: Difference | None
    exit_codes: tuple[int | None, int | None] | None

    @property
    def diverged(self) -> bool:
        """Whether it did something else than the recording says."""
        return self.output == "differs" or self.exit_code_agrees is False

    @property
    def exit_code_agrees(self) -> bool | None:
        """None: it is not recorded."""
        return None if self.exit_codes is None else self.exit_codes[0] == self.exit_codes[1]

    def as_extra(self) -> dict[str, Any]:
        """For the command's `extra`; empty where nothing is recorded."""
        extra: dict[str, Any] = {}
        if self.output is not None:
            extra["output"] = self.output
        if self.difference is not None:
            extra["first_difference"] = self.difference._asdict()
        if self.exit_codes is not None:
            extra["exit_code"] = "equal" if self.exit_code_agrees else "differs"
            if not self.exit_code_agrees:
                extra["recorded_exit_code"] = self.exit_codes[0]
        return {**extra, "diverged": self.diverged} if extra else {}


def compare_command(number: int, recorded: RecordedCommand, replayed: Command) -> CommandAgreement:
    """How far a command agrees with its recording."""
    output, difference = None, None
    if recorded.output is not None:
        stdout = "" if replayed.stdout is UNSET else replayed.stdout
        output = compare_output(recorded.output, stdout)
        if output in ("numbers", "differs"):
            difference = first_difference(recorded.output, stdout)
    codes = None
    if recorded.exit_code is not UNSET:
        now = None if replayed.exit_code is UNSET else replayed.exit_code
        codes = (recorded.exit_code, now)
    return CommandAgreement(number, output, difference, codes)


class Verdict(NamedTuple):
    """What is to be told of a replay among many.

    Attributes:
        diverged: what did, in words; empty where nothing did.
        reward: `equal`, `differs` or `not recorded`.
        outputs: how many outputs agree how far.
        exit_codes: the same of exit codes.
    """

    diverged: str
    reward: str
    outputs: dict[str, int]
    exit_codes: dict[str, int]


@dataclass(frozen=True)
class Agreement:
    """A whole replay.

    Attributes:
        commands: those that ran, in order.
        recorded_reward: None: not recorded.
        reward: the replay's; None: it has none.
        stopped: why it ended early; None: it did not.
        left: how many recorded commands did not run then.
        not_run: what the recording submitted and did not run, and neither does the replay.
    """

    commands: Sequence[CommandAgreement]
    recorded_reward: float | None
    reward: float | None
    stopped: str | None = None
    left: int = 0
    not_run: Sequence[str] = field(default=())

    @property
    def reward_agrees(self) -> bool | None:
        """None: it is not recorded."""
        if self.recorded_reward is None:
            return None
        return self.reward is not None and math.isclose(
            self.reward, self.recorded_reward, rel_tol=_REWARD_TOLERANCE, abs_tol=_REWARD_TOLERANCE
        )

    @property
    def diverged(self) -> bool:
        """Whether this is another run than the recorded one."""
        other_end = self.stopped is not None or self.reward_agrees is False
        return other_end or any(command.diverged for command in self.commands)

    @property
    def outputs(self) -> dict[str, int]:
        """How many outputs agree how far; those that were not recorded are `not recorded`."""
        found = Counter(command.output or "not recorded" for command in self.commands)
        return {name: found[name] for name in (*MATCHES, "not recorded") if found[name]}

    @property
    def exit_codes(self) -> dict[str, int]:
        """The same of exit codes: `equal`, `differs`, `not recorded`."""
        found = Counter(_EQUAL[command.exit_code_agrees] for command in self.commands)
        return {name: found[name] for name in _EQUAL.values() if found[name]}

    @property
    def verdict(self) -> Verdict:
        """The same in short."""
        reward = _EQUAL[self.reward_agrees]
        return Verdict(self.sentence(), reward, self.outputs, self.exit_codes)

    def as_extra(self) -> dict[str, Any]:
        """For the trace's `extra`."""
        extra: dict[str, Any] = {
            "diverged": self.diverged,
            "outputs": self.outputs,
            "exit_codes": self.exit_codes,
            "reward": _EQUAL[self.reward_agrees],
        }
        if self.recorded_reward is not None:
            extra["recorded_reward"] = self.recorded_reward
        if self.stopped is not None:
            extra |= {"stopped": self.stopped, "commands_left": self.left}
        if self.not_run:
            extra["not_run"] = list(self.not_run)
        return extra

    def sentence(self) -> str:
        """What diverged, in words; empty where nothing did."""
        parts: list[str] = []
        if self.reward_agrees is False:
            now = "none" if self.reward is None else f"{self.reward:g}"
            parts.append(f"reward {now} instead of {self.recorded_reward:g}")
        if self.stopped is not None:
            parts.append(f"it ended early with {self.left} commands left ({self.stopped})")
        different = [command for command in self.commands if command.diverged]
        if different:
            first = different[0]
            parts.append(
                f"{len(different)} of {len(self.commands)} commands differ, first of all "
                f"{first.number}{_how(first)}"
            )
        return "; ".join(parts)


def _how(command: CommandAgreement) -> str:
    parts: list[str] = []
    if command.exit_codes is not None and not command.exit_code_agrees:
        recorded, now = ("none" if code is None else code for code in command.exit_codes)
        parts.append(f"exit code {now} instead of {recorded}")
    if command.output == "differs" and command.difference is not None:
        line, recorded, now = command.difference
        recorded, now = ("the end" if text is None else repr(text[:60]) for text in (recorded, now))
        parts.append(f"output line {line}: {now} instead of {recorded}")
    return f" ({', '.join(parts)})"
