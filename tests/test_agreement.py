"""Both kernel families against the exact oracle on 20,000 random traces."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import cycle

import pytest

from depgpo_jax.batch import BatchShape, batch_traces
from depgpo_jax.credit import CreditConfig
from tests.helpers import FAMILIES, LARGE, SMALL, Json, chunks, parse, results
from tests.oracle import assert_close, oracle
from tests.random_traces import random_traces

CHUNK = 2_500

# Rules choose code: one set a chunk. The first four chunks have traces of up to 140 commands.
RULES = (
    CreditConfig(relevance="paper"),
    CreditConfig(relevance="stdout"),
    CreditConfig(relevance="slice"),
    CreditConfig(relevance="stdout", write_credit="binary", inspect="all", subtract_min=False),
    CreditConfig(relevance="paper", read_credit=False),
    CreditConfig(relevance="paper", write_credit="binary"),
    CreditConfig(relevance="paper", inspect="all"),
    CreditConfig(relevance="paper", subtract_min=False),
)
NUM_LONG = 4

# Numbers are traced: they change from batch to batch.
BETAS = (0.5, 0.9, 1.0, 0.25, 0.05)
CAPS = (None, 1, None, 2, 3.5, 1.25)


def size_classes(traces: list[Json]) -> Iterator[tuple[BatchShape, list[Json]]]:
    """Batches of short traces, then batches of long ones."""
    for shape, above in ((SMALL, -1), (LARGE, SMALL.commands)):
        fitting = [t for t in traces if above < num_commands(t) <= shape.commands]
        for batch in chunks(fitting, shape.rollouts):
            yield shape, list(batch)


def num_commands(trace: Json) -> int:
    return sum(len(step["commands"]) for step in trace["steps"])


@pytest.mark.parametrize("number", range(len(RULES)))
def test_oracle_agrees(number: int):
    max_commands = 140 if number < NUM_LONG else SMALL.commands
    traces = list(random_traces(number, CHUNK, max_commands=max_commands))
    numbers = zip(cycle(BETAS), cycle(CAPS), strict=False)
    compared = excluded = 0
    for shape, batch_of in size_classes(traces):
        beta, cap = next(numbers)
        config = dataclasses.replace(RULES[number], beta=beta, max_weight=cap)
        batch = batch_traces([parse(trace) for trace in batch_of], shape=shape)
        found = {name: results(batch, credit(batch, config)) for name, credit in FAMILIES.items()}
        for row, trace in enumerate(batch_of):
            expect = oracle(trace, **dataclasses.asdict(config))
            if expect["near_threshold"]:  # outside the promise (method page, section 7)
                excluded += 1
                continue
            compared += 1
            for family, rows in found.items():
                what = f"{family}, {trace['trace_id']}, {config}"
                assert_close(expect, rows[row], conditioning=expect["conditioning"], what=what)
    assert compared + excluded == CHUNK
    assert excluded <= CHUNK // 100
