"""The run behind `--only tracing`: what it measures, its bounds, and its tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import sandboxes, tracing
from benchmarks.machine import Machine, describe
from benchmarks.report import requirements_table, table
from benchmarks.results import Requirement
from benchmarks.sandboxes import LEAST_STARTS, ROLLOUT, SANDBOX, TERMINAL, Rate
from benchmarks.timing import Spread
from benchmarks.tracing import PINNED, PLACES, PLAIN, TRACED, ShortCommands, Tracing
from benchmarks.tracing_workloads import workloads
from benchmarks.writing import page_of, write_results

DEFAULT_OUT = Path(__file__).resolve().parent / "results" / "tracing.json"
HELD = PINNED
"""The place whose ratios are held against the bounds: what a `TracedTerminal` does by itself."""

PROCESSES = 2
MOST_PARSING = 0.2


@dataclass
class TracingResults:
    """One run."""

    machine: Machine
    quick: bool
    """Tiny sizes: that it works is seen, but nothing is held against a bound."""
    workloads: list[Tracing] = field(default_factory=list)
    short: list[ShortCommands] = field(default_factory=list)
    rates: list[Rate] = field(default_factory=list)

    def add(self, result: Tracing | ShortCommands | Rate) -> None:
        match result:
            case Tracing():
                self.workloads.append(result)
            case ShortCommands():
                self.short.append(result)
            case Rate():
                self.rates.append(result)


def run(*, quick: bool, out: Path | None) -> int:
    """Measures, prints and writes; returns the exit status, 1 where a bound was missed."""
    results = TracingResults(describe(pinned=False), quick=quick)
    for name, job in all_jobs(quick=quick).items():
        start = time.perf_counter()
        results.add(job())
        print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    print(markdown(results), end="")
    out = DEFAULT_OUT if out is None and not quick else out
    if out is not None:
        for file in write(results, out):
            print(f"wrote {file}", file=sys.stderr)
    return 0 if all(found.passed for found in requirements(results)) else 1


def all_jobs(*, quick: bool) -> dict[str, Callable[[], Any]]:
    """Every measurement by its name, in the order in which they run."""
    rounds = 1 if quick else 7
    sizes = (20, 1) if quick else (2000, 12)
    jobs: dict[str, Callable[[], Any]] = {}
    for workload in workloads(files=sizes[0], compilations=sizes[1]):
        jobs[workload.name] = partial(tracing.measure, workload, rounds=rounds)
    jobs["short commands"] = partial(
        tracing.measure_short,
        files=(0, sizes[0]),
        rounds=rounds,
        commands=2 if quick else 50,
    )
    seconds = 0.1 if quick else 10.0
    for kind in (SANDBOX, TERMINAL, ROLLOUT):
        for processes in (1, PROCESSES):
            name = f"{kind}, {processes} at once"
            jobs[name] = partial(sandboxes.measure, kind, processes=processes, seconds=seconds)
    return jobs


def requirements(results: TracingResults) -> list[Requirement]:
    """The bounds on whatever was measured."""
    return [] if results.quick else list(_requirements(results))


def aims(results: TracingResults) -> list[Requirement]:
    """What is hoped for; missing it fails nothing."""
    return [] if results.quick else list(_aims(results))


def _requirements(results: TracingResults) -> Iterator[Requirement]:
    for found in results.workloads:
        yield _at_most(f"time traced / untraced, {found.name}", found.ratios[HELD], found.at_most)
    for rate in results.rates:
        if rate.what == SANDBOX and rate.processes == PROCESSES:
            yield Requirement(
                f"sandboxes a second, {PROCESSES} processes",
                f">= {LEAST_STARTS:g}",
                f"{rate.per_second:.1f}",
                rate.per_second >= LEAST_STARTS,
            )


def _aims(results: TracingResults) -> Iterator[Requirement]:
    for found in results.workloads:
        yield _at_most(f"time traced / untraced, {found.name}", found.ratios[HELD], found.aim)
        both = found.parsing[HELD].median + found.recording[HELD].median
        yield Requirement(
            f"parsing and recording, {found.name}",
            f"<= {MOST_PARSING:.0%}",
            f"{both:.0%}",
            both <= MOST_PARSING,
        )


def _at_most(what: str, found: Spread, bound: float) -> Requirement:
    return Requirement(what, f"<= {bound:g}", f"{found.median:.2f}", found.median <= bound)


def write(results: TracingResults, file: Path) -> list[Path]:
    """Writes the JSON file, and the Markdown beside it."""
    held = {"requirements": requirements(results), "aims": aims(results)}
    return write_results(results, held, markdown(results), file)


def markdown(results: TracingResults) -> str:
    """The whole report."""
    return page_of(_sections(results))


def _sections(results: TracingResults) -> Iterator[str]:
    if results.quick:
        yield "A quick run of tiny sizes: these are no figures."
    machine = results.machine
    yield f"{machine.cpu}, {machine.cores} cores, {machine.system}; load {machine.load:g} before."
    yield f"{machine.date}; medians, quartiles in brackets."
    yield ""
    yield from _workloads(results.workloads)
    for short in results.short:
        yield from _short(short)
    yield from _rates(results.rates)
    for title, rows in (("Requirements", requirements(results)), ("Aims", aims(results))):
        if rows:
            yield f"**{title}**, processes {HELD}"
            yield ""
            yield from requirements_table(rows)


def _workloads(found: Sequence[Tracing]) -> Iterator[str]:
    yield "**Tracing**: from the text to its record"
    yield ""
    rows = [
        [
            each.name,
            place,
            _spread(each.seconds[place][PLAIN], "{:.2f}"),
            _spread(each.seconds[place][TRACED], "{:.2f}"),
            _spread(each.ratios[place], "{:.2f}"),
            f"{each.waiting[place].median:.2f}",
            f"{each.parsing[place].median:.1%}",
            f"{each.recording[place].median:.1%}",
        ]
        for each in found
        for place in PLACES
    ]
    header = ["workload", "processes", "untraced, s", "traced, s", "ratio", "of it until its end"]
    yield from table([*header, "parsing", "recording"], rows, left=2)
    for each in found:
        yield (
            f"{each.name}: {each.log_bytes / 1e6:.1f} MB of log, "
            f"{each.records:,} reads and writes; "
            f"traced on one core / untraced free {_spread(each.against_free, '{:.2f}')}."
        )
    yield ""


def _short(short: ShortCommands) -> Iterator[str]:
    yield f"**A short command**, `{tracing.SHORT}`, ms"
    yield ""
    rows = [
        [folder, place, *(_spread(seconds[kind], "{:.2f}", 1e3) for kind in (PLAIN, TRACED))]
        for folder, places in short.seconds.items()
        for place, seconds in places.items()
    ]
    yield from table(["in a folder with", "processes", "untraced", "traced"], rows, left=2)


def _rates(rates: Sequence[Rate]) -> Iterator[str]:
    yield "**Sandboxes and rollouts**"
    yield ""
    names = {
        SANDBOX: "sandbox, one command",
        TERMINAL: "sandbox, traced terminal, one command and its record",
        ROLLOUT: f"whole rollout of `{sandboxes.FAMILY}`, verifier included",
    }
    rows = [
        [
            names[rate.what],
            str(rate.processes),
            _spread(rate.seconds, "{:.0f}", 1e3),
            f"{rate.per_second:.1f}",
        ]
        for rate in rates
    ]
    yield from table(["", "processes", "ms until its end", "a second, all together"], rows, left=1)


def _spread(values: Spread, number: str, factor: float = 1.0) -> str:
    scaled = (factor * value for value in (values.median, values.low, values.high))
    median, low, high = map(number.format, scaled)
    return f"{median} ({low}–{high})"
