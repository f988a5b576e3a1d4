"""Batches for the benchmarks: seeded traces of mixed length, as JSON, for the host path too.

Mean length 0.69 N, R = N/2 resources, 2.4 record segments and 1.4 reads a command, 30 % of
the commands reusing an earlier command's stdout, two in five of them without a write.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

MEAN_LENGTH = 0.69
READ_ONLY = 0.4
REUSES_STDOUT = 0.3
UNRECORDED = 0.02
RECENT = 12
WORKING_SET = 3
LOCAL = 0.85
GROUP_SIZE = 8
LINES = 40

Trace = dict[str, Any]


def make_traces(B: int, N: int, seed: int) -> list[Trace]:
    """B traces of at most N commands each, in groups of eight."""
    rng = random.Random(f"{seed}/{B}/{N}")
    return [_trace(rng, b, N) for b in range(B)]


def to_jsonl(traces: Iterable[Trace]) -> bytes:
    """One JSON object a line, as in a trace file."""
    lines = [json.dumps(t, ensure_ascii=False, separators=(",", ":")) + "\n" for t in traces]
    return "".join(lines).encode()


def _trace(rng: random.Random, b: int, N: int) -> Trace:
    # Uniform from 0.38 N to N has the mean 0.69 N.
    length = min(N, max(1, round(rng.uniform((2 * MEAN_LENGTH - 1) * N, N))))
    resources = [f"/app/task/data/part_{r:03d}.csv" for r in range(max(2, N // 2))]
    commands: list[Trace] = []
    for i in range(length):
        commands.append(_command(rng, i, resources, commands))
    return {
        "version": 1,
        "trace_id": f"workload/{N}/{b}",
        "group_id": f"workload/{N}/{b // GROUP_SIZE}",
        "reward": float(rng.random() < 0.5),
        "verifier": rng.sample(resources, max(1, len(resources) // 4)),
        "steps": _steps(rng, commands),
    }


def _steps(rng: random.Random, commands: list[Trace]) -> list[Trace]:
    steps: list[Trace] = []
    start = 0
    while start < len(commands):
        stop = start + rng.choice((1, 1, 1, 1, 2, 3))
        steps.append({"loss_tokens": rng.randint(20, 300), "commands": commands[start:stop]})
        start = stop
    return steps


def _command(rng: random.Random, i: int, resources: list[str], earlier: list[Trace]) -> Trace:
    near = _near(i, resources)
    reads = _pick(rng, near, resources, rng.choice((0, 1, 1, 2, 3)))
    writes: list[Trace] = []
    if rng.random() >= READ_ONLY:
        written = _pick(rng, near, resources, rng.choice((2, 2, 3, 4)))
        writes = [_write(rng, resource) for resource in written]
    command: Trace = {
        "text": "awk -F, 'NR > 1 {s += $3} END {print s}' " + " ".join(reads),
        "exit_code": 0,
        "reads": reads,
        "writes": writes,
        "stdout_from": [],
    }
    if i > 0 and rng.random() < REUSES_STDOUT:
        candidates = [i - rng.randint(1, min(i, RECENT)) for _ in range(2)]
        # What was printed by looking is reused more often than what a write printed.
        command["stdout_from"] = [min(candidates, key=lambda j: bool(earlier[j]["writes"]))]
    if rng.random() < UNRECORDED:
        command |= {"recorded": False, "unrecorded_reason": "left running"}
    return command


def _near(i: int, resources: list[str]) -> list[str]:
    """The few resources that the commands around i work on."""
    first = min(i // 2, len(resources) - 1)
    return resources[max(0, first - WORKING_SET) : first + 1]


def _pick(rng: random.Random, near: list[str], resources: list[str], count: int) -> list[str]:
    picked: dict[str, None] = {}
    while len(picked) < min(count, len(resources)):
        picked[rng.choice(near if rng.random() < LOCAL else resources)] = None
    return list(picked)


def _write(rng: random.Random, resource: str) -> Trace:
    kind = rng.random()
    if kind < 0.05:
        return {"resource": resource, "whole": True}
    if kind < 0.4:
        first = rng.randint(1, LINES // 2)
        return {"resource": resource, "lines": [[first, first + rng.randint(1, LINES)]]}
    hunks: list[list[int]] = []
    above, shift = 0, 0
    for _ in range(rng.choice((1, 1, 2, 3))):
        above += rng.randint(1, LINES // 4)
        old, new = rng.choice(((0, 4), (3, 3), (6, 5), (2, 0), (1, 1), (0, 20)))
        hunks.append([above + (old > 0), old, above + shift + (new > 0), new])
        above += old
        shift += new - old
    return {"resource": resource, "hunks": hunks}
