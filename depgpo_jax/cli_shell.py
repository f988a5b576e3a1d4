"""`depgpo shell`: a person's keyboard and screen at a traced terminal."""

from __future__ import annotations

import codecs
import io
import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final, TextIO

import click

from depgpo_jax.errors import ConfigError
from depgpo_jax.tracer.screen import CHUNK, INTERRUPT
from depgpo_jax.tracer.shell import MARK_ROOT, SENTINEL
from depgpo_jax.tracer.terminal import SessionLost

if TYPE_CHECKING:
    from depgpo_jax.tracer.terminal import Terminal
    from depgpo_jax.tracer.workplace import Workplace

END_OF_INPUT: Final = b"\x04"
"""Ctrl-D, as the terminal takes it."""

PATIENCE: Final = 3
"""So many times Ctrl-C ends also what does not heed it, such as a loop of the shell's own."""

ALARM_S: Final = 0.2
"""How often a waiting keyboard looks for signals."""

_LEAVE: Final = re.compile(r"\s*(exit|logout)(\s+\d+)?\s*;?\s*")
_UNFINISHED: Final = re.compile(
    rb"unexpected (EOF|end of file)|here-document at line \d+ delimited by end-of-file"
)
_LONGEST_SENTINEL: Final = 80


class Keyboard:
    """Reads a person's commands and shows what they print.

    Args:
        stream: where output and prompts go.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._ahead: list[str] = []
        if isinstance(sys.stdin, io.TextIOWrapper):  # a file's name may be no text
            sys.stdin.reconfigure(errors="surrogateescape")
        self.is_terminal = sys.stdin is not None and sys.stdin.isatty()
        if self.is_terminal:
            with suppress(ImportError):  # some Pythons are built without it
                import_module("readline")  # gives `input` editing and a history

    def show(self, text: str) -> None:
        """Writes text at once."""
        self._stream.write(text)
        self._stream.flush()

    def put_back(self, typed: bytes) -> None:
        """Lines that were typed while a command ran and that it did not read: they come next."""
        self._ahead += typed.decode("utf-8", "replace").splitlines()

    def read(self, cwd: str) -> str | None:
        """The next command, of as many lines as it needs; None at the end of input."""
        text: str | None = None
        while True:
            line = self._line(f"depgpo:{cwd}$ " if text is None else "> ")
            if line is None:
                return text
            text = line if text is None else f"{text}\n{line}"
            if not text.strip():
                text = None
            elif not is_unfinished(text):
                return text

    def _line(self, prompt: str) -> str | None:
        if not self.is_terminal:
            line = sys.stdin.readline() if sys.stdin is not None else ""
            return line.removesuffix("\n") if line else None
        if self._ahead:
            line = self._ahead.pop(0)
            self.show(f"{prompt}{line}\n")
            return line
        try:
            with _signals_seen():
                if self._stream is sys.stdout:
                    return input(prompt)
                self.show(prompt)
                return input()
        except EOFError:
            self.show("\n")
            return None


@contextmanager
def _signals_seen() -> Generator[None]:
    """While a line is read, Ctrl-C is seen at once also when it comes together with other keys.

    Python looks for signals when one interrupts its waiting. One that comes while a key is taken in
    would be seen only with the next key; an alarm now and then takes that key's place.
    """
    before = signal.signal(signal.SIGALRM, lambda _number, _frame: None)
    signal.setitimer(signal.ITIMER_REAL, ALARM_S, ALARM_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def is_unfinished(text: str) -> bool:
    """Whether a shell would wait for more lines: an open quote, here-document, loop, or backslash.

    Args:
        text: what has been typed so far.
    """
    if (len(text) - len(text.rstrip("\\"))) % 2:
        return True
    try:
        # -n: it is read, and nothing runs. The environment is empty, so that no file is sourced.
        read = subprocess.run(
            ["bash", "--norc", "--noprofile", "-n"],
            input=text.encode("utf-8", "surrogateescape"),
            capture_output=True,
            env={"LC_ALL": "C", "PATH": os.defpath},
            check=False,
            timeout=10,
        )
    except subprocess.TimeoutExpired:
        return False
    return bool(_UNFINISHED.search(read.stderr))


def run_shell(place: Workplace, keyboard: Keyboard) -> None:
    """Runs commands until the person leaves.

    Args:
        place: where.
        keyboard: whose.
    """
    cwd: str | None = place.directory
    with _echoed(place.terminal.terminal, keyboard.show) as echo:
        while cwd is not None:
            try:
                cwd = _one_command(place, keyboard, echo, cwd)
            except KeyboardInterrupt:  # while the person types, or just after a command
                if not keyboard.is_terminal:
                    raise
                keyboard.show("\n")


def _one_command(place: Workplace, keyboard: Keyboard, echo: _Echo, cwd: str) -> str | None:
    """Reads and runs one command; the working directory after it, or None to leave."""
    text = keyboard.read(cwd)
    if text is None or _LEAVE.fullmatch(text):
        return None
    try:
        with _passed_on(place.terminal.terminal, keyboard):
            ended = place.run(text)
    except SessionLost as error:
        click.echo(f"the shell is over: {error}", err=True)
        return None
    except ConfigError as error:
        click.echo(f"Error: {error}", err=True)
        return cwd
    echo.finish()
    if ended.failure is not None:
        click.echo(f"[{ended.failure}]", err=True)
    return ended.cwd or cwd


class _Echo:
    """Shows what a terminal prints as it comes, without the signs that end a command's output."""

    def __init__(self, nonce: str, show: Callable[[str], None]) -> None:
        marks = f"{SENTINEL}{MARK_ROOT}/{nonce}/".encode()
        end = SENTINEL.encode()
        self._sentinel = re.compile(re.escape(marks) + rb"[a-z0-9]{1,20}" + end)
        self._start = end
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._show = show
        self._held = b""
        self._at_start = True

    def add(self, data: bytes) -> None:
        """Takes in what the terminal printed."""
        data = self._sentinel.sub(b"", self._held + data)
        # The beginning of a sentinel may stand at the end of what has come so far.
        place = data.rfind(self._start)
        if place < 0 or len(data) - place > _LONGEST_SENTINEL:
            place = len(data)
        self._held = data[place:]
        self._out(data[:place])

    def finish(self) -> None:
        """A command has ended: the next thing begins on a line of its own."""
        if not self._at_start:
            self._out(b"\n")

    def _out(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        if text:
            self._at_start = text.endswith("\n")
            self._show(text)


@contextmanager
def _echoed(terminal: Terminal, show: Callable[[str], None]) -> Generator[_Echo]:
    """Shows what comes from a terminal while the block runs."""
    echo = _Echo(terminal.nonce, show)
    screen = terminal.screen
    before, screen.shown = screen.shown, echo.add
    try:
        yield echo
    finally:
        screen.shown = before


@contextmanager
def _passed_on(terminal: Terminal, keyboard: Keyboard) -> Generator[None]:
    """While a command runs, Ctrl-C goes to it, and so do the lines that the person types."""
    asked = 0

    def interrupt(_number: int, _frame: object) -> None:
        nonlocal asked
        asked += 1
        terminal.screen.type(INTERRUPT)
        if asked == PATIENCE - 1:
            click.echo("[once more ends the shell, and a new one begins]", err=True)
        elif asked >= PATIENCE:
            terminal.end_shell()

    def pass_lines() -> None:
        while stop not in select.select([0, stop], [], [])[0]:
            try:
                typed = os.read(0, CHUNK)
            except OSError:  # the keyboard is gone; the shell's own reading will see that too
                return
            terminal.screen.type(typed or END_OF_INPUT)

    if not keyboard.is_terminal:
        yield
        return
    stop, stopper = os.pipe()
    before = signal.signal(signal.SIGINT, interrupt)
    typing = threading.Thread(target=pass_lines, daemon=True)
    typing.start()
    try:
        yield
    finally:
        os.close(stopper)
        typing.join()
        os.close(stop)
        keyboard.put_back(terminal.screen.unread())
        signal.signal(signal.SIGINT, before)  # last: from here on, Ctrl-C is an exception again
