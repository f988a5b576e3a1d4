"""Sandboxes for tests: short ways to make one, run a script in it, and look for what it left."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from depgpo_jax.tracer.limits import find_groups
from depgpo_jax.tracer.sandbox import Sandbox
from depgpo_jax.tracer.sandbox_config import MIB, SandboxConfig
from depgpo_jax.tracer.workplace import entry, root_of

ROOT = Path(__file__).resolve().parent.parent


def small(**options: object) -> SandboxConfig:
    """A config with limits that a test reaches quickly."""
    given: dict[str, object] = {
        "memory_bytes": 256 * MIB,
        "disk_bytes": 32 * MIB,
        "processes": 64,
        "wall_s": 60.0,
        **options,
    }
    return SandboxConfig(**given)  # pyright: ignore[reportArgumentType]


def run(
    box: Sandbox, script: str, *, seconds: float = 30, **options: object
) -> subprocess.CompletedProcess[str]:
    """Runs a bash script inside; its two outputs come together."""
    return subprocess.run(
        [*box.enter_prefix(**options), "bash", "-c", script],  # pyright: ignore[reportArgumentType]
        input="",  # a pipe: of the host's /dev/null, root could change the mode
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="surrogateescape",
        timeout=seconds,
        check=False,
    )


@contextmanager
def running(box: Sandbox, script: str, **options: object) -> Generator[subprocess.Popen[str]]:
    """A bash script that runs inside while the block does, and has said its first line."""
    process = subprocess.Popen(
        [*box.enter_prefix(**options), "bash", "-c", script],  # pyright: ignore[reportArgumentType]
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline()
        try:
            yield process
        finally:
            box.stop()
            process.wait(10)


def python(script: str, *argv: str) -> subprocess.Popen[str]:
    """Starts a Python script that has this package."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    return subprocess.Popen(
        [sys.executable, "-c", script, *argv], env=environment, stdout=subprocess.PIPE, text=True
    )


@contextmanager
def in_sandbox(folder: Path) -> Generator[dict[str, Any]]:
    """Options of a traced terminal whose texts work on a sandbox's view of a folder.

    This Python is in there too, where it is outside of what every sandbox shows.
    """
    own = {sys.prefix, sys.base_prefix}
    pythons = {path: path for path in own if not path.startswith("/usr")}
    config = SandboxConfig(workspaces={str(folder): str(folder)}, read_only=pythons)
    with Sandbox(config) as box:
        yield {
            "root": lambda: root_of(box),
            "wrap": entry(box),
            "identify": partial(box.identity, follow=False),
        }


def commands() -> list[str]:
    """The command lines of all processes of this machine that can be seen."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            found.append(line.replace(b"\0", b" ").decode("utf-8", "replace"))
    return found


def groups_of(pid: int) -> list[Path]:
    """The control groups that a process made and that are still there."""
    groups = find_groups()
    parents = () if groups is None else groups.parents
    return [group for parent in parents for group in parent.glob(f"depgpo-{pid}-*")]


def until(happens: Callable[[], object], seconds: float = 30) -> bool:
    """Waits until a call gives something true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if happens():
            return True
        time.sleep(0.02)
    return False
