"""What the commands of a rollout read, wrote and reused, and the same as a `DenseRollout`.

A command writes at most one file, and there either one whole-file record or one record on line 1,
on line 2 or on both. So it has two places for records: the first for line 1 or the whole
file, the second for line 2. Who killed a record follows from the later writes, all at once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from depgpo_jax.batch import NO_OWNER
from depgpo_jax.ownership import SURVIVES
from depgpo_jax.rollout import NO_STEP, DenseRollout
from training.environments.commands import NUM_FILES

NOBODY: Final = -1
"""No file, or no command."""

PLACES: Final = 2
"""Records of a command at most: line 1 or the whole file, and line 2."""


class StepRecord(NamedTuple):
    """What one step did; with a leading axis of N (steps, which are the commands) for a rollout.

    Attributes:
        is_step: the rollout was not over; False at padding, where only `state` means anything.
        is_command: also not `submit`, which is a step without commands.
        valid: the command could be done. One that could not reads, writes and reuses nothing.
        action: `[verb, source, target]` as it was given.
        read: the file that the command read; `NOBODY`: none.
        written: the file that it wrote; `NOBODY`: none.
        lines: the lines on which it left a record.
        whole: it left one record for the whole file.
        stdout_from: the earlier command whose printed value it reuses; `NOBODY`: none.
        printed: the lines that it printed; `NO_LINE` where there are none.
        loss_tokens: 1 to 3, a whole number; 0 at padding.
        state: a number >= 0 that names the files and the printed lines before the step.
    """

    is_step: Bool[Array, "*N"]
    is_command: Bool[Array, "*N"]
    valid: Bool[Array, "*N"]
    action: Int32[Array, "*N 3"]
    read: Int32[Array, "*N"]
    written: Int32[Array, "*N"]
    lines: Bool[Array, "*N 2"]
    whole: Bool[Array, "*N"]
    stdout_from: Int32[Array, "*N"]
    printed: Int32[Array, "*N 2"]
    loss_tokens: Float32[Array, "*N"]
    state: Int32[Array, "*N"]


def dense_rollout(record: StepRecord, target: Int32[Array, ""]) -> DenseRollout:
    """The records of one rollout as tensors for `rollout_credit`; batch it with `jax.vmap`.

    N = T is the world's `max_commands`, S = 2 N and R = 8. Step t has command t, or none. Segment
    2 i is what command i wrote on line 1 or as a whole, 2 i + 1 what it wrote on line 2; a segment
    has one record or, as padding, none. The verifier inspected z alone.

    Source: method page, sections 1 and 2; docs/file-world.md.

    Args:
        record: the records of N steps.
        target: the file z.

    Returns:
        The rollout's dense tensors.
    """
    N = record.is_step.shape[0]
    command = jnp.arange(N, dtype=jnp.int32)
    file = jnp.arange(NUM_FILES, dtype=jnp.int32)
    first = record.whole | record.lines[:, 0]
    is_written = jnp.stack([first, record.lines[:, 1]], axis=1)
    killer = _killers(record)
    return DenseRollout(
        recorded=record.is_command,
        step_of_command=jnp.where(record.is_command, command, NO_STEP),
        loss_tokens=record.loss_tokens,
        segment_owner=jnp.where(is_written, command[:, None], NO_OWNER).reshape(-1),
        segment_resource=jnp.repeat(jnp.maximum(record.written, 0), PLACES),
        segment_killer=killer.reshape(-1),
        segment_in_place=(killer != SURVIVES).reshape(-1),
        segment_count=is_written.astype(jnp.int32).reshape(-1),
        inspected=file == target,
        reads=record.read[:, None] == file[None],
        stdout=record.stdout_from[:, None] == command[None],
    )


def _killers(record: StepRecord) -> Int32[Array, "N 2"]:
    """The command that ended each record, `SURVIVES` where none did."""
    N = record.is_step.shape[0]
    command = jnp.arange(N, dtype=jnp.int32)
    later = command[None] > command[:, None]
    same_file = (record.written[None] == record.written[:, None]) & (record.written[:, None] >= 0)
    over = later & same_file
    # A whole mark ends everything; a line ends the record of that line but never a whole mark.
    ends_first = record.whole[None] | (record.lines[None, :, 0] & ~record.whole[:, None])
    ends_second = jnp.broadcast_to((record.whole | record.lines[:, 1])[None], over.shape)
    ends = jnp.stack([over & ends_first, over & ends_second], axis=1)
    killer = jnp.where(ends, command[None, None], SURVIVES).min(axis=2)
    is_written = jnp.stack([record.whole | record.lines[:, 0], record.lines[:, 1]], axis=1)
    return jnp.where(is_written, killer, SURVIVES)


def state_number(lines: Int32[Array, "8 2"], printed: Int32[Array, " 2"]) -> Int32[Array, ""]:
    """A number for what the world is before a step: equal worlds have equal numbers.

    Unequal ones differ but for a chance of about 2**-31 a pair, since it is a hash. Made for
    baselines that compare steps of a group which start from the same state.
    """
    cells = jnp.concatenate([lines.reshape(-1), printed]).astype(jnp.uint32) + jnp.uint32(1)
    # Odd multipliers, each the next power of one number, modulo 2**32.
    factors = [pow(0x9E3779B1, place + 1, 2**32) for place in range(cells.shape[0])]
    mixed = jnp.sum(cells * jnp.array(factors, jnp.uint32), dtype=jnp.uint32)
    mixed = (mixed ^ (mixed >> 16)) * jnp.uint32(0x85EBCA6B)
    return ((mixed ^ (mixed >> 13)) >> 1).astype(jnp.int32)
