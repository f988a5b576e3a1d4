"""OpenAI message lists: what an agent's tool calls ran, and what came back.

A call ran if a message answers it before the agent's next turn. An agent that submits several calls
of which only the first is carried out leaves the others without an answer, and they are not run.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Final

from depgpo_jax.errors import printable
from depgpo_jax.trajectories.answers import Answer, read_answer
from depgpo_jax.trajectories.structs import RecordedCommand, Trajectory, Turn
from depgpo_jax.trajectories.tools import ToolNames, read_call
from depgpo_jax.trajectories.values import Value

_ANSWERS: Final = ("tool", "function")
_IDS: Final = ("id", "trajectory_id", "instance_id")
_TASKS: Final = ("task", "task_name", "task_id")

LEGACY: Final = "function_call"
"""In the place of an id: the one call of a message of the older form."""


def is_messages(document: Value) -> bool:
    """Whether a document is a list of messages."""
    value = document.value
    return isinstance(value, list) and bool(value) and is_message(value[0])


def is_message(value: object) -> bool:
    """Whether a value is a message."""
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def is_conversation(document: Value) -> bool:
    """Whether a document is an object with messages."""
    return document.has("messages")


def read_conversation(
    document: Value, trajectory_id: str, source: str, names: ToolNames
) -> Trajectory:
    """An object with `messages`; `id`, `task`, `group` and `reward` where it has them.

    Raises:
        TraceError: as in `read_messages`, or one of these has the wrong type.
    """
    known = {key: document.get(key).name() for key in (*_IDS, *_TASKS) if document.has(key)}
    found = [known[key] for key in _IDS if key in known]
    tasks = [known[key] for key in _TASKS if key in known]
    return read_messages(
        document.get("messages"),
        found[0] if found else trajectory_id,
        source,
        names,
        task=tasks[0] if tasks else None,
        group_id=document.get("group").name() if document.has("group") else None,
        reward=document.get("reward").number() if document.has("reward") else None,
    )


def read_messages(
    document: Value,
    trajectory_id: str,
    source: str,
    names: ToolNames,
    *,
    task: str | None = None,
    group_id: str | None = None,
    reward: float | None = None,
) -> Trajectory:
    """A list of messages. Each of the role `assistant` is a turn.

    Args:
        document: the list.
        trajectory_id: its id.
        source: its file, for messages.
        names: which tools run texts.
        task: the name of its task.
        group_id: its group.
        reward: its reward.

    Raises:
        TraceError: something is no message, an answer belongs to no call, a tool is not known, or
            no command ran at all.
    """
    turns: list[_Turn] = []
    for message in document.items():
        role = message.get("role").name()
        if role == "assistant":
            turns.append(_read_turn(message))
        elif role in _ANSWERS:
            if not turns:
                message.wrong(
                    "an answer before any call", "answers behind the call's message", "Correct it."
                )
            turns[-1].answer(message)
    done = tuple(turn.done(names) for turn in turns)
    if not any(turn.commands for turn in done):
        reasons = [why for turn in done for why in turn.not_run]
        document.wrong(
            f"no call that ran ({reasons[0]})" if reasons else "no call of a tool that runs texts",
            "assistant messages with tool_calls, and tool messages that answer them",
            "Leave the trajectory out, or give its commands as a list of texts.",
        )
    return Trajectory(
        trajectory_id, source, "messages", done, task=task, group_id=group_id, reward=reward
    )


@dataclass
class _Turn:
    """A turn's calls, while their answers come."""

    calls: list[Value] = field(default_factory=list)
    answers: dict[int, Answer] = field(default_factory=dict)
    waiting: dict[str, deque[int]] = field(default_factory=lambda: defaultdict(deque))

    def add(self, name: str, function: Value) -> None:
        self.waiting[name].append(len(self.calls))
        self.calls.append(function)

    def answer(self, message: Value) -> None:
        """Takes an answer in. Calls of one id are answered in order, as they were made."""
        is_legacy = message.get("role").value == "function"
        name = LEGACY if is_legacy else _id(message.get("tool_call_id"))
        numbers = self.waiting.get(name)
        if not numbers:
            call = f"the call {printable(repr(name), 80)}" if name and not is_legacy else "a call"
            message.wrong(
                f"one answer more to {call}"
                if numbers is not None
                else f"an answer to {call}, which the turn before it does not make",
                "one answer to each call, behind the message that makes it",
                "Correct the id, or remove the message.",
            )
        self.answers[numbers.popleft()] = read_answer(message)

    def done(self, names: ToolNames) -> Turn:
        """The turn, once all its answers are there."""
        ran: list[RecordedCommand] = []
        not_run: list[str] = []
        for number, function in enumerate(self.calls):
            answer = self.answers.get(number)
            if answer is None or not answer.executed:
                why = "nothing answers it" if answer is None else "its answer says so"
                not_run.append(f"call {number} did not run: {why}")
                continue
            call = read_call(function, names)
            if call is None:
                continue
            if call.text is None:
                not_run.append(f"call {number} did not run: {call.problem}")
            else:
                ran.append(RecordedCommand(call.text, answer.output, answer.exit_code))
        return Turn(tuple(ran), not_run=tuple(not_run))


def _read_turn(message: Value) -> _Turn:
    turn = _Turn()
    if message.has("tool_calls"):
        for call in message.get("tool_calls").items():
            turn.add(_id(call.get("id")), call.get("function"))
    elif message.has("function_call"):
        turn.add(LEGACY, message.get("function_call"))
    return turn


def _id(value: Value) -> str:
    """A call's id; empty where there is none, as in lists whose answers only stand in order."""
    return "" if value.value is None else value.name()
