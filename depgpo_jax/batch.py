"""Traces padded into one batch of device arrays, and results back per trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from depgpo_jax.errors import ShapeError
from depgpo_jax.padding import NO_GROUP, NO_OWNER, WORD, Gathered, padded_arrays
from depgpo_jax.traces import paused_gc

if TYPE_CHECKING:
    from depgpo_jax.credit import Credit
    from depgpo_jax.traces import Trace

__all__ = [
    "NO_GROUP",
    "NO_OWNER",
    "BatchShape",
    "TraceBatch",
    "TraceCredit",
    "batch_traces",
    "check_batch",
    "unpad",
]


MAX_COMMANDS = 16_384
"""Commands of one rollout at most: shortest paths are searched among all pairs of them."""


class TraceBatch(NamedTuple):
    """A batch of rollouts, padded; a pytree whose every leaf has the rollouts in front.

    Rollouts fill the first rows, commands, steps, segments and resources the first places of
    theirs. `W = N / 32` words hold one bit a command: bit `i % 32` of word `i // 32`.

    Attributes:
        is_rollout: True for a rollout, False for a padding row.
        num_commands: commands of the rollout; 0 at padding.
        num_steps: steps of the rollout; 0 at padding.
        recorded: the tracer could follow the command; False at padding.
        commands_per_step: commands are numbered through the steps in order; 0 at padding.
        loss_tokens: tokens of the step that enter the loss; 0 at padding. Whole numbers, in float32
            because the format allows counts beyond int32.
        segment_owner: the command that wrote the segment's records, ascending; `NO_OWNER` at
            padding.
        segment_resource: index of the resource they lie in; 0 at padding.
        segment_killer: the command that ended them, `SURVIVES` where they live at the end and at
            padding.
        segment_in_place: the killer overwrote them in place; False at padding.
        segment_count: records in the segment; 0 at padding.
        segments_per_command: run lengths of `segment_owner`; 0 at padding.
        records_per_command: all records that the command wrote; 0: a read-only command, or padding.
        inspected: the verifier inspected the resource; False at padding.
        readers: row r: the commands that read resource r; 0 at padding.
        only_writers: row r: the commands that wrote records in r and in no other resource; 0 at
            padding.
        stdout_readers: row j: the commands that reuse the stdout of command j; 0 at padding.
        reward: the verifier's reward, cut to float32's range; 0 where absent and at padding.
        trainable: has a reward and is not `invalid`; False at padding.
        group: rollouts of one prompt share it, numbered by first appearance; `NO_GROUP` at padding.
    """

    is_rollout: Bool[Array, " B"]
    num_commands: Int32[Array, " B"]
    num_steps: Int32[Array, " B"]
    recorded: Bool[Array, "B N"]
    commands_per_step: Int32[Array, "B T"]
    loss_tokens: Float32[Array, "B T"]
    segment_owner: Int32[Array, "B S"]
    segment_resource: Int32[Array, "B S"]
    segment_killer: Int32[Array, "B S"]
    segment_in_place: Bool[Array, "B S"]
    segment_count: Int32[Array, "B S"]
    segments_per_command: Int32[Array, "B N"]
    records_per_command: Int32[Array, "B N"]
    inspected: Bool[Array, "B R"]
    readers: UInt32[Array, "B R W"]
    only_writers: UInt32[Array, "B R W"]
    stdout_readers: UInt32[Array, "B N W"]
    reward: Float32[Array, " B"]
    trainable: Bool[Array, " B"]
    group: Int32[Array, " B"]


@dataclass(frozen=True)
class BatchShape:
    """Padded sizes of a batch. Batches of one shape share one compilation.

    Attributes:
        rollouts: B.
        commands: N, a multiple of 32, at most `MAX_COMMANDS`.
        steps: T.
        segments: S, at least 1.
        resources: R, at least 1.

    Raises:
        ShapeError: a size is too small, too large, or no multiple of what it must be.
    """

    rollouts: int
    commands: int
    steps: int
    segments: int
    resources: int

    def __post_init__(self) -> None:
        for field, least in zip(fields(self), (0, WORD, 1, 1, 1), strict=True):
            size = getattr(self, field.name)
            if not isinstance(size, int):
                raise ShapeError(f"BatchShape.{field.name}: found {size!r}; allowed: an integer")
            if size < least:
                raise ShapeError(
                    f"BatchShape.{field.name}: found {size}; allowed: at least {least}"
                )
        if self.commands % WORD or self.commands > MAX_COMMANDS:
            raise ShapeError(
                f"BatchShape.commands: found {self.commands}; allowed: a multiple of {WORD}, "
                f"at most {MAX_COMMANDS}"
            )


def bucket(size: int, least: int) -> int:
    """The next of `least, 1.5 least, 2 least, 3 least, 4 least, ...` that holds `size`."""
    width = least
    while width < size:
        if width + width // 2 >= size:
            return width + width // 2
        width *= 2
    return width


def batch_traces(traces: Iterable[Trace], *, shape: BatchShape | None = None) -> TraceBatch:
    """Replays traces and pads them into one batch of arrays on the default device.

    Without `shape` every axis is rounded up to a bucket (commands to 32, 64, 96, 128, 192, ...),
    so that nearby batches share a compilation. Give a shape to fix it for a whole run. An empty
    sequence gives a batch of zero rows.

    Source: method page, sections 1 and 2; trace page.

    Args:
        traces: valid traces, as read by `read_traces` or checked by `validate_trace`.
        shape: padded sizes; None: the smallest buckets that hold the traces.

    Returns:
        The batch; rollout b is `traces[b]`.

    Raises:
        ShapeError: a trace does not fit into `shape`, or is longer than `MAX_COMMANDS`; the message
            names trace, axis and sizes.
    """
    traces = list(traces)
    with paused_gc():
        gathered = Gathered(traces)
    _check_length(gathered, traces)
    if shape is None:
        shape = _bucketed_shape(gathered)
    _check_fits(gathered, traces, shape)
    return TraceBatch(**jax.device_put(padded_arrays(gathered, **asdict(shape))))


def check_batch(batch: TraceBatch) -> None:
    """Checks that the fields of a batch fit together, by their static shapes alone.

    Args:
        batch: a batch, of arrays or of tracers.

    Raises:
        ShapeError: a field has another shape than the others ask for; the message names it.
    """
    if not isinstance(batch, TraceBatch) or np.ndim(batch.recorded) != 2:
        shape = getattr(getattr(batch, "recorded", None), "shape", "of no shape")
        raise ShapeError(
            f"found a {type(batch).__name__} with recorded {shape}; allowed: a TraceBatch with "
            "recorded [B, N], from batch_traces (in vmap, map over an axis in front of B)"
        )
    rollouts, commands = batch.recorded.shape
    steps = batch.loss_tokens.shape[-1]
    segments = batch.segment_owner.shape[-1]
    resources = batch.inspected.shape[-1]
    BatchShape(rollouts, commands, steps, segments, resources)
    words = commands // WORD
    widths = {
        "recorded": (commands,),
        "segments_per_command": (commands,),
        "records_per_command": (commands,),
        "commands_per_step": (steps,),
        "loss_tokens": (steps,),
        "segment_owner": (segments,),
        "segment_resource": (segments,),
        "segment_killer": (segments,),
        "segment_in_place": (segments,),
        "segment_count": (segments,),
        "inspected": (resources,),
        "readers": (resources, words),
        "only_writers": (resources, words),
        "stdout_readers": (commands, words),
    }
    for name, field in batch._asdict().items():
        allowed = (rollouts, *widths.get(name, ()))
        if field.shape != allowed:
            raise ShapeError(
                f"TraceBatch.{name}: found shape {field.shape}; allowed: {allowed}, after the "
                f"{rollouts} x {commands} of TraceBatch.recorded; build batches with batch_traces"
            )


def _check_length(gathered: Gathered, traces: Sequence[Trace]) -> None:
    longest = max(gathered.commands, default=0)
    if longest > MAX_COMMANDS:
        trace = traces[gathered.commands.index(longest)]
        raise ShapeError(
            f"trace {trace.trace_id!r}: found {longest} commands; allowed: at most {MAX_COMMANDS}; "
            "leave the rollout out, or join commands that belong together"
        )


def _bucketed_shape(gathered: Gathered) -> BatchShape:
    rollouts = len(gathered.commands)
    words = -(-max(gathered.commands, default=0) // WORD)
    return BatchShape(
        rollouts=bucket(rollouts, 1) if rollouts else 0,
        commands=bucket(words, 1) * WORD,
        steps=bucket(max(gathered.steps, default=0), 8),
        segments=bucket(max(gathered.segments, default=0), 32),
        resources=bucket(max(gathered.resources, default=0), 8),
    )


def _check_fits(gathered: Gathered, traces: Sequence[Trace], shape: BatchShape) -> None:
    if len(traces) > shape.rollouts:
        raise ShapeError(
            f"batch of {len(traces)} traces: BatchShape.rollouts is {shape.rollouts}; "
            "give a larger shape or fewer traces"
        )
    for axis, sizes, room in (
        ("commands", gathered.commands, shape.commands),
        ("steps", gathered.steps, shape.steps),
        ("segments", gathered.segments, shape.segments),
        ("resources", gathered.resources, shape.resources),
    ):
        largest = max(sizes, default=0)
        if largest > room:
            trace = traces[sizes.index(largest)]
            raise ShapeError(
                f"trace {trace.trace_id!r}: found {largest} {axis}, but BatchShape.{axis} is "
                f"{room}; give a larger shape, or none to have it chosen"
            )


class TraceCredit(NamedTuple):
    """The credit of one trace as numpy arrays without padding; fields as in `Credit`."""

    command_credit: Float32[np.ndarray, " N"]
    step_credit: Float32[np.ndarray, " T"]
    step_factor: Float32[np.ndarray, " T"]
    token_weight: Float32[np.ndarray, " T"]
    fallback: bool
    relevant_fraction: float
    on_path_fraction: float
    max_weight_seen: float
    effective_fraction: float
    segment_relevant: Bool[np.ndarray, " S"]


def unpad(batch: TraceBatch, credit: Credit) -> list[TraceCredit]:
    """The results of each rollout as numpy arrays, padding removed, in the batch's order.

    Args:
        batch: the batch that `credit` was computed from.
        credit: its credit, [B, ...].

    Returns:
        One entry a rollout; padding rows have none.

    Raises:
        ShapeError: batch and credit differ in shape.
    """
    if credit.command_credit.shape != batch.recorded.shape:
        raise ShapeError(
            f"unpad: found credit of {_sizes(credit.command_credit)} commands for a batch of "
            f"{_sizes(batch.recorded)}; give the credit that this batch had"
        )
    host: Credit = jax.device_get(credit)
    rollouts, commands, steps, owners = jax.device_get(
        (batch.is_rollout, batch.num_commands, batch.num_steps, batch.segment_owner)
    )
    segments = np.sum(owners != NO_OWNER, axis=1)
    return [
        TraceCredit(
            command_credit=np.asarray(host.command_credit)[row, : commands[row]],
            step_credit=np.asarray(host.step_credit)[row, : steps[row]],
            step_factor=np.asarray(host.step_factor)[row, : steps[row]],
            token_weight=np.asarray(host.token_weight)[row, : steps[row]],
            fallback=bool(host.fallback[row]),
            relevant_fraction=float(host.relevant_fraction[row]),
            on_path_fraction=float(host.on_path_fraction[row]),
            max_weight_seen=float(host.max_weight_seen[row]),
            effective_fraction=float(host.effective_fraction[row]),
            segment_relevant=np.asarray(host.segment_relevant)[row, : segments[row]],
        )
        for row in np.flatnonzero(rollouts)
    ]


def _sizes(array: Array) -> str:
    return " x ".join(str(size) for size in array.shape)
