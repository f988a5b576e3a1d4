"""How soon a sandbox is there, and how many of them, or whole rollouts, a machine does a second."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.timing import Spread, spread
from training.tasks import FAMILIES

FAMILY = "text_to_csv"
SANDBOX, TERMINAL, ROLLOUT = "sandbox", "terminal", "rollout"
LEAST_STARTS = 20.0


@dataclass(frozen=True)
class Rate:
    """One kind of work by one or more processes at once.

    Attributes:
        seconds: from the start to the end of the first command (of a rollout: of all of it).
        per_second: how many were done, their ends included, by all processes together.
    """

    what: str
    processes: int
    seconds: Spread
    per_second: float


def measure(kind: str, *, processes: int, seconds: float) -> Rate:
    """Lets processes do it at the same time, for as long as is said."""
    with ExitStack() as stack:
        arguments: list[str] = []
        if kind == ROLLOUT:
            task = Path(stack.enter_context(tempfile.TemporaryDirectory())) / FAMILY
            FAMILIES[FAMILY](0, task)
            arguments = [str(task)]
        command = [sys.executable, "-m", "benchmarks.sandbox_starts", kind, f"{seconds:g}"]
        workers = [
            stack.enter_context(
                subprocess.Popen(
                    [*command, *arguments],
                    cwd=Path(__file__).resolve().parent.parent,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(processes)
        ]
        found = together(workers)
    took = [each for worker in found for each in worker["took"]]
    rate = sum(len(worker["took"]) / worker["passed"] for worker in found)
    return Rate(kind, processes, spread(took), rate)


def together(workers: Sequence[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    """Begins when all are ready, and returns what each printed."""
    for worker in workers:
        assert worker.stdout is not None
        if worker.stdout.readline() != "ready\n":
            raise RuntimeError(
                "benchmarks.sandbox_starts: found that it ended before it was ready; its message "
                "stands above. Run `depgpo doctor`."
            )
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    return [json.loads(worker.communicate()[0]) for worker in workers]
