"""Credit of read-only commands: shortest distances from 16 sources at a time (lane layout).

Edges only go forward, so one pass over the commands in time order settles every distance, however
deep the graph is: when a command's turn comes, everything that leads to it has had its turn, and it
hands its distance plus one to its receivers. Distances are bytes, all ones where there is no path,
and a missing edge is a byte of ones too, so handing on is an OR and a MIN, 32 rollouts to a vector
instruction. A level-by-level search, the usual way, repeats that work for every level.
"""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float32, Int32, Shaped, UInt32

from depgpo_jax.packed.bits import WORD

LANES = 16
"""Sources searched from at once; a rollout with more of them takes further rounds."""

BLOCKS = 8
"""Blocks of senders at most; each leaves out the commands before it, which cannot receive."""


def support_credit(
    edges: UInt32[Array, "N W B"],
    sources: Bool[Array, "N B"],
    write_credit: Float32[Array, "N B"],
    beta: Float32[Array, ""],
) -> Float32[Array, "N B"]:
    """Decayed support of the source commands: `sum over w of credit(w) * beta**d(i, w)`.

    Sources own no records. Commands that are no sources get 0. Source: method page, section 4.
    """
    rank = jnp.cumsum(sources, axis=0, dtype=jnp.int32) - 1
    most = jnp.max(jnp.where(sources, rank, -1), initial=-1)

    def search(
        state: tuple[Int32[Array, ""], Float32[Array, "N B"]],
    ) -> tuple[Int32[Array, ""], Float32[Array, "N B"]]:
        first, credit = state
        lane = jnp.where(sources, rank - first, -1)
        distance = _distances(edges, lane)
        found = _decayed_sums(distance, write_credit, beta)
        inside = (lane >= 0) & (lane < LANES)
        lane = jnp.clip(lane, 0, LANES - 1)
        support = jnp.take_along_axis(found, lane, axis=0, mode="promise_in_bounds")
        return first + LANES, jnp.where(inside, support, credit)

    start = (jnp.zeros((), jnp.int32), jnp.zeros_like(write_credit))
    return lax.while_loop(lambda state: state[0] <= most, search, start)[1]


def _distances(edges: UInt32[Array, "N W B"], lane: Int32[Array, "N B"]) -> Shaped[Array, "N 16 B"]:
    """Edges on the shortest path from each lane's source to each command; all ones: no path."""
    num_commands = edges.shape[0]
    kind = jnp.uint8 if num_commands < 255 else jnp.uint16
    never = jnp.array(jnp.iinfo(kind).max, kind)
    is_source = lane[:, None] == jnp.arange(LANES, dtype=jnp.int32)[None, :, None]
    distance = jnp.where(is_source, jnp.zeros((), kind), never)
    block = -(-edges.shape[1] // BLOCKS)
    for first in range(0, edges.shape[1], block):
        # Nobody before the block can receive from it any more.
        settled, open_ = distance[: first * WORD], distance[first * WORD :]
        outgoing = edges[first * WORD :, first:]
        words = min(block, edges.shape[1] - first)
        open_ = lax.fori_loop(0, words, partial(_send_word, outgoing), open_)
        distance = jnp.concatenate([settled, open_])
    return distance


def _send_word(
    edges: UInt32[Array, "N W B"], word: Int32[Array, ""], distance: Shaped[Array, "N 16 B"]
) -> Shaped[Array, "N 16 B"]:
    """The 32 commands of a word hand their distance plus one to their receivers, one by one."""
    # Computed here, outside the inner loop, once for all lanes.
    senders = lax.dynamic_slice_in_dim(edges, word * WORD, WORD)
    gaps = _gaps(senders, distance.dtype)

    def send(place: Int32[Array, ""], distance: Shaped[Array, "N 16 B"]) -> Shaped[Array, "N 16 B"]:
        own = lax.dynamic_index_in_dim(distance, word * WORD + place, axis=0)
        gap = lax.dynamic_index_in_dim(gaps, place, axis=0, keepdims=False)
        return jnp.minimum(distance, _one_more(own) | gap[:, None])

    return lax.fori_loop(0, WORD, send, distance)


def _gaps(edges: UInt32[Array, "32 W B"], kind: jnp.dtype) -> Shaped[Array, "32 N B"]:
    """All ones where there is no edge, zero where there is one."""
    senders, words, rollouts = edges.shape
    byte = (jnp.arange(4, dtype=jnp.uint32) * 8)[None, None, :, None]
    parts = (edges[:, :, None] >> byte).astype(jnp.uint8)
    place = (jnp.uint8(1) << jnp.arange(8, dtype=jnp.uint8))[None, None, None, :, None]
    missing = (parts[:, :, :, None] & place) == 0
    never = jnp.array(jnp.iinfo(kind).max, kind)
    return jnp.where(missing, never, jnp.zeros((), kind)).reshape(senders, words * WORD, rollouts)


def _one_more(distance: Shaped[Array, "1 16 B"]) -> Shaped[Array, "1 16 B"]:
    one = jnp.ones((), distance.dtype)
    return jnp.minimum(distance, jnp.iinfo(distance.dtype).max - one) + one


def _decayed_sums(
    distance: Shaped[Array, "N 16 B"],
    write_credit: Float32[Array, "N B"],
    beta: Float32[Array, ""],
) -> Float32[Array, "16 B"]:
    """Credit of all commands, decayed by their distance from each lane's source."""
    num_commands = distance.shape[0]
    powers = jnp.cumprod(jnp.full((num_commands,), beta, jnp.float32))
    powers = jnp.concatenate([jnp.ones(1), powers, jnp.zeros(1)]).astype(jnp.float32)
    index = jnp.minimum(distance.astype(jnp.int32), num_commands + 1)
    decayed = powers.at[index].get(mode="promise_in_bounds")
    return jnp.sum(decayed * write_credit[:, None], axis=0)
