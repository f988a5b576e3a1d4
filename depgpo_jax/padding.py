"""Host arrays of a batch: traces replayed into flat lists, then padded in bulk (no jax)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import UNSET

from depgpo_jax.ownership import NEVER_WRITTEN, SEGMENT_FIELDS, SURVIVES, Replay

if TYPE_CHECKING:
    from depgpo_jax.traces import Command, Trace

NO_OWNER = -1
"""`segment_owner` of a padding segment."""

NO_GROUP = -1
"""`group` of a padding rollout."""

WORD = 32
"""Commands per word of a bit row."""

Numbers = Sequence[float] | np.ndarray[Any, Any]

LARGEST = float(np.finfo(np.float32).max)
"""The largest number of float32, in which everything on the device is computed."""


class Gathered:
    """The contents of all traces, one after another in flat lists, and the lengths that cut them.

    Lists keep the work per command small: numpy sees the whole batch at once, never one trace.
    """

    def __init__(self, traces: Iterable[Trace]) -> None:
        self.commands: list[int] = []
        self.steps: list[int] = []
        self.segments: list[int] = []
        self.resources: list[int] = []
        self.reads: list[int] = []
        self.stdout_uses: list[int] = []
        self.recorded: list[bool] = []
        self.commands_per_step: list[int] = []
        self.loss_tokens: list[int] = []
        self.segment_fields: list[int] = []
        self.inspected: list[bool] = []
        self.read_resource: list[int] = []
        self.read_command: list[int] = []
        self.stdout_producer: list[int] = []
        self.stdout_user: list[int] = []
        self.reward: list[float] = []
        self.trainable: list[bool] = []
        self.group: list[int] = []
        group_numbers: dict[str, int] = {}
        for trace in traces:
            commands = trace.commands
            self._add_steps(trace, commands)
            self._add_segments(trace, Replay(commands))
            self.reward.append(0.0 if trace.reward is UNSET else trace.reward)
            self.trainable.append(trace.trainable)
            self.group.append(group_numbers.setdefault(trace.group, len(group_numbers)))

    def _add_steps(self, trace: Trace, commands: Sequence[Command]) -> None:
        self.steps.append(len(trace.steps))
        self.commands.append(len(commands))
        self.commands_per_step += [len(step.commands) for step in trace.steps]
        self.loss_tokens += [step.loss_tokens for step in trace.steps]
        self.recorded += [command.recorded for command in commands]
        uses = [
            (producer, number)
            for number, command in enumerate(commands)
            if command.stdout_from
            for producer in set(command.stdout_from)
        ]
        self.stdout_producer += [producer for producer, _ in uses]
        self.stdout_user += [user for _, user in uses]
        self.stdout_uses.append(len(uses))

    def _add_segments(self, trace: Trace, replayed: Replay) -> None:
        self.segment_fields += replayed.segments
        self.segments.append(len(replayed.segments) // SEGMENT_FIELDS)
        self.read_resource += replayed.read_numbers
        self.read_command += replayed.read_commands
        self.reads.append(len(replayed.read_commands))
        self.resources.append(len(replayed.numbers))
        inspected = set(trace.verifier)
        self.inspected += map(inspected.__contains__, replayed.numbers)


def padded_arrays(
    gathered: Gathered, *, rollouts: int, commands: int, steps: int, segments: int, resources: int
) -> dict[str, np.ndarray[Any, Any]]:
    """The fields of a `TraceBatch` of the given padded sizes, which must be large enough."""
    found = len(gathered.commands)
    on_commands = _filled(gathered.commands, rollouts, commands)
    on_steps = _filled(gathered.steps, rollouts, steps)
    on_segments = _filled(gathered.segments, rollouts, segments)
    on_resources = _filled(gathered.resources, rollouts, resources)
    on_rollouts = np.arange(rollouts) < found
    writer, (owner, resource, killer, in_place, count) = _segments_by_writer(gathered, commands)
    size = rollouts * commands
    return {
        "is_rollout": on_rollouts,
        "num_commands": _place(gathered.commands, on_rollouts, np.int32, 0),
        "num_steps": _place(gathered.steps, on_rollouts, np.int32, 0),
        "recorded": _place(gathered.recorded, on_commands, np.bool_, False),
        "commands_per_step": _place(gathered.commands_per_step, on_steps, np.int32, 0),
        "loss_tokens": _place(gathered.loss_tokens, on_steps, np.float32, 0),
        "segment_owner": _place(owner, on_segments, np.int32, NO_OWNER),
        "segment_resource": _place(resource, on_segments, np.int32, 0),
        "segment_killer": _place(killer, on_segments, np.int32, SURVIVES),
        "segment_in_place": _place(in_place, on_segments, np.bool_, False),
        "segment_count": _place(count, on_segments, np.int32, 0),
        "segments_per_command": np.bincount(writer, minlength=size)
        .reshape(rollouts, commands)
        .astype(np.int32),
        "records_per_command": np.bincount(writer, weights=count, minlength=size)
        .reshape(rollouts, commands)
        .astype(np.int32),
        "inspected": _place(gathered.inspected, on_resources, np.bool_, False),
        "readers": _readers(gathered, (rollouts, resources, commands // WORD)),
        "only_writers": _only_writers(writer, resource, (rollouts, resources, commands // WORD)),
        "stdout_readers": _bit_rows(
            _rows(gathered.stdout_uses, gathered.stdout_producer, commands),
            np.asarray(gathered.stdout_user, np.int64),
            (rollouts, commands, commands // WORD),
        ),
        "reward": _place(np.clip(gathered.reward, -LARGEST, LARGEST), on_rollouts, np.float32, 0),
        "trainable": _place(gathered.trainable, on_rollouts, np.bool_, False),
        "group": _place(gathered.group, on_rollouts, np.int32, NO_GROUP),
    }


def _filled(lengths: Sequence[int], rollouts: int, width: int) -> np.ndarray[Any, Any]:
    """[B, width]: True where a rollout's entries go."""
    padded = np.zeros(rollouts, np.int64)
    padded[: len(lengths)] = lengths
    return np.arange(width)[None, :] < padded[:, None]


def _place(
    values: Numbers, where: np.ndarray[Any, Any], dtype: type[np.generic], padding: float
) -> np.ndarray[Any, Any]:
    """Puts flat values into the True places, row by row, and the padding value elsewhere."""
    out = np.full(where.shape, padding, dtype)
    out[where] = values
    return out


def _rows(lengths: Sequence[int], row: Numbers, height: int) -> np.ndarray[Any, Any]:
    """Row numbers over the whole batch, from row numbers within each rollout."""
    rollout = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    return rollout * height + np.asarray(row, np.int64)


def _segments_by_writer(
    gathered: Gathered, commands: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Segments sorted by owner: the owner's number over the padded batch, and the five fields."""
    flat = gathered.segment_fields
    # Twice as fast as np.array, which looks at every number first to find a type.
    fields = np.fromiter(flat, np.int64, len(flat)).reshape(-1, SEGMENT_FIELDS).T
    writer = _rows(gathered.segments, fields[0], commands)
    order = np.argsort(writer, kind="stable")
    return writer[order], fields[:, order]


def _readers(gathered: Gathered, shape: tuple[int, int, int]) -> np.ndarray[Any, Any]:
    """Bit rows of each resource's readers; nobody asks who read what was never written."""
    number = np.array(gathered.read_resource, np.int64)
    written = number != NEVER_WRITTEN
    row = _rows(gathered.reads, number, shape[1])
    return _bit_rows(row[written], np.array(gathered.read_command, np.int64)[written], shape)


def _only_writers(
    writer: np.ndarray[Any, Any], resource: np.ndarray[Any, Any], shape: tuple[int, int, int]
) -> np.ndarray[Any, Any]:
    """Bit rows of the commands whose segments all lie in one resource."""
    _, resources, words = shape
    if not writer.size:
        return np.zeros(shape, np.uint32)
    starts = np.flatnonzero(np.diff(writer, prepend=-1))
    lowest = np.minimum.reduceat(resource, starts)
    sole = lowest == np.maximum.reduceat(resource, starts)
    rollout, command = np.divmod(writer[starts][sole], words * WORD)
    return _bit_rows(rollout * resources + lowest[sole], command, shape)


def _bit_rows(
    row: np.ndarray[Any, Any], command: np.ndarray[Any, Any], shape: tuple[int, int, int]
) -> np.ndarray[Any, Any]:
    """Bit rows from distinct (row, command) pairs.

    Each bit comes at most once, so a sum is a union, and sums of distinct powers of two below
    2**32 are exact in the doubles of `bincount`.
    """
    place = row * shape[2] + command // WORD
    bits = np.ldexp(1.0, command % WORD)
    words = np.bincount(place, weights=bits, minlength=shape[0] * shape[1] * shape[2])
    return words.astype(np.uint32).reshape(shape)
