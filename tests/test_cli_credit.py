"""`depgpo credit`: exact answers, order, advantages, formats, bad input, files in one piece."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import zstandard

from depgpo_jax import cli_credit
from depgpo_jax.batch import TraceCredit
from depgpo_jax.cli_output import COLUMNS, scored, shortest
from depgpo_jax.errors import DepgpoError
from depgpo_jax.traces import parse_trace
from tests.oracle import Analysis, analyse, assert_close, oracle
from tests.test_cli import GOLDEN, REAL, read_lines, run, trace, write_lines

KEYS = [
    "trace_id",
    "group_id",
    "command_credit",
    "step_credit",
    "step_factor",
    "token_weight",
    "advantage",
    "step_advantage",
    "fallback",
    "relevant_fraction",
    "on_path_fraction",
    "max_weight_seen",
    "effective_fraction",
]
SHORT = 32
"""Most commands of a trace where every option is tried: small compilations."""


def credit(*arguments: str | Path, stdin: bytes | None = None) -> list[dict[str, Any]]:
    result = run("credit", *arguments, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def golden_cases() -> dict[str, dict[str, dict[str, Any]]]:
    """The expected results: by settings (as JSON), then by trace."""
    cases: dict[str, dict[str, dict[str, Any]]] = {}
    for case in read_lines(GOLDEN.parent / "golden.jsonl"):
        trace_id, expect = case.pop("trace_id"), case.pop("expect")
        cases.setdefault(json.dumps(case), {})[trace_id] = expect
    return cases


CASES = golden_cases()
TRACES = {rollout["trace_id"]: rollout for rollout in read_lines(GOLDEN)}


@cache
def analysis(trace_id: str) -> Analysis:
    return analyse(TRACES[trace_id])


def as_options(settings: dict[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        option = "--" + name.replace("_", "-")
        if value is False:
            yield "--no-" + name.replace("_", "-")
        elif value is not None:
            yield from (option, str(value))


def compare(traces: list[dict[str, Any]], results: list[dict[str, Any]], settings: str) -> None:
    assert [result["trace_id"] for result in results] == [rollout["trace_id"] for rollout in traces]
    for rollout, result in zip(traces, results, strict=True):
        exact = oracle(analysis(rollout["trace_id"]), **json.loads(settings))
        expect = CASES[settings][rollout["trace_id"]]
        what = f"{rollout['trace_id']} {settings}"
        assert_close(expect, result, conditioning=exact["conditioning"], what=what)


@pytest.mark.parametrize("settings", CASES)
def test_exact_answers_with_every_option(settings: str, tmp_path: Path):
    traces = [
        rollout
        for rollout in TRACES.values()
        if sum(len(step["commands"]) for step in rollout["steps"]) <= SHORT
    ]
    assert len(traces) > 50
    file = write_lines(tmp_path / "short.jsonl", *traces)
    options = as_options(json.loads(settings))
    compare(traces, credit(file, "--advantage", "none", *options), settings)


def test_exact_answers_of_all_traces_in_small_batches():
    traces = list(TRACES.values())
    settings = next(iter(CASES))
    compare(traces, credit(GOLDEN, "--advantage", "none", "--batch-size", "48"), settings)


def test_keys_and_numbers_of_a_line():
    result = run("credit", REAL)
    lines = result.stdout.splitlines()
    assert len(lines) == 5
    numbers: list[float] = []
    for line in lines:
        assert list(json.loads(line)) == KEYS
        json.loads(line, parse_float=lambda text: numbers.append(float(text)))
    # Every number is the shortest text of a float32.
    assert all(str(np.float32(number)) == repr(number) for number in numbers)
    assert result.stderr == ""


def test_advantage_keeps_the_token_mean_and_step_advantage_is_weight_times_it():
    traces = read_lines(REAL)
    for rollout, result in zip(traces, credit(REAL), strict=True):
        tokens = np.array([step["loss_tokens"] for step in rollout["steps"]])
        weights = np.array(result["token_weight"])
        assert (weights * tokens).sum() == pytest.approx(tokens.sum(), rel=1e-6)
        wanted = weights * result["advantage"]
        np.testing.assert_allclose(result["step_advantage"], wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("grpo", [1.0 / math.sqrt(2.0), None, -1.0 / math.sqrt(2.0), 0.0]),
        ("dr_grpo", [1.0, None, -1.0, 0.0]),
        ("rloo", [2.0, None, -2.0, 0.0]),
        ("none", [None, None, None, None]),
    ],
)
def test_advantages_within_the_group_without_invalid_rollouts(
    kind: str, wanted: list[float | None], tmp_path: Path
):
    file = write_lines(
        tmp_path / "a.jsonl",
        trace("a", group_id="g", reward=3.0),
        trace("b", group_id="g", reward=90.0, invalid="the verifier crashed"),
        trace("c", group_id="g", reward=1.0),
        trace("d", reward=5),
    )
    results = credit(file, "--advantage", kind, "--batch-size", "1")
    found = [result["advantage"] for result in results]
    assert [value is None for value in found] == [value is None for value in wanted]
    for value, want in zip(found, wanted, strict=True):
        assert value is None or value == pytest.approx(want, rel=1e-5)
    assert [result["step_advantage"] is None for result in results] == [v is None for v in found]
    assert results[3]["group_id"] == "d"


def test_a_group_may_be_spread_over_the_file_and_order_stays(tmp_path: Path):
    names = [f"t{k}" for k in range(40)]
    traces = [trace(name, group_id=name[-1], reward=k) for k, name in enumerate(names)]
    file = write_lines(tmp_path / "a.jsonl", *traces)
    whole = credit(file, "--advantage", "dr_grpo")
    assert [result["trace_id"] for result in whole] == names
    assert [result["advantage"] for result in whole[:10]] == [-15.0] * 10
    assert credit(file, "--advantage", "dr_grpo", "--batch-size", "7") == whole


def test_rewards_beyond_float32_stay_finite(tmp_path: Path):
    traces = [
        trace(str(k), group_id="g", reward=reward) for k, reward in enumerate((1e300, -1e300))
    ]
    for kind in ("grpo", "dr_grpo", "rloo"):
        high, low = credit(write_lines(tmp_path / "a.jsonl", *traces), "--advantage", kind)
        assert 0.0 < high["advantage"] <= 3.4028235e38
        assert min(low["step_advantage"]) >= -3.4028235e38


def test_a_missing_reward_is_bad_input(tmp_path: Path):
    file = write_lines(tmp_path / "a.jsonl", trace("a", reward=1), "", trace("b"))
    result = run("credit", file, "--out", tmp_path / "out.csv")
    assert result.exit_code == 1
    assert f'{file}, line 3, trace "b", reward: found no reward' in result.stderr
    assert "--advantage none" in result.stderr
    assert not (tmp_path / "out.csv").exists()
    assert len(credit(file, "--advantage", "none")) == 2
    invalid = write_lines(tmp_path / "b.jsonl", trace("a", reward=1), trace("b", invalid="no"))
    assert [result["advantage"] for result in credit(invalid)] == [0.0, None]


def test_bad_input_writes_nothing(tmp_path: Path):
    out = tmp_path / "out.jsonl"
    out.write_text("old\n")
    file = write_lines(tmp_path / "a.jsonl", trace("a", reward=1), trace("b", reward=1, verifier=0))
    for arguments in ((), ("--out", out)):
        result = run("credit", file, *arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert f'{file}, line 2, trace "b", verifier: found 0' in result.stderr
    assert out.read_text() == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "out.jsonl"]


@pytest.mark.parametrize(
    ("file", "message"),
    [("missing.jsonl", "found no readable file"), (".", "Is a directory")],
)
def test_no_file_to_read(file: str, message: str, tmp_path: Path):
    result = run("credit", tmp_path / file, "--out", tmp_path / "out.csv")
    assert result.exit_code == 1
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_no_place_to_write(tmp_path: Path):
    result = run("credit", REAL, "--out", tmp_path / "none" / "out.csv")
    assert result.exit_code == 1
    assert "found a place where no file can be written" in result.stderr


def test_skip_bad_reports_what_it_left_out(tmp_path: Path):
    lines = [trace("a", reward=1), "{", trace("a", reward=2), trace("b"), trace("c", reward=0)]
    lines.append(json.dumps(trace("lone \ud800", reward=1)))
    file, report = write_lines(tmp_path / "a.jsonl", *lines), tmp_path / "report.jsonl"
    result = run("credit", file, "--skip-bad", report)
    assert result.exit_code == 0
    assert [json.loads(line)["trace_id"] for line in result.stdout.splitlines()] == ["a", "c"]
    assert result.stderr == f"4 of 6 lines were bad and left out, see {report}\n"
    bad = read_lines(report)
    assert [line["line"] for line in bad] == [2, 3, 4, 6]
    assert [line["trace_id"] for line in bad[:3]] == [None, "a", "b"]
    assert all("found" in line["message"] for line in bad)


def test_skip_bad_without_bad_lines(tmp_path: Path):
    result = run("credit", REAL, "--skip-bad", tmp_path / "report.jsonl")
    assert (result.exit_code, result.stderr) == (0, "")
    assert (tmp_path / "report.jsonl").read_text() == ""


def test_standard_input_and_compressed_output(tmp_path: Path):
    plain = run("credit", REAL).stdout
    assert run("credit", "-", stdin=REAL.read_bytes()).stdout == plain
    for ending in ("jsonl", "jsonl.gz", "jsonl.zst"):
        assert run("credit", REAL, "--out", tmp_path / f"out.{ending}").stdout == ""
    assert (tmp_path / "out.jsonl").read_text() == plain
    assert gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).decode() == plain
    packed = (tmp_path / "out.jsonl.zst").read_bytes()
    assert zstandard.ZstdDecompressor().stream_reader(packed).read().decode() == plain


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_an_empty_file_gives_an_empty_result(ending: str, tmp_path: Path):
    out = tmp_path / f"out.{ending}"
    result = run("credit", write_lines(tmp_path / "empty.jsonl"), "--out", out)
    assert result.exit_code == 0, result.stderr
    if ending == "parquet":
        assert pq.read_table(out).column_names == list(COLUMNS)
    else:
        assert out.read_text() == ("" if ending == "jsonl" else ",".join(COLUMNS) + "\n")


def expected_rows(file: Path, *options: str) -> list[dict[str, Any]]:
    """One row a step, from the JSON Lines and the traces themselves."""
    rows: list[dict[str, Any]] = []
    traces = read_lines(file)
    for rollout, result in zip(traces, credit(file, *options), strict=True):
        for t, step in enumerate(rollout["steps"]):
            row = {name: result[name] for name in COLUMNS if name in result}
            row |= {"step": t, "loss_tokens": step["loss_tokens"]}
            for name in ("step_credit", "step_factor", "token_weight", "step_advantage"):
                row[name] = None if result[name] is None else result[name][t]
            rows.append({name: row[name] for name in COLUMNS})
    return rows


@pytest.mark.parametrize("advantage", ["grpo", "none"])
def test_csv_and_parquet_hold_the_same_numbers(advantage: str, tmp_path: Path):
    file = write_lines(
        tmp_path / "a.jsonl",
        *read_lines(REAL),
        trace("no steps", steps=[], reward=1),
        trace("invalid", invalid="crashed"),
        trace('quoted "a", \n b', reward=0.1),
    )
    rows = expected_rows(file, "--advantage", advantage)
    assert len({row["trace_id"] for row in rows}) == 7  # a trace without steps has no row
    for ending in ("csv", "parquet"):
        out = tmp_path / f"out.{ending}"
        options = ("--advantage", advantage, "--batch-size", "2", "--out", out)
        assert run("credit", file, *options).exit_code == 0
    with (tmp_path / "out.csv").open(newline="") as lines:
        in_csv = list(csv.DictReader(lines))
    for row, found in zip(rows, in_csv, strict=True):
        as_text = {name: "" if value is None else str(value) for name, value in row.items()}
        assert found == as_text | {"fallback": as_text["fallback"].lower()}
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == list(COLUMNS)
    for row, found in zip(rows, table.to_pylist(), strict=True):
        assert found == {
            name: float(np.float32(value)) if isinstance(value, float) else value
            for name, value in row.items()
        }


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    result = run("credit", REAL, "--out", tmp_path / "out.parquet")
    assert result.exit_code == 1
    assert "pip install 'depgpo-jax[parquet]'" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_number_that_is_not_finite_is_refused():
    parsed = parse_trace(json.dumps(trace("a", reward=1)).encode())
    zeros = np.zeros(2, np.float32)
    infinite, nothing = np.full(2, np.inf, np.float32), np.zeros(0, np.bool_)
    broken = TraceCredit(zeros, zeros, zeros, infinite, False, 0, 0, 1, 1, nothing)
    with pytest.raises(DepgpoError, match="holds a number that is not finite"):
        scored(parsed, broken, None)


def test_shortest_numbers_have_no_negative_zero():
    values = np.array([0.1, 1 / 3, -0.0, 1e-7, 3.4028235e38, 16777216.0], np.float32)
    texts = [repr(number) for number in shortest(values)]
    assert texts == ["0.1", "0.33333334", "0.0", "1e-07", "3.4028235e+38", "16777216.0"]


def test_batches_share_shapes_and_long_traces_come_in_small_ones(monkeypatch: pytest.MonkeyPatch):
    def with_commands(name: str, count: int, resources: int = 1) -> Any:
        commands = [
            {"writes": [{"resource": f"/{k % resources}", "whole": True}]} for k in range(count)
        ]
        steps = [{"loss_tokens": 1, "commands": commands}]
        return parse_trace(json.dumps(trace(name, steps=steps)).encode())

    monkeypatch.setattr(cli_credit, "MAX_PAIRS", 4 * 30**2)
    sizes = [30, 30, 30, 30, 30, 61, 2, 2, 2, 2, 2]
    stream = [with_commands(str(k), size) for k, size in enumerate(sizes)]
    groups = list(cli_credit._groups(stream, 4))
    assert [len(group) for group in groups] == [4, 1, 1, 4, 1]
    assert [trace for group in groups for trace in group] == stream

    shapes = cli_credit._Shapes()
    small = shapes.batch([with_commands("a", 20)])
    wide = shapes.batch([with_commands("b", 20, resources=20), with_commands("c", 17)])
    again = shapes.batch([with_commands("d", 18)])
    assert small.inspected.shape == (1, 8)
    assert wide.inspected.shape == again.inspected.shape == (2, 24)
    assert again.recorded.shape == (2, 32)
