"""Credit of read-only commands: decayed shortest distances to relevant writes (section 4)."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float32


class Support(NamedTuple):
    """How a command supports the relevant writes downstream of it.

    Attributes:
        credit: sum of `credit(w) * beta**d` over the credited writers w that it reaches.
        reaches: it reaches one at all; exact even where `beta**d` underflows.
    """

    credit: Float32[Array, " N"]
    reaches: Bool[Array, " N"]


def support_credit(
    adjacency: Bool[Array, "N N"],
    write_credit: Float32[Array, " N"],
    beta: Float32[Array, ""],
) -> Support:
    """Breadth-first search from every command at once, by levels.

    `support(i) = sum over w of credit(w) * beta**d(i, w)`, with `d >= 1` the smallest number
    of edges from i to w. Any command may lie on the path. Row sums run in float32 at the highest
    matmul precision, so that equal credits stay equal on every backend.

    Padding commands have no edges and no credit. Source: DepGPO (arXiv 2610.03634); method page,
    sections 4 and 7.

    Args:
        adjacency: `adjacency[j, i]`: edge from j to the later command i.
        write_credit: credit of the commands with records, 0 for the others.
        beta: decay per edge, in (0, 1].

    Returns:
        The support of every command, of writers too (the caller uses it for read-only ones).
    """
    edges = adjacency.astype(jnp.float32)
    targets = write_credit > 0.0
    start = jnp.diag(targets)

    def level(
        state: tuple[
            Bool[Array, "N N"], Bool[Array, "N N"], Float32[Array, " N"], Float32[Array, ""]
        ],
    ) -> tuple[Bool[Array, "N N"], Bool[Array, "N N"], Float32[Array, " N"], Float32[Array, ""]]:
        frontier, reached, credit, decay = state
        stepped = jnp.matmul(edges, frontier.astype(jnp.float32)) > 0.0
        fresh = stepped & ~reached
        decay = decay * beta
        found = jnp.matmul(fresh.astype(jnp.float32), write_credit, precision=lax.Precision.HIGHEST)
        return fresh, reached | fresh, credit + decay * found, decay

    _, reached, credit, _ = lax.while_loop(
        lambda state: jnp.any(state[0]),
        level,
        (start, start, jnp.zeros_like(write_credit), jnp.ones((), jnp.float32)),
    )
    reaches = jnp.any(reached & ~start, axis=1)
    return Support(credit, reaches)
