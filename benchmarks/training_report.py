"""`--only training`: updates in the file world, as a table, JSON and Markdown."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.machine import Machine, describe
from benchmarks.report import requirements_table, table
from benchmarks.results import Requirement
from benchmarks.timing import Spread
from benchmarks.world_updates import CONTESTANTS, FULL, QUICK, WHOLE, WorldUpdates, measure
from benchmarks.writing import page_of, write_results

DEFAULT_OUT = Path(__file__).resolve().parent / "results" / "training.json"
ROUNDS, QUICK_ROUNDS = 15, 2
RUN = 150
"""Updates of a run, to which bound and aim refer."""
MOST_SECONDS, AIM_SECONDS = 300.0, 30.0


@dataclass
class TrainingResults:
    """One run."""

    machine: Machine
    quick: bool
    updates: list[WorldUpdates] = field(default_factory=list)


def run(*, quick: bool, out: Path | None) -> int:
    """Measures, prints, writes; 1 if the bound was missed."""
    results = TrainingResults(describe(pinned=False), quick)
    start = time.perf_counter()
    results.updates.append(
        measure(QUICK if quick else FULL, rounds=QUICK_ROUNDS if quick else ROUNDS)
    )
    print(f"training: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    print(markdown(results), end="")
    if out is None and not quick:
        out = DEFAULT_OUT
    if out is not None:
        for file in write(results, out):
            print(f"wrote {file}", file=sys.stderr)
    return 0 if all(found.passed for found in held_against(results, MOST_SECONDS)) else 1


def held_against(results: TrainingResults, seconds: float) -> list[Requirement]:
    """A run's time, compilation included, against a bound; nothing in a quick run."""
    if results.quick:
        return []
    return [_at_most(found, seconds) for found in results.updates]


def _at_most(found: WorldUpdates, seconds: float) -> Requirement:
    taken = found.first[WHOLE] + (RUN - 1) * found.seconds[WHOLE].median
    what = f"s for {RUN} updates of {found.rollouts} rollouts, compilation included"
    return Requirement(what, f"<= {seconds:g}", f"{taken:.1f}", taken <= seconds)


def write(results: TrainingResults, file: Path) -> list[Path]:
    """Writes the JSON file, and the Markdown beside it."""
    held = {
        "requirements": held_against(results, MOST_SECONDS),
        "aims": held_against(results, AIM_SECONDS),
    }
    return write_results(results, held, markdown(results), file)


def markdown(results: TrainingResults) -> str:
    """The whole report."""
    return page_of(_sections(results))


def _sections(results: TrainingResults) -> Iterator[str]:
    if results.quick:
        yield "A quick run of tiny sizes: these are no figures."
    machine = results.machine
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    yield f"{machine.cpu}, {machine.cores} cores, {machine.system}; load {machine.load:g} before."
    yield f"{versions}."
    yield f"{machine.date}; medians, quartiles in brackets."
    yield ""
    for found in results.updates:
        yield from _updates(found)
    for title, seconds in (("Requirements", MOST_SECONDS), ("Aims", AIM_SECONDS)):
        rows = held_against(results, seconds)
        if rows:
            yield f"**{title}**"
            yield ""
            yield from requirements_table(rows)


def _updates(found: WorldUpdates) -> Iterator[str]:
    yield (
        f"**Updates in the file world**: {found.rollouts} rollouts of {found.commands} commands, "
        f"a policy of {found.parameters:,} parameters, 2 minibatches"
    )
    yield ""
    rows = [
        [
            name,
            _ms(found.seconds[name]),
            f"{found.first[name]:.1f}",
            f"{found.first_processor[name]:.1f}",
        ]
        for name in CONTESTANTS
        if name in found.seconds
    ]
    first = "first call, s" + (", with a cache" if found.cached else "")
    yield from table(["", "ms", first, "of it processor"], rows, left=1)
    yield (
        f"{found.updates_per_second:.1f} updates a second; processor time of one, all threads: "
        f"{1e3 * found.processor:.0f} ms."
    )
    yield ""


def _ms(seconds: Spread) -> str:
    low, median, high = (1e3 * value for value in (seconds.low, seconds.median, seconds.high))
    return f"{median:.1f} ({low:.1f}–{high:.1f})"
