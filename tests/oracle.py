"""The method in exact rational arithmetic, written to be checked against its specification by eye.

One object a write record, one list item a file line, sets and dicts, `fractions.Fraction`
throughout and a naive fixpoint for relevance. It shares no code with the package: the package is
tested against it, and it is tested against the golden cases.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

Trace = Mapping[str, Any]
Result = dict[str, Any]

TIE = Fraction(1, 10**6)
CREDIT_TOLERANCE = 1e-5
CREDIT_KEYS = ("command_credit", "step_credit", "relevant_fraction", "on_path_fraction")
WEIGHT_KEYS = ("step_factor", "token_weight", "max_weight_seen", "effective_fraction")


@dataclass(eq=False, slots=True)
class Record:
    """One line, one deletion gap or one whole-file mark; `killer` is None while it is live."""

    owner: int
    resource: str
    kind: str
    killer: int | None = None
    in_place: bool = False
    readers: list[int] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Item:
    """One place in a file from top to bottom: a line (`record` None: unowned filler) or a gap."""

    is_line: bool
    record: Record | None


@dataclass(slots=True)
class File:
    """The records that are live in one resource."""

    items: list[Item] = field(default_factory=list)
    whole: Record | None = None

    def live(self) -> list[Record]:
        records = [item.record for item in self.items if item.record is not None]
        return records if self.whole is None else [self.whole, *records]

    def line_index(self, line: int) -> int:
        """Index in `items` of a 1-based line; unknown lines above it become filler."""
        known = 0
        for index, item in enumerate(self.items):
            known += item.is_line
            if item.is_line and known == line:
                return index
        self.items.extend(Item(True, None) for _ in range(line - known))
        return len(self.items) - 1


@dataclass(frozen=True, slots=True)
class Command:
    """What of a command the method looks at."""

    step: int
    recorded: bool
    reads: frozenset[str]
    writes: Sequence[Mapping[str, Any]]
    stdout_from: frozenset[int]


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything about a trace that depends on no setting (method, sections 1 and 2)."""

    commands: list[Command]
    loss_tokens: list[int]
    verifier: frozenset[str]
    resources: frozenset[str]
    records: list[Record]
    edges: frozenset[tuple[int, int]]
    distances: list[dict[int, int]]


def analyse(trace: Trace) -> Analysis:
    """Replays a trace: its records, its edges, and all shortest distances along the edges."""
    commands = _commands(trace)
    records, files = _replay(commands)
    edges = {(record.owner, reader) for record in records for reader in record.readers}
    edges |= {(source, i) for i, command in enumerate(commands) for source in command.stdout_from}
    verifier = frozenset(trace["verifier"])
    named = [command.reads for command in commands]
    return Analysis(
        commands=commands,
        loss_tokens=[step["loss_tokens"] for step in trace["steps"]],
        verifier=verifier,
        resources=verifier.union(files, *named),
        records=records,
        edges=frozenset(edges),
        distances=_distances(len(commands), edges),
    )


def _commands(trace: Trace) -> list[Command]:
    commands: list[Command] = []
    for t, step in enumerate(trace["steps"]):
        for command in step["commands"]:
            writes = command.get("writes", [])
            moved = [write["moved_from"] for write in writes if "moved_from" in write]
            commands.append(
                Command(
                    step=t,
                    recorded=command.get("recorded", True),
                    reads=frozenset(command.get("reads", [])).union(moved),
                    writes=writes,
                    stdout_from=frozenset(command.get("stdout_from", [])),
                )
            )
    return commands


# Section 1: ownership.


def _replay(commands: Sequence[Command]) -> tuple[list[Record], dict[str, File]]:
    files: dict[str, File] = {}
    records: list[Record] = []
    for i, command in enumerate(commands):
        for resource in command.reads:
            for record in files.get(resource, File()).live():
                record.readers.append(i)
        for write in command.writes:
            if "moved_from" in write:
                source = files.setdefault(write["moved_from"], File())
                _kill(source.live(), i, in_place=False)
                files[write["moved_from"]] = File()
        for write in command.writes:
            file = files.setdefault(write["resource"], File())
            if "lines" in write:
                records += _write_lines(file, i, write)
            elif "hunks" in write:
                records += _write_hunks(file, i, write)
            else:
                _kill(file.live(), i, in_place=True)
                file.items = []
                file.whole = Record(i, write["resource"], "whole")
                records.append(file.whole)
    return records, files


def _kill(records: Iterable[Record | None], killer: int, *, in_place: bool) -> None:
    for record in records:
        if record is not None:
            record.killer = killer
            record.in_place = in_place


def _write_lines(file: File, i: int, write: Mapping[str, Any]) -> list[Record]:
    written: list[Record] = []
    for first, last in write["lines"]:
        start, stop = file.line_index(first), file.line_index(last)
        for item in file.items[start : stop + 1]:
            if not item.is_line:
                continue
            _kill([item.record], i, in_place=True)
            item.record = Record(i, write["resource"], "line")
            written.append(item.record)
    return written


def _write_hunks(file: File, i: int, write: Mapping[str, Any]) -> list[Record]:
    written: list[Record] = []
    for old_start, old_count, _, new_count in reversed(write["hunks"]):
        if old_count > 0:
            # From the first to the last replaced line, so that the gaps at either edge stay.
            start = file.line_index(old_start)
            stop = file.line_index(old_start + old_count - 1) + 1
        else:
            start = stop = _below_gaps(file, old_start)
        _kill([item.record for item in file.items[start:stop]], i, in_place=True)
        kind = "line" if new_count > 0 else "gap"
        new = [Record(i, write["resource"], kind) for _ in range(max(new_count, 1))]
        file.items[start:stop] = [Item(kind == "line", record) for record in new]
        written += new
    return written


def _below_gaps(file: File, line: int) -> int:
    """Index in `items` below a 1-based line (0: the top) and below the gaps under it."""
    index = file.line_index(line) + 1 if line > 0 else 0
    while index < len(file.items) and not file.items[index].is_line:
        index += 1
    return index


# Section 2: shortest distances along the edges.


def _distances(num_commands: int, edges: Iterable[tuple[int, int]]) -> list[dict[int, int]]:
    successors: list[list[int]] = [[] for _ in range(num_commands)]
    for source, target in edges:
        successors[source].append(target)
    distances: list[dict[int, int]] = []
    for source in range(num_commands):
        found = {source: 0}
        queue = deque([source])
        while queue:
            at = queue.popleft()
            for target in successors[at]:
                if target not in found:
                    found[target] = found[at] + 1
                    queue.append(target)
        distances.append(found)
    return distances


# Section 3: relevant records.


def relevant_records(analysis: Analysis, relevance: str, inspect: str) -> set[Record]:
    """The smallest set closed under the rule, by adding records until nothing changes."""
    inspected = analysis.verifier if inspect == "verifier" else analysis.resources
    written: list[set[str]] = [set() for _ in analysis.commands]
    for record in analysis.records:
        written[record.owner].add(record.resource)

    relevant = {r for r in analysis.records if r.killer is None and r.resource in inspected}
    while True:
        owners = {record.owner for record in relevant}
        printing = _live_through_stdout(analysis.commands, owners)
        added: set[Record] = set()
        for record in analysis.records:
            if record in relevant:
                continue
            for k in record.readers:
                overwrote = record.killer == k and record.in_place
                elsewhere = bool(written[k] - {record.resource})
                by_paper = k in owners and elsewhere and not overwrote
                by_stdout = relevance != "paper" and k in printing
                by_slice = relevance == "slice" and k in owners
                if by_paper or by_stdout or by_slice:
                    added.add(record)
                    break
        if not added:
            return relevant
        relevant |= added


def _live_through_stdout(commands: Sequence[Command], owners: set[int]) -> set[int]:
    """Commands whose stdout a live command reuses; live are the owners and these."""
    printing: set[int] = set()
    while True:
        live = owners | printing
        found = {source for k in live for source in commands[k].stdout_from} - printing
        if not found:
            return printing
        printing |= found


# Section 4: command credit.


def _command_credit(
    analysis: Analysis,
    relevant: set[Record],
    beta: Fraction,
    *,
    read_credit: bool,
    write_credit: str,
) -> list[Fraction]:
    num_commands = len(analysis.commands)
    totals, hits = [0] * num_commands, [0] * num_commands
    for record in analysis.records:
        totals[record.owner] += 1
        hits[record.owner] += record in relevant
    credit = [Fraction(0)] * num_commands
    for i in range(num_commands):
        if totals[i] > 0:
            binary = Fraction(1 if hits[i] > 0 else 0)
            credit[i] = binary if write_credit == "binary" else Fraction(hits[i], totals[i])
    if not read_credit:
        return credit
    writers = {i: credit[i] for i in range(num_commands) if hits[i] > 0}
    for i in range(num_commands):
        if totals[i] == 0:
            reached = ((d, writers[w]) for w, d in analysis.distances[i].items() if w in writers)
            credit[i] = _decayed_sum(reached, beta)
    return credit


def _decayed_sum(terms: Iterable[tuple[int, Fraction]], beta: Fraction) -> Fraction:
    """Sum of credit * beta**d by Horner's rule over d: as exact as term by term, far faster."""
    by_distance: dict[int, Fraction] = {}
    for distance, credit in terms:
        by_distance[distance] = by_distance.get(distance, Fraction(0)) + credit
    total = Fraction(0)
    for distance in range(max(by_distance, default=0), 0, -1):
        total = (total + by_distance.get(distance, 0)) * beta
    return total


# Section 5: step factors.


def _gains(values: Sequence[Fraction], *, subtract_min: bool) -> list[Fraction]:
    """g_t of the recorded steps; all 0 is a tie."""
    if not values:
        return []
    least, most = min(values), max(values)
    threshold = TIE * max(1, most)
    if most - least <= threshold:
        return [Fraction(0)] * len(values)
    gains = [credit - least if subtract_min else credit for credit in values]
    return [gain if gain > threshold else Fraction(0) for gain in gains]


def _near_threshold(values: Sequence[Fraction], *, subtract_min: bool) -> bool:
    """Whether float rounding may decide on the other side of the tie threshold (section 7)."""
    if not values:
        return False
    least, most = min(values), max(values)
    gains = [credit - least if subtract_min else credit for credit in values]
    scale = TIE * max(1, most)
    low, high = Fraction(6, 10) * scale, 2 * scale
    return any(low <= gain <= high for gain in [*gains, most - least])


# Section 6: token weights.


def _token_weights(
    factors: Sequence[Fraction], tokens: Sequence[int], cap: Fraction | None
) -> list[Fraction | None]:
    """Weights of a rollout that does not fall back; None where the specification leaves it open."""
    total = sum(tokens)
    if cap is None:
        weighted = sum(f * n for f, n in zip(factors, tokens, strict=True))
        return [f * total / weighted for f in factors]
    weights = _water_fill(factors, tokens, cap)
    return [w if n > 0 else None for w, n in zip(weights, tokens, strict=True)]


def _water_fill(
    factors: Sequence[Fraction], tokens: Sequence[int], cap: Fraction
) -> list[Fraction]:
    total = sum(tokens)
    positive = sum(n for f, n in zip(factors, tokens, strict=True) if f > 0)
    if cap * positive < total:
        share = (total - cap * positive) / Fraction(total - positive)
        return [cap if f > 0 else share for f in factors]
    capped: set[int] = set()
    while True:
        left = total - cap * sum(tokens[t] for t in capped)
        free = [t for t in range(len(factors)) if t not in capped and factors[t] * tokens[t] > 0]
        if not free:
            return [cap if f > 0 else Fraction(0) for f in factors]
        level = left / sum(factors[t] * tokens[t] for t in free)
        over = {t for t in free if level * factors[t] > cap}
        if not over:
            return [min(cap, level * f) for f in factors]
        capped |= over


def oracle(
    trace: Trace | Analysis,
    *,
    beta: float = 0.5,
    relevance: str = "paper",
    max_weight: float | None = None,
    read_credit: bool = True,
    write_credit: str = "fraction",
    inspect: str = "verifier",
    subtract_min: bool = True,
) -> Result:
    """Every result of the method for one trace, rounded to floats only at the very end.

    Keys are those of a golden case's `expect`, and besides `conditioning` (max c / max g, infinite
    at a tie), `near_threshold` (section 7 promises nothing here) and `relevant` (those records).
    An `Analysis` in place of the trace saves the replay when one trace meets several settings.
    """
    analysis = trace if isinstance(trace, Analysis) else analyse(trace)
    relevant = relevant_records(analysis, relevance, inspect)
    command_credit = _command_credit(
        analysis, relevant, Fraction(beta), read_credit=read_credit, write_credit=write_credit
    )
    commands, tokens = analysis.commands, analysis.loss_tokens

    step_credit = [Fraction(0)] * len(tokens)
    command_flags: list[list[bool]] = [[] for _ in tokens]
    for command, credit in zip(commands, command_credit, strict=True):
        step_credit[command.step] += credit
        command_flags[command.step].append(command.recorded)
    recorded = [t for t, flags in enumerate(command_flags) if flags and all(flags)]

    values = [step_credit[t] for t in recorded]
    gains = _gains(values, subtract_min=subtract_min)
    tie = not any(gains)
    factors = [Fraction(1)] * len(tokens)
    if not tie:
        mean = sum(gains) / Fraction(len(gains))
        for t, gain in zip(recorded, gains, strict=True):
            factors[t] = gain / mean

    weighted = sum(f * n for f, n in zip(factors, tokens, strict=True))
    fallback = tie or weighted == 0  # no loss tokens: weighted is 0 too; nothing inspected: a tie
    weights: list[Fraction | None] = [Fraction(1)] * len(tokens)
    if not fallback:
        cap = None if max_weight is None else Fraction(max_weight)
        weights = _token_weights(factors, tokens, cap)
    effective = [(w, n) for w, n in zip(weights, tokens, strict=True) if n > 0 and w is not None]
    squares = sum(w * w * n for w, n in effective)

    followed = [
        credit > 0 for c, credit in zip(commands, command_credit, strict=True) if c.recorded
    ]
    return {
        "command_credit": [float(c) for c in command_credit],
        "step_credit": [float(c) for c in step_credit],
        "step_factor": [float(f) for f in factors],
        "token_weight": [None if w is None else float(w) for w in weights],
        "fallback": fallback,
        "relevant_fraction": _ratio(len(relevant), len(analysis.records), empty=0.0),
        "on_path_fraction": _ratio(sum(followed), len(followed), empty=0.0),
        "max_weight_seen": float(max((w for w, _ in effective), default=1)),
        "effective_fraction": _ratio(sum(tokens), squares, empty=1.0),
        "conditioning": math.inf if tie else float(max(values) / max(gains)),
        "near_threshold": _near_threshold(values, subtract_min=subtract_min),
        "relevant": relevant,
    }


def _ratio(part: Fraction | int, whole: Fraction | int, *, empty: float) -> float:
    return float(Fraction(part) / whole) if whole else empty


# Section 7: how near is near enough.


def weight_tolerance(conditioning: float) -> float:
    """1e-5 + 2^-21 * (max c / max g); at a tie the weights are exactly 1: nothing is added."""
    return 1e-5 + (0.0 if math.isinf(conditioning) else 2.0**-21 * conditioning)


def tolerances(conditioning: float) -> dict[str, float]:
    """Tolerance of each result, absolute or relative, whichever is larger."""
    weight = weight_tolerance(conditioning)
    # Weights that are off by `weight` move the sum of their squares by up to four times as much.
    by_key = dict.fromkeys(CREDIT_KEYS, CREDIT_TOLERANCE) | dict.fromkeys(WEIGHT_KEYS, weight)
    return by_key | {"effective_fraction": 4 * weight}


def assert_close(
    expect: Mapping[str, Any], got: Mapping[str, Any], *, conditioning: float, what: str = ""
) -> None:
    """Compares the results present in both, with section 7's tolerance; nulls are not compared.

    `expect` is a golden `expect` or an oracle's result, `got` maps the same keys to numbers or
    one-dimensional sequences (arrays too) without padding.
    """
    fallback = expect.get("fallback"), got.get("fallback")
    if None not in fallback and bool(fallback[0]) != bool(fallback[1]):
        raise AssertionError(f"{what}: fallback: {fallback[1]}, expected {fallback[0]}")
    for key, tolerance in tolerances(conditioning).items():
        if key not in expect or key not in got:
            continue
        wanted, found = _as_list(expect[key]), _as_list(got[key])
        if len(wanted) != len(found):
            raise AssertionError(f"{what}: {key}: {len(found)} values, expected {len(wanted)}")
        for index, (w, f) in enumerate(zip(wanted, found, strict=True)):
            if w is None:
                continue
            # Written so that NaN fails.
            if not abs(float(f) - w) <= tolerance * max(1.0, abs(w)):
                raise AssertionError(
                    f"{what}: {key}[{index}]: {float(f)!r}, expected {w!r} within {tolerance:.3g}"
                )


def _as_list(value: Any) -> list[Any]:
    return [value] if isinstance(value, (int, float)) or not hasattr(value, "__len__") else [*value]
