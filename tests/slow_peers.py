"""The step-level peers in plain Python, from their definitions, one rollout and state at a time.

Means are exact fractions; a deviation is the root of an exact variance. Nothing here is shared
with the package.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from depgpo_jax.traces import Trace


@dataclass
class Rollout:
    """One rollout of a group, without padding."""

    group: int
    reward: Fraction
    states: list[int]
    step_rewards: list[Fraction]
    success: bool = False
    final_state: int | None = None


Values = list[list[float]]
"""One number a step of each rollout."""


@dataclass
class Rules:
    """How a set of numbers is compared."""

    normalise: str = "mean"
    ddof: int = 1
    eps: float = 1e-6
    singleton: str = "zero"
    equal: str = "zero"


def compare(values: Sequence[Fraction], rules: Rules) -> list[float]:
    if len(values) == 1:
        return [float(values[0]) if rules.singleton == "reward" else 0.0]
    if len(set(values)) == 1:
        return [float(v) if rules.equal == "reward" else 0.0 for v in values]
    mean = sum(values, Fraction(0)) / len(values)
    if rules.normalise == "mean":
        return [float(v - mean) for v in values]
    variance = sum(((v - mean) ** 2 for v in values), Fraction(0))
    deviation = math.sqrt(variance / max(len(values) - rules.ddof, 1))
    return [float(v - mean) / (deviation + rules.eps) for v in values]


def compare_by(
    rows: Sequence[tuple[Hashable, tuple[int, int], Fraction]], rules: Rules
) -> dict[tuple[int, int], float]:
    """Compares the values of rows (key, place, value) that share a key; results by place."""
    by_key: defaultdict[Hashable, list[tuple[tuple[int, int], Fraction]]] = defaultdict(list)
    for key, place, value in rows:
        by_key[key].append((place, value))
    found: dict[tuple[int, int], float] = {}
    for members in by_key.values():
        results = compare([value for _, value in members], rules)
        found |= {place: result for (place, _), result in zip(members, results, strict=True)}
    return found


def episode(rollouts: Sequence[Rollout], rules: Rules, *, over_steps: bool) -> list[float]:
    """One number a rollout: its outcome against its group's."""
    sizes = Counter(rollout.group for rollout in rollouts if rollout.states)
    rows: list[tuple[Hashable, tuple[int, int], Fraction]] = []
    for b, rollout in enumerate(rollouts):
        times = len(rollout.states) if over_steps else min(len(rollout.states), 1)
        if sizes[rollout.group] == 1:  # alone, however many steps it has
            times = min(times, 1)
        rows += [(rollout.group, (b, t), rollout.reward) for t in range(times)]
    found = compare_by(rows, rules)
    return [found.get((b, 0), 0.0) for b in range(len(rollouts))]


def gigpo(
    rollouts: Sequence[Rollout],
    rules: Rules,
    anchor: Rules,
    *,
    gamma: Fraction,
    weight: float,
    over_steps: bool,
    with_step_rewards: bool,
) -> Values:
    rows: list[tuple[Hashable, tuple[int, int], Fraction]] = []
    for b, rollout in enumerate(rollouts):
        steps = len(rollout.states)
        rewards = [*rollout.step_rewards] if with_step_rewards else [Fraction(0)] * steps
        if steps:
            rewards[-1] += rollout.reward
        for t, state in enumerate(rollout.states):
            to_go = sum((gamma ** (k - t) * rewards[k] for k in range(t, steps)), Fraction(0))
            rows.append(((rollout.group, state), (b, t), to_go))
    step = compare_by(rows, anchor)
    outcome = episode(rollouts, rules, over_steps=over_steps)
    return [
        [outcome[b] + weight * step[b, t] for t in range(len(rollout.states))]
        for b, rollout in enumerate(rollouts)
    ]


GOAL = "goal"
UNKNOWN = "unknown"


def edges(rollouts: Sequence[Rollout], group: int) -> list[tuple[Hashable, Hashable]]:
    found: list[tuple[Hashable, Hashable]] = []
    for rollout in rollouts:
        if rollout.group != group or not rollout.states:
            continue
        end: Hashable = UNKNOWN if rollout.final_state is None else rollout.final_state
        after: list[Hashable] = [*rollout.states[1:], GOAL if rollout.success else end]
        found += zip(rollout.states, after, strict=True)
    return found


def distances(graph: Sequence[tuple[Hashable, Hashable]]) -> dict[Hashable, int]:
    """Breadth-first from the goal against the edges; states without a way are missing."""
    before: defaultdict[Hashable, set[Hashable]] = defaultdict(set)
    for start, end in graph:
        before[end].add(start)
    found: dict[Hashable, int] = {GOAL: 0}
    queue: deque[Hashable] = deque([GOAL])
    while queue:
        here = queue.popleft()
        for start in before[here]:
            if start not in found:
                found[start] = found[here] + 1
                queue.append(start)
    return found


def graph_distances(rollouts: Sequence[Rollout]) -> list[list[int]]:
    """d(s') of each step."""
    found: list[list[int]] = []
    for rollout in rollouts:
        known = distances(edges(rollouts, rollout.group))
        beyond = max(known.values()) + 1
        own = edges([rollout], rollout.group)
        found.append([known.get(after, beyond) for _, after in own])
    return found


def graph_gpo(
    rollouts: Sequence[Rollout],
    rules: Rules,
    *,
    omega: Fraction,
    success_reward: Fraction,
    step_weight: float,
    episode_weight: float,
    over_steps: bool,
) -> Values:
    distance = graph_distances(rollouts)
    rows: list[tuple[Hashable, tuple[int, int], Fraction]] = [
        ((rollout.group, state), (b, t), success_reward * omega ** (distance[b][t] + 1))
        for b, rollout in enumerate(rollouts)
        for t, state in enumerate(rollout.states)
    ]
    step = compare_by(rows, Rules(rules.normalise, rules.ddof, rules.eps))
    outcome = episode(rollouts, rules, over_steps=over_steps)
    return [
        [episode_weight * outcome[b] + step_weight * step[b, t] for t in range(len(rollout.states))]
        for b, rollout in enumerate(rollouts)
    ]


def mt_grpo(
    rollouts: Sequence[Rollout],
    rules: Rules,
    turn_rules: Rules,
    *,
    turn_weight: float,
    outcome_weight: float,
    turn_on_last: bool,
) -> Values:
    rows: list[tuple[Hashable, tuple[int, int], Fraction]] = [
        ((rollout.group, t), (b, t), reward)
        for b, rollout in enumerate(rollouts)
        for t, reward in enumerate(rollout.step_rewards)
    ]
    turn = compare_by(rows, turn_rules)
    outcome = episode(rollouts, rules, over_steps=False)
    found: Values = []
    for b, rollout in enumerate(rollouts):
        last = len(rollout.states) - 1
        found.append(
            [
                outcome[b] + (turn_weight * turn[b, t] if turn_on_last else 0.0)
                if t == last
                else outcome_weight * outcome[b] + turn_weight * turn[b, t]
                for t in range(last + 1)
            ]
        )
    return found


def last_write(trace: Trace, *, inspect_all: bool = False) -> dict[str, Any]:
    """Command credit, step factors and token weights by last write, without a cap."""
    writer: dict[str, int] = {}
    for number, command in enumerate(trace.commands):
        for write in command.writes:
            writer[write.resource] = number
    inspected = set(writer) if inspect_all else set(trace.verifier)
    credited = {number for resource, number in writer.items() if resource in inspected}

    number, values, recorded = 0, [], []
    for step in trace.steps:
        own = range(number, number + len(step.commands))
        number += len(step.commands)
        values.append(Fraction(len(credited.intersection(own))))
        recorded.append(bool(step.commands) and all(c.recorded for c in step.commands))
    known = [value for value, followed in zip(values, recorded, strict=True) if followed]
    gains = [value - min(known, default=Fraction(0)) for value in known]
    factors = [Fraction(1)] * len(values)
    if any(gains):
        mean = sum(gains) / Fraction(len(gains))
        places = [t for t, followed in enumerate(recorded) if followed]
        for t, gain in zip(places, gains, strict=True):
            factors[t] = gain / mean
    tokens = [step.loss_tokens for step in trace.steps]
    weighted = sum(f * n for f, n in zip(factors, tokens, strict=True))
    scale = sum(tokens) / weighted if weighted else None
    return {
        "command_credit": [float(i in credited) for i in range(number)],
        "step_credit": [float(v) for v in values],
        "step_factor": [float(f) for f in factors],
        "token_weight": [1.0 if scale is None else float(scale * f) for f in factors],
        "fallback": scale is None or not any(gains),
    }
