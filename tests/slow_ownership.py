"""Ownership read off the page: one Python object a record, and random scripts to replay.

The rules are followed literally and share no code with the interval structure; slow, for tests
only.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from depgpo_jax.line_map import FEW
from depgpo_jax.ownership import SURVIVES, Segments, replay
from depgpo_jax.traces import Trace

# (owner, resource, killer, in place) -> number of records; (resource, command) pairs.
Fates = dict[tuple[int, str, int, bool], int]
Reads = set[tuple[str, int]]
Json = dict[str, Any]

A, B, C = "/a", "/b", "/c"


def lines(*ranges: tuple[int, int], resource: str = A) -> Json:
    return {"resource": resource, "lines": [list(pair) for pair in ranges]}


def hunks(*numbers: tuple[int, int, int, int], resource: str = A) -> Json:
    return {"resource": resource, "hunks": [list(hunk) for hunk in numbers]}


def whole(resource: str = A, **more: Any) -> Json:
    return {"resource": resource, "whole": True, **more}


def make_trace(commands: Iterable[tuple[list[str], list[Json]]], per_step: int = 2) -> Trace:
    """A trace of (reads, writes) commands, `per_step` of them a step."""
    plain = [{"reads": reads, "writes": writes} for reads, writes in commands]
    steps = [
        {"loss_tokens": 1, "commands": plain[first : first + per_step]}
        for first in range(0, len(plain), per_step)
    ]
    return msgspec.convert({"version": 1, "trace_id": "t", "verifier": [], "steps": steps}, Trace)


def run(*writes: Json | list[Json]) -> Segments:
    """Replay commands that read nothing; a command is one write or a list of them."""
    return replay(make_trace(([], w if isinstance(w, list) else [w]) for w in writes))


class Record:
    """One line, gap or whole mark; `owner` is None for content from before the rollout."""

    def __init__(self, owner: int | None, *, gap: bool = False) -> None:
        self.owner = owner
        self.gap = gap


class SlowReplay:
    def __init__(self) -> None:
        self.whole: dict[str, Record] = {}
        self.content: dict[str, list[Record]] = {}  # lines and gaps, top to bottom
        self.order: list[str] = []
        self.fates: Counter[tuple[int, str, int, bool]] = Counter()

    def kill(self, records: Iterable[Record], resource: str, killer: int, in_place: bool) -> None:
        for record in records:
            if record.owner is not None:
                self.fates[record.owner, resource, killer, in_place] += 1

    def kill_all(self, resource: str, killer: int, in_place: bool) -> None:
        self.kill(self.content.pop(resource, []), resource, killer, in_place)
        if resource in self.whole:
            self.kill([self.whole.pop(resource)], resource, killer, in_place)

    def index_of_line(self, resource: str, number: int) -> int:
        content = self.content.setdefault(resource, [])
        while sum(not record.gap for record in content) < number:
            content.append(Record(None))
        seen = 0
        for index, record in enumerate(content):
            seen += not record.gap
            if seen == number:
                return index
        raise AssertionError("line numbers start at 1")

    def write_line(self, resource: str, number: int, command: int) -> None:
        index = self.index_of_line(resource, number)
        self.kill([self.content[resource][index]], resource, command, True)
        self.content[resource][index] = Record(command)

    def apply_hunk(self, resource: str, hunk: list[int], command: int) -> None:
        old_start, old_count, _, new_count = hunk
        content = self.content.setdefault(resource, [])
        if old_count:
            first = self.index_of_line(resource, old_start)
            end = self.index_of_line(resource, old_start + old_count - 1) + 1
            self.kill(content[first:end], resource, command, True)
        else:
            first = self.index_of_line(resource, old_start) + 1 if old_start else 0
            while first < len(content) and content[first].gap:
                first += 1
            end = first
        fresh = [Record(command) for _ in range(new_count)] or [Record(command, gap=True)]
        content[first:end] = fresh

    def run_command(self, command: int, writes: list[Json]) -> None:
        for write in writes:
            if "moved_from" in write:
                self.kill_all(write["moved_from"], command, False)
        for write in writes:
            resource = write["resource"]
            if resource not in self.order:
                self.order.append(resource)
            if "lines" in write:
                for first, last in write["lines"]:
                    for number in range(first, last + 1):
                        self.write_line(resource, number, command)
            elif "hunks" in write:
                for hunk in reversed(write["hunks"]):
                    self.apply_hunk(resource, hunk, command)
            else:
                self.kill_all(resource, command, True)
                self.whole[resource] = Record(command)


def slow_replay(commands: list[tuple[list[str], list[Json]]]) -> tuple[Fates, Reads, list[str]]:
    state = SlowReplay()
    reads: Reads = set()
    for command, (paths, writes) in enumerate(commands):
        sources = [write["moved_from"] for write in writes if "moved_from" in write]
        reads |= {(path, command) for path in [*paths, *sources]}
        state.run_command(command, writes)
    for resource in state.order:
        state.kill_all(resource, SURVIVES, False)
    return (
        dict(state.fates),
        {pair for pair in reads if pair[0] in state.order},
        state.order,
    )


# Random edit scripts.


def random_lines(rng: random.Random, resource: str, most: int) -> Json:
    ranges: list[tuple[int, int]] = []
    last = 0
    for _ in range(rng.randint(1, most)):
        first = last + rng.choice((1, 1, 2, 3, 6))  # touching ranges are allowed
        last = first + rng.choice((0, 0, 1, 2, 5))
        ranges.append((first, last))
    return lines(*ranges, resource=resource)


def random_hunks(rng: random.Random, resource: str, most: int) -> Json:
    numbers: list[tuple[int, int, int, int]] = []
    above = rng.choice((0, 0, 1, 2, 3, 5))
    shift = 0
    for _ in range(rng.randint(1, most)):
        old = rng.choice((0, 1, 1, 2, 3, 5))
        new = rng.choice((0, 0, 1, 2, 3) if old else (1, 2, 3))
        new_above = above + shift
        numbers.append((above + (old > 0), old, new_above + (new > 0), new))
        shift += new - old
        above += old + rng.choice((1, 1, 2, 4))
    return hunks(*numbers, resource=resource)


def random_script(rng: random.Random) -> list[tuple[list[str], list[Json]]]:
    paths = [A, B, C][: rng.randint(1, 3)]
    most = rng.choice((1, 2, FEW + 3))
    wholes, moves = rng.choice(((0.0, 0.0), (0.1, 0.1), (0.3, 0.5)))
    kinds = rng.choice(((random_lines,), (random_hunks,), (random_lines, random_hunks)))
    script: list[tuple[list[str], list[Json]]] = []
    for _ in range(rng.randint(1, 12)):
        reads = rng.choices([*paths, "/never"], k=rng.randint(0, 4))
        sources = rng.sample([*paths, "/never"], len(paths) + 1)
        writes: list[Json] = []
        for path in rng.sample(paths, rng.randint(0, len(paths))):
            source = sources.pop()
            if source != path and rng.random() < moves:
                writes.append(whole(path, moved_from=source))
            elif rng.random() < wholes:
                writes.append(whole(path, **rng.choice(({}, {"deleted": True}))))
            else:
                writes.append(rng.choice(kinds)(rng, path, most))
        script.append((reads, writes))
    return script
