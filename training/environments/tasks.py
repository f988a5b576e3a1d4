"""One task of the file world: its prompt, its hidden part, its files and what z must become."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from training.environments.commands import (
    FIRST_FAMILY,
    FIRST_NAME,
    FIRST_VERB,
    NO_LINE,
    NOTHING,
    NUM_FILES,
    NUM_LINES,
    Family,
    apply_op,
)
from training.environments.prompts import prompt_table

_NUM_UNIFORMS = 3 + NUM_FILES + NUM_FILES * NUM_LINES
"""All chance of a task, drawn at once: every further draw would take long to compile."""


class Task(NamedTuple):
    """What is asked. Files from 0, operations as verbs; `NO_LINE` where a family has no such part.

    Attributes:
        family: a `Family`.
        a: the first source.
        b: the second source; in `POINTER` the file that a names, which the prompt does not.
        z: the target.
        scratch: a file that is empty at the start; no family needs just this one.
        f: the first operation.
        g: the second.
        in_prompt: the names that the prompt holds.
        prompt: the prompt as tokens.
        target: what the lines of z must be at the end.
    """

    family: Int32[Array, ""]
    a: Int32[Array, ""]
    b: Int32[Array, ""]
    z: Int32[Array, ""]
    scratch: Int32[Array, ""]
    f: Int32[Array, ""]
    g: Int32[Array, ""]
    in_prompt: Bool[Array, " 8"]
    prompt: Int32[Array, " 7"]
    target: Int32[Array, " 2"]


def draw_task(
    key: Key[Array, ""],
    family_weights: Float32[Array, " 5"],
    split: Int32[Array, ""],
    empty_target: Float32[Array, ""],
) -> tuple[Task, Int32[Array, "8 2"]]:
    """A task and the files that it starts with.

    Args:
        key: decides everything.
        family_weights: how often each family is drawn, at least one > 0.
        split: which prompts.
        empty_target: probability that z is empty.

    Returns:
        The task, and the lines of every file.
    """
    uniforms = jax.random.uniform(key, (_NUM_UNIFORMS,))
    for_family, for_prompt, for_empty = uniforms[0], uniforms[1], uniforms[2]
    for_hidden = uniforms[3 : 3 + NUM_FILES]
    for_lines = uniforms[3 + NUM_FILES :].reshape(NUM_FILES, NUM_LINES)

    up_to = jnp.cumsum(family_weights)
    family = jnp.sum(up_to <= for_family * up_to[-1], dtype=jnp.int32)
    row = _draw_prompt(for_prompt, family, split)
    _, a, shown_b, z, scratch, f, g = row
    file = jnp.arange(NUM_FILES, dtype=jnp.int32)
    in_prompt = (file == a) | (file == shown_b) | (file == z) | (file == scratch)

    points = family == Family.POINTER
    hidden = jnp.argmax(jnp.where(in_prompt, -1.0, for_hidden)).astype(jnp.int32)
    b = jnp.where(points, hidden, shown_b)

    lines = whole_number(for_lines, jnp.int32(NUM_FILES))
    first = jnp.where(points & (file == a), hidden, lines[:, 0])
    lines = jnp.stack([first, lines[:, 1]], axis=1)
    target = _target(family, f, g, lines[a], lines[b])
    # A z that is right from the start would make doing nothing a success.
    empty_z = (for_empty < empty_target) | jnp.all(lines[z] == target)
    empty = (file == scratch) | (empty_z & (file == z))
    lines = jnp.where(empty[:, None], NO_LINE, lines)
    task = Task(family, a, b, z, scratch, f, g, in_prompt, _prompt_tokens(row), target)
    return task, lines


def whole_number(uniform: Float32[Array, "*B"], size: Int32[Array, ""]) -> Int32[Array, "*B"]:
    """0 to size - 1, from a uniform in [0, 1); the minimum is for a product rounded up to size."""
    scaled = (uniform * size.astype(jnp.float32)).astype(jnp.int32)
    return jnp.minimum(scaled, size - 1)


def _draw_prompt(
    uniform: Float32[Array, ""], family: Int32[Array, ""], split: Int32[Array, ""]
) -> Int32[Array, " 7"]:
    table = prompt_table()
    place = whole_number(uniform, jnp.asarray(table.number)[family, split])
    return jnp.asarray(table.rows)[jnp.asarray(table.first)[family, split] + place]


def _prompt_tokens(row: Int32[Array, " 7"]) -> Int32[Array, " 7"]:
    names, verbs = [FIRST_NAME] * 4, [FIRST_VERB] * 2
    tokens = row + jnp.array([FIRST_FAMILY, *names, *verbs], jnp.int32)
    return jnp.where(row >= 0, tokens, NOTHING)


def _target(
    family: Int32[Array, ""],
    f: Int32[Array, ""],
    g: Int32[Array, ""],
    a_lines: Int32[Array, " 2"],
    b_lines: Int32[Array, " 2"],
) -> Int32[Array, " 2"]:
    """What z must hold; source files have two lines, so it has two."""

    def op(verb: Int32[Array, ""], lines: Int32[Array, " 2"]) -> Int32[Array, " 2"]:
        return apply_op(jnp.broadcast_to(verb, lines.shape), lines)

    of_a = op(f, a_lines)
    target = jnp.where(family == Family.CHAIN, op(g, of_a), of_a)
    joined = jnp.stack([of_a[0], op(g, b_lines)[0]])
    target = jnp.where(family == Family.JOIN, joined, target)
    return jnp.where(family == Family.POINTER, op(f, b_lines), target)
