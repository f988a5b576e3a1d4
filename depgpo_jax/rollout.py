"""One rollout as dense tensors: what the readable kernels and on-device environments work on."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

from depgpo_jax.batch import TraceBatch
from depgpo_jax.errors import ShapeError
from depgpo_jax.packed.bits import unpack_bits

NO_STEP = -1
"""`step_of_command` of a padding command."""


class DenseRollout(NamedTuple):
    """One rollout, unbatched; batch it with `jax.vmap`.

    An environment that runs inside `jit` fills these fields itself; from a
    `depgpo_jax.TraceBatch` they come through `depgpo_jax.dense_rollouts`.
    Segments may stand in any order here, padding anywhere.

    Attributes:
        recorded: the tracer could follow the command; False at padding.
        step_of_command: the command's step, `NO_STEP` at padding; padding comes last.
        loss_tokens: tokens of the step that enter the loss, a whole number; 0 at padding.
        segment_owner: command that wrote the segment's records; `NO_OWNER` at padding.
        segment_resource: index of the resource they lie in; anything in range at padding.
        segment_killer: command that ended them; `SURVIVES` where they live at the end.
        segment_in_place: the killer overwrote them (False: moved away, or they survive).
        segment_count: records in the segment, at most 2**24 a command; 0 at padding.
        inspected: the verifier looked at the resource; False at padding.
        reads: `reads[i, r]`: command i reads resource r, before its own writes.
        stdout: `stdout[i, j]`: command i reuses what the earlier command j printed.
    """

    recorded: Bool[Array, " N"]
    step_of_command: Int32[Array, " N"]
    loss_tokens: Float32[Array, " T"]
    segment_owner: Int32[Array, " S"]
    segment_resource: Int32[Array, " S"]
    segment_killer: Int32[Array, " S"]
    segment_in_place: Bool[Array, " S"]
    segment_count: Int32[Array, " S"]
    inspected: Bool[Array, " R"]
    reads: Bool[Array, "N R"]
    stdout: Bool[Array, "N N"]


def check_rollout(rollout: DenseRollout) -> None:
    """Checks that the fields of one rollout fit together, by their static shapes alone.

    Args:
        rollout: one rollout, of arrays or of tracers.

    Raises:
        ShapeError: a field has another shape than the others ask for; the message names it.
    """
    if not isinstance(rollout, DenseRollout):
        raise ShapeError(f"rollout_credit: found {type(rollout)}; allowed: a DenseRollout")
    # A missing axis counts as size 0 here, so that the loop names the field that lacks it.
    commands, resources = (*rollout.reads.shape, 0, 0)[:2]
    segments = (*rollout.segment_owner.shape, 0)[0]
    allowed = {
        "recorded": (commands,),
        "step_of_command": (commands,),
        "loss_tokens": (*rollout.loss_tokens.shape, 0)[:1],
        "inspected": (resources,),
        "reads": (commands, resources),
        "stdout": (commands, commands),
    }
    for name, field in rollout._asdict().items():
        shape = allowed.get(name, (segments,))
        if field.shape != shape:
            raise ShapeError(
                f"DenseRollout.{name}: found shape {field.shape}; allowed: {shape}, after "
                f"DenseRollout.reads {rollout.reads.shape} and segment_owner "
                f"{rollout.segment_owner.shape}; batch it with jax.vmap"
            )


def dense_rollouts(batch: TraceBatch) -> DenseRollout:
    """The batch as dense tensors with the rollouts in front, for `jax.vmap(rollout_credit)`.

    Costs `B * N * (N + R)` bytes; the packed family does without them.

    Args:
        batch: a batch of traces.

    Returns:
        A `DenseRollout` whose every field has a leading axis of B.
    """
    num_commands = batch.recorded.shape[1]
    commands = jnp.arange(num_commands, dtype=jnp.int32)
    past_steps = jnp.cumsum(batch.commands_per_step, axis=1)
    step = jnp.sum(past_steps[:, None, :] <= commands[None, :, None], axis=2, dtype=jnp.int32)
    return DenseRollout(
        recorded=batch.recorded,
        step_of_command=jnp.where(commands[None] < batch.num_commands[:, None], step, NO_STEP),
        loss_tokens=batch.loss_tokens,
        segment_owner=batch.segment_owner,
        segment_resource=batch.segment_resource,
        segment_killer=batch.segment_killer,
        segment_in_place=batch.segment_in_place,
        segment_count=batch.segment_count,
        inspected=batch.inspected,
        reads=unpack_bits(batch.readers).swapaxes(1, 2),
        stdout=unpack_bits(batch.stdout_readers).swapaxes(1, 2),
    )
