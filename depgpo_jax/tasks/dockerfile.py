"""The honoured subset of a Dockerfile, as a plan of steps.

=========  ==========================================================================
FROM       ignored, with a warning: commands find this machine's own programs
COPY       files, folders, globs; `--chmod=OCTAL`; `--link` means nothing here
WORKDIR    absolute or relative to the one before
ENV        both forms, with `$X` and `${X}`
RUN        shell and exec form; runs in the sandbox, without network
=========  ==========================================================================

Anything else is an error that names its line. What is refused and why: ADD fetches and unpacks, a
second FROM and ARG need a builder, USER, `--chown`, VOLUME and EXPOSE need more than one user or
machine, and nothing starts CMD, ENTRYPOINT or HEALTHCHECK, since the agent's shell is all that
runs. A file goes into a folder of the task's own, never over the system's.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Callable
from typing import Final

from depgpo_jax.errors import printable
from depgpo_jax.tasks.errors import TaskError
from depgpo_jax.tasks.lines import NAME, Instruction, expand, instructions, quoted_words
from depgpo_jax.tasks.plan import START, Copy, Plan, Run, Workdir

SYSTEM: Final = frozenset(
    [
        "bin",
        "boot",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "proc",
        "run",
        "sbin",
        "sys",
        "usr",
        "logs",
        "solution",
        "tests",
    ]
)
"""Folders of the root that a task's files cannot go into: the system's, and the verifier's."""

MAX_PATH: Final = 1000
HONOURED: Final = "FROM, COPY, WORKDIR, ENV, RUN"
_REMEDIES: Final = {
    "ADD": "Use COPY for files, and RUN tar for archives; nothing is fetched.",
    "ARG": "Use ENV.",
    "CMD": "Remove it: the agent's shell is all that runs.",
    "ENTRYPOINT": "Remove it: the agent's shell is all that runs.",
    "EXPOSE": "Remove it: every port is open inside the sandbox.",
    "HEALTHCHECK": "Remove it: nothing asks.",
    "LABEL": "Remove it, or write it as a comment.",
    "MAINTAINER": "Remove it, or write it as a comment.",
    "ONBUILD": "Write the instruction itself.",
    "SHELL": "Remove it: RUN uses bash.",
    "STOPSIGNAL": "Remove it: a sandbox ends with all that runs in it.",
    "USER": "Remove it: a sandbox has one user.",
    "VOLUME": "Remove it: every folder can be written.",
}
_HEREDOC: Final = re.compile(r"(?:^|\s)\d*<<-?[\"']?[A-Za-z_]")
_OCTAL: Final = re.compile(r"[0-7]{3,4}", re.ASCII)


def parse_dockerfile(text: str, *, file: str) -> Plan:
    """Reads a Dockerfile; nothing is copied or run.

    Args:
        text: its content.
        file: its name, for messages.

    Raises:
        TaskError: an instruction is outside the subset or malformed; it names the line.
    """
    if "\0" in text:
        raise TaskError(
            "a NUL character",
            "text",
            "Write the Dockerfile as plain text.",
            file=file,
            line=text.count("\n", 0, text.index("\0")) + 1,
        )
    reader = _Reader(file)
    for instruction in instructions(text, file=file):
        reader.take(instruction)
    if not reader.based:
        raise TaskError(
            "no FROM",
            "a Dockerfile, which begins with FROM",
            "Write for example `FROM debian:bookworm` as its first line.",
            file=file,
        )
    return Plan(file, tuple(reader.steps), reader.workdir, reader.variables, tuple(reader.warnings))


class _Reader:
    """The state between instructions."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.based = False
        self.workdir = "/"
        self.variables = dict(START)
        self.steps: list[Copy | Workdir | Run] = []
        self.warnings: list[str] = []
        self.known: dict[str, Callable[[Instruction], None]] = {
            "FROM": self.base,
            "COPY": self.copy,
            "WORKDIR": self.enter,
            "ENV": self.assign,
            "RUN": self.run,
        }

    def take(self, instruction: Instruction) -> None:
        known = self.known.get(instruction.keyword)
        if known is None:
            raise instruction.error(
                printable(instruction.keyword, 40),
                HONOURED,
                _REMEDIES.get(instruction.keyword, "Remove it, or do the same with RUN."),
            )
        if not self.based and instruction.keyword != "FROM":
            raise instruction.error(
                f"{instruction.keyword} before FROM", "FROM first", "Move FROM to the first line."
            )
        if not instruction.rest:
            raise instruction.error(
                f"{instruction.keyword} with nothing after it",
                "an instruction with its arguments",
                "Complete or remove it.",
            )
        known(instruction)

    def base(self, instruction: Instruction) -> None:
        if self.based:
            raise instruction.error(
                "a second FROM",
                "one stage",
                "Build what the first stage makes beforehand, and COPY it.",
            )
        self.based = True
        image = next(
            (word for word in instruction.rest.split() if not word.startswith("--")), "none"
        )
        self.warnings.append(
            f"{self.file}, line {instruction.line}: the base image {printable(image, 80)} is "
            "ignored: commands find this machine's own programs"
        )

    def enter(self, instruction: Instruction) -> None:
        path = expand(instruction.rest, self.variables, instruction)
        self.workdir = self.inside(path, instruction)
        if self.workdir != "/":
            self.steps.append(Workdir(self.workdir, instruction.line))

    def assign(self, instruction: Instruction) -> None:
        words = quoted_words(instruction)
        if "=" not in words[0]:
            name, _, value = instruction.rest.replace("\t", " ", 1).partition(" ")
            pairs = [(name, value.strip())]
            if not value.strip():
                raise instruction.error(
                    f"{printable(name, 80)} without a value", "NAME=VALUE …", "Write NAME=VALUE."
                )
        else:
            pairs = [self.pair(word, instruction) for word in words]
        # All of one instruction's values are those from before it.
        values = {name: expand(value, self.variables, instruction) for name, value in pairs}
        for name in values:
            if not NAME.fullmatch(name):
                raise instruction.error(
                    f"the variable {printable(name, 80)}",
                    "names of letters, digits and _, not beginning with a digit",
                    "Rename it.",
                )
        self.variables = {**self.variables, **values}

    def pair(self, word: str, instruction: Instruction) -> tuple[str, str]:
        name, equals, value = word.partition("=")
        if not equals:
            raise instruction.error(
                f"{printable(word, 80)} without a value", "NAME=VALUE …", "Write NAME=VALUE."
            )
        return name, value

    def run(self, instruction: Instruction) -> None:
        if instruction.rest.startswith("--"):
            raise instruction.error(
                printable(instruction.rest.split()[0], 80),
                "RUN without options",
                "Remove the option.",
            )
        arguments = _json_list(instruction)
        self.refuse_heredoc(instruction)
        text = instruction.rest if arguments is None else shlex.join(arguments)
        self.steps.append(Run(text, self.workdir, self.variables, instruction.line))

    def copy(self, instruction: Instruction) -> None:
        self.refuse_heredoc(instruction)
        mode = None
        while instruction.rest.startswith("--"):
            option, _, rest = instruction.rest.replace("\t", " ").partition(" ")
            mode = mode if option == "--link" else _mode(option, instruction)
            instruction = instruction._replace(rest=rest.strip())
        words = _json_list(instruction) or instruction.rest.split()
        if len(words) < 2:
            raise instruction.error(
                f"{len(words)} paths" if len(words) != 1 else "one path",
                "sources and a target",
                "Write COPY SOURCE… TARGET.",
            )
        *sources, target = [expand(word, self.variables, instruction) for word in words]
        into = target.endswith("/") or posixpath.basename(target) in (".", "..")
        if len(sources) > 1 and not into:
            raise instruction.error(
                f"several sources and the target {printable(target, 80)}",
                "a folder as the target of several sources",
                "End the target with /.",
            )
        path = self.inside(target, instruction)
        if path == "/":
            raise instruction.error(
                "the root as target",
                "a folder of the task's own, such as /app",
                "Copy each folder by its name: COPY app /app.",
            )
        patterns = tuple(_source(source, instruction) for source in sources)
        self.steps.append(Copy(patterns, path, into, mode, instruction.line))

    def refuse_heredoc(self, instruction: Instruction) -> None:
        if _HEREDOC.search(instruction.rest):
            raise instruction.error(
                "a here-document",
                "instructions without one",
                "Put the text into a file of environment/ and COPY it.",
            )

    def inside(self, path: str, instruction: Instruction) -> str:
        """The absolute path, in a folder that a task may fill."""
        if not path or len(path) > MAX_PATH:
            raise instruction.error(
                f"a path of {len(path)} characters", f"1 to {MAX_PATH}", "Write a path."
            )
        whole = "/" + posixpath.normpath(posixpath.join(self.workdir, path)).lstrip("/")
        if whole.split("/")[1] in SYSTEM:
            raise instruction.error(
                f"the folder {printable(whole, 80)}",
                "folders of the task's own, such as /app; not the system's, nor the verifier's "
                "/tests, /solution and /logs",
                "Use a folder under /app; for programs, put it on PATH with ENV.",
            )
        return whole


def _mode(option: str, instruction: Instruction) -> int:
    name, _, value = option.partition("=")
    if name != "--chmod":
        raise instruction.error(
            printable(option, 80),
            "--chmod=OCTAL and --link",
            "Remove the option: a sandbox has one user, and files come from environment/.",
        )
    if not _OCTAL.fullmatch(value):
        raise instruction.error(
            printable(option, 80), "--chmod with an octal mode", "Write for example --chmod=755."
        )
    return int(value, 8) & 0o777


def _source(source: str, instruction: Instruction) -> str:
    """A source relative to the context, which it must not leave."""
    path = source.lstrip("/")
    if ".." in path.split("/"):
        raise instruction.error(
            f"the source {printable(source, 80)}",
            "files of environment/, without ..",
            "Move what is copied into environment/.",
        )
    return posixpath.normpath(path) if path else "."


def _json_list(instruction: Instruction) -> list[str] | None:
    """The exec form's texts, or None: what is no JSON list of texts is a shell's text to Docker."""
    if not instruction.rest.startswith("["):
        return None
    try:
        words = json.loads(instruction.rest)
    except (ValueError, RecursionError):
        return None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return None
    for word in words:
        if not word or "\0" in word or _surrogate(word):
            raise instruction.error(
                "an empty text, a NUL or half a character in the list",
                "texts that a command line can hold",
                "Write the instruction without a list.",
            )
    if not words:
        raise instruction.error(
            "an empty list", "a list of texts", "Complete or remove the instruction."
        )
    return words


def _surrogate(word: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in word)
