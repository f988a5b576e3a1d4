"""Three rollouts by hand with their credit, and batches of random ones."""

from __future__ import annotations

from functools import cache
from typing import Any

from depgpo_jax.batch import TraceBatch, batch_traces
from depgpo_jax.credit import Credit, CreditConfig, dependency_credit
from depgpo_jax.traces import Trace
from tests.helpers import SMALL, Json, command, lines, parse, step, trace
from tests.random_traces import random_traces

PRINTED = trace(
    step(1, command(writes=[lines("/tmp/x", (1, 2))])),
    step(1, command(reads=["/tmp/x"])),
    step(1, command(writes=[lines("/app/answer", (1, 1)), lines("/log", (1, 1))], stdout_from=[1])),
    verifier=["/app/answer"],
    trace_id="printed",
)
EMPTY = trace(step(3), verifier=["/a"], trace_id="empty")
SPLIT = trace(
    step(1, command(writes=[lines("/a", (1, 3)), lines("/b", (1, 1))])),
    verifier=["/a"],
    trace_id="split",
)


@cache
def alone(rollout_number: int = 0, **options: Any) -> tuple[TraceBatch, Credit]:
    """The batch and credit of one of the traces by hand."""
    batch = batch_traces([(PRINTED, EMPTY, SPLIT)[rollout_number]])
    return batch, dependency_credit(batch, CreditConfig(**options))


@cache
def batch_of(seed: int, count: int) -> tuple[list[Json], list[Trace], TraceBatch]:
    plain = list(random_traces(seed, count, max_commands=SMALL.commands))
    parsed = [parse(each) for each in plain]
    return plain, parsed, batch_traces(parsed, shape=SMALL)
