"""What a command of the file world does: is it valid, what does it write, what does it reuse."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from training.environments.commands import (
    FROM_FILE,
    NO_LINE,
    NUM_FILES,
    OPS,
    USES_SOURCE,
    USES_TARGET,
    Family,
    Verb,
    apply_op,
    is_one_of,
)
from training.environments.records import NOBODY
from training.environments.state import State


def pick(lines: Int32[Array, "8 2"], chosen: Bool[Array, " 8"]) -> Int32[Array, " 2"]:
    """The lines of one file; 0 lines, which no file has, where none is chosen."""
    return jnp.sum(jnp.where(chosen[:, None], lines, 0), axis=0, dtype=jnp.int32)


def is_valid(
    state: State,
    action: Int32[Array, " 3"],
    from_lines: Int32[Array, " 2"],
    old_lines: Int32[Array, " 2"],
    submit: Bool[Array, ""],
) -> Bool[Array, ""]:
    """Whether a command can be done.

    Args:
        state: before the command.
        action: `[verb, source, target]`.
        from_lines: the source's lines.
        old_lines: the target's lines.
        submit: whether there is a verb `submit`.

    Returns:
        True where it does something; noop and submit count as that.
    """
    verb, source, target = action
    task = state.task
    in_range = (verb >= 0) & ((verb != Verb.SUBMIT) | submit)
    in_range &= ~is_one_of(verb, USES_SOURCE) | ((source >= 0) & (source < NUM_FILES))
    in_range &= ~is_one_of(verb, USES_TARGET) | ((target >= 0) & (target < NUM_FILES))
    has_source = ~is_one_of(verb, FROM_FILE) | (from_lines[0] >= 0)
    differ = ~is_one_of(verb, (Verb.COPY, Verb.PUT2)) | (source != target)
    has_target = ~is_one_of(verb, (Verb.PUT2, Verb.DELETE)) | (old_lines[0] >= 0)
    has_printed = (verb != Verb.PASTE) | (state.printer >= 0)
    transforms = is_one_of(verb, (Verb.COPY, Verb.PUT2, *OPS))
    may_use = (task.family != Family.PRINTED) | ~transforms | (source != task.a)
    writes_unprinted = is_one_of(verb, USES_TARGET) & (verb != Verb.PASTE)
    may_write = (task.family != Family.REPORT) | ~writes_unprinted | (target != task.z)
    known = verb <= Verb.SUBMIT
    return known & in_range & has_source & differ & has_target & has_printed & may_use & may_write


def written_lines(
    verb: Int32[Array, ""],
    source: Int32[Array, ""],
    from_lines: Int32[Array, " 2"],
    old_lines: Int32[Array, " 2"],
    printed: Int32[Array, " 2"],
) -> Int32[Array, " 2"]:
    """The target's lines after the command, if it is a valid one that writes."""
    no_line = jnp.full((), NO_LINE, jnp.int32)
    new = apply_op(jnp.broadcast_to(verb, from_lines.shape), from_lines)
    new = jnp.where(verb == Verb.PUT2, jnp.stack([old_lines[0], from_lines[0]]), new)
    new = jnp.where(verb == Verb.PASTE, printed, new)
    new = jnp.where(verb == Verb.CONST, jnp.stack([source, no_line]), new)
    return jnp.where(verb == Verb.DELETE, NO_LINE, new)


def record_kind(
    verb: Int32[Array, ""],
    old_lines: Int32[Array, " 2"],
    new_lines: Int32[Array, " 2"],
    marked: Bool[Array, ""],
) -> tuple[Bool[Array, ""], Bool[Array, " 2"]]:
    """Whether a write leaves one whole record, and else on which lines it leaves a record.

    A file that is replaced is written line by line, unless an old line would be left over or its
    owner could no longer be told: under a whole-file mark, which single lines do not end.
    """
    put = verb == Verb.PUT2
    shorter = jnp.sum(new_lines >= 0) < jnp.sum(old_lines >= 0)
    whole = ~put & (shorter | marked)
    exists = new_lines >= 0
    second_only = jnp.array([False, True])
    return whole, ~whole & jnp.where(put, second_only, exists)


def producer(
    state: State, verb: Int32[Array, ""], is_source: Bool[Array, " 8"]
) -> Int32[Array, ""]:
    """The command whose printed value this one reuses: what it pastes, or a name it learnt."""
    learnt = is_source & ~state.task.in_prompt
    by_name = jnp.max(jnp.where(learnt, state.value_printer, NOBODY))
    by_name = jnp.where(is_one_of(verb, USES_SOURCE), by_name, NOBODY)
    return jnp.where(verb == Verb.PASTE, state.printer, by_name)
