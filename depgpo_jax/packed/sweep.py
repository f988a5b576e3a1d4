"""Backward sweeps over commands: which commands are live (lane layout)."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int32, UInt32

from depgpo_jax.packed.bits import WORD, any_common


def sweep(rows: UInt32[Array, "N W B"]) -> UInt32[Array, "W B"]:
    """The smallest set of commands closed under "its row meets the set, or has its own bit".

    Rows point forward in time only, so one pass from the last word to the first decides. Within
    a word the 32 commands depend on each other: an unrolled chain of 32 steps, each one vector
    instruction wide over the rollouts of the tile.
    """
    num_words = rows.shape[1]

    def visit(position: Int32[Array, ""], live: UInt32[Array, "W B"]) -> UInt32[Array, "W B"]:
        word = num_words - 1 - position
        block = lax.dynamic_slice_in_dim(rows, word * WORD, WORD, axis=0)
        later = any_common(block, live)
        own = lax.dynamic_index_in_dim(block, word, axis=1, keepdims=False)
        current = jnp.zeros_like(live[0])
        for bit in reversed(range(WORD)):
            hit = later[bit] | _meets(own[bit], current, bit)
            current = _set_bit(current, hit, bit)
        return lax.dynamic_update_index_in_dim(live, current, word, axis=0)

    return lax.fori_loop(0, num_words, visit, jnp.zeros_like(rows[0]))


def sweep_stdout(
    demand: UInt32[Array, "N W B"],
    readers: UInt32[Array, "N W B"],
    stdout: UInt32[Array, "N W B"],
) -> tuple[UInt32[Array, "W B"], UInt32[Array, "W B"]]:
    """Rule `stdout`: commands owning a relevant record, and commands live through stdout.

    The first set is fed by `demand` from itself and by `readers` from the second; the second
    by `stdout` from both. The same word-wise pass as `sweep`, for two sets at once.
    """
    num_words = demand.shape[1]

    def visit(
        position: Int32[Array, ""], state: tuple[UInt32[Array, "W B"], UInt32[Array, "W B"]]
    ) -> tuple[UInt32[Array, "W B"], UInt32[Array, "W B"]]:
        word = num_words - 1 - position
        owning, printing = state

        def block_of(rows: UInt32[Array, "N W B"]) -> UInt32[Array, "32 W B"]:
            return lax.dynamic_slice_in_dim(rows, word * WORD, WORD, axis=0)

        def own_of(block: UInt32[Array, "32 W B"]) -> UInt32[Array, "32 B"]:
            return lax.dynamic_index_in_dim(block, word, axis=1, keepdims=False)

        demanded, read, printed = block_of(demand), block_of(readers), block_of(stdout)
        owning_later = any_common(demanded, owning) | any_common(read, printing)
        printing_later = any_common(printed, owning | printing)
        demanded, read, printed = own_of(demanded), own_of(read), own_of(printed)
        owns_now, prints_now = jnp.zeros_like(owning[0]), jnp.zeros_like(owning[0])
        for bit in reversed(range(WORD)):
            owns = owning_later[bit] | _meets(demanded[bit], owns_now, bit)
            owns = owns | ((read[bit] & prints_now) != 0)
            prints = printing_later[bit] | ((printed[bit] & (owns_now | prints_now)) != 0)
            owns_now = _set_bit(owns_now, owns, bit)
            prints_now = _set_bit(prints_now, prints, bit)
        return (
            lax.dynamic_update_index_in_dim(owning, owns_now, word, axis=0),
            lax.dynamic_update_index_in_dim(printing, prints_now, word, axis=0),
        )

    nobody = jnp.zeros_like(demand[0])
    return lax.fori_loop(0, num_words, visit, (nobody, nobody))


def _meets(row: UInt32[Array, " B"], current: UInt32[Array, " B"], bit: int) -> Bool[Array, " B"]:
    return (row & (current | jnp.uint32(1 << bit))) != 0


def _set_bit(word: UInt32[Array, " B"], flag: Bool[Array, " B"], bit: int) -> UInt32[Array, " B"]:
    return word | (flag.astype(jnp.uint32) << bit)
