"""A process of its own that starts sandboxes, or runs rollouts of a task, and prints a JSON line.

    python -m benchmarks.sandbox_starts sandbox|terminal SECONDS
    python -m benchmarks.sandbox_starts rollout SECONDS TASK

Several of these at once say how much a machine with several cores does. It is for how long, not how
often, so that all of them work until the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from depgpo_jax.tasks import Task, read_task
from depgpo_jax.tasks.run import TaskSession
from depgpo_jax.tracer.sandbox import Sandbox
from depgpo_jax.tracer.sandbox_config import SandboxConfig
from depgpo_jax.tracer.session import TracedTerminal


def sandbox(folder: str) -> float:
    """Starts a sandbox and one command in it; returns how long until that has ended."""
    start = time.perf_counter()
    with Sandbox(SandboxConfig(workspaces={folder: "/app"})) as box:
        subprocess.run([*box.enter_prefix(), "true"], stdin=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start


def terminal(folder: str) -> float:
    """The same with a traced terminal in it and a record of the command."""
    start = time.perf_counter()
    with (
        Sandbox(SandboxConfig(workspaces={folder: "/app"})) as box,
        TracedTerminal(
            [b"/app"],
            root=lambda: box.root_path,
            wrap=lambda argv: [*box.enter_prefix(new_session=False), *argv],
        ) as session,
    ):
        session.run("true")
        return time.perf_counter() - start


def rollout(task: Task, texts: list[str]) -> float:
    """A whole rollout of the reference solution, and its verifier; returns how long it took."""
    start = time.perf_counter()
    with TaskSession(task) as session:
        for text in texts:
            session.step([text])
        trace = session.finish(trace_id="benchmark")
    if trace.reward != 1.0:
        raise SystemExit(f"rollout: found the reward {trace.reward}; allowed: 1, the solution's")
    return time.perf_counter() - start


def main() -> None:
    kind, seconds, *rest = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        once: Callable[[], float]
        if kind == "rollout":
            commands = Path(rest[0], "solution", "commands.json").read_text("utf-8")
            once = partial(rollout, read_task(rest[0]), json.loads(commands))
        else:
            once = partial(sandbox if kind == "sandbox" else terminal, str(Path(folder).resolve()))
        once()  # what is found out once for a process, and what is read for the first time
        print("ready", flush=True)
        sys.stdin.readline()
        took: list[float] = []
        start = time.perf_counter()
        while time.perf_counter() - start < float(seconds):
            took.append(once())
        print(json.dumps({"took": took, "passed": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
