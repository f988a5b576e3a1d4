"""A plan's steps, carried out: the task's files in a tree that a sandbox mounts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from depgpo_jax.errors import printable
from depgpo_jax.tasks.copying import Copier, Limits
from depgpo_jax.tasks.errors import TaskError
from depgpo_jax.tasks.plan import Copy, Run, Workdir
from depgpo_jax.tasks.task import Task


def build(
    task: Task,
    root: str | Path,
    *,
    run: Callable[[Run], None] | None = None,
    limits: Limits | None = None,
) -> None:
    """Makes the task's files.

    Args:
        task: from `read_task`.
        root: an empty folder, or one to be made; `root/app` is the sandbox's `/app` afterwards.
        run: carries out a RUN step in a sandbox over `root`, at its place between the others; None
            leaves these steps out.
        limits: None takes the bytes from the task's `storage_mb`.

    Raises:
        TaskError: the root is not empty, or a COPY names what is not there, leads out of
            `environment/` or the tree, or brings too much.
        OSError: the disk does not take the files.
    """
    if limits is None:
        megabytes = task.settings.storage_mb
        limits = Limits() if megabytes is None else Limits(bytes=megabytes * 2**20)
    folder = Path(root)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise TaskError(
            "a folder with content",
            "an empty folder for the task's files",
            "Empty it, or name another one.",
            file=printable(str(folder)),
        )
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        copier = Copier(task.plan, task.context, descriptor, limits)
        for step in task.plan.steps:
            if isinstance(step, Copy):
                copier.copy(step)
            elif isinstance(step, Workdir):
                copier.make(step)
            elif run is not None:
                run(step)
    finally:
        os.close(descriptor)
