"""`make bench`: everything measured in one run, on one core, as a table, JSON and Markdown.

    python -m benchmarks.run [--quick] [--only NAME ...] [--out FILE]
    python -m benchmarks.run --only tracing [--quick] [--out FILE]
    python -m benchmarks.run --only reuse [--quick] [--out FILE]
    python -m benchmarks.run --only training [--quick] [--out FILE]

The second measures terminals, tracer and sandboxes, the third how well reused outputs are found,
the fourth updates of a policy in the file world; each is a part of its own, with its own results.
Exit status 1: a requirement was missed, or contestants disagreed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.machine import describe, pin

DEFAULT_OUT = Path(__file__).resolve().parent / "results" / "cpu.json"
ROUNDS, QUICK_ROUNDS = 11, 2
CACHED_STARTS = 3
TRACING, REUSE, TRAINING = "tracing", "reuse", "training"

Jobs = dict[str, Callable[[], Any]]


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    for part in (TRACING, TRAINING):
        if part in options.only and options.only != [part]:
            parser.error(f"--only {part}: allowed alone, since it needs all cores")
    if TRACING in options.only:
        from benchmarks import tracing_report

        return tracing_report.run(quick=options.quick, out=options.out)
    if REUSE in options.only:
        if options.only != [REUSE]:
            parser.error(f"--only {REUSE}: allowed alone, since it is no matter of speed")
        from benchmarks import reuse

        return reuse.run(quick=options.quick, out=options.out)
    if TRAINING in options.only:
        from benchmarks import training_report

        return training_report.run(quick=options.quick, out=options.out)
    pinned = pin()
    jobs = all_jobs(quick=options.quick)
    chosen = {name: job for name, job in jobs.items() if any(part in name for part in options.only)}
    if not chosen:
        names = ", ".join([*jobs, TRACING, REUSE, TRAINING])
        parser.error(f"--only: nothing of that name; there are {names}")

    from benchmarks import report
    from benchmarks.results import Results, requirements

    results = Results(describe(pinned=pinned), quick=options.quick)
    for name, job in chosen.items():
        start = time.perf_counter()
        results.add(job())
        print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)

    print(report.markdown(results), end="")
    out = options.out
    if out is None and len(chosen) == len(jobs) and not options.quick:
        out = DEFAULT_OUT
    if out is not None:
        for file in report.write(results, out):
            print(f"wrote {file}", file=sys.stderr)
    return 0 if all(found.passed for found in requirements(results)) else 1


def all_jobs(*, quick: bool) -> Jobs:
    """Every measurement by its name, in the order in which they run."""
    from benchmarks import compiled, host_path, kernels

    rounds = QUICK_ROUNDS if quick else ROUNDS
    # The host path first: what the other measurements keep in memory would slow it.
    B, N = host_path.QUICK if quick else host_path.FULL
    jobs: Jobs = {f"host/{B}x{N}": partial(host_path.measure, B, N, rounds=rounds)}
    for case in kernels.QUICK if quick else kernels.FULL:
        name = f"kernel/{case.shape}/{case.rule}"
        jobs[name] = partial(kernels.measure, case, rounds=rounds)
    for B, N in compiled.QUICK if quick else compiled.FULL:
        jobs[f"temporaries/{B}x{N}"] = partial(compiled.temporaries, B, N)
        jobs[f"first-call/{B}x{N}"] = partial(
            compiled.first_call, B, N, cached_starts=1 if quick else CACHED_STARTS
        )
    return jobs


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run", description="The speed table of the README."
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny shapes, to see that it works; no figures"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[""],
        metavar="NAME",
        help="measurements whose name holds one of these, as kernel, 1024x128, slice, host; "
        "or tracing, reuse, or training",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="JSON file, Markdown beside it (default: benchmarks/results/cpu.json after a full run "
        "of everything, NAME.json there after a part of its own, else nothing)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
