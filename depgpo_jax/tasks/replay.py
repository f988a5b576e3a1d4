"""A recorded run's texts, executed again in a fresh sandbox under the tracer, then the verifier.

What comes out is a run of its own, which may differ from the recorded one: programs have other
versions, clocks other times. Its trace says how far it agrees, in `extra.replay` of the trace and
of each command; its reward is always the one that was measured now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace as replaced

from depgpo_jax.errors import ConfigError
from depgpo_jax.tasks.agreement import Agreement, CommandAgreement, compare_command
from depgpo_jax.tasks.run import TaskSession
from depgpo_jax.tasks.task import Task
from depgpo_jax.tracer.terminal import SessionLost, TerminalConfig
from depgpo_jax.traces import Command, Step, Trace
from depgpo_jax.trajectories.own_traces import kept_fields
from depgpo_jax.trajectories.structs import Trajectory, Turn

MAX_STRETCH: Final = 1000.0
UNKNOWN_TOKENS: Final = 1
"""Loss tokens of a turn whose recording does not say how many it had."""


@dataclass(frozen=True)
class ReplayConfig:
    """How a recorded run is executed again.

    Attributes:
        stretch: every time limit is this many times as long, since a traced command takes longer.
            Tracing costs a factor of 2 to 3 where programs do little but open files, up to 6 where
            they do nothing else.
        time_limit_s: seconds that one command may take, before it is stretched; None: as long as
            the task gives to the agent for all of them.

    Raises:
        ConfigError: a number is out of range.
    """

    stretch: float = 3.0
    time_limit_s: float | None = None

    def __post_init__(self) -> None:
        if not 1.0 <= self.stretch <= MAX_STRETCH:
            raise ConfigError(
                f"ReplayConfig.stretch: found {self.stretch!r}. Allowed: 1 to {MAX_STRETCH:g}. "
                "Give how many times as long a traced command may take."
            )
        if self.time_limit_s is not None and not 0.0 < self.time_limit_s < float("inf"):
            raise ConfigError(
                f"ReplayConfig.time_limit_s: found {self.time_limit_s!r}. Allowed: seconds above "
                "0, or None. Give the limit that a command had when it was recorded."
            )

    def stretched(self, task: Task) -> Task:
        """The task with more time."""
        settings = replace(
            task.settings,
            agent_timeout=task.settings.agent_timeout * self.stretch,
            verifier_timeout=task.settings.verifier_timeout * self.stretch,
        )
        return replace(task, settings=settings)

    def terminal(self, task: Task) -> TerminalConfig:
        """Limits of the terminal."""
        limit = self.time_limit_s or task.settings.agent_timeout
        return TerminalConfig(time_limit_s=limit * self.stretch)


class Replayed(NamedTuple):
    """A replay.

    Attributes:
        trace: of what ran now; `extra` says how far it agrees.
        agreement: the same as a value.
    """

    trace: Trace
    agreement: Agreement


def replay(
    task: Task,
    trajectory: Trajectory,
    config: ReplayConfig | None = None,
    *,
    step_done: Callable[[], object] = bool,
) -> Replayed:
    """Executes a trajectory's texts again on a task, and runs its verifier.

    One shell runs them all, so directory, variables and background processes live on from text to
    text.

    Args:
        task: from `read_task`; the one that the trajectory was recorded on.
        trajectory: what to run.
        config: time limits.
        step_done: called after each turn.

    Raises:
        TaskError: the task's files cannot be made.
        SandboxError: this machine cannot build the sandbox.
    """
    config = config or ReplayConfig()
    stopped = None
    with TaskSession(config.stretched(task), config.terminal(task)) as session:
        for turn in trajectory.turns:
            texts = [command.text for command in turn.commands]
            tokens = UNKNOWN_TOKENS if turn.loss_tokens is None else turn.loss_tokens
            try:
                ended = session.step(texts, loss_tokens=tokens)
            except SessionLost as error:
                stopped = str(error)
                break
            if len(ended) < len(texts):
                stopped = f"the agent's {session.task.settings.agent_timeout:g} s are over"
                break
            step_done()
        trace = session.finish(
            trace_id=trajectory.trajectory_id, group_id=trajectory.group_id or task.name
        )
    return _marked(trace, trajectory, config, stopped)


def _marked(
    trace: Trace, trajectory: Trajectory, config: ReplayConfig, stopped: str | None
) -> Replayed:
    """The trace with what the recording says beside what happened now."""
    recorded, commands = trajectory.commands, trace.commands
    compared = [
        compare_command(number, *pair)
        for number, pair in enumerate(zip(recorded, commands, strict=False))
    ]
    agreement = Agreement(
        compared,
        trajectory.reward,
        None if trace.reward is UNSET else trace.reward,
        stopped,
        len(recorded) - len(commands),
        [f"turn {n}, {why}" for n, turn in enumerate(trajectory.turns) for why in turn.not_run],
    )
    extra: dict[str, Any] = {
        "source": trajectory.source,
        "format": trajectory.format,
        "stretch": config.stretch,
        **agreement.as_extra(),
    }
    if any(turn.loss_tokens is None for turn in trajectory.turns):
        extra["loss_tokens"] = f"not recorded; {UNKNOWN_TOKENS} a turn where they are not"
    steps = _marked_steps(trace.steps, trajectory.turns, compared)
    marked = replaced(trace, steps=steps, extra={**trajectory.extra, "replay": extra})
    return Replayed(marked, agreement)


def _marked_steps(
    steps: Sequence[Step], turns: Sequence[Turn], compared: Sequence[CommandAgreement]
) -> list[Step]:
    """Steps with their commands' marks; turns that did not run have no step."""
    done: list[Step] = []
    first = 0
    for step, turn in zip(steps, turns, strict=False):
        marks = compared[first : first + len(step.commands)]
        first += len(step.commands)
        commands = [_marked_command(*pair) for pair in zip(step.commands, marks, strict=True)]
        kept = {} if turn.step is None else kept_fields(turn.step)
        done.append(replaced(step, commands=commands, **kept))
    return done


def _marked_command(command: Command, mark: CommandAgreement) -> Command:
    extra = mark.as_extra()
    if not extra:
        return command
    before = {} if command.extra is UNSET else command.extra
    return replaced(command, extra={**before, "replay": extra})
