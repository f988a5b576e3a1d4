"""Bit rows over the command axis.

A *bit row* answers a yes/no question for every command of one rollout in `W = N / 32` words::

    command   0 1 2 ... 31 | 32 33 ... 63 | ...          bit i % 32 of word i // 32, lowest first
    word      ---- 0 ----- | ----- 1 ---- |

"Which commands read resource r while segment s was live" is then an AND of three rows instead of a
loop over commands, and 128 commands fit in 16 bytes. Two layouts follow from what a CPU (and a
TPU's lanes) can do quickly:

* **row layout** `[B, rows, W]`: whole rows are fetched by index (a small copy each);
* **lane layout** `[rows, W, B]`: rollouts side by side in the minor axis, so that a step that is
  sequential over commands runs for a whole tile of rollouts in one vector instruction.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, Shaped, UInt32

from depgpo_jax.padding import WORD


def unpack_rows(words: UInt32[Array, "W B"]) -> Bool[Array, "N B"]:
    """Unpacks one bit row a rollout (lane layout) into flags over commands."""
    shifts = jnp.arange(WORD, dtype=jnp.uint32)[None, :, None]
    flags = (words[:, None] >> shifts) & jnp.uint32(1) != 0
    return flags.reshape(-1, words.shape[1])


def unpack_bits(words: UInt32[Array, "*B W"]) -> Bool[Array, "*B N"]:
    """Unpacks bit rows (words in the minor axis) into flags over commands."""
    shifts = jnp.arange(WORD, dtype=jnp.uint32).reshape(*(1,) * words.ndim, WORD)
    flags = (words[..., None] >> shifts) & jnp.uint32(1) != 0
    return flags.reshape(*words.shape[:-1], words.shape[-1] * WORD)


def rows_below(num_commands: int) -> UInt32[np.ndarray, "_ W"]:
    """Row x of the table has the bits of all commands before x; x from 0 to N."""
    before = np.arange(num_commands)[None, :] < np.arange(num_commands + 1)[:, None]
    return np.packbits(before, axis=1, bitorder="little").view(np.uint32)


def rows_of_one(num_commands: int) -> UInt32[np.ndarray, "_ W"]:
    """Row x of the table has bit x alone; row N is empty."""
    same = np.arange(num_commands)[None, :] == np.arange(num_commands + 1)[:, None]
    return np.packbits(same, axis=1, bitorder="little").view(np.uint32)


def take_rows(table: Shaped[Array, "B R W"], index: Int32[Array, "B M"]) -> Shaped[Array, "B M W"]:
    """Row `index[b, s]` of rollout b's table, for all b and s: one flat gather of whole rows."""
    rollouts, rows, words = table.shape
    offset = jnp.arange(rollouts, dtype=jnp.int32)[:, None] * rows
    flat = table.reshape(rollouts * rows, words)
    return flat.at[index + offset].get(mode="promise_in_bounds")


def any_common(rows: UInt32[Array, "M W B"], row: UInt32[Array, "W B"]) -> Bool[Array, "M B"]:
    """True where a bit row (lane layout) shares a command with `row`."""
    return jnp.any((rows & row[None]) != 0, axis=1)
