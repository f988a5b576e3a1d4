"""Rollouts of generated tasks without the tracer: a script, then the verifier, in one bwrap."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from depgpo_jax.tasks import build, read_reward, read_task, read_test_results
from depgpo_jax.tracer.sandbox_layout import find_bwrap
from depgpo_jax.traces import TestResult
from training.tasks import FAMILIES, Difficulty
from training.tasks.difficulty import DEFAULT
from training.tasks.writing import as_script

MARK = b"-- the verifier begins --\n"


def rollout(directory: Path, tree: Path, logs: Path, script: str) -> tuple[float, list[TestResult]]:
    """Runs a script and then the verifier, over the tree's `/app` as it was built."""
    logs.mkdir()
    (logs / "verifier").mkdir()
    command = [
        *(find_bwrap(), "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"),
        *("--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/root"),
        *("--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"),
        *("--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
        *("--symlink", "usr/lib64", "/lib64", "--symlink", "usr/sbin", "/sbin"),
        *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/root"),
        *("--overlay-src", str(tree / "app"), "--tmp-overlay", "/app"),
        *("--ro-bind", str(directory / "tests"), "/tests", "--bind", str(logs), "/logs"),
        *("--chdir", "/app", "bash", "-c"),
        f"bash -c {quoted(script)} < /dev/null > /dev/null 2>&1; "
        f"printf '%s\\n' '{MARK.decode().strip()}'; bash /tests/test.sh < /dev/null",
    ]
    run = subprocess.run(command, capture_output=True, timeout=60, check=False)
    reward = read_reward(logs / "verifier")
    assert reward.invalid is None, (reward, run.stdout, run.stderr)
    assert reward.value is not None
    return reward.value, read_test_results(logs / "verifier", run.stdout.split(MARK)[-1])


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


class Made:
    """A generated task, its files, and what comes of a script."""

    def __init__(
        self, family: str, folder: Path, seed: int, difficulty: Difficulty = DEFAULT
    ) -> None:
        self.folder = folder / f"{family}-{seed}-{difficulty.depth}-{difficulty.distractors}"
        self.directory, self.tree = self.folder / "task", self.folder / "tree"
        FAMILIES[family](seed, self.directory, difficulty)
        build(read_task(self.directory), self.tree)
        self._count = 0

    def run(self, script: str) -> tuple[float, list[TestResult]]:
        self._count += 1
        return rollout(self.directory, self.tree, self.folder / f"logs-{self._count}", script)

    def passed(self, script: str) -> list[str]:
        """The checks that pass after a script which scores 0."""
        reward, tests = self.run(script)
        assert reward == 0.0
        return [test.name for test in tests if test.passed]

    def scripts(self) -> dict[str, tuple[str, float]]:
        """The scripts that come with a task, and nothing at all, with what each has to score."""
        solution, wrong = self.directory / "solution", self.directory / "wrong"
        wasteful: list[str] = json.loads((solution / "wasteful.json").read_text("utf-8"))
        return {
            "solution": ((solution / "solve.sh").read_text("utf-8"), 1.0),
            "nothing": ("", 0.0),
            "wrong": ((wrong / "wrong.sh").read_text("utf-8"), 0.0),
            "wasteful": (as_script(wasteful), 1.0),
        }
