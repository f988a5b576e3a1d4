"""Runs many whole rollouts and looks for what they left: `scripts/check-leaks.py [ROLLOUTS]`.

Each one is a good, wasteful or wrong rollout of one of our tasks, with background processes left
running: two threads at a time, in one process, as a trainer would. Exit status 1 if a process, a
mount, a descriptor, a control group or a file is left, or if a reward is not what it should be.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import cycle, islice
from pathlib import Path

from rich.console import Console
from rich.progress import track

from depgpo_jax.tasks import Task, read_task
from depgpo_jax.tasks.run import TaskSession
from depgpo_jax.tracer.descendants import cmdline, descendants
from depgpo_jax.tracer.limits import find_groups
from training.scripted import SCRIPTS
from training.tasks import FAMILIES

REWARDS = {"good": 1.0, "wasteful": 1.0, "wrong": 0.0}
NAP = f"sleep {10**6 + os.getpid()}"
"""Unlike any other program's command line."""

BACKGROUND = f"{NAP} & (setsid {NAP} &) ; nohup {NAP} > /tmp/out &"
THREADS = 2


def main(rollouts: int) -> int:
    """Runs them, and compares the machine before and after."""
    with tempfile.TemporaryDirectory() as folder:
        tasks = {name: _task(name, Path(folder)) for name in FAMILIES}
        # Where temporary files go, so that those of other programs are not taken for ours.
        own = Path(folder, "tmp")
        own.mkdir()
        tempfile.tempdir = str(own)
        kinds = [(task, script) for task in tasks.values() for script in SCRIPTS]
        wrong = [_rollout(*kinds[0])]  # what is made once, is made now
        before, started = _state(own), time.monotonic()
        with ThreadPoolExecutor(THREADS) as pool:
            runs = [pool.submit(_rollout, *kind) for kind in islice(cycle(kinds), rollouts)]
            done = track(as_completed(runs), "rollouts", rollouts, console=Console(stderr=True))
            wrong += [run.result() for run in done]
        seconds = time.monotonic() - started
        left = {name: now - before[name] for name, now in _state(own).items()}
    print(f"{rollouts} rollouts in {seconds:.0f} s, {rollouts / seconds:.1f} a second")
    for message in filter(None, wrong):
        print(message)
    for name, counted in left.items():
        print(f"{name}: {sum(counted.values())} left", *counted)
    return 1 if any(wrong) or any(left.values()) else 0


def _task(family: str, folder: Path) -> Task:
    FAMILIES[family](0, folder / family)
    return read_task(folder / family)


def _rollout(task: Task, script: str) -> str:
    """Runs one; what is wrong with it, or nothing."""
    texts: list[str] = json.loads((task.directory / SCRIPTS[script]).read_text("utf-8"))
    with TaskSession(task) as session:
        session.step([*texts, BACKGROUND])
        trace = session.finish(trace_id=script)
    recorded = all(command.recorded for command in trace.commands)
    if trace.reward == REWARDS[script] and recorded:
        return ""
    return f"{task.name}, {script}: found the reward {trace.reward}, all recorded: {recorded}"


def _state(folder: Path) -> dict[str, Counter[str]]:
    """What there is of each kind that could be left behind."""
    groups = find_groups()
    parents = () if groups is None else groups.parents
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return {
        "processes": Counter(_processes(folder)),
        "mounts": Counter(
            line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
        ),
        "descriptors": Counter(str(link.readlink()).partition(":")[0] for link in links),
        "control groups": Counter(
            str(group) for parent in parents for group in parent.glob(f"depgpo-{os.getpid()}-*")
        ),
        "files": Counter(str(path) for path in folder.rglob("*")),
    }


def _processes(folder: Path) -> Iterator[str]:
    """Those below this one, and those that were ours by what their command lines say."""
    below = set(descendants(os.getpid()))
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            line = cmdline(int(entry.name)).replace(b"\0", b" ").decode("utf-8", "replace")
            if int(entry.name) in below or NAP in line or str(folder) in line:
                yield line


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
