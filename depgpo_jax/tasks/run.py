"""One rollout of a task: commands in a traced sandbox, then the verifier under the same eyes."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET

from depgpo_jax.errors import printable
from depgpo_jax.tasks.build import build
from depgpo_jax.tasks.build_run import run_step, sandbox_limits
from depgpo_jax.tasks.results import read_test_results
from depgpo_jax.tasks.reward import Reward, read_reward, refused_write
from depgpo_jax.tracer.log_pipe import LogPipe
from depgpo_jax.tracer.sandbox import Sandbox
from depgpo_jax.tracer.sandbox_config import MIB, SandboxConfig
from depgpo_jax.tracer.session import TracedTerminal
from depgpo_jax.tracer.shell import MARK_ROOT
from depgpo_jax.tracer.strace_command import strace_arguments
from depgpo_jax.tracer.strace_log import parse
from depgpo_jax.tracer.terminal import CommandRecord, SessionLost, TerminalConfig
from depgpo_jax.tracer.verifier import inspected
from depgpo_jax.tracer.workplace import entry, root_of, with_sources
from depgpo_jax.traces import Step, TestResult, Trace

if TYPE_CHECKING:
    from depgpo_jax.tasks.task import Task

LOGS, HOME = "/logs/verifier", "/logs/home"
TESTS, SOLUTION = "/tests", "/solution"
SPARE_S = 60.0
"""Of a sandbox's time, beyond what the agent and the verifier may take."""

_WRITABLE = (b"/tmp", b"/var/tmp", b"/root", b"/run", b"/dev/shm")
BEGIN = f"{MARK_ROOT}/verifier/begin"
"""The mark behind which the verifier's own work begins; before it, the sandbox is entered."""

_VERIFIER = (
    f'{{ : <{BEGIN}; }} 2>/dev/null; cd -- "$1" 2>/dev/null; shift; exec bash {TESTS}/test.sh'
)

MAX_OUTPUT = 1 << 20
PRIVATE = 64 * MIB
"""For what a verifier leaves in its own directories; blocks of small files are more than they hold,
so the size of its tests counts twice."""


@dataclass(frozen=True)
class Verdict:
    """What the verifier left.

    Attributes:
        reward: its reward, or why there is none.
        tests: single results.
        inspected: what it looked at.
        output: what it printed.
    """

    reward: Reward
    tests: list[TestResult]
    inspected: list[str]
    output: bytes


class TaskSession:
    """A task's sandbox with a traced terminal in it; a context manager.

    The Dockerfile's RUN steps have run before it starts. The agent's time, from task.toml, begins
    then, and its thinking counts; memory and disk are task.toml's too, where it names them.

    Args:
        task: from `read_task`.
        config: limits of the terminal.
        with_solution: show the task's `solution/` at `/solution`, with its variables. The verifier
            does not see it.

    Raises:
        TaskError: its files cannot be made, or a RUN step fails.
        SandboxError: this machine cannot build the sandbox.
    """

    def __init__(
        self, task: Task, config: TerminalConfig | None = None, *, with_solution: bool = False
    ) -> None:
        self.task = task
        self.config = config or TerminalConfig(time_limit_s=task.settings.agent_timeout)
        self.texts: list[str] = []
        self._steps: list[tuple[int, int]] = []  # loss tokens and commands of each step
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="depgpo-")))
            root = folder / "root"
            build(task, root, run=lambda step: run_step(task, root, step))
            places = {str(root / name[1:]): name for name in task.plan.folders}
            for place in places:
                Path(place).mkdir(exist_ok=True)
            settings = task.settings
            self.sandbox = Sandbox(
                SandboxConfig(
                    workspaces=places,
                    environment=task.environment,
                    workdir=task.plan.workdir,
                    private_bytes=PRIVATE + 2 * task.shown_bytes,
                    wall_s=settings.agent_timeout + settings.verifier_timeout + SPARE_S,
                    **sandbox_limits(task),
                )
            )
            stack.enter_context(self.sandbox)
            private: dict[str, str] = {}
            if with_solution:
                self._show("solution", task.solution)
                private = {"solution": SOLUTION}
            variables = settings.solution_environment if with_solution else {}
            self.terminal = stack.enter_context(
                TracedTerminal(
                    [*(name.encode() for name in task.plan.folders), *_WRITABLE],
                    root=lambda: root_of(self.sandbox),
                    identify=partial(self.sandbox.identity, follow=False),
                    wrap=entry(self.sandbox, private=private, environment=variables),
                    config=self.config,
                )
            )
            self._deadline = time.monotonic() + settings.agent_timeout
            self._stack = stack.pop_all()

    def __enter__(self) -> TaskSession:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    @property
    def time_left(self) -> float:
        """Seconds that are left to the agent."""
        return max(0.0, self._deadline - time.monotonic())

    def step(self, texts: Sequence[str], *, loss_tokens: int = 1) -> list[CommandRecord]:
        """One turn of the agent: its commands, one after the other.

        Args:
            texts: what it submits.
            loss_tokens: tokens of the turn that enter the loss.

        Returns:
            How each ended. Fewer than there were texts once the agent's time is over: those left
            are not run and do not stand in the trace, nor does a turn of which nothing ran.

        Raises:
            SessionLost: the shell cannot go on. The text with which it ended stands in the trace;
                `finish` is all that can follow.
        """
        ended: list[CommandRecord] = []
        for text in texts:
            left = self.time_left
            if left <= 0.0:
                break
            limit = min(self.config.time_limit_s, left)
            try:
                ended.append(self.terminal.run(text, time_limit_s=limit))
            except SessionLost:
                self.texts.append(text)
                self._steps.append((loss_tokens, len(ended) + 1))
                raise
            self.texts.append(text)
        if ended or not texts:
            self._steps.append((loss_tokens, len(ended)))
        return ended

    def finish(self, *, trace_id: str, group_id: str | None = None) -> Trace:
        """Runs the verifier and makes the trace.

        Args:
            trace_id: unique in the file that it shall stand in.
            group_id: the same for rollouts of one prompt; None: the task's name.
        """
        commands = with_sources(self.terminal.commands(self.texts), self.task.instruction)
        written = {write.resource for command in commands for write in command.writes}
        verdict = self._verify(written)
        steps: list[Step] = []
        for loss_tokens, count in self._steps:
            steps.append(Step(loss_tokens=loss_tokens, commands=commands[:count]))
            commands = commands[count:]
        reward, invalid = verdict.reward
        return Trace(
            version=1,
            trace_id=trace_id,
            group_id=group_id or self.task.name,
            verifier=verdict.inspected,
            steps=steps,
            reward=UNSET if reward is None else reward,
            invalid=UNSET if invalid is None else invalid,
            tests=verdict.tests or UNSET,
        )

    def _show(self, name: str, folder: Path) -> None:
        """Copies a folder of the task into a private directory of that name."""
        target = self.sandbox.private_path(name)
        # A link stays one: it leads to what is inside, never to a file of the host.
        shutil.copytree(folder, target, symlinks=True, dirs_exist_ok=True)

    def _verify(self, written: set[str]) -> Verdict:
        self._show("tests", self.task.tests)
        logs = self.sandbox.private_path("logs")
        private = {"tests": TESTS, "logs": LOGS, "home": HOME}
        # A home of its own: what a rollout left in the other one would run inside the verifier.
        own = {"HOME": HOME, "PYTHONNOUSERSITE": "1"}
        environment = {**own, **self.task.settings.verifier_environment}
        # Not where the agent worked: it may have left a folder there that nobody can enter.
        prefix = self.sandbox.enter_prefix(private=private, environment=environment, workdir="/")
        with LogPipe() as log:
            argv = [*strace_arguments(str(log.path), looking=True), *prefix]
            process = subprocess.Popen(
                [*argv, "bash", "-c", _VERIFIER, "bash", self.sandbox.config.start_directory],
                stdin=subprocess.PIPE,  # a device of the host must not be in its reach
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            log.start()
            timed_out = False
            try:
                output, _ = process.communicate(timeout=self.task.settings.verifier_timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                self.sandbox.stop()  # what the tracer let go still holds the output open
                output, _ = process.communicate()
                timed_out = True
            events, _ = parse(log.take_rest())
        marks = (k for k, event in enumerate(events) if event.path == BEGIN.encode())
        own = events[next(marks, len(events)) + 1 :]
        reward = read_reward(Path(logs))
        if timed_out:
            reward = Reward(None, "the verifier did not end in time")
        elif not own:
            said = output.decode("utf-8", "replace").strip()
            reward = Reward(None, f"the verifier could not be started: {printable(said)}")
        elif refused := refused_write(own, LOGS):
            reward = Reward(None, refused)
        looked = inspected(own, written, [TESTS.encode(), b"/logs"])
        return Verdict(reward, read_test_results(Path(logs), output), looked, output[:MAX_OUTPUT])
