"""The packed family's pipeline: a tile of rollouts from bit rows to credit."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from depgpo_jax.batch import TraceBatch
from depgpo_jax.credit_config import CreditConfig
from depgpo_jax.packed.bits import rows_of_one, unpack_rows
from depgpo_jax.packed.reads import support_credit
from depgpo_jax.packed.rows import SegmentRows, segment_rows
from depgpo_jax.packed.sweep import sweep, sweep_stdout
from depgpo_jax.relevance import write_credit
from depgpo_jax.summary import CommandCredit, Credit, summarise

TILE = 32
"""Rollouts worked on at a time on a CPU: their bit rows stay in its first cache levels."""


def packed_credit(
    batch: TraceBatch, beta: Float32[Array, ""], max_weight: Float32[Array, ""], rules: CreditConfig
) -> Credit:
    """Credit of a batch, tile by tile; `rules` gives the static choices only."""
    rollouts = batch.is_rollout.shape[0]
    # An accelerator has no such cache and wants few, large operations: the whole batch at once.
    tile = TILE if jax.default_backend() == "cpu" else max(1, rollouts)
    if 0 < rollouts <= tile:
        return tile_credit(batch, beta, max_weight, rules)
    tiles = max(1, -(-rollouts // tile))
    missing = tiles * tile - rollouts

    def cut(field: Array) -> Array:
        padding = [(0, missing), *((0, 0) for _ in field.shape[1:])]
        return jnp.pad(field, padding).reshape(tiles, tile, *field.shape[1:])

    def join(field: Array) -> Array:
        return field.reshape(tiles * tile, *field.shape[2:])[:rollouts]

    credit = lax.map(
        lambda part: tile_credit(part, beta, max_weight, rules), jax.tree.map(cut, batch)
    )
    return jax.tree.map(join, credit)


def tile_credit(
    tile: TraceBatch, beta: Float32[Array, ""], max_weight: Float32[Array, ""], rules: CreditConfig
) -> Credit:
    """Credit of one tile of rollouts."""
    rows = _stored(segment_rows(tile, rule=rules.relevance, inspect=rules.inspect), tile)
    demand, readers = _lanes(rows.demand_of), _lanes(rows.readers_of)
    stdout = _lanes(tile.stdout_readers)
    relevant_segment = _relevant_segments(rows, demand, readers, stdout, rules)
    relevant = _relevant_by_command(tile, relevant_segment)
    records = tile.records_per_command.T
    written = write_credit(relevant, records, rules.write_credit)
    credit, on_path = written, relevant > 0
    if rules.read_credit:
        support, reaches = _support(readers | stdout, written, records > 0, beta)
        credit, on_path = written + support, on_path | reaches
    commands = CommandCredit(credit, on_path, relevant, records)
    step_credit, step_recorded = _by_step(tile, credit)
    recorded = tile.recorded.T
    cap = jnp.full(tile.is_rollout.shape, max_weight, jnp.float32)
    steps = summarise(
        commands,
        recorded,
        step_credit,
        step_recorded,
        tile.loss_tokens.T,
        cap,
        subtract_min=rules.subtract_min,
    )
    return Credit(
        command_credit=credit.T,
        max_weight=cap,
        segment_relevant=relevant_segment,
        **jax.tree.map(jnp.transpose, steps)._asdict(),
    )


def _stored(rows: SegmentRows, tile: TraceBatch) -> SegmentRows:
    """The same rows, kept in memory: XLA would otherwise gather them anew for every use.

    On a CPU `optimization_barrier` is gone before fusion; a branch whose outcome only the run
    knows is a barrier in every context, also inside somebody else's `jit`.
    """
    always = jnp.all(tile.num_commands >= 0)
    return lax.cond(
        always, lambda rows: rows, lambda rows: jax.tree.map(jnp.zeros_like, rows), rows
    )


def _lanes(rows: UInt32[Array, "B N W"]) -> UInt32[Array, "N W B"]:
    return rows.transpose(1, 2, 0)


def _relevant_segments(
    rows: SegmentRows,
    demand: UInt32[Array, "N W B"],
    readers: UInt32[Array, "N W B"],
    stdout: UInt32[Array, "N W B"],
    rules: CreditConfig,
) -> Bool[Array, "B S"]:
    """The sweep of the chosen rule, brought back to the segments."""
    if rules.relevance == "stdout":
        owning, printing = sweep_stdout(demand, readers, stdout)
        return _meets(rows.demand, owning) | _meets(rows.readers, printing)
    live = sweep(demand | stdout if rules.relevance == "slice" else demand)
    return _meets(rows.demand, live)


def _meets(rows: UInt32[Array, "B S W"], live: UInt32[Array, "W B"]) -> Bool[Array, "B S"]:
    return jnp.any((rows & live.T[:, None, :]) != 0, axis=-1)


def _relevant_by_command(
    tile: TraceBatch, relevant_segment: Bool[Array, "B S"]
) -> Int32[Array, "N B"]:
    """Relevant records of each command, from differences of a running total.

    The total may wrap around; its differences are exact, as a command has at most 2**24 records.
    """
    relevant = jnp.where(relevant_segment, tile.segment_count, 0)
    total = jnp.pad(jnp.cumsum(relevant, axis=1, dtype=jnp.int32), ((0, 0), (1, 0)))
    end = jnp.cumsum(tile.segments_per_command, axis=1, dtype=jnp.int32)
    start = end - tile.segments_per_command
    at_end = jnp.take_along_axis(total, end, axis=1, mode="promise_in_bounds")
    at_start = jnp.take_along_axis(total, start, axis=1, mode="promise_in_bounds")
    return (at_end - at_start).T


def _support(
    edges: UInt32[Array, "N W B"],
    written: Float32[Array, "N B"],
    is_writer: Bool[Array, "N B"],
    beta: Float32[Array, ""],
) -> tuple[Float32[Array, "N B"], Bool[Array, "N B"]]:
    """Support of the read-only commands, and which of them reach a credited write."""
    own_bit = jnp.asarray(rows_of_one(written.shape[0])[:-1, :, None])
    seeded = edges | jnp.where((written > 0.0)[:, None], own_bit, jnp.uint32(0))
    reaches = unpack_rows(sweep(seeded)) & ~is_writer
    return support_credit(edges, reaches, written, beta), reaches


def _by_step(
    tile: TraceBatch, credit: Float32[Array, "N B"]
) -> tuple[Float32[Array, "T B"], Bool[Array, "T B"]]:
    """Credit summed over each step's commands, in order, and which steps are recorded."""
    size = tile.commands_per_step.T
    first = jnp.cumsum(size, axis=0, dtype=jnp.int32) - size
    last = credit.shape[0] - 1
    recorded = tile.recorded.T

    def add(
        state: tuple[Int32[Array, ""], Float32[Array, "T B"], Bool[Array, "T B"]],
    ) -> tuple[Int32[Array, ""], Float32[Array, "T B"], Bool[Array, "T B"]]:
        place, total, all_recorded = state
        index = jnp.minimum(first + place, last)
        here = place < size
        value = jnp.take_along_axis(credit, index, axis=0, mode="promise_in_bounds")
        seen = jnp.take_along_axis(recorded, index, axis=0, mode="promise_in_bounds")
        return place + 1, total + jnp.where(here, value, 0.0), all_recorded & (seen | ~here)

    most = jnp.max(size, initial=0)
    start = (jnp.zeros((), jnp.int32), jnp.zeros_like(tile.loss_tokens.T), size > 0)
    _, total, all_recorded = lax.while_loop(lambda state: state[0] < most, add, start)
    return total, all_recorded
