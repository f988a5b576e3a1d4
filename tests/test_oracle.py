"""The exact oracle against every golden case: the tests that trust it stand on this."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import analyse, assert_close, oracle, tolerances, weight_tolerance

GOLDEN = Path(__file__).parent / "golden"
NUM_CASES = 1768


def read_lines(name: str) -> list[dict[str, Any]]:
    with (GOLDEN / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_reproduces_every_golden_case() -> None:
    cases: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in read_lines("golden.jsonl"):
        cases[case.pop("trace_id")].append(case)
    assert sum(map(len, cases.values())) == NUM_CASES
    traces = {trace["trace_id"]: trace for trace in read_lines("traces.jsonl")}
    for trace_id, settings in cases.items():
        analysis = analyse(traces[trace_id])
        for case in settings:
            expect = case.pop("expect")
            got = oracle(analysis, **case)
            assert_close(expect, got, conditioning=got["conditioning"], what=f"{trace_id} {case}")


def test_tolerance_is_that_of_the_specification() -> None:
    assert weight_tolerance(float("inf")) == 1e-5
    assert weight_tolerance(2.0**11) == pytest.approx(1e-5 + 2.0**-10)
    assert tolerances(1.0)["command_credit"] == 1e-5


@pytest.mark.parametrize(
    ("expect", "got", "message"),
    [
        ({"command_credit": [1.0]}, {"command_credit": [1.1]}, r"command_credit\[0\]: 1\.1"),
        ({"token_weight": [1.0]}, {"token_weight": [float("nan")]}, r"token_weight\[0\]: nan"),
        ({"step_credit": [1.0]}, {"step_credit": []}, "step_credit: 0 values, expected 1"),
        ({"fallback": True}, {"fallback": False}, "fallback: False, expected True"),
        ({"max_weight_seen": 2.0}, {"max_weight_seen": 3.0}, "max_weight_seen"),
    ],
)
def test_comparison_can_fail(expect: dict[str, Any], got: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_close(expect, got, conditioning=1.0)


def test_nulls_are_not_compared() -> None:
    assert_close({"token_weight": [None, 1.0]}, {"token_weight": [7.0, 1.0]}, conditioning=1.0)
