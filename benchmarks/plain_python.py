"""The baseline of "times faster than plain Python": one trace with lists, sets and a deque.

Written as one would without any array library, after the same replay that the package starts from,
and not naively: one backward sweep builds the edges, the relevant records and a reachability mark,
and only read-only commands that can reach a relevant writer are searched from.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

SURVIVES = 2**31 - 1
TIE = 1e-6
NONE, SEVERAL = -1, -2


@dataclass(frozen=True, slots=True)
class PlainTrace:
    """One trace after the replay; the first five are segments, in ascending order of owner."""

    owner: list[int]
    resource: list[int]
    killer: list[int]
    in_place: list[bool]
    count: list[int]
    reads: list[tuple[int, int]]
    """(resource, command): the command reads it."""
    stdout: list[tuple[int, int]]
    """(producer, consumer): the consumer reuses what the producer printed."""
    inspected: set[int]
    recorded: list[bool]
    """One entry a command."""
    step_sizes: list[int]
    """Commands of each step."""
    loss_tokens: list[int]


class PlainCredit(NamedTuple):
    """The results of one trace."""

    command_credit: list[float]
    step_credit: list[float]
    step_factor: list[float]
    token_weight: list[float]
    fallback: bool
    relevant_fraction: float
    on_path_fraction: float
    max_weight_seen: float
    effective_fraction: float


class _Sweep(NamedTuple):
    total: list[int]
    hits: list[int]
    successors: list[set[int]]
    reaches: list[bool]


def plain_credit(
    trace: PlainTrace,
    *,
    beta: float = 0.5,
    relevance: str = "paper",
    max_weight: float | None = None,
) -> PlainCredit:
    """Credits, factors and weights of one trace."""
    sweep = _backward_sweep(trace, relevance)
    credit = _command_credit(sweep, beta)
    step_credit, step_recorded = _steps(trace, credit)
    factors = _step_factors(step_credit, step_recorded)
    weights, fallback = _token_weights(factors, trace.loss_tokens, max_weight)
    tokens = sum(trace.loss_tokens)
    squares = sum(w * w * n for w, n in zip(weights, trace.loss_tokens, strict=True))
    followed = sum(trace.recorded)
    on_path = sum(r and c > 0 for r, c in zip(trace.recorded, credit, strict=True))
    seen = [w for w, n in zip(weights, trace.loss_tokens, strict=True) if n > 0]
    records = sum(sweep.total)
    return PlainCredit(
        command_credit=credit,
        step_credit=step_credit,
        step_factor=[1.0] * len(weights) if factors is None else factors,
        token_weight=weights,
        fallback=fallback,
        relevant_fraction=sum(sweep.hits) / records if records else 0.0,
        on_path_fraction=on_path / followed if followed else 0.0,
        max_weight_seen=max(seen, default=1.0),
        effective_fraction=tokens / squares if squares else 1.0,
    )


def _backward_sweep(trace: PlainTrace, relevance: str) -> _Sweep:
    """From the last command to the first: what decides about a command lies behind it."""
    owner, killer, in_place, count = trace.owner, trace.killer, trace.in_place, trace.count
    num_commands = len(trace.recorded)
    segments, total, only = _index_segments(trace)
    reads, reuses = _by_command(trace.reads, num_commands), _by_command(trace.stdout, num_commands)
    relevant, hits = _directly_relevant(trace)

    successors: list[set[int]] = [set() for _ in range(num_commands)]
    reaches, printing = [False] * num_commands, [False] * num_commands
    by_stdout, by_slice = relevance != "paper", relevance == "slice"
    for i in range(num_commands - 1, -1, -1):
        writer = hits[i] > 0
        anything = printing[i] or (by_slice and writer)
        reaches[i] = any(hits[k] > 0 or reaches[k] for k in successors[i])
        for r in reads[i]:
            elsewhere = writer and only[i] != r
            for s in segments.get(r, ()):
                j = owner[s]
                if j >= i:
                    break
                if killer[s] < i:
                    continue
                successors[j].add(i)
                if relevant[s]:
                    continue
                if anything or (elsewhere and not (killer[s] == i and in_place[s])):
                    relevant[s] = True
                    hits[j] += count[s]
        for j in reuses[i]:
            successors[j].add(i)
            if by_stdout and (writer or printing[i]):
                printing[j] = True
    return _Sweep(total, hits, successors, reaches)


def _index_segments(trace: PlainTrace) -> tuple[dict[int, list[int]], list[int], list[int]]:
    """Segments of each resource; each command's records, and the one resource it wrote, if one."""
    num_commands = len(trace.recorded)
    segments: dict[int, list[int]] = {}
    total, only = [0] * num_commands, [NONE] * num_commands
    for s, (i, r) in enumerate(zip(trace.owner, trace.resource, strict=True)):
        segments.setdefault(r, []).append(s)
        total[i] += trace.count[s]
        only[i] = r if only[i] in (NONE, r) else SEVERAL
    return segments, total, only


def _by_command(pairs: list[tuple[int, int]], num_commands: int) -> list[list[int]]:
    grouped: list[list[int]] = [[] for _ in range(num_commands)]
    for value, command in pairs:
        grouped[command].append(value)
    return grouped


def _directly_relevant(trace: PlainTrace) -> tuple[list[bool], list[int]]:
    """Segments that are live at the end where the verifier looked; how many by owner."""
    relevant = [
        killer == SURVIVES and r in trace.inspected
        for killer, r in zip(trace.killer, trace.resource, strict=True)
    ]
    hits = [0] * len(trace.recorded)
    for s, found in enumerate(relevant):
        if found:
            hits[trace.owner[s]] += trace.count[s]
    return relevant, hits


def _command_credit(sweep: _Sweep, beta: float) -> list[float]:
    credit = [h / t if t else 0.0 for h, t in zip(sweep.hits, sweep.total, strict=True)]
    for i, total in enumerate(sweep.total):
        if total == 0 and sweep.reaches[i]:
            credit[i] = _read_credit(i, sweep, credit, beta)
    return credit


def _read_credit(source: int, sweep: _Sweep, credit: list[float], beta: float) -> float:
    """Breadth first from a command without records: the credit of relevant writers, decayed."""
    decay = {source: 1.0}
    queue = deque([source])
    found = 0.0
    while queue:
        at = queue.popleft()
        next_decay = decay[at] * beta
        for k in sweep.successors[at]:
            if k in decay:
                continue
            decay[k] = next_decay
            if sweep.hits[k] > 0:
                found += next_decay * credit[k]
            if sweep.reaches[k]:
                queue.append(k)
    return found


def _steps(trace: PlainTrace, credit: list[float]) -> tuple[list[float], list[bool]]:
    step_credit: list[float] = []
    step_recorded: list[bool] = []
    start = 0
    for size in trace.step_sizes:
        stop = start + size
        step_credit.append(sum(credit[start:stop]))
        step_recorded.append(size > 0 and all(trace.recorded[start:stop]))
        start = stop
    return step_credit, step_recorded


def _step_factors(step_credit: list[float], step_recorded: list[bool]) -> list[float] | None:
    """None: a tie, so that every factor is 1."""
    counted = [c for c, r in zip(step_credit, step_recorded, strict=True) if r]
    if not counted:
        return None
    least = min(counted)
    threshold = TIE * max(1.0, *counted)
    gains = [c - least if r else 0.0 for c, r in zip(step_credit, step_recorded, strict=True)]
    gains = [g if g > threshold else 0.0 for g in gains]
    total = sum(gains)
    if total == 0:
        return None
    scale = len(counted) / total
    return [g * scale if r else 1.0 for g, r in zip(gains, step_recorded, strict=True)]


def _token_weights(
    factors: list[float] | None, loss_tokens: list[int], max_weight: float | None
) -> tuple[list[float], bool]:
    if factors is None:
        return [1.0] * len(loss_tokens), True
    total = sum(loss_tokens)
    weighted = sum(f * n for f, n in zip(factors, loss_tokens, strict=True))
    if weighted == 0:
        return [1.0] * len(loss_tokens), True
    if max_weight is not None:
        return _water_fill(factors, loss_tokens, max_weight), False
    level = total / weighted
    return [f * level for f in factors], False


def _water_fill(factors: list[float], loss_tokens: list[int], cap: float) -> list[float]:
    """min(cap, level * factor) with the level that keeps the token-weighted sum, steepest first."""
    total = sum(loss_tokens)
    positive = sum(n for f, n in zip(factors, loss_tokens, strict=True) if f > 0)
    if cap * positive <= total:
        rest = (total - cap * positive) / (total - positive) if total > positive else 0.0
        return [cap if f > 0 else rest for f in factors]
    left = float(total)
    weighted = sum(f * n for f, n in zip(factors, loss_tokens, strict=True))
    level = left / weighted
    pairs = sorted(zip(factors, loss_tokens, strict=True), reverse=True)
    for factor, n in pairs:
        if level * factor <= cap:
            break
        left -= cap * n
        weighted -= factor * n
        level = left / weighted
    return [min(cap, level * f) for f in factors]
