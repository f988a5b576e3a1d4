"""The commands of the file world, and the one vocabulary of its prompts, commands and answers.

A command is `[verb, source, target]`. Value v and file v have one name, so one token: that is what
lets a printed value be used as the name of a file.

Tokens, in this order: nothing (0), the families, the 8 names, the verbs, what became of a command.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32

NUM_FILES: Final = 8
"""Files, and values: value v names file v."""

NUM_LINES: Final = 2
"""Lines that a file may have."""

NO_LINE: Final = -1
"""Content of a line that a file does not have; also "no name" in a prompt."""


class Verb(IntEnum):
    """What a command does; see docs/file-world.md for when it is valid."""

    NOOP = 0
    READ = 1  # print the source
    COPY = 2  # target := source
    PUT2 = 3  # line 2 of target := line 1 of source
    OP1 = 4  # target := v + 1 of every line of the source, modulo 8
    OP2 = 5  # target := 7 - v
    OP3 = 6  # target := 3 v modulo 8
    PASTE = 7  # target := what was last printed
    CONST = 8  # target := one line, the value that `source` names
    DELETE = 9  # the target has no lines any more
    SUBMIT = 10  # ends the rollout


NUM_VERBS: Final = len(Verb)
OPS: Final = (Verb.OP1, Verb.OP2, Verb.OP3)
FROM_FILE: Final = (Verb.READ, Verb.COPY, Verb.PUT2, *OPS)
"""Verbs that read the file `source`."""
USES_SOURCE: Final = (*FROM_FILE, Verb.CONST)
USES_TARGET: Final = (Verb.COPY, Verb.PUT2, *OPS, Verb.PASTE, Verb.CONST, Verb.DELETE)
"""Verbs that write the file `target`."""


class Family(IntEnum):
    """Kinds of tasks; z is the target, f and g two of the three operations."""

    CHAIN = 0  # z = g(f(a))
    JOIN = 1  # z = [line 1 of f(a), line 1 of g(b)]
    PRINTED = 2  # z = f(a), but a may only be read
    POINTER = 3  # z = f(b); the prompt does not say b, line 1 of a does
    REPORT = 4  # z = f(a), but z takes nothing but what was printed


NUM_FAMILIES: Final = len(Family)

NOTHING: Final = 0
FIRST_FAMILY: Final = 1
FIRST_NAME: Final = FIRST_FAMILY + NUM_FAMILIES
FIRST_VERB: Final = FIRST_NAME + NUM_FILES
FIRST_STATUS: Final = FIRST_VERB + NUM_VERBS
START, DONE, INVALID = range(FIRST_STATUS, FIRST_STATUS + 3)
VOCABULARY: Final = FIRST_STATUS + 3
"""Number of tokens."""

_NAME: Final = (FIRST_NAME, NUM_FILES)
_OP: Final = (FIRST_VERB + Verb.OP1, len(OPS))
PROMPT_FIELDS: Final = ((FIRST_FAMILY, NUM_FAMILIES), _NAME, _NAME, _NAME, _NAME, _OP, _OP)
"""First token and number of tokens of each place of a prompt: family, a, b, z, scratch, f, g."""
FEEDBACK_FIELDS: Final = (
    (FIRST_VERB, NUM_VERBS),
    _NAME,
    _NAME,
    (FIRST_STATUS, 3),
    _NAME,
    _NAME,
)
"""The same for what stands before a command: the last one, its status, the two printed lines."""
PROMPT_LENGTH: Final = len(PROMPT_FIELDS)
FEEDBACK_LENGTH: Final = len(FEEDBACK_FIELDS)
COMMAND_LENGTH: Final = 3


def is_one_of(verb: Int32[Array, "*B"], verbs: Iterable[Verb]) -> Bool[Array, "*B"]:
    """Whether a verb is one of a few, by comparisons: cheaper on a CPU than a table."""
    found = jnp.zeros_like(verb, bool)
    for each in verbs:
        found |= verb == each
    return found


def used_tokens(verb: Int32[Array, "*B"]) -> Bool[Array, "*B 3"]:
    """Which of `[verb, source, target]` a command really has: the tokens that enter the loss."""
    return jnp.stack(
        [jnp.ones_like(verb, bool), is_one_of(verb, USES_SOURCE), is_one_of(verb, USES_TARGET)],
        axis=-1,
    )


def command_tokens(action: Int32[Array, "*B 3"]) -> Int32[Array, "*B 3"]:
    """A command in the vocabulary; `NOTHING` for what its verb does not use or no number names."""
    first = jnp.array([FIRST_VERB, FIRST_NAME, FIRST_NAME], jnp.int32)
    below = jnp.array([NUM_VERBS, NUM_FILES, NUM_FILES], jnp.int32)
    tokens = action + jnp.broadcast_to(first, action.shape)
    named = (action >= 0) & (action < jnp.broadcast_to(below, action.shape))
    return jnp.where(used_tokens(action[..., 0]) & named, tokens, NOTHING)


def name_tokens(values: Int32[Array, "*B"]) -> Int32[Array, "*B"]:
    """Values or names in the vocabulary; `NOTHING` for `NO_LINE`."""
    return jnp.where(values >= 0, values + FIRST_NAME, NOTHING)


def apply_op(verb: Int32[Array, "*B"], values: Int32[Array, "*B"]) -> Int32[Array, "*B"]:
    """The operation's value of each line; lines that do not exist stay so. Any other verb: as is.

    All three are one-to-one on the 8 values, and no two different ones in a row are one of them
    or none at all: a chain cannot be shortened.
    """
    changed = jnp.where(verb == Verb.OP1, (values + 1) % NUM_FILES, values)
    changed = jnp.where(verb == Verb.OP2, NUM_FILES - 1 - values, changed)
    changed = jnp.where(verb == Verb.OP3, (3 * values) % NUM_FILES, changed)
    return jnp.where(values >= 0, changed, NO_LINE)


def one_hot_fields(
    tokens: Int32[Array, "*B _"], fields: tuple[tuple[int, int], ...]
) -> Float32[Array, "*B _"]:
    """Each place of a prompt or feedback one-hot in its own range; `NOTHING` is all zeros.

    Args:
        tokens: as `PROMPT_FIELDS` or `FEEDBACK_FIELDS` describe them.
        fields: one of these two.

    Returns:
        The rows side by side: what a linear layer needs instead of a table that is looked up.
    """
    parts = [
        jax.nn.one_hot(tokens[..., place] - first, size)
        for place, (first, size) in enumerate(fields)
    ]
    return jnp.concatenate(parts, axis=-1)
