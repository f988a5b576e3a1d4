"""One recorded run: the texts that ran, turn by turn, and what the recording says came of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET, UnsetType

from depgpo_jax.traces import Step


@dataclass(frozen=True)
class RecordedCommand:
    """A text that ran.

    Attributes:
        text: as it was submitted.
        output: what it printed; None: not recorded.
        exit_code: None: it did not end by itself; UNSET: not recorded.
    """

    text: str
    output: str | None = None
    exit_code: int | UnsetType | None = UNSET


@dataclass(frozen=True)
class Turn:
    """One turn of the agent.

    Attributes:
        commands: what ran, in order; may be empty.
        loss_tokens: how many of its tokens enter the loss; None: not recorded.
        not_run: why each text that was submitted as well did not run, a sentence each.
        step: the recorded step, where the recording is a trace; its tokens are kept.
    """

    commands: tuple[RecordedCommand, ...]
    loss_tokens: int | None = None
    not_run: tuple[str, ...] = ()
    step: Step | None = None


@dataclass(frozen=True)
class Trajectory:
    """A recorded run.

    Attributes:
        trajectory_id: names it among its like.
        source: its file, and the line in it where that holds several.
        format: which reader read it.
        turns: the agent's turns.
        task: the name of its task; None: the recording does not say.
        group_id: the same for runs of one prompt; None: the recording does not say.
        reward: None: not recorded.
        extra: what else the recording holds and a replay hands on.
    """

    trajectory_id: str
    source: str
    format: str
    turns: tuple[Turn, ...]
    task: str | None = None
    group_id: str | None = None
    reward: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def commands(self) -> tuple[RecordedCommand, ...]:
        """All that ran, in order."""
        return tuple(command for turn in self.turns for command in turn.commands)
