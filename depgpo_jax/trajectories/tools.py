"""Which calls of tools are commands, and where in their arguments the text stands.

The names are those of common agents. An argument is not enough to tell: editors have a `command`
too (`view`, `create`), which is nothing that a shell knows.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from typing import Final, NamedTuple

from depgpo_jax.errors import ConfigError, printable
from depgpo_jax.trajectories.values import Value, kind

SHELLS: Final = (
    *("bash", "execute_bash", "bash_command", "run_bash", "run_in_terminal"),
    *("shell", "shell_command", "run_shell_command", "local_shell", "container.exec"),
    *("terminal", "run_command", "run_terminal_cmd", "execute_command", "exec_command"),
)
"""Tools that run a text in a shell."""

SILENT: Final = (
    *("finish", "submit", "task_complete", "mark_task_complete", "attempt_completion"),
    *("think", "update_plan", "todo_write", "todowrite", "task_tracker"),
)
"""Tools that change nothing in a sandbox."""

SEVERAL: Final = "commands"
"""A list under this name holds texts, one after the other; under another one, one text's words."""

ARGUMENTS: Final = ("command", "cmd", "keystrokes", "script", SEVERAL)
"""What the argument with the text is called; the first one that is there counts."""

FOLDERS: Final = ("workdir", "cwd", "working_directory")
"""What the argument with the directory is called: the text begins with a `cd` to it."""

KEYS: Final = ("C-c", "C-d", "C-z", "^C", "^D", "^Z")
_CONTROL: Final = re.compile(r"[\x03\x04\x1a]")

MAX_NAMES: Final = 6


@dataclass(frozen=True)
class ToolNames:
    """What a trajectory's tools are called, beside the names that are known.

    Attributes:
        shells: tools that run a text in a shell.
        ignored: tools whose calls are left out.
        argument: the name of the argument with the text; None: the first one of `ARGUMENTS`.

    Raises:
        ConfigError: a tool is both.
    """

    shells: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    argument: str | None = None

    def __post_init__(self) -> None:
        both = sorted({*self.shells} & {*self.ignored})
        if both:
            raise ConfigError(
                f"ToolNames: found {printable(both[0])!r} in both `shells` and `ignored`. "
                "Allowed: a tool is one of the two. Remove it from one of them."
            )

    def runs(self, name: str) -> bool:
        """Whether a tool runs a text in a shell."""
        if name in self.ignored:
            return False
        return name in self.shells or name.lower() in SHELLS

    def is_ignored(self, name: str) -> bool:
        """Whether a tool's calls are left out."""
        if name in self.shells:
            return False
        return name in self.ignored or name.lower() in SILENT


class Call(NamedTuple):
    """A call of a tool that runs texts.

    Attributes:
        text: None where the call could not be carried out as it is written.
        problem: why not.
    """

    text: str | None
    problem: str


def read_call(function: Value, names: ToolNames) -> Call | None:
    """The text that a call runs; None: the tool's calls are left out.

    Args:
        function: an object with `name` and `arguments`.
        names: what tools are called.

    Raises:
        TraceError: the tool is not known, or its arguments hold no text; or they write to a program
            that is running, which a replay cannot time.
    """
    name = function.get("name").name()
    if names.is_ignored(name):
        return None
    if not names.runs(name):
        function.get("name").wrong(
            f"a call of the tool {printable(repr(name), 80)}",
            f"tools that run a text in a shell ({', '.join(SHELLS[:MAX_NAMES])}, …) and tools that "
            f"change nothing ({', '.join(SILENT[:MAX_NAMES])}, …)",
            "If it runs texts, name it with --tool; with --ignore-tool its calls are left out. "
            "What a tool of another kind did cannot be replayed.",
        )
    arguments = function.get("arguments")
    if isinstance(arguments.value, str):
        try:
            value = json.loads(arguments.value)
        except (ValueError, RecursionError):
            return Call(None, "its arguments are not JSON")
        arguments = Value(value, arguments.file, arguments.line, arguments.field)
    if not isinstance(arguments.value, dict):
        return Call(None, f"its arguments are {kind(arguments.value)}")
    return _from_arguments(arguments, names)


def _from_arguments(arguments: Value, names: ToolNames) -> Call:
    wanted = ARGUMENTS if names.argument is None else (names.argument,)
    name = next((name for name in wanted if arguments.has(name)), None)
    if str(arguments.value.get("is_input")).lower() == "true":
        arguments.wrong(
            "input to a program that is already running",
            "texts for a shell that waits for one",
            "Leave the trajectory out: when a program was ready for its input is not recorded.",
        )
    if name is None:
        if not arguments.value:
            return Call(None, "it has no arguments")
        found = ", ".join(printable(repr(name), 40) for name in [*arguments.value][:MAX_NAMES])
        arguments.wrong(
            f"the arguments {found}",
            f"an argument with the text to run: {' or '.join(wanted)}",
            "Give its name with --argument.",
        )
    value = arguments.get(name)
    if isinstance(value.value, str) and not value.value.strip():
        return Call(None, "it is empty")
    if value.value == []:
        return Call(None, "its list is empty")
    text = _text(value, name)
    if text.strip() in KEYS or _CONTROL.search(text):
        value.wrong(
            f"the keys {printable(repr(text.strip()), 40)}",
            "texts for a shell that waits for one",
            "Leave the trajectory out: when they were pressed is not recorded.",
        )
    folder = next((arguments.get(name) for name in FOLDERS if arguments.has(name)), None)
    if folder is not None:
        text = f"cd -- {shlex.quote(folder.command())}\n{text}"
    return Call(text, "")


def _text(value: Value, name: str) -> str:
    if not isinstance(value.value, list):
        return value.command()
    if name == SEVERAL:
        return "\n".join(item.command() for item in value.items())
    return shlex.join(item.text() for item in value.items())
