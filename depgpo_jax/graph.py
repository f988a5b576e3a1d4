"""The dependency graph of one rollout (method, section 2)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool

from depgpo_jax.rollout import DenseRollout


def owns(rollout: DenseRollout) -> Bool[Array, "N S"]:
    """Write ownership: `owns[j, s]` where command j wrote the records of segment s.

    Padding segments are owned by nobody. Source: method page, section 1.
    """
    commands = jnp.arange(rollout.recorded.shape[0], dtype=jnp.int32)
    return commands[:, None] == rollout.segment_owner[None, :]


def segment_readers(rollout: DenseRollout) -> Bool[Array, "N S"]:
    """`readers[i, s]` where command i reads segment s while its records are live.

    A segment is readable by i iff `owner < i <= killer`: the killer reads before it writes.
    Padding segments are read by nobody. Source: method page, sections 1 and 2.
    """
    commands = jnp.arange(rollout.recorded.shape[0], dtype=jnp.int32)[:, None]
    live = (rollout.segment_owner[None] < commands) & (commands <= rollout.segment_killer[None])
    written = rollout.segment_owner >= 0
    return rollout.reads[:, rollout.segment_resource] & live & written[None]


def adjacency(rollout: DenseRollout) -> Bool[Array, "N N"]:
    """`adjacency[j, i]`: an edge from producer j to the later command i that depends on it.

    Command i depends on j when it reads a resource in which j owns a live record, or reuses what
    j printed. Padding commands have no edges. Source: method page, section 2.
    """
    read_edges = jnp.matmul(
        owns(rollout).astype(jnp.float32), segment_readers(rollout).T.astype(jnp.float32)
    )
    return (read_edges > 0.0) | rollout.stdout.T
