"""Traces of this package as trajectories: only their texts are run again."""

from __future__ import annotations

import json
from typing import Any

from msgspec import UNSET

from depgpo_jax.errors import TraceError
from depgpo_jax.traces import Command, Step, parse_trace
from depgpo_jax.trajectories.structs import RecordedCommand, Trajectory, Turn
from depgpo_jax.trajectories.values import Value, text_problem


def is_trace(document: Value) -> bool:
    """Whether a document says that it is a trace."""
    return document.has("version") and document.has("steps")


def read_trace(document: Value, trajectory_id: str, source: str) -> Trajectory:
    """A trace: its texts, and what it says came of them.

    Its reads, writes and tokens' places are not looked at, its group names the task.

    Raises:
        TraceError: it breaks a rule of the format, or a command has no text.
    """
    line = json.dumps(document.value).encode()
    try:
        trace = parse_trace(line, source=document.file)
    except TraceError as error:
        raise TraceError(
            error.found,
            error.allowed,
            error.remedy,
            file=document.file,
            line=document.line,  # None where the whole file is one document
            trace_id=error.trace_id,
            field=error.field,
        ) from None
    turns: list[Turn] = []
    for number, step in enumerate(trace.steps):
        commands = [
            _command(command, document, f"steps[{number}].commands[{place}]")
            for place, command in enumerate(step.commands)
        ]
        turns.append(Turn(tuple(commands), step.loss_tokens, step=step))
    return Trajectory(
        trace.trace_id or trajectory_id,
        source,
        "a trace",
        tuple(turns),
        task=trace.group,
        group_id=trace.group,
        reward=None if trace.reward is UNSET else trace.reward,
        extra={} if trace.extra is UNSET else trace.extra,
    )


def _command(command: Command, document: Value, field: str) -> RecordedCommand:
    problem = "no text" if command.text is UNSET else text_problem(command.text)
    if problem and problem != "an empty text":
        Value(None, document.file, document.line, f"{field}.text").wrong(
            problem,
            "commands with the text that ran",
            "Give the texts; a trace without them cannot be replayed.",
        )
    return RecordedCommand(
        str(command.text),
        None if command.stdout is UNSET else command.stdout,
        command.exit_code,
    )


def kept_fields(step: Step) -> dict[str, Any]:
    """What of a recorded step belongs to its turn, whatever its commands do when they run again."""
    names = ("state", "reward", "token_ids", "logprobs", "context_token_ids", "extra")
    return {name: getattr(step, name) for name in names}
