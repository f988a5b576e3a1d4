"""A terminal session: texts go in, what was printed and how it ended come out.

One bash lives as long as the session, so the working directory, variables, functions and background
processes survive from text to text, as they do for a person. Its standard streams are a
pseudo-terminal of its own. Who wants to know what a text did besides watches it from outside: see
`recorder`.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Self

from depgpo_jax.errors import ConfigError, DepgpoError
from depgpo_jax.tracer.descendants import belonging, children, cmdline, descendants
from depgpo_jax.tracer.output import Output
from depgpo_jax.tracer.screen import CHUNK, INTERRUPT, Screen, readable
from depgpo_jax.tracer.shell import BEGIN, DIED, SENTINEL, is_inner, mark, request, shell_argv

GRACE_S = 1.0
"""Between asking a text to end and ending it, and again before its shell is ended too."""

WAKE_S = 0.25
"""How often a waiting session looks whether its processes are still there."""


@dataclass(frozen=True)
class TerminalConfig:
    """Limits of a session.

    Attributes:
        time_limit_s: longest time of one text.
        output_limit: bytes of output kept for one text: its beginning and its end.
        columns: width of the terminal.
        rows: its height.
    """

    time_limit_s: float = 120.0
    output_limit: int = 1 << 20
    columns: int = 120
    rows: int = 40

    def __post_init__(self) -> None:
        for name in ("time_limit_s", "output_limit", "columns", "rows"):
            if not getattr(self, name) > 0:
                raise ConfigError(
                    f"TerminalConfig.{name}: found {getattr(self, name)!r}; allowed: above 0"
                )


@dataclass(frozen=True)
class CommandRecord:
    """What the terminal itself knows of a command: its output, and how it ended.

    What it read and wrote, also later in the background, is in `TracedTerminal.commands`.

    Attributes:
        number: 0 for the session's first text.
        output: what the terminal showed, as bytes; cut in the middle beyond the limit.
        exit_code: of its last command; None where it never ended by itself.
        cwd: the working directory afterwards.
        started: seconds since the epoch.
        ended: the same.
        failure: why it is no ordinary end; None if it is one.
        shell_ended: the shell ended with it, and the next text finds a new one.
    """

    number: int
    output: bytes
    exit_code: int | None
    cwd: str
    started: float
    ended: float
    failure: str | None
    shell_ended: bool


class SessionLost(DepgpoError):  # noqa: N818 - what happened, and no mistake of the caller
    """The session's own processes are gone: no further text can run."""


class Terminal:
    """One shell on a pseudo-terminal; a context manager that leaves nothing running.

    Args:
        wrap: makes the command line that is started from the shell's own, as a sandbox or a tracer
            does by standing in front of it.
        config: limits.
        environment: of the outermost process; None: this process's own.

    Raises:
        OSError: the process cannot be started.
    """

    def __init__(
        self,
        wrap: Callable[[list[str]], list[str]] = list,
        config: TerminalConfig | None = None,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.config = config or TerminalConfig()
        self.nonce = secrets.token_hex(8)
        self._number = 0
        self._cwd = ""
        self._answers = b""
        self._pending = b""
        self._shell = 0
        self._closed = False
        self.deaths = 0
        """How many shells have ended."""
        self.idle: Callable[[], object] = bool
        """Called now and then while a text runs."""
        with ExitStack() as ours, ExitStack() as theirs:
            self.screen = Screen(self.config.columns, self.config.rows)
            ours.callback(self.screen.close)
            theirs.callback(self.screen.close_other)
            answers_out, answers_in = os.pipe()
            self._answer_end, answers = _pipe((answers_out, answers_in), ours, theirs)
            commands_out, commands_in = os.pipe()
            self._command_end, commands = _pipe((commands_in, commands_out), ours, theirs)
            os.set_blocking(self._command_end, False)
            self.process = subprocess.Popen(
                # A session with this terminal as its own, so that Ctrl-C reaches what runs in it.
                ["setsid", "--ctty", *wrap(shell_argv(self.nonce, commands, answers))],
                stdin=self.screen.other,
                stdout=self.screen.other,
                stderr=self.screen.other,
                pass_fds=(commands, answers),
                env=None if environment is None else dict(environment),
            )
            self._ours = ours.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends everything that the session started; may be called again."""
        if not self._closed:
            self._closed = True
            self._end_all()
            self._ours.close()

    def _end_all(self) -> None:
        """Kills what belongs to the session, last of all the tracer, which has to see them end."""
        deadline = time.monotonic() + 5 * GRACE_S
        while (left := belonging(self.process.pid)) and time.monotonic() < deadline:
            kill_all(left)
            if not set(left) - set(descendants(self.process.pid)):
                time.sleep(0.001)
        if self.process.poll() is None:
            self.process.kill()
            # Not waited for yet, so that its number stays its own: what it has started meanwhile
            # is still of its session, such as the child that waits, stopped, to be traced.
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
            kill_all(belonging(self.process.pid))
        self.process.wait()

    def run(self, text: str, *, time_limit_s: float | None = None) -> CommandRecord:
        """Submits one text and waits for its end.

        Args:
            text: what an agent would type, of any number of lines.
            time_limit_s: instead of the session's own limit.

        Returns:
            How it ended. A text that ends the shell is a failure; the next one finds a new shell in
            the same working directory.

        Raises:
            ConfigError: the text holds a NUL, which no terminal can take, or is not Unicode.
            SessionLost: the session is over.
        """
        if "\0" in text:
            raise ConfigError("Terminal.run: found a NUL in the text; allowed: text without it")
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"Terminal.run: found half a character ({error.object[error.start]!a}) in the "
                "text; allowed: Unicode, and bytes as `surrogateescape` writes them"
            ) from None
        number, self._number = self._number, self._number + 1
        limit = self.config.time_limit_s if time_limit_s is None else time_limit_s
        started = time.time()
        deadline = time.monotonic() + limit
        self.check()
        earlier = self._children()
        self._send(request(self.nonce, number, text, self._cwd), deadline)
        output = Output(self.config.output_limit)
        answer = self._wait(number, output, deadline)
        timed_out = answer is None
        if answer is None:
            answer = self._stop(number, output, earlier)
        status, cwd = answer
        died = status.startswith("died ")
        failure = f"timed out after {limit:g} s" if timed_out else None
        if died:
            failure = failure or "the text ended the shell"
        else:
            self._cwd = cwd
        exit_code = None if timed_out else int(status.rpartition(" ")[2])
        return CommandRecord(
            number, output.bytes(), exit_code, self._cwd, started, time.time(), failure, died
        )

    def check(self) -> None:
        """Raises `SessionLost` if the session's outermost process has ended."""
        if self.process.poll() is not None:
            raise self._lost()

    def _send(self, message: bytes, deadline: float) -> None:
        while message:
            try:
                message = message[os.write(self._command_end, message) :]
            except BlockingIOError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise self._lost() from None
                time.sleep(0.001)
            except BrokenPipeError:
                raise self._lost() from None

    def _wait(self, number: int, output: Output, deadline: float) -> tuple[str, str] | None:
        """Collects output until the text or its shell has ended.

        Args:
            number: of the text.
            output: where to put it.
            deadline: by the monotonic clock.

        Returns:
            Exit status and working directory; None if time ran out first.
        """
        own, died = (
            f"{SENTINEL}{place}{SENTINEL}".encode()
            for place in (mark(self.nonce, number), mark(self.nonce, DIED))
        )
        longest = max(len(own), len(died))
        while True:
            places = {self._pending.find(end): end for end in (own, died) if end in self._pending}
            if places:
                end = places[min(places)]
                before, _, self._pending = self._pending.partition(end)
                output.add(before)
                answer = self._answer(number, is_death=end == died)
                if answer is not None:
                    return answer
                continue
            # The beginning of a sentinel may stand at the end of what has come so far.
            keep = min(len(self._pending), longest - 1)
            output.add(self._pending[: len(self._pending) - keep])
            self._pending = self._pending[len(self._pending) - keep :]
            left = deadline - time.monotonic()
            if left <= 0.0:
                return None
            if self.screen.readable(min(left, WAKE_S)):
                self._pending += self._read()
            elif self.process.poll() is not None:
                raise self._lost()
            self.idle()

    def _read(self) -> bytes:
        data = self.screen.read()
        if not data:
            raise self._lost()
        return data

    def end_shell(self) -> None:
        """Kills the agent's shell and all that it started; the next text finds a new one."""
        shells = self._shells()
        kill_all([*shells, *(pid for top in shells for pid in descendants(top))])

    def _shells(self) -> list[int]:
        """The agent's shell, and behind it its subshells, which are younger."""
        below = descendants(self.process.pid)
        return [pid for pid in below if is_inner(cmdline(pid), self.nonce)]

    def _children(self) -> list[int]:
        """Processes that the agent's shell has started and that still run."""
        if not (self._shell and is_inner(cmdline(self._shell), self.nonce)):
            self._shell = next(iter(self._shells()), 0)
        return children(self._shell) if self._shell else []

    def _stop(self, number: int, output: Output, earlier: list[int]) -> tuple[str, str]:
        """Ends a text that had its time: asks, then kills what it started, then its shell."""
        self.screen.type(INTERRUPT)
        answer = self._wait(number, output, time.monotonic() + GRACE_S)
        for _ in range(2):  # what the first time let go on may have started something else
            if answer is None:
                new = [pid for pid in self._children() if pid not in earlier]
                kill_all([pid for top in new for pid in (top, *descendants(top))])
                answer = self._wait(number, output, time.monotonic() + GRACE_S / 2)
        if answer is None:  # the shell itself is busy
            kill_all([self._shell] if self._shell else [])
            answer = self._wait(number, output, time.monotonic() + 10 * GRACE_S)
        if answer is None:
            raise self._lost()
        self.screen.reset()
        return answer

    def _answer(self, number: int, *, is_death: bool) -> tuple[str, str] | None:
        """Exit status and working directory; None for the death of a shell before the text."""
        begun = False
        while True:
            status, cwd = self._next_answer()
            if status == BEGIN:
                begun = begun or cwd == mark(self.nonce, number)
            elif status.startswith("died "):
                self.deaths += 1
                self._shell = 0
                if is_death:
                    return (status, cwd) if begun else None
            elif not is_death:
                return status, cwd

    def _next_answer(self) -> tuple[str, str]:
        while self._answers.count(b"\0") < 2:
            if not readable(self._answer_end, GRACE_S):
                raise self._lost()
            data = os.read(self._answer_end, CHUNK)
            if not data:
                raise self._lost()
            self._answers += data
        first, second, self._answers = self._answers.split(b"\0", 2)
        return first.decode(), os.fsdecode(second)

    def _lost(self) -> SessionLost:
        with suppress(subprocess.TimeoutExpired):  # its terminal closes before it has ended
            self.process.wait(WAKE_S)
        code = self.process.poll()
        self._end_all()
        ended = "its process does not answer" if code is None else f"its process ended with {code}"
        return SessionLost(f"terminal session: found that {ended}; start a new session")


def _pipe(ends: tuple[int, int], ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    """Two connected descriptors, each closed with its stack."""
    ours.callback(_close, ends[0])
    theirs.callback(_close, ends[1])
    return ends


def _close(descriptor: int) -> None:
    with suppress(OSError):
        os.close(descriptor)


def kill_all(pids: Iterable[int]) -> None:
    """Ends processes at once; those that are gone are no error."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
