"""Why a command got its credit: the facts behind the numbers that the device computed.

The device says which segments are relevant and what every command is worth. Here the same rollout
is replayed on the host with names and line numbers, and each number is traced to its reasons. The
two must agree, else the credit is that of other settings or of another trace, and an error says so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, SupportsIndex

from depgpo_jax.batch import TraceBatch, TraceCredit, check_batch, unpad
from depgpo_jax.credit_config import CreditConfig
from depgpo_jax.errors import ConfigError, ShapeError, printable
from depgpo_jax.explain.facts import (
    MAKES_RELEVANT,
    Reader,
    ReaderEffect,
    ReadPath,
    Why,
    WrittenRecords,
)
from depgpo_jax.explain.graph import (
    DependencyGraph,
    readers_by_resource,
    readers_while_live,
    stdout_users,
)
from depgpo_jax.explain.places import Fate, Places, record_places
from depgpo_jax.explain.rows import check_result, find_row, whole_number
from depgpo_jax.explain.weights import expected_weights
from depgpo_jax.ownership import SURVIVES
from depgpo_jax.traces import paused_gc

if TYPE_CHECKING:
    from depgpo_jax.credit import Credit
    from depgpo_jax.relevance import RelevanceRule
    from depgpo_jax.traces import Command, Trace

TOLERANCE = 1e-4
"""A larger difference between the device's credit and these facts is no rounding (section 7)."""

WEIGHT_TOLERANCE = 1e-2
"""The same for weights, where float32 loses more: small differences of credits are scaled up."""

READERS_CHECKED = 64
"""Read-only commands with credit whose paths are searched for a wrong beta: more tell no more."""


def why(
    credit: Credit,
    batch: TraceBatch,
    trace: Trace,
    command: SupportsIndex,
    *,
    config: CreditConfig | None = None,
    row: SupportsIndex | None = None,
) -> Why:
    """Why a command got its credit: relevant records, through which consumer, shortest paths.

    For many commands of a rollout call `explain_rollout` once and `.why(command)` on the result.

    Source: method sections 1 to 4.

    Args:
        credit: the credit of the batch, [B, ...].
        batch: the batch, [B, ...].
        trace: one of its traces.
        command: the command's number in the trace, 0 … N-1.
        config: the settings that the credit was computed with; None: the defaults.
        row: the trace's row in the batch; None: it is searched.

    Returns:
        The facts.

    Raises:
        ShapeError: no such command or row, the trace is not in that row or nowhere in the batch, or
            batch and credit differ in shape.
        ConfigError: the credit was computed with other settings.

    >>> import depgpo_jax as dg
    >>> write = dg.Write(resource="/app/out", lines=[(1, 2)])
    >>> step = dg.Step(loss_tokens=5, commands=[dg.Command(writes=[write])])
    >>> trace = dg.Trace(version=1, trace_id="t", verifier=["/app/out"], steps=[step])
    >>> batch = dg.batch_traces([trace])
    >>> found = dg.why(dg.dependency_credit(batch), batch, trace, 0)
    >>> found.credit, found.relevant, found.records, found.written[0].places.lines
    (1.0, 2, 2, ((1, 2),))
    """
    return explain_rollout(credit, batch, trace, config=config, row=row).why(command)


def explain_rollout(
    credit: Credit,
    batch: TraceBatch,
    trace: Trace,
    *,
    config: CreditConfig | None = None,
    row: SupportsIndex | None = None,
) -> RolloutExplanation:
    """The facts about every command of one rollout. Arguments and errors as in `why`."""
    check_batch(batch)
    results = unpad(batch, credit)
    _check_same_sizes(batch, credit)
    found = find_row(batch, trace, row)
    # `unpad` leaves padding rows out, and rollouts fill the first rows.
    # Many small objects that stay: without the pause the collector looks at them again and again.
    with paused_gc():
        return RolloutExplanation(trace, config or CreditConfig(), results[found])


def _check_same_sizes(batch: TraceBatch, credit: Credit) -> None:
    for name, of_credit, of_batch in (
        ("segments", credit.segment_relevant, batch.segment_owner),
        ("steps", credit.token_weight, batch.loss_tokens),
    ):
        if of_credit.shape != of_batch.shape:
            raise ShapeError(
                f"explain_rollout: found credit of {of_credit.shape} {name} for a batch of "
                f"{of_batch.shape}; allowed: equal shapes; give the credit that this batch had"
            )


@dataclass(frozen=True)
class Segment:
    """Records of one fate with what the device and the replay know about them."""

    fate: Fate
    places: Places
    relevant: bool
    inspected: bool
    readers: Sequence[int]  # commands that read them while live, ascending


class RolloutExplanation:
    """The facts about every command of one rollout, checked against its credit.

    Attributes:
        trace: the rollout.
        config: the settings of its credit.
        result: its credit without padding.
        graph: its dependencies, with names.
    """

    def __init__(
        self,
        trace: Trace,
        config: CreditConfig,
        result: TraceCredit,
    ) -> None:
        """Replays the rollout and compares.

        Args:
            trace: a valid trace.
            config: the settings that its credit was computed with.
            result: its credit, from `unpad`.

        Raises:
            ShapeError: the credit is that of another trace: it has other sizes.
            ConfigError: the credit was computed with other settings.
        """
        self.trace = trace
        self.config = config
        self.result = result
        self._commands = trace.commands
        self._step_of = [t for t, step in enumerate(trace.steps) for _ in step.commands]
        # The batch has the segments of a command in order of death too, sorted by command.
        places = sorted(record_places(self._commands).items(), key=lambda item: item[0].owner)
        check_result(trace, result, len(places))
        relevant = [bool(flag) for flag in result.segment_relevant]
        readers = readers_by_resource(self._commands)
        reading = {fate: readers_while_live(fate, readers) for fate, _ in places}
        self.graph = DependencyGraph(self._commands, reading)
        owners = {fate.owner for (fate, _), flag in zip(places, relevant, strict=True) if flag}
        self._live = _Live(config.relevance, self._commands, owners)
        self._segments: list[list[Segment]] = [[] for _ in self._commands]
        for (fate, where), flag in zip(places, relevant, strict=True):
            self._segments[fate.owner].append(
                Segment(
                    fate,
                    where,
                    flag,
                    fate.killer == SURVIVES and self.is_inspected(fate.resource),
                    reading[fate],
                )
            )
        self._write_credit = self._count_write_credit()
        self._paths: dict[int, tuple[ReadPath, ...]] = {}
        self._check()

    @property
    def num_commands(self) -> int:
        """How many commands the rollout has."""
        return len(self._commands)

    def is_inspected(self, resource: str) -> bool:
        """Whether the resource counts as inspected, with `inspect="all"` every one."""
        return self.config.inspect == "all" or resource in self._verifier

    @cached_property
    def _verifier(self) -> frozenset[str]:
        return frozenset(self.trace.verifier)

    def why(self, command: SupportsIndex) -> Why:
        """The facts about one command.

        Args:
            command: its number, 0 … N-1; an integer of any kind, but no bool.

        Raises:
            ShapeError: there is no such command.
        """
        command = self._numbered(command)
        step = self._step_of[command]
        segments = self._segments[command]
        relevant, records = _counts(segments)
        return Why(
            command=command,
            step=step,
            recorded=self._commands[command].recorded,
            credit=float(self.result.command_credit[command]),
            relevant=relevant,
            records=records,
            written=self._written(segments),
            paths=self._read_paths(command),
            inputs=tuple(self.graph.inputs[command]),
            outputs=tuple(self.graph.outputs[command]),
            step_credit=float(self.result.step_credit[step]),
            step_factor=float(self.result.step_factor[step]),
            token_weight=float(self.result.token_weight[step]),
            fallback=self.result.fallback,
        )

    def _numbered(self, command: SupportsIndex) -> int:
        number = whole_number(command)
        if number is None or not 0 <= number < self.num_commands:
            last = self.num_commands - 1
            allowed = f"an integer from 0 to {last}" if last >= 0 else "none, it has no command"
            found = command if number is None else number
            raise ShapeError(f"{self._name}: found command {found!r}; allowed: {allowed}")
        return number

    @property
    def _name(self) -> str:
        return f"trace {printable(self.trace.trace_id)!r}"

    def _count_write_credit(self) -> dict[int, float]:
        """The credit of every command with a relevant record."""
        credit: dict[int, float] = {}
        for command, segments in enumerate(self._segments):
            relevant, records = _counts(segments)
            if relevant:
                binary = self.config.write_credit == "binary"
                credit[command] = 1.0 if binary else relevant / records
        return credit

    def _read_paths(self, command: int) -> tuple[ReadPath, ...]:
        """What a read-only command earns, from whom (method, section 4); else nothing."""
        if command not in self._paths:
            self._paths[command] = self._find_paths(command)
        return self._paths[command]

    def _find_paths(self, command: int) -> tuple[ReadPath, ...]:
        if self._segments[command] or not self.config.read_credit:
            return ()
        ways = self.graph.shortest_paths(command, self._write_credit)
        paths = [
            ReadPath(path, credit, credit * self.config.beta ** len(path))
            for writer, path in ways.items()
            for credit in [self._write_credit[writer]]
        ]
        return tuple(sorted(paths, key=lambda path: (-path.value, path.writer)))

    def _written(self, segments: Sequence[Segment]) -> tuple[WrittenRecords, ...]:
        """Relevant ones first, then the larger ones, then by name."""
        written = [
            WrittenRecords(
                resource=segment.fate.resource,
                places=segment.places,
                records=segment.places.records,
                relevant=segment.relevant,
                inspected=segment.inspected,
                readers=tuple(
                    Reader(reader, self._live.effect(segment.fate, reader))
                    for reader in segment.readers
                ),
                killer=None if segment.fate.killer == SURVIVES else segment.fate.killer,
                in_place=segment.fate.in_place,
            )
            for segment in segments
        ]
        return tuple(
            sorted(written, key=lambda part: (not part.relevant, -part.records, part.resource))
        )

    def _check(self) -> None:
        self._check_relevance()
        self._check_credit()
        self._check_weights()

    def _check_relevance(self) -> None:
        for command, segments in enumerate(self._segments):
            for segment in segments:
                carried = any(
                    self._live.effect(segment.fate, reader) in MAKES_RELEVANT
                    for reader in segment.readers
                )
                if segment.relevant != (segment.inspected or carried):
                    resource = printable(segment.fate.resource)
                    said, got = ("relevant", "not") if segment.relevant else ("not relevant", "are")
                    raise self._other_settings(
                        f"records of command {command} in {resource} are {said} in the credit "
                        f"and {got} by these settings"
                    )

    def _check_credit(self) -> None:
        looked_up = 0
        for command, segments in enumerate(self._segments):
            paid = float(self.result.command_credit[command])
            if segments:
                found = self._write_credit.get(command, 0.0)
            elif looked_up < READERS_CHECKED:
                found = sum(path.value for path in self._read_paths(command))
                looked_up += paid > 0.0
            else:
                continue
            if abs(paid - found) > TOLERANCE * max(1.0, found):
                raise self._other_settings(
                    f"command {command} has {paid:.6g} in the credit and {found:.6g} by these "
                    "settings"
                )

    def _check_weights(self) -> None:
        expected = expected_weights(self.trace, self.result.step_credit, self.config)
        if not expected.settled:
            return
        for step, part in enumerate(self.trace.steps):
            if not part.loss_tokens:  # under a cap its weight is not specified
                continue
            paid, found = float(self.result.token_weight[step]), float(expected.weight[step])
            if abs(paid - found) > WEIGHT_TOLERANCE * max(1.0, found):
                raise self._other_settings(
                    f"tokens of step {step} weigh {paid:.6g} in the credit and {found:.6g} by "
                    "these settings"
                )

    def _other_settings(self, found: str) -> ConfigError:
        return ConfigError(
            f"{self._name}: found that {found}; allowed: the settings that the credit was computed "
            f"with. Give them as `config`, or the credit of this batch; these are {self.config}"
        )


class _Live:
    """Which commands pass relevance on, given which segments turned out relevant."""

    def __init__(
        self, rule: RelevanceRule, commands: Sequence[Command], owners: Collection[int]
    ) -> None:
        self._rule = rule
        self._owners = owners  # of relevant records
        self._wrote = [frozenset(w.resource for w in command.writes) for command in commands]
        # A command is live through its stdout when one that reuses it is live in either way:
        # users come later, so one pass from the end settles it.
        self._printing: set[int] = set()
        if rule != "paper":
            users = stdout_users(commands)
            for producer in reversed(range(len(commands))):
                if any(user in owners or user in self._printing for user in users[producer]):
                    self._printing.add(producer)

    def effect(self, fate: Fate, reader: int) -> ReaderEffect:
        """What a reader of live records does for them (method, section 3)."""
        owner = reader in self._owners
        strict = self._rule != "slice"
        overwrote = strict and fate.killer == reader and fate.in_place
        only_here = strict and self._wrote[reader] <= {fate.resource}
        if owner and not overwrote and not only_here:
            return "carries"
        if reader in self._printing:
            return "prints"
        if not owner:
            return "irrelevant"
        return "in_place" if overwrote else "only_here"


def _counts(segments: Sequence[Segment]) -> tuple[int, int]:
    """Relevant records and all records."""
    relevant = sum(segment.places.records for segment in segments if segment.relevant)
    return relevant, sum(segment.places.records for segment in segments)
