"""Traced sessions for tests: short records of what commands read and wrote."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import UNSET

from depgpo_jax.tracer.content import resource_name
from depgpo_jax.tracer.session import TracedTerminal
from depgpo_jax.traces import Command, Step, Trace, Write, validate_trace

WHOLE, DELETED = "whole", "deleted"
Form = str | list[tuple[int, int, int, int]]


class Record(NamedTuple):
    """What a command's record says, names relative to the folder."""

    reads: set[str]
    writes: dict[str, Form]
    untraced: Collection[str] = frozenset()
    exit_code: int | None = 0
    recorded: bool = True


class Row(NamedTuple):
    """A command in a folder of its own, and the record that it must give."""

    name: str
    command: str
    reads: set[str]
    writes: dict[str, Form]
    files: Mapping[str, bytes] = MappingProxyType({})
    exit_code: int | None = 0


def come_from(path: str) -> str:
    return f"from {path}"


def record(command: Command, folder: Path) -> Record:
    """The record, shortened: names in `folder` without it."""
    prefix = resource_name(bytes(folder)) + "/"

    def short(name: str) -> str:
        for kind in ("meta:", "unix:"):
            if name.startswith(kind + prefix):
                return kind + name.removeprefix(kind + prefix)
        return name.removeprefix(prefix)

    def form(write: Write) -> Form:
        if write.hunks is not UNSET:
            return [(a, b, c, d) for a, b, c, d in write.hunks]
        if write.moved_from is not UNSET:
            return come_from(short(write.moved_from))
        return DELETED if write.deleted is True else WHOLE

    own = tuple({f"{sys.prefix}/", f"{sys.base_prefix}/", f"{sys.exec_prefix}/"})
    untraced = () if command.untraced is UNSET else command.untraced
    code = command.exit_code
    return Record(
        {short(name) for name in command.reads if not name.startswith(own)},
        {short(write.resource): form(write) for write in command.writes},
        {short(name) for name in untraced},
        None if code is UNSET else code,
        command.recorded,
    )


def validated(commands: Sequence[Command]) -> list[Command]:
    """The same commands, once a trace of them keeps every rule of the format."""
    steps = [Step(loss_tokens=1, commands=[command]) for command in commands]
    validate_trace(Trace(version=1, trace_id="test", verifier=[], steps=steps))
    return list(commands)


def traced(
    folder: Path, texts: Sequence[str], files: Mapping[str, bytes] | None = None, **options: Any
) -> list[Record]:
    """Runs texts in a folder under the tracer."""
    write_files(folder, files or {})
    place = f"cd {shlex.quote(str(folder))}"
    with TracedTerminal([bytes(folder)], **options) as terminal:
        for text in (place, *texts):
            terminal.run(text)
        commands = validated(terminal.commands([place, *texts]))
    return [record(command, folder) for command in commands[1:]]


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
