"""A Dockerfile's RUN steps, carried out in a sandbox over the task's files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

from depgpo_jax.errors import printable
from depgpo_jax.tasks.errors import TaskError
from depgpo_jax.tracer.sandbox import Sandbox
from depgpo_jax.tracer.sandbox_config import MIB, SandboxConfig

if TYPE_CHECKING:
    from depgpo_jax.tasks.plan import Run
    from depgpo_jax.tasks.task import Task

_OUTSIDE: Final = (
    *("/", "/root", "/opt", "/srv", "/home", "/mnt", "/run"),
    *("/var", "/var/log", "/var/lib", "/var/cache"),
)
"""Where a RUN step could write although no folder of the task is there."""

MAX_SHOWN: Final = 200


class SizeLimits(TypedDict, total=False):
    """Those of `SandboxConfig` that a task may set."""

    memory_bytes: int
    disk_bytes: int


def sandbox_limits(task: Task) -> SizeLimits:
    """Memory and disk, as far as task.toml names them."""
    limits: SizeLimits = {}
    if task.settings.memory_mb is not None:
        limits["memory_bytes"] = task.settings.memory_mb * MIB
    if task.settings.storage_mb is not None:
        limits["disk_bytes"] = task.settings.storage_mb * MIB
    return limits


def run_step(task: Task, root: Path, step: Run) -> None:
    """Runs one text over the tree so far and writes to the tree what it changed there.

    Each RUN step has a sandbox of its own, so what it leaves in `/tmp`, or running, is gone after
    it, and there is no network. Programs are this machine's.

    Args:
        task: whose step it is.
        root: the tree; `root/app` is `/app`.
        step: the step.

    Raises:
        TaskError: it ends with an error or not in time, or writes where it would be lost.
        SandboxError: this machine cannot build the sandbox.
        OSError: the disk does not take the files.
    """
    places = {str(root / name[1:]): name for name in task.plan.folders}
    for place in places:
        Path(place).mkdir(exist_ok=True)
    seconds = task.settings.build_timeout
    config = SandboxConfig(
        workspaces=places,
        environment=step.environment,
        workdir=step.workdir,
        wall_s=seconds + 60.0,
        **sandbox_limits(task),
    )
    with Sandbox(config) as box:
        before = set(_names_outside(box))
        _run(box, task, step, seconds)
        lost = sorted(set(_names_outside(box)) - before)
        if lost:
            raise _error(
                task,
                step,
                f"a RUN that writes {printable(lost[0], 80)}, which is in no folder of the task",
                f"changes in {', '.join(places.values()) or 'a folder that WORKDIR names'}",
                "Write there instead, or name the other folder in a WORKDIR or COPY.",
            )
        for place in places:
            box.apply_changes(place)


def _run(box: Sandbox, task: Task, step: Run, seconds: float) -> None:
    try:
        done = subprocess.run(
            [*box.enter_prefix(), "bash", "-c", step.text],
            input=b"",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _error(
            task,
            step,
            f"a RUN that does not end in {seconds:g} s",
            "one that ends in environment.build_timeout_sec",
            "Make it shorter, or raise that number in task.toml.",
        ) from None
    if done.returncode:
        lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
        said = f": {printable(lines[-1].strip(), MAX_SHOWN)}" if lines else ""
        raise _error(
            task,
            step,
            f"a RUN that ends with exit code {done.returncode}{said}",
            "RUN of programs that this machine has, without network",
            "Remove it, or COPY what it would make.",
        )


def _names_outside(box: Sandbox) -> Iterator[str]:
    """What lies in folders that no workspace covers."""
    own = set(box.config.workspaces.values())
    for folder in _OUTSIDE:
        if folder in own:
            continue
        descriptor = box.open(folder.encode(), os.O_RDONLY | os.O_DIRECTORY)
        try:
            names = os.listdir(descriptor)  # noqa: PTH208 - a descriptor, no path
        finally:
            os.close(descriptor)
        for name in names:
            yield f"{folder.rstrip('/')}/{name}"


def _error(task: Task, step: Run, found: str, allowed: str, remedy: str) -> TaskError:
    return TaskError(found, allowed, remedy, file=task.plan.file, line=step.line)
