"""What each command's records offer to whom: bit rows of readers, by command (row layout)."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int32, UInt32

from depgpo_jax.batch import TraceBatch
from depgpo_jax.ownership import SURVIVES
from depgpo_jax.packed.bits import WORD, rows_below, rows_of_one, take_rows
from depgpo_jax.relevance import Inspect, RelevanceRule

SLOTS = 16
"""A command's segments are combined one by one up to this many, then in doubling strides."""


class SegmentRows(NamedTuple):
    """Bit rows of the segments, and the same combined over each command's segments.

    Attributes:
        demand: who makes the segment relevant by owning a relevant record itself. The owner's own
            bit stands for the verifier: it is set where the segment is directly relevant, and can
            mean nothing else, as nobody reads before the owner has written.
        readers: who reads the segment while it is live.
        demand_of: `demand` joined over the segments of each command.
        readers_of: `readers` joined likewise: the read edges out of the command.
    """

    demand: UInt32[Array, "B S W"]
    readers: UInt32[Array, "B S W"]
    demand_of: UInt32[Array, "B N W"]
    readers_of: UInt32[Array, "B N W"]


def segment_rows(tile: TraceBatch, *, rule: RelevanceRule, inspect: Inspect) -> SegmentRows:
    """Cuts each resource's readers to the life of each segment, then joins them by owner."""
    owner, resource, killer = tile.segment_owner, tile.segment_resource, tile.segment_killer
    num_commands = tile.recorded.shape[1]
    words = tile.readers.shape[2]
    written = owner >= 0
    below = jnp.asarray(rows_below(num_commands))
    last = jnp.where(written, jnp.minimum(killer, num_commands - 1), -1)
    born = ~below[owner + 1]
    life = below[last + 1] & born
    direct = written & (killer == SURVIVES)
    if inspect == "verifier":
        direct = direct & take_rows(tile.inspected[..., None], resource)[..., 0]
    verifier_bit = jnp.asarray(rows_of_one(num_commands))[jnp.where(direct, owner, num_commands)]
    if rule == "slice":
        read = take_rows(tile.readers, resource) & life
        demand = read | verifier_bit
    else:
        writers = _pack_minor(tile.segments_per_command > 0)
        qualifying = tile.readers & writers[:, None, :] & ~tile.only_writers
        both = take_rows(jnp.concatenate([tile.readers, qualifying], axis=-1), resource)
        read = both[..., :words] & life
        last_demand = jnp.where(written & tile.segment_in_place, last - 1, last)
        demand = (both[..., words:] & below[last_demand + 1] & born) | verifier_bit
    joined = _join_by_owner(
        jnp.concatenate([demand, read], axis=-1), owner, tile.segments_per_command
    )
    return SegmentRows(demand, read, joined[..., :words], joined[..., words:])


def _pack_minor(flags: Bool[Array, "B N"]) -> UInt32[Array, "B W"]:
    places = jnp.left_shift(jnp.uint32(1), jnp.arange(WORD, dtype=jnp.uint32))
    grouped = flags.reshape(flags.shape[0], -1, WORD)
    return jnp.sum(jnp.where(grouped, places[None, None], jnp.uint32(0)), axis=-1, dtype=jnp.uint32)


def _join_by_owner(
    rows: UInt32[Array, "B S W"],
    segment_owner: Int32[Array, "B S"],
    segments_per_command: Int32[Array, "B N"],
) -> UInt32[Array, "B N W"]:
    """ORs the rows of each command's consecutive segments, without a scatter.

    The rows are first joined over strides of 1, 2, 4, ... neighbours of the same owner until no
    command has more than SLOTS strides left (not at all for ordinary traces), then each command
    collects its strides one by one; past its last one it fetches an empty row.
    """
    segments = rows.shape[1]
    most = jnp.max(segments_per_command, initial=0)

    def double(state: tuple[Int32[Array, ""], UInt32[Array, "B S W"]]):
        stride, rows = state
        neighbour = jnp.arange(segments, dtype=jnp.int32) + stride
        inside = neighbour < segments
        neighbour = jnp.minimum(neighbour, segments - 1)
        same = inside[None] & (segment_owner[:, neighbour] == segment_owner)
        return stride * 2, rows | jnp.where(same[..., None], rows[:, neighbour], jnp.uint32(0))

    stride, rows = lax.while_loop(
        lambda state: state[0] * SLOTS < most, double, (jnp.ones((), jnp.int32), rows)
    )
    rows = jnp.concatenate([rows, jnp.zeros_like(rows[:, :1])], axis=1)
    start = jnp.cumsum(segments_per_command, axis=1) - segments_per_command

    def collect(state: tuple[Int32[Array, ""], UInt32[Array, "B N W"]]):
        offset, joined = state
        index = jnp.where(offset < segments_per_command, start + offset, segments)
        return offset + stride, joined | take_rows(rows, index)

    nothing = jnp.broadcast_to(rows[:, segments:], (*segments_per_command.shape, rows.shape[2]))
    return lax.while_loop(
        lambda state: state[0] < most, collect, (jnp.zeros((), jnp.int32), nothing)
    )[1]
