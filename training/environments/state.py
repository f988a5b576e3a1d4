"""Containers of the file world: what a policy is shown, what the world is, what a step leaves."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Bool, Int32

from training.environments.records import StepRecord
from training.environments.tasks import Task


class Observation(NamedTuple):
    """What a policy is shown before a command.

    Attributes:
        prompt: family, a, b, z, scratch, f, g as tokens; `NOTHING` where it says nothing.
        feedback: the last command's three tokens, its status, the two lines it printed.
    """

    prompt: Int32[Array, " 7"]
    feedback: Int32[Array, " 6"]


class State(NamedTuple):
    """The world of one rollout.

    Attributes:
        task: what is asked; does not change.
        lines: content of every file; `NO_LINE` where it ends. Line 2 never without line 1.
        marked: the file has a live whole-file record (see `records`).
        printed: the lines that were printed last; `NO_LINE` where there are none.
        printer: the command that printed them; `NOBODY` at first.
        value_printer: the command that printed each value last; `NOBODY` where none did.
        position: commands so far, submit included.
        done: the rollout is over; a further step changes nothing.
    """

    task: Task
    lines: Int32[Array, "8 2"]
    marked: Bool[Array, " 8"]
    printed: Int32[Array, " 2"]
    printer: Int32[Array, ""]
    value_printer: Int32[Array, " 8"]
    position: Int32[Array, ""]
    done: Bool[Array, ""]


class Info(NamedTuple):
    """What a step leaves behind.

    Attributes:
        record: who read, wrote and reused what.
        success: z holds what was asked for, after this command.
    """

    record: StepRecord
    success: Bool[Array, ""]
