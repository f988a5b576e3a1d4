"""The compiled baseline: numba over the padded arrays of a `TraceBatch`, one trace after another.

Bit rows over commands, one backward sweep a trace (edges, relevance and reachability at once), then
a breadth-first search from every read-only command that can reach a relevant writer.

FROZEN before the first published table: every later "time against numba" means this code, so its
algorithms, data layout and compile options stay, also where they could be faster. Only a wrong
answer is a reason to change it, and then every figure is measured anew (benchmarks/README.md).
"""

# numba infers the types of what it compiles.
# pyright: reportMissingParameterType=false

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

SURVIVES = 2**31 - 1
TIE = 1e-6
RELEVANCE = {"paper": 0, "stdout": 1, "slice": 2}
CHUNK = 32


class BatchArrays(NamedTuple):
    """The fields of a `TraceBatch` that credit needs; their meaning and padding stand there."""

    num_commands: np.ndarray
    num_steps: np.ndarray
    recorded: np.ndarray
    commands_per_step: np.ndarray
    loss_tokens: np.ndarray
    segment_resource: np.ndarray
    segment_killer: np.ndarray
    segment_in_place: np.ndarray
    segment_count: np.ndarray
    segments_per_command: np.ndarray
    inspected: np.ndarray
    readers: np.ndarray
    only_writers: np.ndarray
    stdout_readers: np.ndarray


class NumbaCredit(NamedTuple):
    """The computed fields of a `Credit`, padded as there."""

    command_credit: np.ndarray
    step_credit: np.ndarray
    step_factor: np.ndarray
    token_weight: np.ndarray
    fallback: np.ndarray
    relevant_fraction: np.ndarray
    on_path_fraction: np.ndarray
    max_weight_seen: np.ndarray
    effective_fraction: np.ndarray
    segment_relevant: np.ndarray


class Scratch(NamedTuple):
    """Working space for one trace; rows of bits over commands, `W` words long."""

    successors: np.ndarray
    """[N, W] edges to commands that are useful."""
    writers: np.ndarray
    """[W] commands with a relevant record."""
    printing: np.ndarray
    """[W] commands that are live through their stdout."""
    live: np.ndarray
    """[W] the union of the two above."""
    useful: np.ndarray
    """[W] writers and the commands that can reach one."""
    frontier: np.ndarray
    ahead: np.ndarray
    unseen: np.ndarray
    """[3 * W] in all: the search's own rows."""
    credit: np.ndarray
    """[N]"""
    source: np.ndarray
    """[N] commands without records that can reach a writer."""
    factor: np.ndarray
    """[T]"""
    counted: np.ndarray
    """[T] steps that are recorded."""


def as_arrays(batch: Any) -> BatchArrays:
    """The fields of a `TraceBatch` (or of anything that has them) as numpy arrays."""
    fields = {name: np.asarray(getattr(batch, name)) for name in BatchArrays._fields}
    # Pairs of words as one of 64 bits where they pair up (little-endian: bit i stays bit i).
    for name in ("readers", "only_writers", "stdout_readers"):
        words = np.ascontiguousarray(fields[name])
        fields[name] = words.view(np.uint64) if words.shape[-1] % 2 == 0 else words
    return BatchArrays(**fields)


def numba_credit(
    batch: BatchArrays,
    *,
    beta: float = 0.5,
    relevance: str = "paper",
    max_weight: float | None = None,
    parallel: bool = False,
) -> NumbaCredit:
    """Everything a `Credit` computes; `parallel` spreads the traces over numba's threads.

    `batch` is what `as_arrays` returns; `max_weight` None is off. The results are 0 at padding.
    """
    B, N = batch.recorded.shape
    T, S = batch.loss_tokens.shape[1], batch.segment_resource.shape[1]
    out = NumbaCredit(
        command_credit=np.zeros((B, N), np.float32),
        step_credit=np.zeros((B, T), np.float32),
        step_factor=np.zeros((B, T), np.float32),
        token_weight=np.zeros((B, T), np.float32),
        fallback=np.zeros(B, np.bool_),
        relevant_fraction=np.zeros(B, np.float32),
        on_path_fraction=np.zeros(B, np.float32),
        max_weight_seen=np.ones(B, np.float32),
        effective_fraction=np.ones(B, np.float32),
        segment_relevant=np.zeros((B, S), np.bool_),
    )
    run = _run_parallel if parallel else _run_serial
    cap = math.inf if max_weight is None else float(max_weight)
    run(batch, out, RELEVANCE[relevance], float(beta), cap)
    return out


@intrinsic
def _lowest_bit(_typing: Any, _word: Any) -> Any:
    """Index of the lowest set bit of a uint64 that is not 0: one instruction."""

    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.int64(types.uint64), build


@numba.njit(cache=True)
def _scratch(batch):
    N, W = batch.stdout_readers.shape[1:]
    T = batch.loss_tokens.shape[1]
    rows = np.zeros((7, W), np.uint64)
    return Scratch(
        np.zeros((N, W), np.uint64),
        rows[0],
        rows[1],
        rows[2],
        rows[3],
        rows[4],
        rows[5],
        rows[6],
        np.zeros(N, np.float64),
        np.zeros(N, np.bool_),
        np.zeros(T, np.float64),
        np.zeros(T, np.bool_),
    )


@numba.njit(cache=True)
def _sweep(batch, out, b, rule, scratch):  # noqa: C901, PLR0915 - one fused pass is the speed
    """From the last command to the first: edges, relevance, write credit and what can be reached.

    All that decides about a command's records lies behind it, so one pass is enough.
    """
    n = batch.num_commands[b]
    W = batch.readers.shape[2]
    width = 8 * batch.readers.itemsize
    shift = 6 if width == 64 else 5
    one, two, low = np.uint64(1), np.uint64(2), np.uint64(width - 1)
    nothing = np.uint64(0)
    readers, only_writers = batch.readers[b], batch.only_writers[b]
    stdout_readers, inspected = batch.stdout_readers[b], batch.inspected[b]
    resource, killer = batch.segment_resource[b], batch.segment_killer[b]
    in_place, count = batch.segment_in_place[b], batch.segment_count[b]
    segments_per_command, relevant = batch.segments_per_command[b], out.segment_relevant[b]
    writers, printing, live = scratch.writers, scratch.printing, scratch.live
    useful, successors = scratch.useful, scratch.successors
    # Readers that make what they read relevant whatever else they did.
    unconditional = printing if rule == 1 else live
    for w in range(W):
        writers[w] = printing[w] = live[w] = useful[w] = nothing
    end = 0
    for j in range(n):
        end += segments_per_command[j]
    all_hits, all_records = 0, 0
    for j in range(n - 1, -1, -1):
        first_word = j >> shift
        place = np.uint64(j) & low
        after = ~((two << place) - one)
        row = successors[j]
        prints = nothing
        for w in range(first_word, W):
            word = np.uint64(stdout_readers[j, w])
            row[w] = word
            prints |= word & live[w]
        hits, records = 0, 0
        start = end - segments_per_command[j]
        for s in range(start, end):
            r = resource[s]
            found = killer[s] == SURVIVES and inspected[r]
            last = min(killer[s], n - 1)
            last_word = last >> shift
            last_bit = one << (np.uint64(last) & low)
            until = (last_bit << one) - one
            # A reader that overwrites the record in place does not make it relevant.
            feeding = ~last_bit if in_place[s] else ~nothing
            for w in range(first_word, last_word + 1):
                word = np.uint64(readers[r, w])
                if w == first_word:
                    word &= after
                if w == last_word:
                    word &= until
                row[w] |= word
                hit = word & writers[w] & ~np.uint64(only_writers[r, w])
                if w == last_word:
                    hit &= feeding
                if rule > 0:
                    hit |= word & unconditional[w]
                found |= hit != nothing
            relevant[s] = found
            records += count[s]
            hits += count[s] if found else 0
        end = start
        all_hits += hits
        all_records += records
        reach = nothing
        for w in range(first_word, W):
            row[w] &= useful[w]
            reach |= row[w]
        bit = one << place
        if hits > 0:
            writers[first_word] |= bit
        if hits > 0 or reach:
            useful[first_word] |= bit
        if prints:
            printing[first_word] |= bit
        if hits > 0 or prints:
            live[first_word] |= bit
        scratch.credit[j] = hits / records if records > 0 else 0.0
        scratch.source[j] = records == 0 and reach != nothing
    out.relevant_fraction[b] = all_hits / all_records if all_records > 0 else 0.0


@numba.njit(cache=True)
def _read_credit(i, beta, shift, scratch):
    """Breadth first from a command without records: decayed credit of the writers it reaches."""
    successors, credit, writers = scratch.successors, scratch.credit, scratch.writers
    frontier, ahead, unseen = scratch.frontier, scratch.ahead, scratch.unseen
    W = writers.shape[0]
    nothing, one = np.uint64(0), np.uint64(1)
    first_word = i >> shift
    for w in range(first_word, W):
        frontier[w] = successors[i, w]
        unseen[w] = ~frontier[w]
        ahead[w] = nothing
    total, decay = 0.0, beta
    while True:
        level = 0.0
        for w in range(first_word, W):
            word = frontier[w]
            while word:
                k = (w << shift) + _lowest_bit(word)  # pyright: ignore[reportCallIssue]
                level += credit[k]
                word &= word - one
                for v in range(k >> shift, W):
                    ahead[v] |= successors[k, v]
        total += decay * level
        more = nothing
        for w in range(first_word, W):
            word = ahead[w] & unseen[w]
            frontier[w] = word
            unseen[w] &= ~word
            ahead[w] = nothing
            more |= word
        if not more:
            return total
        decay *= beta


@numba.njit(cache=True)
def _factors(batch, out, b, scratch):
    """Step credits and factors; returns whether the factors tie."""
    credit, factor, counted = scratch.credit, scratch.factor, scratch.counted
    i, num_counted = 0, 0
    least, most = math.inf, 0.0
    followed, on_path = 0, 0
    for t in range(batch.num_steps[b]):
        size = batch.commands_per_step[b, t]
        total, recorded = 0.0, size > 0
        for k in range(i, i + size):
            total += credit[k]
            out.command_credit[b, k] = credit[k]
            if batch.recorded[b, k]:
                followed += 1
                on_path += 1 if credit[k] > 0 else 0
            else:
                recorded = False
        i += size
        factor[t] = total
        counted[t] = recorded
        out.step_credit[b, t] = total
        if recorded:
            num_counted += 1
            least, most = min(least, total), max(most, total)
    out.on_path_fraction[b] = on_path / followed if followed > 0 else 0.0
    threshold = TIE * max(1.0, most)
    gains = 0.0
    for t in range(batch.num_steps[b]):
        gain = factor[t] - least
        factor[t] = gain if counted[t] and gain > threshold else 0.0
        gains += factor[t]
    scale = num_counted / gains if gains > 0 else 0.0
    for t in range(batch.num_steps[b]):
        factor[t] = factor[t] * scale if counted[t] and gains > 0 else 1.0
        out.step_factor[b, t] = factor[t]
    return gains == 0


@numba.njit(cache=True)
def _level(factor, tokens, total, cap):
    """Water-filling: the level at which min(cap, level * factor) keeps the sum; <= T rounds."""
    level = 0.0
    while True:
        left, free = total, 0.0
        for t in range(len(tokens)):
            if level * factor[t] >= cap:
                left -= cap * tokens[t]
            else:
                free += factor[t] * tokens[t]
        # With nothing left free, every positive step is at the cap already.
        raised = left / free if free > 0 else level
        if raised <= level * (1 + 1e-12):
            return level
        level = raised


@numba.njit(cache=True)
def _weights(batch, out, b, tie, cap, scratch):
    """Token weights and what is reported about them."""
    T = batch.num_steps[b]
    tokens, factor = batch.loss_tokens[b, :T], scratch.factor
    total, weighted, positive = 0.0, 0.0, 0.0
    for t in range(T):
        total += tokens[t]
        weighted += factor[t] * tokens[t]
        positive += tokens[t] if factor[t] > 0 else 0.0
    fallback = tie or weighted == 0
    level = 0.0 if fallback else total / weighted
    unreachable = cap * positive <= total
    if not fallback and not math.isinf(cap) and not unreachable:
        level = _level(factor, tokens, total, cap)
    rest = (total - cap * positive) / (total - positive) if total > positive else 0.0
    squares, largest = 0.0, 0.0
    for t in range(T):
        if fallback:
            weight = 1.0
        elif unreachable:
            weight = cap if factor[t] > 0 else rest
        else:
            weight = min(cap, level * factor[t])
        out.token_weight[b, t] = weight
        squares += weight * weight * tokens[t]
        largest = max(largest, weight if tokens[t] > 0 else 0.0)
    out.fallback[b] = fallback
    if total > 0:
        out.max_weight_seen[b] = largest
        out.effective_fraction[b] = total / squares


@numba.njit(cache=True)
def _one(batch, out, b, rule, beta, cap, scratch):
    _sweep(batch, out, b, rule, scratch)
    shift = 6 if batch.readers.itemsize == 8 else 5
    for i in range(batch.num_commands[b]):
        if scratch.source[i]:
            scratch.credit[i] = _read_credit(i, beta, shift, scratch)
    tie = _factors(batch, out, b, scratch)
    _weights(batch, out, b, tie, cap, scratch)


@numba.njit(cache=True)
def _run_serial(batch, out, rule, beta, cap):
    scratch = _scratch(batch)
    for b in range(batch.num_commands.shape[0]):
        _one(batch, out, b, rule, beta, cap, scratch)


@numba.njit(cache=True, parallel=True)
def _run_parallel(batch, out, rule, beta, cap):
    B = batch.num_commands.shape[0]
    for chunk in numba.prange(-(-B // CHUNK)):
        scratch = _scratch(batch)
        for b in range(chunk * CHUNK, min(B, (chunk + 1) * CHUNK)):
            _one(batch, out, b, rule, beta, cap, scratch)
