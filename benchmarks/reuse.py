"""The run behind `--only reuse`: how many reused outputs are found, and how many edges are wrong.

    python -m benchmarks.run --only reuse [--quick] [--out FILE]

On the corpus by construction, on rollouts of our own tasks, and how long it takes. What the same
matcher does on rollouts of others, `benchmarks.reuse_wild` says.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.machine import Machine, describe
from benchmarks.report import requirements_table, table
from benchmarks.results import Requirement
from benchmarks.reuse_pairs import WORLDS, make_pairs
from benchmarks.reuse_score import CONFIGS, NEW, Score, edges
from benchmarks.reuse_worlds import HALVES, Half
from benchmarks.writing import page_of, write_results
from depgpo_jax.explain.deeds import read_only_commands
from depgpo_jax.tracer.stdout_reuse import StdoutReuse
from depgpo_jax.tracer.workplace import with_sources
from depgpo_jax.traces import Step, Trace

DEFAULT_OUT = Path(__file__).resolve().parent / "results" / "reuse.json"
HELD: Half = "held-out"
AIMS = {"precision": 0.98, "literal": 0.9, "reformatted": 0.5}
QUICK_WORLDS = 2
SIZES = ((500, 2_000), (500, 20_000))
"""Commands and characters that each prints, where the time is measured."""


@dataclass(frozen=True)
class OwnRollouts:
    """How many read-only commands of scripted rollouts have an edge to a later command."""

    rollouts: int
    read_only: int
    with_edge: dict[str, int]


@dataclass(frozen=True)
class Speed:
    """Processor seconds for a rollout, matched command by command."""

    commands: int
    characters: int
    seconds: float


@dataclass
class ReuseResults:
    """One run.

    Attributes:
        scores: by half, configuration and kind of pair.
        details: of the matcher on the half that nothing was tuned on, by "kind: detail".
    """

    machine: Machine
    quick: bool
    scores: dict[str, dict[str, dict[str, Score]]] = field(default_factory=dict)
    details: dict[str, Score] = field(default_factory=dict)
    own: OwnRollouts | None = None
    speed: list[Speed] = field(default_factory=list)


def run(*, quick: bool, out: Path | None) -> int:
    """Measures, prints and writes; returns the exit status, 1 where an aim was missed."""
    results = ReuseResults(describe(pinned=False), quick=quick)
    for half in HALVES:
        results.scores[half] = scores(half, results, worlds=QUICK_WORLDS if quick else WORLDS)
        print(f"{half} half: done", file=sys.stderr, flush=True)
    results.own = own_rollouts(families=1 if quick else None)
    results.speed = [speed(*size) for size in (SIZES[:1] if quick else SIZES)]
    print(markdown(results), end="")
    out = DEFAULT_OUT if out is None and not quick else out
    if out is not None:
        for file in write(results, out):
            print(f"wrote {file}", file=sys.stderr)
    return 0 if all(found.passed for found in requirements(results)) else 1


def scores(half: Half, results: ReuseResults, *, worlds: int) -> dict[str, dict[str, Score]]:
    """Both rules on a half of the corpus; also fills in `details`."""
    found: dict[str, dict[str, Score]] = {name: {} for name in CONFIGS}
    for pair in make_pairs(half, worlds):
        true = [] if pair.producer is None else [pair.producer]
        for name, config in CONFIGS.items():
            producers = edges(pair.prompt, pair.earlier, pair.text, config)
            found[name].setdefault(pair.kind, Score()).add(producers, true)
            if half == HELD and name == NEW:
                detail = f"{pair.kind}: {pair.detail}"
                results.details.setdefault(detail, Score()).add(producers, true)
    return found


def own_rollouts(*, families: int | None = None) -> OwnRollouts:
    """Runs the scripts of our tasks and matches their outputs with both rules.

    Args:
        families: how many families of tasks; None: all.
    """
    from depgpo_jax.tasks import read_task
    from training.scripted import scripted_rollouts
    from training.tasks import FAMILIES

    traces: list[tuple[str, Trace]] = []
    for family in list(FAMILIES)[:families]:
        with tempfile.TemporaryDirectory(prefix="depgpo-") as folder:
            place = Path(folder) / "task"
            rollouts = list(scripted_rollouts(family, 0, place))
            prompt = read_task(place).instruction
        traces += [(prompt, trace) for trace in rollouts]
    with_edge: dict[str, int] = {}
    total = 0
    for name, config in CONFIGS.items():
        again = [
            Trace(
                version=1,
                trace_id=trace.trace_id,
                verifier=[],
                steps=[Step(loss_tokens=1, commands=with_sources(trace.commands, prompt, config))],
            )
            for prompt, trace in traces
        ]
        total, with_edge[name] = read_only_commands(again)
    return OwnRollouts(len(traces), total, with_edge)


def speed(commands: int, characters: int) -> Speed:
    """Times a rollout whose outputs are log lines with new values in each."""
    outputs: list[str] = []
    for k in range(commands):
        lines: list[str] = []
        size = 0
        while size < characters:
            n = len(lines)
            day = f"2031-04-{n % 28 + 1:02}"
            lines.append(f"{day} job_{k}_{n} wrote /data/run{k}/part-{n}.csv: {k * n} rows")
            size += len(lines[-1]) + 1
        outputs.append("\n".join(lines))
    start = time.process_time()
    matcher = StdoutReuse("Look at the jobs.")
    for k, output in enumerate(outputs):
        text = f"grep job_{max(0, k - 1)}_3 logs/{k}.txt | head -n 5 > out-{k}.txt"
        matcher.sources(text)
        matcher.add(text, output)
    return Speed(commands, sum(map(len, outputs)), time.process_time() - start)


def requirements(results: ReuseResults) -> list[Requirement]:
    """The aims, on the half that nothing was tuned on."""
    if results.quick:
        return []
    kinds = results.scores[HELD][NEW]
    found = [
        ("precision, all kinds", total(kinds).precision, AIMS["precision"]),
        *((f"recall, {k}", kinds[k].recall, AIMS[k]) for k in ("literal", "reformatted")),
    ]
    return [
        Requirement(what, f">= {bound:g}", f"{it.value:.3f}", it.value >= bound)
        for what, it, bound in found
    ]


def total(kinds: dict[str, Score]) -> Score:
    """All kinds together but `computed`, which no rule is made for."""
    return sum((score for kind, score in kinds.items() if kind != "computed"), Score())


def write(results: ReuseResults, file: Path) -> list[Path]:
    """Writes the JSON file, and the Markdown beside it."""
    held = {"requirements": requirements(results)}
    return write_results(results, held, markdown(results), file)


def markdown(results: ReuseResults) -> str:
    """The whole report."""
    return page_of(_sections(results))


def _sections(results: ReuseResults) -> Iterator[str]:
    if results.quick:
        yield "A quick run on a small corpus: these are no figures."
    machine = results.machine
    yield f"{machine.cpu}, {machine.cores} cores, {machine.system}. {machine.date}."
    yield "In brackets: 95 % intervals (Wilson)."
    yield ""
    for half, configs in results.scores.items():
        yield f"**{half.capitalize()} half** of the corpus by construction"
        yield ""
        yield from table(["kind", "rule", "precision", "recall"], list(_rows(configs)), left=2)
    yield f"**The matcher on the {HELD} half**, by what was done to the value"
    yield ""
    rows = [
        [what, str(s.right), str(s.wrong), str(s.missed)]
        for what, s in sorted(results.details.items())
    ]
    yield from table(["", "right", "wrong", "missed"], rows, left=1)
    if results.own is not None:
        yield from _own(results.own)
    yield from _speed(results.speed)
    if found := requirements(results):
        yield "**Requirements**"
        yield ""
        yield from requirements_table(found)


def _rows(configs: dict[str, dict[str, Score]]) -> Iterator[list[str]]:
    kinds = list(next(iter(configs.values())))
    for kind in kinds:
        for name, found in configs.items():
            yield [kind, name, str(found[kind].precision), str(found[kind].recall)]
    for name, found in configs.items():
        yield ["all but computed", name, str(total(found).precision), str(total(found).recall)]


def _own(own: OwnRollouts) -> Iterator[str]:
    yield f"**Rollouts of our own tasks**: {own.rollouts}, with {own.read_only} read-only commands"
    yield ""
    rows = [[name, f"{n} of {own.read_only}"] for name, n in own.with_edge.items()]
    yield from table(["rule", "with an edge to a later command"], rows, left=1)


def _speed(found: Sequence[Speed]) -> Iterator[str]:
    yield "**Time** of a rollout's matching"
    yield ""
    rows = [[f"{s.commands}", f"{s.characters / 1e6:.1f}", f"{s.seconds:.2f}"] for s in found]
    yield from table(["commands", "output, million characters", "processor s"], rows, left=0)
