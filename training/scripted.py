"""Scripted rollouts of a task: a good one, a wasteful one and a wrong one, for demos and tests.

They stand in for a policy: what they do in the terminal is real, who decided to do it is a list.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Final

from depgpo_jax.tasks import read_task
from depgpo_jax.tasks.run import TaskSession
from depgpo_jax.traces import Trace
from training.tasks import FAMILIES, Difficulty
from training.tasks.difficulty import DEFAULT

SCRIPTS: Final = {
    "good": "solution/commands.json",
    "wasteful": "solution/wasteful.json",
    "wrong": "wrong/commands.json",
}
"""Where each rollout's commands stand in a task of ours."""

LETTERS_A_TOKEN: Final = 4
"""No tokenizer wrote these commands: their lengths stand in for token counts."""


def scripted_rollouts(
    family: str, seed: int, folder: Path, difficulty: Difficulty = DEFAULT
) -> Generator[Trace]:
    """Runs the scripts of one task, one after the other.

    Args:
        family: a name of `FAMILIES`.
        seed: the task's seed.
        folder: an empty folder, or one to be made, that gets the task.
        difficulty: how hard.

    Yields:
        One trace a script, all of one group, with command texts and outputs.

    Raises:
        MissingProgramError: this machine lacks a program that the family uses.
        SandboxError: this machine cannot build the sandbox.
        MissingExtraError: the extra `tracer` is not installed.
    """
    FAMILIES[family](seed, folder, difficulty)
    task = read_task(folder)
    for name, place in SCRIPTS.items():
        texts: list[str] = json.loads((folder / place).read_text("utf-8"))
        with TaskSession(task) as session:
            for text in texts:
                session.step([text], loss_tokens=max(1, len(text) // LETTERS_A_TOKEN))
            yield session.finish(trace_id=f"{family}-{seed}/{name}", group_id=f"{family}-{seed}")
