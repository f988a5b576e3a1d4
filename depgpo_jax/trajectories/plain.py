r"""Lists of texts, and an object form of our own with what came of them.

```json
{"id": "sum-csv/3", "task": "sum-csv", "group": "sum-csv", "reward": 1.0,
 "commands": ["ls", {"text": "wc -l data.csv", "output": "40 data.csv\n", "exit_code": 0}]}
```

Instead of `commands`, `turns` may hold a list of `{"loss_tokens": 31, "commands": […]}`.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from depgpo_jax.trajectories.structs import RecordedCommand, Trajectory, Turn
from depgpo_jax.trajectories.values import Value

_KEYS: Final = ("id", "task", "group", "reward", "commands", "turns", "extra")


def is_list(document: Value) -> bool:
    """Whether a document is a list that begins with a text, or an empty one."""
    value = document.value
    return isinstance(value, list) and (not value or isinstance(value[0], str))


def read_list(document: Value, trajectory_id: str, source: str) -> Trajectory:
    """A list of texts: one a turn.

    Raises:
        TraceError: something in it is no text that can run, or nothing is in it.
    """
    turns = tuple(Turn((RecordedCommand(item.command()),)) for item in document.items())
    _refuse_nothing(document, turns)
    return Trajectory(trajectory_id, source, "a list of texts", turns)


def is_object(document: Value) -> bool:
    """Whether a document is an object of our own form."""
    return document.has("commands") or document.has("turns")


def read_object(document: Value, trajectory_id: str, source: str) -> Trajectory:
    """An object of our own form.

    Raises:
        TraceError: it breaks a rule of the form.
    """
    document.only(_KEYS)
    if document.has("commands") and document.has("turns"):
        document.wrong(
            "both `commands` and `turns`", "one of the two", "Move the commands into the turns."
        )
    if document.has("turns"):
        turns = tuple(_turn(turn) for turn in document.get("turns").items())
    else:
        commands = document.get("commands").items()
        turns = tuple(Turn((_command(command),)) for command in commands)
    _refuse_nothing(document, turns)
    return Trajectory(
        document.get("id").name() if document.has("id") else trajectory_id,
        source,
        "an object with commands",
        turns,
        task=document.get("task").name() if document.has("task") else None,
        group_id=document.get("group").name() if document.has("group") else None,
        reward=document.get("reward").number() if document.has("reward") else None,
        extra=document.get("extra").object() if document.has("extra") else {},
    )


def _turn(value: Value) -> Turn:
    value.only(("loss_tokens", "commands"))
    tokens = value.get("loss_tokens").integer(0) if value.has("loss_tokens") else None
    return Turn(tuple(_command(command) for command in value.get("commands").items()), tokens)


def _command(value: Value) -> RecordedCommand:
    if isinstance(value.value, str):
        return RecordedCommand(value.command())
    value.only(("text", "output", "exit_code"))
    code = UNSET
    if "exit_code" in value.object():  # null says something, too
        code = value.get("exit_code").integer() if value.has("exit_code") else None
    output = value.get("output").text() if value.has("output") else None
    return RecordedCommand(value.get("text").command(), output, code)


def _refuse_nothing(document: Value, turns: tuple[Turn, ...]) -> None:
    if not any(turn.commands for turn in turns):
        document.wrong("no command", "at least one command", "Leave the trajectory out.")
