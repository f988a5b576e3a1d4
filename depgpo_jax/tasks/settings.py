"""task.toml: what this package takes from it, and what it cannot honour."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from depgpo_jax.errors import printable
from depgpo_jax.tasks.errors import TaskError

DEFAULT_TIMEOUT: Final = 600.0
MAX_TIMEOUT: Final = 7 * 24 * 3600.0
MAX_MEGABYTES: Final = 2**24
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIZE: Final = re.compile(r"([0-9]{1,9})([KMGT])i?B?", re.ASCII | re.IGNORECASE)
_KILOBYTES: Final = {"K": 1, "M": 2**10, "G": 2**20, "T": 2**30}


@dataclass(frozen=True)
class Settings:
    """What a task.toml says. Times are seconds, sizes megabytes; None: the sandbox's own limit.

    Attributes:
        name: `task.name`, or None where the directory's name serves.
        environment: variables of the whole sandbox, on top of the Dockerfile's.
        verifier_environment: variables of the verifier only.
        solution_environment: variables of the reference solution only.
        warnings: what the file asks for and does not get.
    """

    name: str | None = None
    agent_timeout: float = DEFAULT_TIMEOUT
    verifier_timeout: float = DEFAULT_TIMEOUT
    build_timeout: float = DEFAULT_TIMEOUT
    memory_mb: int | None = None
    storage_mb: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    verifier_environment: Mapping[str, str] = field(default_factory=dict)
    solution_environment: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class _Table(NamedTuple):
    """One table of the file, with its name for messages."""

    file: str
    name: str
    values: Mapping[str, Any]

    def path(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key

    def wrong(self, key: str, allowed: str, remedy: str) -> TaskError:
        return TaskError(
            _show(self.values[key]), allowed, remedy, file=self.file, field=self.path(key)
        )

    def table(self, key: str) -> _Table:
        if not isinstance(self.values.get(key, {}), dict):
            raise self.wrong(key, "a table", f"Write it as [{self.path(key)}].")
        return _Table(self.file, self.path(key), self.values.get(key, {}))

    def text(self, key: str) -> str | None:
        if key not in self.values:
            return None
        value = self.values[key]
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(key, "a text that is not empty", 'Put a text in "…" there.')
        return value

    def seconds(self, key: str) -> float:
        value = self.values.get(key, DEFAULT_TIMEOUT)
        if not _is_number(value) or not 0 < value <= MAX_TIMEOUT:
            raise self.wrong(
                key,
                f"a number of seconds above 0, at most {MAX_TIMEOUT:g}",
                f"Write a number, or remove the key for {DEFAULT_TIMEOUT:g} seconds.",
            )
        return float(value)

    def megabytes(self, key: str, old_key: str) -> int | None:
        if key not in self.values:
            return self._old_size(old_key)
        value = self.values[key]
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MAX_MEGABYTES:
            raise self.wrong(
                key,
                f"a whole number of megabytes from 1 to {MAX_MEGABYTES}",
                "Write a number, or remove the key for the sandbox's own limit.",
            )
        return value

    def _old_size(self, key: str) -> int | None:
        """A size in the format's first spelling, such as `memory = "2G"`."""
        if key not in self.values:
            return None
        value = self.values[key]
        match = _SIZE.fullmatch(value) if isinstance(value, str) else None
        size = int(match[1]) * _KILOBYTES[match[2].upper()] // 2**10 if match else 0
        if not 0 < size <= MAX_MEGABYTES:
            raise self.wrong(
                key,
                f'a size such as "512M" or "2G", from 1 to {MAX_MEGABYTES} megabytes',
                f"Write such a text, or use {key}_mb with a whole number.",
            )
        return size

    def variables(self, key: str) -> dict[str, str]:
        table = self.table(key)
        for name, value in table.values.items():
            if not _VARIABLE.fullmatch(name):
                raise TaskError(
                    f"the variable {_show(name)}",
                    "names of letters, digits and _, not beginning with a digit",
                    "Rename it.",
                    file=self.file,
                    field=table.name,
                )
            if not isinstance(value, str) or "\0" in value:
                raise table.wrong(name, "a text without a NUL", 'Put the value in "…".')
            if "${" in value:
                raise table.wrong(
                    name,
                    "the value itself",
                    "Write it out: nothing of the host's environment reaches a sandbox.",
                )
        return dict(table.values)


def parse_settings(text: str, *, file: str) -> Settings:
    """Reads a task.toml.

    Unknown keys are left alone, as the format wants it. What the task needs and a sandbox cannot
    give (several steps, a GPU, tool servers) is an error; what may be left out is a warning.

    Args:
        text: the file's content.
        file: its name, for messages.

    Raises:
        TaskError: it is no TOML, a value has the wrong type, or the task needs what there is not.
    """
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise TaskError(
            f"text that is not TOML: {printable(str(error))}",
            "a TOML file",
            "Put it right there.",
            file=file,
        ) from None
    top = _Table(file, "", values)
    agent, verifier, box = top.table("agent"), top.table("verifier"), top.table("environment")
    _refuse_needs(top, box)
    return Settings(
        name=top.table("task").text("name"),
        agent_timeout=agent.seconds("timeout_sec"),
        verifier_timeout=verifier.seconds("timeout_sec"),
        build_timeout=box.seconds("build_timeout_sec"),
        memory_mb=box.megabytes("memory_mb", "memory"),
        storage_mb=box.megabytes("storage_mb", "storage"),
        environment=box.variables("env"),
        verifier_environment=verifier.variables("env"),
        solution_environment=top.table("solution").variables("env"),
        warnings=tuple(_warnings(agent, verifier, box)),
    )


def _refuse_needs(top: _Table, box: _Table) -> None:
    """Raises for what changes a task's meaning when it is left out."""
    if top.values.get("steps"):
        raise TaskError(
            "a task of several steps",
            "one instruction and one verifier",
            "Remove `steps`, or make each step a task of its own.",
            file=top.file,
            field="steps",
        )
    if box.values.get("mcp_servers"):
        raise TaskError(
            "tool servers",
            "a task for a terminal alone",
            "Remove `mcp_servers`.",
            file=top.file,
            field="environment.mcp_servers",
        )
    if "gpus" not in box.values:
        return
    gpus = box.values["gpus"]
    if not isinstance(gpus, int) or isinstance(gpus, bool) or gpus != 0:
        raise box.wrong("gpus", "0", "Remove the key: a sandbox has no GPU.")


def _warnings(agent: _Table, verifier: _Table, box: _Table) -> list[str]:
    """What the file asks for and does not get."""
    notes = {
        "docker_image": "the image is ignored: commands find this machine's own programs",
        "allow_internet": "there is no network but the loopback",
        "cpus": "the number of CPUs is not limited",
    }
    found = [f"environment.{key}: {note}" for key, note in notes.items() if box.values.get(key)]
    found += [
        f"{table.name}.user: ignored, a sandbox has one user"
        for table in (agent, verifier)
        if table.values.get("user") is not None
    ]
    return [f"{box.file}: {note}" for note in found]


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or math.isfinite(value)


def _show(value: object) -> str:
    """A value for a message."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        return printable(repr(value), 80)
    except ValueError:  # an integer with more digits than Python prints
        return "a number too large to show"
