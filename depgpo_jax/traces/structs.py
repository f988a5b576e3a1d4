"""The trace as Python objects: Trace, Step, Command, Write, TestResult.

Field names are those of the JSON. `UNSET` stands for "absent", which differs from null: only
`exit_code` may be null. msgspec checks types and the ranges of single numbers while it decodes;
what relates several fields to each other stands in `rules`. Source: docs/trace.md.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, UnsetType

MAX_INTEGER: Final = 2**53
"""The largest integer: beyond it a float64, and with it many JSON readers, skips numbers."""

Count = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
Integer = Annotated[int, Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)]
Position = Annotated[int, Meta(ge=1, le=MAX_INTEGER)]
Id = Annotated[str, Meta(min_length=1)]
LineRange = tuple[Position, Position]
Hunk = tuple[Count, Count, Count, Count]
Extra = dict[str, Any]

# The structs hold no reference cycles, so the collector need not watch them (gc=False): that alone
# makes reading a large file several times faster. Somebody who puts a trace into its own `extra`
# loses the memory of that one trace.


class Write(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """What a command left in one resource: exactly one of `lines`, `hunks` and `whole`."""

    resource: str
    """The resource's name: a path, or tcp:, udp:, unix:, process:, meta:."""
    lines: Annotated[list[LineRange], Meta(min_length=1)] | UnsetType = UNSET
    """1-based inclusive [first, last] in the file after the command; nothing else moves."""
    hunks: Annotated[list[Hunk], Meta(min_length=1)] | UnsetType = UNSET
    """[old_start, old_count, new_start, new_count] of `diff -U0`; lines below keep their owner."""
    whole: bool | UnsetType = UNSET
    """True: the content was replaced as one record."""
    deleted: bool | UnsetType = UNSET
    """Beside `whole`: the resource is gone. For display."""
    moved_from: str | UnsetType = UNSET
    """Beside `whole`: the path that the content was renamed from."""


class Command(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One text submitted to the terminal. Numbered 0, 1, 2, … over the whole trace."""

    reads: Sequence[str] = ()
    """Resources whose content from before this command's own writes the command read."""
    writes: Sequence[Write] = ()
    """At most one entry a resource."""
    stdout_from: Sequence[Count] = ()
    """Numbers of earlier commands whose printed values this command's text reuses."""
    recorded: bool = True
    """False where the tracer could not follow the command."""
    unrecorded_reason: str | UnsetType = UNSET
    untraced: list[str] | UnsetType = UNSET
    """Resources that changed though no system call explains it."""
    text: str | UnsetType = UNSET
    exit_code: Integer | UnsetType | None = UNSET
    backend: str | UnsetType = UNSET
    """What traced the command."""
    started: float | str | UnsetType = UNSET
    """A number of seconds or a date as text."""
    ended: float | str | UnsetType = UNSET
    stdout: str | UnsetType = UNSET
    background: bool | UnsetType = UNSET
    """Whether something of it was still running at its end."""
    extra: Extra | UnsetType = UNSET
    """Anything else, as an object; never used for credit."""


class Step(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One turn of the agent."""

    loss_tokens: Count
    """How many of the turn's tokens enter the loss."""
    commands: list[Command]
    """In execution order; may be empty."""
    state: str | UnsetType = UNSET
    """Names the environment's state before the step."""
    reward: float | UnsetType = UNSET
    token_ids: list[Count] | UnsetType = UNSET
    """[loss_tokens] the tokens that enter the loss."""
    logprobs: list[float] | UnsetType = UNSET
    """[loss_tokens] the sampling policy's log-probabilities of `token_ids`."""
    context_token_ids: list[Count] | UnsetType = UNSET
    """What the policy was shown since the previous step, before `token_ids`."""
    extra: Extra | UnsetType = UNSET


class TestResult(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One test of the verifier."""

    __test__ = False
    """Keeps pytest from collecting the class."""

    name: str
    passed: bool


class Trace(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One rollout: one JSON object, one line of a file."""

    version: Integer
    trace_id: Id
    """Unique in a file."""
    verifier: list[str]
    """The set E: resources that the verifier's run inspected."""
    steps: list[Step]
    group_id: Id | UnsetType = UNSET
    """Rollouts of one task prompt share it; `group` fills in the default."""
    reward: float | UnsetType = UNSET
    invalid: str | UnsetType = UNSET
    """Why this rollout must not be trained on."""
    tests: list[TestResult] | UnsetType = UNSET
    extra: Extra | UnsetType = UNSET

    @property
    def group(self) -> str:
        """`group_id`, or `trace_id` where it is absent."""
        return self.trace_id if self.group_id is UNSET else self.group_id

    @property
    def trainable(self) -> bool:
        """Whether the rollout has a reward and is not marked as invalid."""
        return self.reward is not UNSET and self.invalid is UNSET

    @property
    def commands(self) -> list[Command]:
        """All commands of the trace; a command's number is its index here."""
        return [command for step in self.steps for command in step.commands]
