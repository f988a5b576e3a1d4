"""One task directory as one value.

======================  =================================================================
task.toml               time-outs, sizes, variables
instruction.md          what the agent is told
environment/Dockerfile  the sandbox's files, variables and working directory
solution/solve.sh       the reference solution; may be absent
tests/test.sh           the verifier; writes /logs/verifier/reward.json or reward.txt
======================  =================================================================
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from depgpo_jax.errors import printable
from depgpo_jax.tasks.dockerfile import parse_dockerfile
from depgpo_jax.tasks.errors import TaskError
from depgpo_jax.tasks.plan import Plan
from depgpo_jax.tasks.settings import Settings, parse_settings

MAX_TEXT: Final = 1024**2
"""Bytes of a text file of a task: far above any real one."""

_COMPOSE: Final = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")


@dataclass(frozen=True)
class Task:
    """A task, read and checked; nothing of it has run yet.

    Attributes:
        name: `task.name` of task.toml, or the directory's name.
        directory: absolute.
        instruction: what the agent is told.
        settings: task.toml.
        plan: environment/Dockerfile.
        has_solution: whether there is a solution/solve.sh.
        shown_bytes: size of the files of tests/ and solution/.
    """

    name: str
    directory: Path
    instruction: str
    settings: Settings
    plan: Plan
    has_solution: bool
    shown_bytes: int = 0

    @property
    def context(self) -> Path:
        """The folder that COPY takes files from."""
        return self.directory / "environment"

    @property
    def tests(self) -> Path:
        """The verifier's folder; only the verifier may see it, at `/tests`."""
        return self.directory / "tests"

    @property
    def solution(self) -> Path:
        """The reference solution's folder, at `/solution` while solve.sh runs."""
        return self.directory / "solution"

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of the sandbox: the Dockerfile's, then task.toml's."""
        return {**self.plan.environment, **self.settings.environment}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the task asks for and does not get, a sentence each."""
        return self.settings.warnings + self.plan.warnings


def read_task(directory: str | Path) -> Task:
    """Reads a task directory.

    Args:
        directory: a directory in the Harbor format.

    Returns:
        The task; `build` makes its files.

    Raises:
        TaskError: a file is missing or says what this package cannot honour.
    """
    folder = Path(directory).absolute()
    if not folder.is_dir():
        raise TaskError(
            "no folder there" if not folder.exists() else "a file",
            "a task directory",
            "Give the folder that holds task.toml.",
            file=str(folder),
        )
    settings = parse_settings(_text(folder / "task.toml"), file=str(folder / "task.toml"))
    instruction = _text(folder / "instruction.md")
    for name in _COMPOSE:
        if (folder / "environment" / name).exists():
            raise TaskError(
                "several containers",
                "one sandbox, from environment/Dockerfile",
                "Remove the file, and start what it starts from the task's own commands.",
                file=str(folder / "environment" / name),
            )
    dockerfile = folder / "environment" / "Dockerfile"
    plan = parse_dockerfile(_text(dockerfile), file=str(dockerfile))
    _refuse_ignored(folder / "environment" / ".dockerignore")
    shown = _shown_bytes(folder / "tests", "test.sh")
    shown += _shown_bytes(folder / "solution", "solve.sh")
    _text(folder / "tests" / "test.sh")
    return Task(
        name=settings.name or folder.name,
        directory=folder,
        instruction=instruction,
        settings=settings,
        plan=plan,
        has_solution=(folder / "solution" / "solve.sh").is_file(),
        shown_bytes=shown,
    )


def _text(path: Path) -> str:
    """A text file of the task, UTF-8, of a bounded size."""
    if not path.is_file():
        raise TaskError(
            "something that is no regular file" if path.exists() else "no such file",
            "a text file",
            f"Write {path.name}: every task has one.",
            file=str(path),
        )
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_TEXT + 1)
    except OSError as error:
        raise TaskError(
            f"a file that cannot be read ({error.strerror})",
            "a text file",
            "Give yourself the right to read it.",
            file=str(path),
        ) from None
    if len(content) > MAX_TEXT:
        raise TaskError("a larger file", f"at most {MAX_TEXT} bytes", "Shorten it.", file=str(path))
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise TaskError(
            f"byte 0x{content[error.start]:02x} at offset {error.start}, which is not UTF-8",
            "text in UTF-8",
            "Save the file as UTF-8.",
            file=str(path),
        ) from None


def _shown_bytes(folder: Path, script: str) -> int:
    """The size of a folder that a sandbox will show; refused before anything runs if it cannot.

    Links inside stay links, to what the sandbox has there. Only the script must be the task's own.

    Raises:
        TaskError: the folder or the script is a link that leads out, or there is a pipe, socket or
            device.
    """
    if not folder.exists() and not folder.is_symlink():
        return 0
    home = folder.parent.resolve() / folder.name
    for path in (folder, folder / script):
        if path.is_symlink() and not path.resolve().is_relative_to(home):
            raise TaskError(
                f"a link to {printable(str(path.readlink()), 80)}, outside of {folder.name}/",
                "the task's own folders and scripts",
                "Put a copy in its place.",
                file=str(path),
            )
    size = 0
    for path in folder.rglob("*"):
        found = path.lstat()
        if stat.S_ISREG(found.st_mode):
            size += found.st_size
        elif not stat.S_ISDIR(found.st_mode) and not stat.S_ISLNK(found.st_mode):
            raise TaskError(
                "a pipe, socket or device",
                "files, folders and links",
                "Let the script make it.",
                file=str(path),
            )
    return size


def _refuse_ignored(path: Path) -> None:
    """Raises for patterns that would keep files from COPY."""
    if not path.is_file():
        return
    for number, line in enumerate(_text(path).splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            raise TaskError(
                f"the pattern {printable(line.strip(), 80)}",
                "no patterns: every file of environment/ can be copied",
                "Remove the file, and move what must not be copied out of environment/.",
                file=str(path),
                line=number,
            )
