"""One workload in the form that each contestant takes: all after the package's own replay."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from benchmarks.numba_baseline import BatchArrays, as_arrays
from benchmarks.plain_python import PlainTrace
from benchmarks.workload import make_traces, to_jsonl
from depgpo_jax import Trace, TraceBatch, batch_traces, parse_trace, replay

SEED = 1


class Inputs(NamedTuple):
    batch: TraceBatch
    arrays: BatchArrays
    plain: list[PlainTrace]


def json_lines(B: int, N: int) -> list[bytes]:
    """The workload as lines of a trace file."""
    return to_jsonl(make_traces(B, N, SEED)).splitlines()


@cache
def inputs(B: int, N: int) -> Inputs:
    """B traces of at most N commands, padded as `batch_traces` does by itself."""
    traces = [parse_trace(line) for line in json_lines(B, N)]
    batch = batch_traces(traces)
    return Inputs(batch, as_arrays(batch), [plain_trace(trace) for trace in traces])


def plain_trace(trace: Trace) -> PlainTrace:
    """The trace's segments, reads and steps as plain lists."""
    segments = replay(trace)
    numbers = {resource: r for r, resource in enumerate(segments.resources)}
    commands = [command for step in trace.steps for command in step.commands]
    reads = zip(segments.read_resource, segments.read_command, strict=True)
    return PlainTrace(
        owner=segments.owner,
        resource=segments.resource,
        killer=segments.killer,
        in_place=segments.in_place,
        count=segments.count,
        reads=list(reads),
        stdout=[(j, i) for i, command in enumerate(commands) for j in set(command.stdout_from)],
        inspected={numbers[resource] for resource in trace.verifier if resource in numbers},
        recorded=[command.recorded for command in commands],
        step_sizes=[len(step.commands) for step in trace.steps],
        loss_tokens=[step.loss_tokens for step in trace.steps],
    )
