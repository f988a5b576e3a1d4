"""A traced rollout: texts go in, commands with what they read and wrote come out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from typing import Self

from msgspec import UNSET

from depgpo_jax.tracer.descendants import descendants, started_after
from depgpo_jax.tracer.log_pipe import LogPipe
from depgpo_jax.tracer.record import Draft
from depgpo_jax.tracer.recorder import Recorder
from depgpo_jax.tracer.shell import MARK_ROOT
from depgpo_jax.tracer.strace_command import strace_arguments
from depgpo_jax.tracer.terminal import (
    CommandRecord,
    SessionLost,
    Terminal,
    TerminalConfig,
    kill_all,
)
from depgpo_jax.traces import Command

BACKEND = "strace"
LAG_S = 10.0
"""How long the tracer's lines may lag behind the terminal."""

LAST_S = 0.5
"""How long a process that was sent a deadly signal has to die, at the end."""


NEXT_CORE = -1
"""One of the cores that this process may use, another one for the next session."""

_turns = count(os.getpid())


def _pinned(core: int | None) -> list[str]:
    """What stands before a command line so that it and all that it starts stay on one core."""
    if core is None:
        return []
    if core == NEXT_CORE:
        cores = sorted(os.sched_getaffinity(0))
        core = cores[next(_turns) % len(cores)]
    return ["taskset", "--cpu-list", str(core)]


class TracedTerminal:
    """A terminal under the eyes of a tracer; a context manager that leaves nothing running.

    Args:
        root: the folder that is `/` for the commands; a function, asked once the shell runs.
        watched: folders below it that commands may change.
        wrap: as in `Terminal`, stands behind the tracer.
        config: limits of the terminal.
        environment: of the outermost process; None: this process's own.
        core: the processor core that shell and tracer share, which halves the cost of a traced
            call. `NEXT_CORE` takes the machine's cores in turn; None: they run on any, for texts
            that keep several cores busy.
        identify: what two names of one file have in common; None: its device and inode, which in
            an overlay does not hold (`SandboxFiles.identity`).
    """

    def __init__(
        self,
        watched: Sequence[bytes],
        *,
        root: Callable[[], bytes] = lambda: b"/",
        wrap: Callable[[list[str]], list[str]] = list,
        config: TerminalConfig | None = None,
        environment: Mapping[str, str] | None = None,
        core: int | None = NEXT_CORE,
        identify: Callable[[bytes], tuple[int, int]] | None = None,
    ) -> None:
        self._started = time.time()
        with ExitStack() as stack:
            self._log = stack.enter_context(LogPipe())
            arguments = [*_pinned(core), *strace_arguments(str(self._log.path))]
            self.terminal = stack.enter_context(
                Terminal(lambda argv: [*arguments, *wrap(argv)], config, environment=environment)
            )
            self._log.start()
            stack.callback(self._end_strays)
            marks = f"{MARK_ROOT}/{self.terminal.nonce}"
            self._recorder = Recorder(root(), watched, marks, identify)
            self._ended: list[CommandRecord] = []
            self._lost: dict[int, str] = {}
            self.terminal.idle = self._feed
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends everything that the session started; may be called again."""
        self._stack.close()

    def _end_strays(self) -> None:
        """Kills what a tracer that was killed let go, where nothing else leads to it any more."""
        recorder = vars(self).get("_recorder")
        if recorder is None or self.terminal.process.poll() is None:
            return
        recorder.feed(self._log.take_all())
        tops = [pid for pid in recorder.pids() if started_after(pid, self._started)]
        kill_all([pid for top in tops for pid in (top, *descendants(top))])

    def run(self, text: str, *, time_limit_s: float | None = None) -> CommandRecord:
        """Runs one text and takes down what it did.

        Args:
            text: what an agent would type.
            time_limit_s: instead of the terminal's own limit.

        Returns:
            How it ended; what it read and wrote is in `commands`.

        Raises:
            ConfigError: the text holds a NUL.
            SessionLost: the session is over.
        """
        if self._ended:
            self._feed()
            self._recorder.settle()
        number, started = len(self._ended), time.time()
        try:
            ended = self.terminal.run(text, time_limit_s=time_limit_s)
            is_complete = self._catch_up(ended)
            if not is_complete:
                self.terminal.check()
        except SessionLost as error:
            lost = CommandRecord(number, b"", None, "", started, time.time(), str(error), True)
            self._ended.append(lost)
            self._lost[number] = str(error)
            self._end_strays()
            raise
        self._ended.append(ended)
        if not is_complete:
            self._lost[number] = "the tracer ended or lagged behind"
        self._recorder.finish(number)
        return ended

    @property
    def tracer_was_lost(self) -> bool:
        """Whether commands ran that the tracer did not see to their end."""
        return bool(self._lost)

    def _feed(self) -> None:
        self._recorder.feed(self._log.take_all())

    def _catch_up(self, ended: CommandRecord) -> bool:
        """Reads the tracer's lines up to the command's end; False where they do not come."""
        deadline = time.monotonic() + LAG_S
        recorder, deaths = self._recorder, self.terminal.deaths
        while recorder.deaths < deaths or (not ended.shell_ended and recorder.ended < ended.number):
            chunk = self._log.take(deadline - time.monotonic())
            if chunk is None:
                return False
            recorder.feed(chunk)
        return True

    def commands(self, texts: Sequence[str]) -> list[Command]:
        """The records of all commands so far, with what came late.

        Args:
            texts: the texts that were run, in order.
        """
        self._feed()
        deadline = time.monotonic() + LAST_S
        while self._recorder.undecided() and time.monotonic() < deadline:
            self._recorder.feed(self._log.take(LAST_S) or b"")
        drafts = {draft.number: draft for draft in self._recorder.drafts()}
        return [
            self._command(drafts.get(ended.number, Draft(ended.number)), ended, text)
            for ended, text in zip(self._ended, texts, strict=True)
        ]

    def _command(self, draft: Draft, ended: CommandRecord, text: str) -> Command:
        lost = self._lost.get(ended.number)
        if lost is None and draft.rivals:
            others = ", ".join(map(str, sorted(draft.rivals)))
            lost = f"its processes could not be told from those of command {others}"
        failure = {} if ended.failure is None else {"failure": ended.failure}
        return draft.command(
            # A byte that is no text is written out, as it is in outputs.
            text=text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"),
            recorded=lost is None,
            unrecorded_reason=lost or UNSET,
            exit_code=ended.exit_code,
            backend=BACKEND,
            started=ended.started,
            ended=ended.ended,
            stdout=ended.output.decode("utf-8", "backslashreplace"),
            extra=failure or UNSET,
        )
