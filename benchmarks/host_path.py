"""From lines of JSON to a batch of arrays: commands a second, by stage and against plain Python."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass

import jax

from benchmarks.inputs import json_lines, plain_trace
from benchmarks.kernels import DisagreementError
from benchmarks.plain_host import plain_host_path
from benchmarks.plain_python import PlainTrace
from benchmarks.timing import Spread, alternate, ratio, spread
from depgpo_jax import Trace, batch_traces, parse_trace, replay

FULL = (256, 128)
QUICK = (6, 16)
ALL, PARSE, REPLAY, BATCH, PLAIN = "all", "parse", "replay", "batch", "plain"


@dataclass(frozen=True)
class HostResult:
    """The package's stages and the alternative, on the same lines."""

    shape: str
    commands: int
    json_bytes: int
    commands_per_second: dict[str, Spread]
    times_faster_than_plain: Spread
    core_share: float


def measure(B: int, N: int, *, rounds: int) -> HostResult:
    lines = json_lines(B, N)
    traces = _parse(lines)
    commands = sum(len(step.commands) for trace in traces for step in trace.steps)
    check_agreement(lines, traces)
    calls: dict[str, Callable[[], object]] = {
        ALL: lambda: _batch(_parse(lines)),
        PARSE: lambda: _parse(lines),
        BATCH: lambda: _batch(traces),
        REPLAY: lambda: [replay(trace) for trace in traces],
        PLAIN: lambda: _plain(lines),
    }
    for call in calls.values():
        call()
    samples, core_share = alternate(calls, rounds=rounds)
    return HostResult(
        shape=f"{B}x{N}",
        commands=commands,
        json_bytes=sum(map(len, lines)),
        commands_per_second={
            name: spread([commands / seconds for seconds in times])
            for name, times in samples.items()
        },
        times_faster_than_plain=ratio(samples[PLAIN], samples[ALL]),
        core_share=core_share,
    )


def check_agreement(lines: list[bytes], traces: list[Trace]) -> None:
    """Both paths must come to the same segments, reads and steps.

    Raises:
        DisagreementError: they do not; the message names the trace and the field.
    """
    for line, trace in zip(lines, traces, strict=True):
        ours, plain = _ordered(plain_trace(trace)), _ordered(plain_host_path(line))
        for field, value in ours.items():
            if plain[field] != value:
                raise DisagreementError(
                    f"trace {trace.trace_id!r}: the package's replay and the plain one differ in "
                    f"{field}; allowed: no difference. Run the tests before any benchmark."
                )


def _ordered(trace: PlainTrace) -> dict[str, object]:
    """The trace with its segments and pairs in one order; any order is right."""
    columns = (trace.owner, trace.resource, trace.killer, trace.in_place, trace.count)
    return {
        "segments": sorted(zip(*columns, strict=True)),
        "reads": sorted(trace.reads),
        "stdout": sorted(trace.stdout),
        "inspected": trace.inspected,
        "recorded": trace.recorded,
        "steps": list(zip(trace.step_sizes, trace.loss_tokens, strict=True)),
    }


def _parse(lines: list[bytes]) -> list[Trace]:
    """Decoded and validated, with the collector paused as `read_traces` does it."""
    gc.disable()
    try:
        return [parse_trace(line) for line in lines]
    finally:
        gc.enable()


def _batch(traces: list[Trace]) -> object:
    return jax.block_until_ready(batch_traces(traces))


def _plain(lines: list[bytes]) -> list[PlainTrace]:
    """The collector paused all along, so that it cannot be why this is slower."""
    gc.disable()
    try:
        return [plain_host_path(line) for line in lines]
    finally:
        gc.enable()
