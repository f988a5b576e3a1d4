"""Every case with an exact answer, in both kernel families."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from depgpo_jax.batch import BatchShape, batch_traces
from depgpo_jax.credit import CreditConfig
from tests.helpers import FAMILIES, SMALL, config_id, parse, results
from tests.oracle import analyse, assert_close, oracle

GOLDEN = Path(__file__).parent / "golden"
NUM_CASES = 1768
LONG = BatchShape(rollouts=12, commands=416, steps=320, segments=416, resources=416)

Case = dict[str, Any]


def read_lines(name: str) -> list[dict[str, Any]]:
    with (GOLDEN / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def cases_by_config() -> dict[CreditConfig, list[Case]]:
    cases: dict[CreditConfig, list[Case]] = defaultdict(list)
    for case in read_lines("golden.jsonl"):
        settings = {k: v for k, v in case.items() if k not in ("trace_id", "expect")}
        cases[CreditConfig(**settings)].append(case)
    return cases


CASES = cases_by_config()
TRACES = {trace["trace_id"]: trace for trace in read_lines("traces.jsonl")}
ANALYSES = {name: analyse(trace) for name, trace in TRACES.items()}


def num_commands(name: str) -> int:
    return len(ANALYSES[name].commands)


def test_no_case_is_left_out():
    assert sum(map(len, CASES.values())) == NUM_CASES
    assert max(map(num_commands, TRACES)) == 400


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("config", CASES, ids=config_id)
def test_golden_cases(config: CreditConfig, family: str):
    for shape, fits in ((SMALL, True), (LONG, False)):
        cases = [c for c in CASES[config] if (num_commands(c["trace_id"]) <= 32) == fits]
        batch = batch_traces([parse(TRACES[case["trace_id"]]) for case in cases], shape=shape)
        found = results(batch, FAMILIES[family](batch, config))
        for case, got in zip(cases, found, strict=True):
            name = case["trace_id"]
            settings = {k: v for k, v in case.items() if k not in ("trace_id", "expect")}
            conditioning = oracle(ANALYSES[name], **settings)["conditioning"]
            assert_close(case["expect"], got, conditioning=conditioning, what=f"{family} {name}")
