"""Relevant records, backward from what the verifier inspected (method, section 3)."""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float32, Int32

from depgpo_jax.graph import owns, segment_readers
from depgpo_jax.ownership import SURVIVES
from depgpo_jax.rollout import DenseRollout

RelevanceRule = Literal["paper", "stdout", "slice"]
WriteCredit = Literal["fraction", "binary"]
Inspect = Literal["verifier", "all"]


class WriteRelevance(NamedTuple):
    """What a rollout's writes were good for.

    Attributes:
        segment: the segment's records are relevant; False at padding.
        relevant: relevant records of each command.
        records: all records of each command; 0 for a read-only command.
    """

    segment: Bool[Array, " S"]
    relevant: Int32[Array, " N"]
    records: Int32[Array, " N"]


def direct_segments(rollout: DenseRollout, inspect: Inspect) -> Bool[Array, " S"]:
    """Segments that live at the end in an inspected resource. Source: method page, section 3."""
    live = (rollout.segment_killer == SURVIVES) & (rollout.segment_owner >= 0)
    if inspect == "all":
        return live
    return live & rollout.inspected[rollout.segment_resource]


def qualifying_readers(rollout: DenseRollout) -> Bool[Array, "N S"]:
    """`[k, s]`: a relevant command k would make segment s relevant under rule `paper`.

    k reads s while it is live, writes at least one record in another resource, and does not
    overwrite s in place itself. Source: method page, section 3, "Indirect".
    """
    resources = jnp.arange(rollout.inspected.shape[0], dtype=jnp.int32)
    in_resource = rollout.segment_resource[:, None] == resources[None]
    writes = jnp.matmul(owns(rollout).astype(jnp.float32), in_resource.astype(jnp.float32)) > 0.0
    writes_here = writes[:, rollout.segment_resource]
    writes_elsewhere = jnp.sum(writes, axis=1, dtype=jnp.int32)[:, None] > writes_here
    commands = jnp.arange(rollout.recorded.shape[0], dtype=jnp.int32)[:, None]
    overwrites = (commands == rollout.segment_killer[None]) & rollout.segment_in_place[None]
    return segment_readers(rollout) & writes_elsewhere & ~overwrites


def relevant_records(
    rollout: DenseRollout,
    *,
    rule: RelevanceRule = "paper",
    inspect: Inspect = "verifier",
) -> WriteRelevance:
    """Sweeps from the last command to the first and marks the relevant records.

    Edges go forward in time, so when the sweep reaches a command, everything that could make its
    records relevant has been decided: one pass gives the smallest closed set (liveness analysis).
    `paper`: records read by a qualifying command that owns a relevant record. `stdout`: also
    all records read by a command whose stdout a live command reuses. `slice`: all records read
    by a live command.

    Padding commands and segments change nothing. Source: method page, section 3.

    Args:
        rollout: dense tensors of one rollout.
        rule: how far relevance travels.
        inspect: `"all"` treats every resource as inspected (section 8).

    Returns:
        Relevant segments, and relevant and all records of each command.
    """
    ownership = owns(rollout)
    readers = segment_readers(rollout)
    through_write = readers if rule == "slice" else qualifying_readers(rollout)
    direct = direct_segments(rollout, inspect)
    last = rollout.recorded.shape[0] - 1

    def visit(
        position: Int32[Array, ""], state: tuple[Bool[Array, " S"], Bool[Array, " N"]]
    ) -> tuple[Bool[Array, " S"], Bool[Array, " N"]]:
        relevant, live = state
        command = last - position
        wrote_relevant = jnp.any(ownership[command] & relevant)
        relevant = relevant | (through_write[command] & wrote_relevant)
        if rule == "paper":
            return relevant, live
        printed_for_live = jnp.any(rollout.stdout[:, command] & live)
        relevant = relevant | (readers[command] & printed_for_live)
        return relevant, live.at[command].set(wrote_relevant | printed_for_live)

    nobody = jnp.zeros_like(rollout.recorded)
    relevant, _ = lax.fori_loop(0, last + 1, visit, (direct, nobody))
    counts = jnp.where(ownership, rollout.segment_count[None], 0)
    return WriteRelevance(
        relevant,
        jnp.sum(jnp.where(relevant[None], counts, 0), axis=1, dtype=jnp.int32),
        jnp.sum(counts, axis=1, dtype=jnp.int32),
    )


def write_credit(
    relevant: Int32[Array, "N *B"], records: Int32[Array, "N *B"], kind: WriteCredit
) -> Float32[Array, "N *B"]:
    """Relevant records over all records of a command; 0 without records.

    Exact in float32, as counts are at most 2**24. `binary`: 1 where any record is relevant.
    Source: method page, sections 4 and 8.
    """
    if kind == "binary":
        return (relevant > 0).astype(jnp.float32)
    return relevant.astype(jnp.float32) / jnp.maximum(records, 1).astype(jnp.float32)
