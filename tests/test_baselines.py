"""The benchmarks' baselines against the exact oracle: a wrong baseline would be a wrong ratio."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from benchmarks.numba_baseline import NumbaCredit, as_arrays, numba_credit
from benchmarks.plain_python import PlainTrace, plain_credit
from benchmarks.workload import make_traces, to_jsonl
from tests.array_batches import batch_arrays, plain_trace
from tests.oracle import analyse, assert_close, oracle
from tests.random_traces import random_traces

SETTINGS: list[dict[str, Any]] = [
    {"relevance": relevance, "beta": beta, "max_weight": max_weight}
    for relevance in ("paper", "stdout", "slice")
    for beta, max_weight in ((0.5, None), (0.9, 2.0), (1.0, 1.0), (0.3, 3.5))
]
COUNT = 150


class Case(NamedTuple):
    trace: PlainTrace
    expect: list[dict[str, Any]]
    """One result a setting."""


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    analyses = [analyse(trace) for trace in random_traces(7, COUNT)]
    return [
        Case(plain_trace(a), [oracle(a, **settings) for settings in SETTINGS]) for a in analyses
    ]


def compare(expect: dict[str, Any], got: dict[str, Any], what: str) -> None:
    # At the tie threshold itself the specification promises nothing.
    if not expect["near_threshold"]:
        assert_close(expect, got, conditioning=expect["conditioning"], what=what)


@pytest.mark.parametrize("setting", range(len(SETTINGS)), ids=lambda s: str(SETTINGS[s]))
def test_plain_python_agrees_with_the_oracle(cases: list[Case], setting: int) -> None:
    for number, case in enumerate(cases):
        got = plain_credit(case.trace, **SETTINGS[setting])
        compare(case.expect[setting], got._asdict(), f"trace {number}")


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("num_commands", [140, 192])
def test_numba_agrees_with_the_oracle(
    cases: list[Case], num_commands: int, *, parallel: bool
) -> None:
    batch = as_arrays(batch_arrays([case.trace for case in cases], num_commands=num_commands))
    # Five words do not pair up to words of 64 bits, six do.
    assert batch.readers.dtype == (np.uint64 if num_commands == 192 else np.uint32)
    for setting, settings in enumerate(SETTINGS):
        credit = numba_credit(batch, **settings, parallel=parallel)
        for b, case in enumerate(cases):
            expect, got = case.expect[setting], unpadded(credit, b, case.trace)
            compare(expect, got, f"trace {b} {settings}")
            relevant = np.dot(case.trace.count, got["segment_relevant"])
            assert relevant == len(expect["relevant"])


def unpadded(credit: NumbaCredit, b: int, trace: PlainTrace) -> dict[str, Any]:
    sizes = {"command_credit": len(trace.recorded), "segment_relevant": len(trace.owner)}
    steps = len(trace.loss_tokens)
    return {
        name: values[b] if values.ndim == 1 else values[b, : sizes.get(name, steps)]
        for name, values in credit._asdict().items()
    }


def test_workload_is_seeded_and_of_the_stated_kind() -> None:
    traces = make_traces(100, 64, seed=3)
    assert to_jsonl(traces) == to_jsonl(make_traces(100, 64, seed=3))
    assert to_jsonl(traces) != to_jsonl(make_traces(100, 64, seed=4))
    analyses = [analyse(trace) for trace in traces]
    plain = [plain_trace(analysis) for analysis in analyses]
    commands = sum(len(trace.recorded) for trace in plain)
    assert max(len(trace.recorded) for trace in plain) <= 64
    assert commands / len(plain) == pytest.approx(0.69 * 64, rel=0.05)
    assert 2.4 <= sum(len(trace.owner) for trace in plain) / commands <= 3.7
    read = sum(len(c["reads"]) for t in traces for step in t["steps"] for c in step["commands"])
    assert read / commands == pytest.approx(1.4, rel=0.05)
    reusing = sum(len({i for _, i in trace.stdout}) for trace in plain)
    assert reusing / commands == pytest.approx(0.3, abs=0.03)
