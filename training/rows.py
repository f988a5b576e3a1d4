"""Traces laid out as padded token rows, one rollout a row.

A row is, step by step, what the policy was shown (`context_token_ids`, not in the loss) and what it
wrote (`token_ids`, in the loss). A row that would begin with a loss token gets one start token
before it, since nothing could predict that token otherwise.

**Stand-ins.** Recorded rollouts may say how many loss tokens a step had, but not which. Such a step
gets that many random ids, drawn from the seed, the row and the step: good for shapes, timings and
gradients that flow, not for learning. `stand_in` marks the rows that hold any.

**Cutting.** With `max_loss_tokens` every step of every rollout is shortened by one common factor,
so that each step keeps its share of its rollout and each rollout its share of the batch, up to
rounding; a step with loss tokens keeps at least one. Real ids lose their ends. This is for demos:
what the policy is shown is then no longer what it saw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from msgspec import UNSET

from depgpo_jax.errors import ConfigError
from depgpo_jax.traces import Step, Trace

NO_STEP = -1
"""`step_of_token` of tokens that no step wrote: start, context and padding."""


class TokenRows(NamedTuple):
    """Rows on the host; row b is trace b, rows beyond the traces are all padding."""

    tokens: Int[np.ndarray, "B L"]  # int32; padding: the start token
    is_token: Bool[np.ndarray, "B L"]  # False at padding
    step_of_token: Int[np.ndarray, "B L"]  # int32; NO_STEP where no step wrote the token
    loss_mask: Bool[np.ndarray, "B L"]  # the tokens that a step wrote
    sampling_log_probs: Float[np.ndarray, "B L"]  # float32; 0 off the mask and where not recorded
    has_log_probs: Bool[np.ndarray, " B"]  # every loss token's log-probability was recorded
    stand_in: Bool[np.ndarray, " B"]  # at least one step's ids are made up


class _Row(NamedTuple):
    tokens: Int[np.ndarray, " L"]
    step_of_token: Int[np.ndarray, " L"]
    log_probs: Float[np.ndarray, " L"]
    has_log_probs: bool
    stand_in: bool


def token_rows(
    traces: Sequence[Trace],
    *,
    vocab_size: int,
    max_loss_tokens: int | None = None,
    num_rows: int | None = None,
    length_multiple: int = 64,
    start_token: int = 0,
    seed: int = 0,
) -> TokenRows:
    """Lay traces out as rows of one length.

    Args:
        traces: one rollout a row, in this order.
        vocab_size: ids are below it; stand-ins avoid the start token.
        max_loss_tokens: the longest rollout is cut to about this many loss tokens, the others by
            the same factor; None: nothing is cut.
        num_rows: B, at least the number of traces (the B of a padded `TraceBatch`); None: no more.
        length_multiple: L is the next multiple, so that few shapes are compiled.
        start_token: the id before a row that would begin with a loss token, and at padding.
        seed: of the stand-ins.

    Returns:
        The rows, numpy.

    Raises:
        ConfigError: an option out of range, a token id outside the vocabulary, or fewer rows than
            traces.
    """
    rows = len(traces) if num_rows is None else num_rows
    _check(len(traces), rows, vocab_size, max_loss_tokens, length_multiple, start_token)
    kept = _kept_share(traces, max_loss_tokens)
    laid = [
        _row(trace, kept, start_token, vocab_size, np.random.default_rng([seed, index]))
        for index, trace in enumerate(traces)
    ]
    longest = max((len(row.tokens) for row in laid), default=0)
    length = max(1, math.ceil(longest / length_multiple)) * length_multiple

    result = TokenRows(
        tokens=np.full((rows, length), start_token, np.int32),
        is_token=np.zeros((rows, length), bool),
        step_of_token=np.full((rows, length), NO_STEP, np.int32),
        loss_mask=np.zeros((rows, length), bool),
        sampling_log_probs=np.zeros((rows, length), np.float32),
        has_log_probs=np.zeros(rows, bool),
        stand_in=np.zeros(rows, bool),
    )
    for index, row in enumerate(laid):
        filled = (index, slice(0, len(row.tokens)))
        result.tokens[filled] = row.tokens
        result.is_token[filled] = True
        result.step_of_token[filled] = row.step_of_token
        result.loss_mask[filled] = row.step_of_token != NO_STEP
        result.sampling_log_probs[filled] = row.log_probs
        result.has_log_probs[index] = row.has_log_probs
        result.stand_in[index] = row.stand_in
    return result


def _row(
    trace: Trace, kept: float, start_token: int, vocab_size: int, random: np.random.Generator
) -> _Row:
    tokens: list[int] = []
    step_of_token: list[int] = []
    log_probs: list[float] = []
    has_log_probs, stand_in = True, False
    for number, step in enumerate(trace.steps):
        context = _context(step, kept)
        _check_ids(trace, number, "context_token_ids", context, vocab_size)
        count = _kept(step.loss_tokens, kept)
        written = _written(step, count)
        if written is None:
            # Drawn from the ids other than the start token: shifted up by one past it.
            drawn = random.integers(0, vocab_size - 1, count)
            written = (drawn + (drawn >= start_token)).tolist()
            stand_in |= count > 0
        else:
            _check_ids(trace, number, "token_ids", written, vocab_size)
        probabilities = _log_probs(step, count)
        has_log_probs &= count == 0 or probabilities is not None
        if not tokens and not context and count:
            context = [start_token]
        tokens += context + written
        step_of_token += [NO_STEP] * len(context) + [number] * count
        log_probs += [0.0] * len(context) + (probabilities or [0.0] * count)
    return _Row(
        np.asarray(tokens, np.int32),
        np.asarray(step_of_token, np.int32),
        np.asarray(log_probs, np.float32),
        has_log_probs,
        stand_in,
    )


def _kept_share(traces: Sequence[Trace], max_loss_tokens: int | None) -> float:
    longest = max((sum(step.loss_tokens for step in trace.steps) for trace in traces), default=0)
    if max_loss_tokens is None or longest <= max_loss_tokens:
        return 1.0
    return max_loss_tokens / longest


def _kept(count: int, share: float) -> int:
    return max(1, round(count * share)) if count else 0


def _context(step: Step, share: float) -> list[int]:
    if step.context_token_ids is UNSET:
        return []
    # The end of the context stands next to what the policy wrote.
    return step.context_token_ids[-_kept(len(step.context_token_ids), share) :]


def _written(step: Step, count: int) -> list[int] | None:
    return None if step.token_ids is UNSET else step.token_ids[:count]


def _log_probs(step: Step, count: int) -> list[float] | None:
    return None if step.logprobs is UNSET else step.logprobs[:count]


def _check_ids(trace: Trace, step: int, field: str, ids: list[int], vocab_size: int) -> None:
    for position, token in enumerate(ids):
        if not 0 <= token < vocab_size:
            raise ConfigError(
                f"trace {trace.trace_id!r}, steps[{step}].{field}[{position}]: found id {token}; "
                f"vocab_size is {vocab_size}, so ids are 0 to {vocab_size - 1}. "
                "Give the policy the vocabulary of the model that wrote the trace"
            )


def _check(
    num_traces: int,
    num_rows: int,
    vocab_size: int,
    max_loss_tokens: int | None,
    length_multiple: int,
    start_token: int,
) -> None:
    if vocab_size < 2:
        raise ConfigError(f"vocab_size is {vocab_size}; it must be at least 2")
    if num_rows < num_traces:
        raise ConfigError(f"num_rows is {num_rows}; {num_traces} traces need as many rows or more")
    if max_loss_tokens is not None and max_loss_tokens < 1:
        raise ConfigError(f"max_loss_tokens is {max_loss_tokens}; it must be at least 1, or None")
    if length_multiple < 1:
        raise ConfigError(f"length_multiple is {length_multiple}; it must be at least 1")
    if not 0 <= start_token < vocab_size:
        raise ConfigError(
            f"start_token is {start_token}; it must be an id of the vocabulary, "
            f"0 to {vocab_size - 1}"
        )
