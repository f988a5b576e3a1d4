"""From the oracle's records to what the baselines take, without the package's own replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from benchmarks.numba_baseline import BatchArrays
from benchmarks.plain_python import SURVIVES, PlainTrace
from tests.oracle import Analysis


def plain_trace(analysis: Analysis) -> PlainTrace:
    """Groups records into segments of the same owner, resource, killer and manner of death."""
    names = dict.fromkeys(record.resource for record in analysis.records)
    number = {name: r for r, name in enumerate(names)}
    segments = Counter(
        (
            record.owner,
            number[record.resource],
            SURVIVES if record.killer is None else record.killer,
            record.in_place,
        )
        for record in analysis.records
    )
    rows = sorted(segments.items())
    commands = analysis.commands
    sizes = Counter(command.step for command in commands)
    return PlainTrace(
        owner=[row[0] for row, _ in rows],
        resource=[row[1] for row, _ in rows],
        killer=[row[2] for row, _ in rows],
        in_place=[row[3] for row, _ in rows],
        count=[count for _, count in rows],
        reads=[
            (number[name], i)
            for i, command in enumerate(commands)
            for name in command.reads
            if name in number
        ],
        stdout=[(j, i) for i, command in enumerate(commands) for j in command.stdout_from],
        inspected={number[name] for name in analysis.verifier if name in number},
        recorded=[command.recorded for command in commands],
        step_sizes=[sizes[t] for t in range(len(analysis.loss_tokens))],
        loss_tokens=analysis.loss_tokens,
    )


def batch_arrays(traces: Sequence[PlainTrace], *, num_commands: int) -> BatchArrays:
    """Pads traces to one batch with room for `num_commands` commands each."""
    B, N, W = len(traces), num_commands, -(-num_commands // 32)
    S = max(1, *(len(trace.owner) for trace in traces))
    R = max(1, *(len(set(trace.resource)) for trace in traces))
    T = max(1, *(len(trace.step_sizes) for trace in traces))
    batch = BatchArrays(
        num_commands=np.zeros(B, np.int32),
        num_steps=np.zeros(B, np.int32),
        recorded=np.zeros((B, N), np.bool_),
        commands_per_step=np.zeros((B, T), np.int32),
        loss_tokens=np.zeros((B, T), np.float32),
        segment_resource=np.zeros((B, S), np.int32),
        segment_killer=np.zeros((B, S), np.int32),
        segment_in_place=np.zeros((B, S), np.bool_),
        segment_count=np.zeros((B, S), np.int32),
        segments_per_command=np.zeros((B, N), np.int32),
        inspected=np.zeros((B, R), np.bool_),
        readers=np.zeros((B, R, W), np.uint32),
        only_writers=np.zeros((B, R, W), np.uint32),
        stdout_readers=np.zeros((B, N, W), np.uint32),
    )
    for b, trace in enumerate(traces):
        _fill(batch, b, trace)
    return batch


def _fill(batch: BatchArrays, b: int, trace: PlainTrace) -> None:
    num_commands, num_steps = len(trace.recorded), len(trace.step_sizes)
    batch.num_commands[b], batch.num_steps[b] = num_commands, num_steps
    batch.recorded[b, :num_commands] = trace.recorded
    batch.commands_per_step[b, :num_steps] = trace.step_sizes
    batch.loss_tokens[b, :num_steps] = trace.loss_tokens
    S = len(trace.owner)
    batch.segment_resource[b, :S] = trace.resource
    batch.segment_killer[b, :S] = trace.killer
    batch.segment_in_place[b, :S] = trace.in_place
    batch.segment_count[b, :S] = trace.count
    written: dict[int, set[int]] = {}
    for i, r in zip(trace.owner, trace.resource, strict=True):
        batch.segments_per_command[b, i] += 1
        written.setdefault(i, set()).add(r)
    for r in trace.inspected:
        batch.inspected[b, r] = True
    for r, i in trace.reads:
        _set_bit(batch.readers[b, r], i)
    for i, resources in written.items():
        if len(resources) == 1:
            _set_bit(batch.only_writers[b, min(resources)], i)
    for j, i in trace.stdout:
        _set_bit(batch.stdout_readers[b, j], i)


def _set_bit(words: np.ndarray, i: int) -> None:
    words[i // 32] |= np.uint32(1 << (i % 32))
