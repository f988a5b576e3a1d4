"""Host arrays of a batch: traces replayed into flat lists, then padded in bulk (no jax)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import UNSET

from depgpo_jax.ownership import SURVIVES, replay

if TYPE_CHECKING:
    from depgpo_jax.traces import Trace

NO_OWNER = -1
"""`segment_owner` of a padding segment."""

NO_GROUP = -1
"""`group` of a padding rollout."""

WORD = 32
"""Commands per word of a bit row."""

FLOAT32_RANGE = (float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))


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
        self.owner: list[int] = []
        self.resource: list[int] = []
        self.killer: list[int] = []
        self.in_place: list[bool] = []
        self.count: list[int] = []
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
            self._add_steps(trace)
            self._add_segments(trace)
            self.reward.append(0.0 if trace.reward is UNSET else trace.reward)
            self.trainable.append(trace.trainable)
            self.group.append(group_numbers.setdefault(trace.group, len(group_numbers)))

    def _add_steps(self, trace: Trace) -> None:
        recorded, producers, users = self.recorded, self.stdout_producer, self.stdout_user
        uses_before, number = len(users), 0
        for step in trace.steps:
            self.commands_per_step.append(len(step.commands))
            self.loss_tokens.append(step.loss_tokens)
            for command in step.commands:
                recorded.append(command.recorded)
                if command.stdout_from:
                    for producer in set(command.stdout_from):
                        producers.append(producer)
                        users.append(number)
                number += 1
        self.steps.append(len(trace.steps))
        self.commands.append(number)
        self.stdout_uses.append(len(users) - uses_before)

    def _add_segments(self, trace: Trace) -> None:
        segments = replay(trace)
        self.owner += segments.owner
        self.resource += segments.resource
        self.killer += segments.killer
        self.in_place += segments.in_place
        self.count += segments.count
        self.read_resource += segments.read_resource
        self.read_command += segments.read_command
        self.segments.append(len(segments.owner))
        self.reads.append(len(segments.read_resource))
        self.resources.append(len(segments.resources))
        inspected = set(trace.verifier)
        self.inspected += [resource in inspected for resource in segments.resources]


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
    writer, resource = _writers(gathered, commands)
    return {
        "is_rollout": on_rollouts,
        "num_commands": _place(gathered.commands, on_rollouts, np.int32, 0),
        "num_steps": _place(gathered.steps, on_rollouts, np.int32, 0),
        "recorded": _place(gathered.recorded, on_commands, np.bool_, False),
        "commands_per_step": _place(gathered.commands_per_step, on_steps, np.int32, 0),
        "loss_tokens": _place(gathered.loss_tokens, on_steps, np.float32, 0),
        "segment_owner": _place(gathered.owner, on_segments, np.int32, NO_OWNER),
        "segment_resource": _place(gathered.resource, on_segments, np.int32, 0),
        "segment_killer": _place(gathered.killer, on_segments, np.int32, SURVIVES),
        "segment_in_place": _place(gathered.in_place, on_segments, np.bool_, False),
        "segment_count": _place(gathered.count, on_segments, np.int32, 0),
        "segments_per_command": np.bincount(writer, minlength=rollouts * commands)
        .reshape(rollouts, commands)
        .astype(np.int32),
        "inspected": _place(gathered.inspected, on_resources, np.bool_, False),
        "readers": _bit_rows(
            _rows(gathered.reads, gathered.read_resource, resources),
            np.asarray(gathered.read_command, np.int64),
            (rollouts, resources, commands // WORD),
        ),
        "only_writers": _only_writers(writer, resource, (rollouts, resources, commands // WORD)),
        "stdout_readers": _bit_rows(
            _rows(gathered.stdout_uses, gathered.stdout_producer, commands),
            np.asarray(gathered.stdout_user, np.int64),
            (rollouts, commands, commands // WORD),
        ),
        "reward": _place(
            np.clip(gathered.reward, *FLOAT32_RANGE).tolist(), on_rollouts, np.float32, 0
        ),
        "trainable": _place(gathered.trainable, on_rollouts, np.bool_, False),
        "group": _place(gathered.group, on_rollouts, np.int32, NO_GROUP),
    }


def _filled(lengths: Sequence[int], rollouts: int, width: int) -> np.ndarray[Any, Any]:
    """[B, width]: True where a rollout's entries go."""
    padded = np.zeros(rollouts, np.int64)
    padded[: len(lengths)] = lengths
    return np.arange(width)[None, :] < padded[:, None]


def _place(
    values: Sequence[float], where: np.ndarray[Any, Any], dtype: type[np.generic], padding: float
) -> np.ndarray[Any, Any]:
    """Puts flat values into the True places, row by row, and the padding value elsewhere."""
    out = np.full(where.shape, padding, dtype)
    out[where] = values
    return out


def _rows(lengths: Sequence[int], row: Sequence[int], height: int) -> np.ndarray[Any, Any]:
    """Row numbers over the whole batch, from row numbers within each rollout."""
    rollout = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    return rollout * height + np.asarray(row, np.int64)


def _writers(
    gathered: Gathered, commands: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The writing command (numbered over the padded batch) and the resource of each segment."""
    writer = _rows(gathered.segments, gathered.owner, commands)
    return writer, np.asarray(gathered.resource, np.int64)


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
