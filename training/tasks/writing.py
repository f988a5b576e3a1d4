"""Parts of a task directory, and how they are written down."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from training.tasks.needs import run_line

IMAGE: Final = "FROM debian:bookworm-slim\n"
FILES: Final = "WORKDIR /app\nCOPY app/ /app/\n"

SETTINGS: Final = """\
schema_version = "1.1"

[task]
name = "depgpo/{name}"
description = "{description}"

[agent]
timeout_sec = 300.0

[verifier]
timeout_sec = 60.0

[environment]
build_timeout_sec = 60.0
memory_mb = 512
storage_mb = 64
allow_internet = false
"""

PRELUDE: Final = """\
#!/bin/bash
# Prints a line PASSED or FAILED for each check; the reward is 1 when all of them passed.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
cd /
reward=1

check() {
  local name=$1
  shift
  if "$@"; then echo "PASSED $name"; else echo "FAILED $name"; reward=0; fi
}

# A regular file at its own path: a link, of the file or of a folder above it, could lead here.
plain() { [ -f "$1" ] && [ "$(realpath -e -- "$1")" = "$1" ]; }

same() { plain "$1" && cmp -s -- "$1" "$2"; }

"""

END: Final = """\

printf '{"reward": %d}\\n' "$reward" > /logs/verifier/reward.json
"""


@dataclass(frozen=True)
class TaskFiles:
    """What distinguishes one task from another.

    Attributes:
        name: unique, such as `text_to_csv-7`.
        description: one line.
        instruction: the whole of instruction.md.
        files: of `/app` at the start, by their path below it.
        checks: the middle of tests/test.sh, in terms of `check`, `plain` and `same`.
        expected: files beside test.sh, by their path below `/tests`.
        commands: the reference solution, one text a command.
        wasteful: commands that also score 1, with dead ends between.
        wrong: commands that score 0, as somebody in a hurry would write them.
        needs: programs beyond Debian's base system, keys of `needs.PACKAGES`.
        modes: of files of `/app` that do not have 0644.
    """

    name: str
    description: str
    instruction: str
    files: Mapping[str, str | bytes]
    checks: str
    expected: Mapping[str, str | bytes]
    commands: Sequence[str]
    wasteful: Sequence[str]
    wrong: Sequence[str]
    needs: Sequence[str] = ()
    modes: Mapping[str, int] = field(default_factory=dict)


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


def generator(family: str, seed: int) -> random.Random:
    """The random numbers of one task, the same on every machine."""
    return random.Random(f"{family}/{seed}")


def write_task(task: TaskFiles, directory: Path) -> None:
    """Writes a task directory.

    Raises:
        FileExistsError: there is something in it already.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise FileExistsError(
            f"{directory}: found a folder with content. Allowed: a folder that is not there yet, "
            "or empty. Remove it, or name another one."
        )
    settings = SETTINGS.format(name=task.name, description=task.description)
    _write(directory / "task.toml", settings)
    _write(directory / "instruction.md", task.instruction)
    dockerfile = IMAGE + "".join(map(run_line, task.needs)) + FILES
    _write(directory / "environment" / "Dockerfile", dockerfile)
    files = directory / "environment" / "app"
    for name, content in task.files.items():
        _write(files / name, content, task.modes.get(name, 0o644))
    # A copy takes over the modes of folders, too, so they must not be those of somebody's umask.
    for folder in [files, *(path for path in files.rglob("*") if path.is_dir())]:
        folder.chmod(0o755)
    for name, content in task.expected.items():
        _write(directory / "tests" / name, content)
    _write(directory / "tests" / "test.sh", PRELUDE + task.checks + END, mode=0o755)
    for folder, script, commands in (
        ("solution", "solve.sh", task.commands),
        ("wrong", "wrong.sh", task.wrong),
    ):
        _write(directory / folder / "commands.json", _listed(commands))
        _write(directory / folder / script, as_script(commands), mode=0o755)
    _write(directory / "solution" / "wasteful.json", _listed(task.wasteful))


def as_script(commands: Sequence[str]) -> str:
    """Commands as one script, in one shell."""
    return "\n".join(["#!/bin/bash", "cd /app", *commands, ""])


def insert(commands: Sequence[str], *extras: tuple[int, str]) -> list[str]:
    """The commands with each extra before the command of its number."""
    result: list[str] = []
    for number, command in enumerate(commands):
        result += [text for place, text in extras if place == number]
        result.append(command)
    return result


def _listed(commands: Sequence[str]) -> str:
    return json.dumps(list(commands), indent=1, ensure_ascii=False) + "\n"


def _write(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
