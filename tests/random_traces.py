"""Seeded random traces that are valid and dense in corner cases, for tests against the oracle.

Few resources and few lines, so that commands meet often: gaps stacked in one place, swaps, a source
that is written again after it moved away, reads before own writes, printed values that travel on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

FILES = (
    "/app/a.txt",
    "/app/b.txt",
    "/c",
    "/app/ü n\U0001f600.csv",
    "/app/back\\\\slash\\xff",
    "/f",
)
OTHERS = ("tcp:8080", "udp:53", "unix:/run/app.sock", "process:server", "meta:/app/a.txt")
# Never written by any command.
OUTSIDE = ("/etc/hosts", "/app", "tcp:1")

# Where bit rows gain a word, and what the longest traces cross.
WORD_EDGES = (31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 140)


@dataclass(frozen=True, slots=True)
class Profile:
    """How one trace behaves; drawn once a trace, so that traces differ in kind."""

    files: tuple[str, ...]
    others: tuple[str, ...]
    lines: int
    bulk: bool
    read: float
    write: float
    stdout: float
    stdout_reach: int
    whole: float
    move: float
    unrecorded: float
    commands_per_step: int


def random_trace(
    rng: random.Random,
    *,
    max_commands: int = 140,
    num_commands: int | None = None,
    trace_id: str = "random",
) -> dict[str, Any]:
    """One valid trace as decoded JSON; `num_commands` None draws a length up to `max_commands`."""
    length = _length(rng, max_commands) if num_commands is None else num_commands
    profile = _profile(rng)
    commands = [_command(rng, profile, i) for i in range(length)]
    trace: dict[str, Any] = {
        "version": 1,
        "trace_id": trace_id,
        "verifier": _verifier(rng, profile),
        "steps": _steps(rng, profile, commands),
    }
    if rng.random() < 0.8:
        trace["group_id"] = f"group {rng.randrange(4)}"
    if rng.random() < 0.9:
        trace["reward"] = rng.choice([0.0, 1.0, 1.0, 0, -2.5, rng.random()])
    if rng.random() < 0.05:
        trace["invalid"] = "the verifier crashed"
    return trace


def random_traces(seed: int, count: int, *, max_commands: int = 140) -> Iterator[dict[str, Any]]:
    """`count` traces with distinct ids: most have up to 24 commands, some up to `max_commands`."""
    rng = random.Random(seed)
    for number in range(count):
        yield random_trace(rng, max_commands=max_commands, trace_id=f"random {seed}/{number}")


def _length(rng: random.Random, max_commands: int) -> int:
    kind = rng.random()
    if kind < 0.04:
        length = rng.randrange(3)
    elif kind < 0.8:
        length = rng.randint(1, 24)
    elif kind < 0.94:
        length = rng.randint(20, 70)
    else:
        length = rng.choice(WORD_EDGES)
    return min(length, max_commands)


def _profile(rng: random.Random) -> Profile:
    return Profile(
        files=tuple(rng.sample(FILES, rng.choice((1, 2, 2, 3, 3, 4, 6)))),
        others=tuple(rng.sample(OTHERS, rng.choice((0, 0, 0, 1, 2)))),
        lines=rng.choice((2, 4, 6, 10)),
        # Commands of hundreds of records: credits that differ in the third digit only.
        bulk=rng.random() < 0.04,
        read=rng.choice((0.1, 0.25, 0.5)),
        write=rng.choice((0.3, 0.6, 0.9)),
        stdout=rng.choice((0.0, 0.2, 0.5, 0.9)),
        # 1: chains as deep as the trace is long.
        stdout_reach=rng.choice((1, 3, 1000)),
        whole=rng.choice((0.05, 0.2, 0.6)),
        move=rng.choice((0.0, 0.3, 0.6)),
        unrecorded=rng.choice((0.0, 0.0, 0.1, 0.4)),
        commands_per_step=rng.choice((1, 1, 2, 4)),
    )


def _verifier(rng: random.Random, profile: Profile) -> list[str]:
    candidates = (*profile.files, *profile.others)
    verifier = rng.sample(candidates, min(len(candidates), rng.choice((0, 1, 1, 2, 2, 3))))
    if rng.random() < 0.2:
        verifier.append(rng.choice(OUTSIDE))
    if verifier and rng.random() < 0.2:
        verifier.append(verifier[0])
    return verifier


def _steps(
    rng: random.Random, profile: Profile, commands: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    no_tokens = rng.random() < 0.03
    rest = list(commands)
    while rest or rng.random() < 0.15:
        size = min(len(rest), rng.randint(1, profile.commands_per_step))
        if rng.random() < 0.1:
            size = 0
        tokens = 0 if no_tokens or rng.random() < 0.15 else rng.choice((1, 2, 7, 31, 400))
        steps.append({"loss_tokens": tokens, "commands": rest[:size]})
        rest = rest[size:]
    return steps


def _command(rng: random.Random, profile: Profile, i: int) -> dict[str, Any]:
    reads = [r for r in (*profile.files, *profile.others) if rng.random() < profile.read]
    if rng.random() < 0.05:
        reads.append(rng.choice(OUTSIDE))
    if reads and rng.random() < 0.05:
        reads.append(reads[0])
    writes = _writes(rng, profile) if rng.random() < profile.write else []
    sources: list[int] = []
    while i > 0 and rng.random() < profile.stdout and len(sources) < 3:
        sources.append(i - rng.randint(1, min(i, profile.stdout_reach)))
    fields = {"reads": reads, "writes": writes, "stdout_from": sources}
    # Absent and empty mean the same.
    command: dict[str, Any] = {
        name: value for name, value in fields.items() if value or rng.random() < 0.5
    }
    if rng.random() < profile.unrecorded:
        command["recorded"] = False
        command["unrecorded_reason"] = "left running"
    elif rng.random() < 0.1:
        command["recorded"] = True
    return command


def _writes(rng: random.Random, profile: Profile) -> list[dict[str, Any]]:
    candidates = [*profile.files, *profile.others]
    count = min(len(candidates), rng.choice((1, 1, 1, 2, 2, 3)))
    resources = rng.sample(candidates, count)
    writes = [_write(rng, profile, resource) for resource in resources]
    if rng.random() < profile.move:
        _add_moves(rng, profile, writes)
    return writes


def _write(rng: random.Random, profile: Profile, resource: str) -> dict[str, Any]:
    if resource in profile.others or rng.random() < profile.whole:
        write: dict[str, Any] = {"resource": resource, "whole": True}
        if rng.random() < 0.2:
            write["deleted"] = True
        return write
    if rng.random() < 0.5:
        return {"resource": resource, "lines": _line_ranges(rng, profile)}
    return {"resource": resource, "hunks": _hunks(rng, profile)}


def _line_ranges(rng: random.Random, profile: Profile) -> list[list[int]]:
    ranges: list[list[int]] = []
    first = rng.randint(1, profile.lines)
    for _ in range(rng.choice((1, 1, 2, 3))):
        last = first + (rng.randrange(300) if profile.bulk else rng.choice((0, 0, 1, 3)))
        ranges.append([first, last])
        first = last + rng.choice((1, 1, 2, 4))
    return ranges


def _hunks(rng: random.Random, profile: Profile) -> list[list[int]]:
    hunks: list[list[int]] = []
    above, shift = rng.randint(0, profile.lines - 1), 0
    for _ in range(rng.choice((1, 1, 2, 3))):
        old, new = rng.choice(
            ((0, 1), (0, 2), (1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (1, 3), (3, 3))
        )
        if profile.bulk and new:
            new = rng.randint(1, 300)
        old_start = above + (1 if old else 0)
        new_start = above + shift + (1 if new else 0)
        hunks.append([old_start, old, new_start, new])
        shift += new - old
        # At least one line between two hunks: touching ones would be one.
        above += old + rng.choice((1, 1, 2, 4))
    return hunks


def _add_moves(rng: random.Random, profile: Profile, writes: list[dict[str, Any]]) -> None:
    """Turns some writes of files into moves; sources may be written too, or be swapped."""
    files = [write for write in writes if write["resource"] in profile.files]
    written = [write["resource"] for write in files]
    if len(files) > 1 and rng.random() < 0.4:
        # Every written file takes the next one's content: a swap, or a longer turn.
        sources = written[1:] + written[:1]
    else:
        sources = rng.sample(profile.files, len(files))
    for write, source in zip(files, sources, strict=True):
        if source != write["resource"] and rng.random() < 0.8:
            resource = write["resource"]
            write.clear()
            write.update(resource=resource, whole=True, moved_from=source)
