"""The tables of a run: Markdown whose columns line up, so that it is also what is printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.compiled import FirstCall, Temporaries
from benchmarks.host_path import ALL, BATCH, PARSE, PLAIN, REPLAY, HostResult
from benchmarks.kernels import DENSE, NUMBA, OURS, OWN_JIT, PYTHON, KernelResult
from benchmarks.results import MB, Requirement, Results, requirements
from benchmarks.timing import Spread
from benchmarks.writing import page_of, write_results

STAGES = {
    ALL: "JSON bytes → TraceBatch",
    PARSE: "of it `parse_trace` (decode, validate)",
    BATCH: "of it `batch_traces` (replay, pad, to the device)",
    REPLAY: "`replay` by itself",
    PLAIN: "`json.loads` + line-by-line replay, no validation, no padding",
}


def markdown(results: Results) -> str:
    """The whole report."""
    return page_of(_sections(results))


def write(results: Results, file: Path) -> list[Path]:
    """Writes the JSON file, and the Markdown beside it."""
    held = {"requirements": requirements(results)}
    return write_results(results, held, markdown(results), file)


def requirements_table(found: Sequence[Requirement]) -> list[str]:
    rows = [[r.what, r.bound, r.found, "pass" if r.passed else "FAIL"] for r in found]
    return table(["requirement", "bound", "found", ""], rows, left=1)


def _sections(results: Results) -> Iterator[str]:
    if results.quick:
        yield "A quick run on tiny shapes: these are no figures."
    yield from _machine(results)
    if results.kernels:
        yield from _kernels(results.kernels)
    if results.temporaries:
        yield from _temporaries(results.temporaries)
    if results.first_calls:
        yield from _first_calls(results.first_calls)
    for host in results.host_path:
        yield from _host_path(host)
    found = requirements(results)
    if found:
        yield "**Requirements**"
        yield ""
        yield from requirements_table(found)


def _machine(results: Results) -> Iterator[str]:
    machine = results.machine
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    pinned = "one core, pinned" if machine.pinned else "one thread, not pinned"
    yield f"{machine.cpu}, {machine.cores} cores, {machine.system}; {pinned}."
    yield f"{versions}."
    shares = [timed.core_share for timed in (*results.kernels, *results.host_path)]
    if shares:
        low, high = min(shares), max(shares)
        yield f"Load {machine.load:g} before; had its core {low:.0%} to {high:.0%} of the time."
    yield f"{machine.date}; medians, quartiles in brackets."
    yield ""


def _kernels(kernels: Sequence[KernelResult]) -> Iterator[str]:
    yield "**Kernel**: `dependency_credit`, ms a batch after compilation"
    yield ""
    rows = [
        [
            kernel.shape.replace("x", " × "),
            kernel.rule,
            _ms(kernel.seconds[OURS]),
            _ms(kernel.seconds.get(OWN_JIT)),
            _ms(kernel.seconds[NUMBA]),
            _ms(kernel.seconds[PYTHON]),
            _times(kernel.times_faster_than_python),
            _times(kernel.time_against_numba),
            _times(kernel.own_jit_against_numba),
        ]
        for kernel in kernels
    ]
    header = ["B × N", "rule", "ours", "in own `jit`", "numba", "plain Python"]
    header += ["times faster than Python", "time / numba", "in own `jit` / numba"]
    yield from table(header, rows, left=2)
    for kernel in kernels:
        if DENSE in kernel.seconds:
            yield (
                f"The dense twin, `vmap(rollout_credit)`, at {kernel.shape.replace('x', ' × ')} "
                f"({kernel.rule}): {_ms(kernel.seconds[DENSE])} ms."
            )
            yield ""


def _temporaries(found: Sequence[Temporaries]) -> Iterator[str]:
    yield "**Memory** of the compiled kernel inside a user's own `jit`, MB"
    yield ""
    rows = [
        [
            memory.shape.replace("x", " × "),
            f"{memory.temporary_bytes / MB:.1f}",
            f"{memory.argument_bytes / MB:.1f}",
            f"{memory.output_bytes / MB:.1f}",
        ]
        for memory in found
    ]
    yield from table(["B × N", "temporaries", "arguments", "results"], rows, left=1)


def _first_calls(found: Sequence[FirstCall]) -> Iterator[str]:
    yield "**First call** in a new process, s, one core"
    yield ""
    rows = [
        [call.shape.replace("x", " × "), f"{call.cold:.1f}", _spread(call.cached, "{:.2f}")]
        for call in found
    ]
    yield from table(["B × N", "cold", "from the persistent cache"], rows, left=1)


def _host_path(host: HostResult) -> Iterator[str]:
    yield (
        f"**Host path**, commands a second, {host.shape.replace('x', ' × ')}: {host.commands:,} "
        f"commands in {host.json_bytes / MB:.1f} MB of JSON"
    )
    yield ""
    rows = [
        [what, _spread(host.commands_per_second[stage], "{:,.0f}")]
        for stage, what in STAGES.items()
    ]
    yield from table(["stage", "commands/s"], rows, left=1)
    yield f"Times faster than the last row: {_times(host.times_faster_than_plain)}."
    yield ""


def _ms(seconds: Spread | None) -> str:
    if seconds is None:
        return "–"
    low, median, high = (1e3 * value for value in (seconds.low, seconds.median, seconds.high))
    digits = 0 if median >= 100 else 1 if median >= 10 else 2
    return f"{median:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def _times(ratio: Spread | None) -> str:
    if ratio is None:
        return "–"
    return _spread(ratio, "{:.1f}" if ratio.median >= 10 else "{:.2f}")


def _spread(values: Spread, number: str) -> str:
    low, median, high = map(number.format, (values.low, values.median, values.high))
    return f"{median} ({low}–{high})"


def table(header: list[str], rows: Sequence[list[str]], *, left: int) -> list[str]:
    """Cells padded to the widest of their column; the first `left` columns to the left."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: list[str]) -> str:
        padded = (
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * width if place < left else "-" * (width - 1) + ":"
        for place, width in enumerate(widths)
    ]
    return [line(header), f"| {' | '.join(rule)} |", *map(line, rows), ""]
