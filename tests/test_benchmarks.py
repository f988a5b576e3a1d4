"""The benchmarks work and compare equals with equals. Times are for `make bench`, not for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import (
    host_path,
    kernels,
    report,
    run,
    sandboxes,
    tracing,
    tracing_report,
    training_report,
    world_updates,
)
from benchmarks.compiled import Temporaries
from benchmarks.inputs import inputs, json_lines
from benchmarks.machine import describe
from benchmarks.numba_baseline import numba_credit
from benchmarks.plain_host import plain_host_path
from benchmarks.plain_python import plain_credit
from benchmarks.results import Results, requirements
from benchmarks.timing import alternate, ratio, spread
from benchmarks.tracing_workloads import Workload
from depgpo_jax import parse_trace
from depgpo_jax.tracer.recorder import Recorder
from depgpo_jax.tracer.strace_log import Parser
from tests.conftest import ROOT
from tests.slow_ownership import Json, hunks, lines, whole


def test_a_quick_run_measures_everything_and_writes_both_files(tmp_path: Path):
    out = tmp_path / "new" / "quick.json"
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, "-m", "benchmarks.run", "--quick", "--out", str(out)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == out.with_suffix(".md").read_text("utf-8")
    for part in ("**Kernel**", "The dense twin", "**Memory**", "**First call**", "**Host path**"):
        assert part in done.stdout
    found = json.loads(out.read_text("utf-8"))
    assert [kernel["rule"] for kernel in found["kernels"]] == ["paper", "slice"]
    seconds = found["kernels"][0]["seconds"]
    assert seconds.keys() == {"ours", "own_jit", "numba", "python", "dense"}
    assert all(spread["median"] > 0 for spread in seconds.values())
    assert found["temporaries"][0]["argument_bytes"] > 0
    assert found["first_calls"][0]["cold"] > 0
    assert found["machine"]["versions"].keys() >= {"Python", "jax", "numba", "numpy"}
    assert found["requirements"] == []


def answers() -> dict[str, Any]:
    given = inputs(3, 16)
    return {"python": [plain_credit(t) for t in given.plain], "numba": numba_credit(given.arrays)}


def test_disagreement_on_a_number_is_refused():
    found = answers()
    kernels.check_agreement("3x16 paper", inputs(3, 16), found)
    found["numba"].step_factor[0, 0] += 0.5
    expect = "3x16 paper: numba and plain Python differ by 0.5 in step_factor; allowed: 1e-05"
    with pytest.raises(kernels.DisagreementError, match=expect):
        kernels.check_agreement("3x16 paper", inputs(3, 16), found)


def test_disagreement_on_a_segment_is_refused():
    found = answers()
    wrong = found["numba"].segment_relevant.copy()
    wrong[0, 0] ^= True
    found["ours"] = found["numba"]._replace(segment_relevant=wrong)
    with pytest.raises(kernels.DisagreementError, match=r"ours and numba differ in 1 of \d+ rele"):
        kernels.check_agreement("3x16 paper", inputs(3, 16), found)


def test_what_stands_at_padding_is_not_compared():
    found = answers()
    padding = np.arange(32) >= np.asarray(inputs(3, 16).batch.num_commands)[:, None]
    found["numba"].command_credit[: len(padding)][padding[: len(found["python"])]] = 7.0
    kernels.check_agreement("3x16 paper", inputs(3, 16), found)


def test_both_host_paths_replay_alike():
    given = json_lines(20, 48)
    host_path.check_agreement(given, [parse_trace(line) for line in given])
    other = [parse_trace(line) for line in json_lines(20, 40)]
    with pytest.raises(kernels.DisagreementError, match=r"trace 'workload/40/0': .* in segments; "):
        host_path.check_agreement(given, other)


@pytest.mark.parametrize(
    "writes",
    [
        [lines((2, 4)), hunks((3, 1, 2, 0)), lines((1, 3)), whole()],
        [hunks((1, 0, 2, 3)), hunks((2, 2, 1, 0)), hunks((1, 0, 2, 1)), hunks((1, 3, 1, 1))],
        [whole(), lines((5, 5)), hunks((4, 2, 3, 0)), hunks((3, 0, 4, 2)), whole(), lines((1, 1))],
    ],
)
def test_the_plain_host_path_knows_gaps_filler_and_whole_files(writes: list[Json]):
    commands = [
        {"text": "x", "exit_code": 0, "reads": [], "writes": [write], "stdout_from": []}
        for write in writes
    ]
    step = {"loss_tokens": 3, "commands": commands}
    trace = {"version": 1, "trace_id": "t", "verifier": ["/a"], "steps": [step]}
    line = json.dumps(trace).encode()
    host_path.check_agreement([line], [parse_trace(line)])
    assert plain_host_path(line).loss_tokens == [3]


def test_contestants_take_turns_and_short_calls_are_repeated():
    calls: list[str] = []
    contestants = {name: lambda name=name: calls.append(name) for name in "ab"}
    samples, core_share = alternate(contestants, rounds=3)
    assert [len(times) for times in samples.values()] == [3, 3]
    turns = [name for at, name in enumerate(calls) if at == 0 or calls[at - 1] != name]
    # Once each to see how long they take; then a round forth, one back, and one forth.
    assert turns in (list("ababab"), list("abab"))
    assert len(calls) > 100
    assert core_share > 0


def test_ratio_is_that_of_the_medians():
    assert spread([3.0, 1.0, 2.0]).median == 2.0
    found = ratio([2.0, 4.0, 60.0], [1.0, 2.0, 3.0])
    assert (found.median, found.low, found.high) == (2.0, 2.0, 11.0)


def test_a_missed_requirement_is_said_and_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    job = {"temporaries/9x9": lambda: Temporaries("9x9", 100_100_000, 1, 1)}
    monkeypatch.setattr(run, "all_jobs", lambda **_: job)
    monkeypatch.setattr(run, "pin", lambda: False)
    assert run.main(["--only", "9x9", "--out", str(tmp_path / "out.json")]) == 1
    shown = capsys.readouterr().out
    assert "one thread, not pinned" in shown
    assert "| temporaries in MB, 9x9 | <= 100 | 100.1 | FAIL |" in shown
    assert not json.loads((tmp_path / "out.json").read_text())["requirements"][0]["passed"]


def test_bounds_are_kept_by_a_good_result():
    results = Results(describe(pinned=True), quick=False)
    results.add(Temporaries("9x9", 99_000_000, 1, 1))
    assert [found.passed for found in requirements(results)] == [True]
    assert "pass |" in report.markdown(results)


def test_an_unknown_name_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(run, "pin", lambda: False)
    with pytest.raises(SystemExit, match="2"):
        run.main(["--only", "nonsense"])
    assert "there are host/256x128, kernel/1024x16/paper" in capsys.readouterr().err


# Tracing.


def test_a_quick_run_of_tracing_measures_everything_and_writes_both_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "new" / "tracing.json"
    cores = os.sched_getaffinity(0)
    assert run.main(["--only", "tracing", "--quick", "--out", str(out)]) == 0
    assert os.sched_getaffinity(0) == cores
    shown = capsys.readouterr().out
    assert shown == out.with_suffix(".md").read_text("utf-8")
    for part in ("**Tracing**", "**A short command**", "**Sandboxes and rollouts**", "1 × gcc"):
        assert part in shown
    found = json.loads(out.read_text("utf-8"))
    python, git, _ = found["workloads"]
    # Every file is written; Python is a file itself. Git's object files come and stay, too.
    assert python["records"] >= 20
    assert git["records"] >= 40
    for workload in found["workloads"]:
        assert workload["log_bytes"] > 1000
        for place in ("free", "one core"):
            assert workload["ratios"][place]["median"] > 0
            assert 0 < workload["parsing"][place]["median"] < 1
            assert 0 < workload["recording"][place]["median"] < 1
    assert [(rate["what"], rate["processes"]) for rate in found["rates"]] == [
        (what, processes) for what in ("sandbox", "terminal", "rollout") for processes in (1, 2)
    ]
    assert all(rate["per_second"] > 0 for rate in found["rates"])
    assert found["requirements"] == found["aims"] == []


def test_what_is_wrapped_to_be_measured_is_put_back():
    before = (Parser.feed, Recorder.feed, Recorder.finish)
    with pytest.raises(tracing.WorkloadError, match=r"'exit 3': found exit code 3, .*allowed: 0"):
        tracing.measure(Workload("wrong", ":", "exit 3", 1.0, 1.0), rounds=1)
    assert (Parser.feed, Recorder.feed, Recorder.finish) == before


def test_bounds_and_aims_of_tracing():
    def found(ratio: float, share: float) -> tracing.Tracing:
        places = {place: spread([ratio]) for place in tracing.PLACES}
        shares = {place: spread([share]) for place in tracing.PLACES}
        kinds = {tracing.PLAIN: spread([1.0]), tracing.TRACED: spread([ratio])}
        seconds = dict.fromkeys(tracing.PLACES, kinds)
        one = spread([ratio])
        return tracing.Tracing(
            "w", 2.2, 1.6, seconds, places, places, shares, shares, one, 1_000_000, 7
        )

    results = tracing_report.TracingResults(describe(pinned=False), quick=False)
    results.add(found(2.0, 0.15))
    results.add(sandboxes.Rate(sandboxes.SANDBOX, 2, spread([0.1]), 19.9))
    assert [each.passed for each in tracing_report.requirements(results)] == [True, False]
    assert [each.passed for each in tracing_report.aims(results)] == [False, False]
    shown = tracing_report.markdown(results)
    assert "| time traced / untraced, w       | <= 2.2 |  2.00 | pass |" in shown
    assert "| sandboxes a second, 2 processes |  >= 20 |  19.9 | FAIL |" in shown
    assert "| parsing and recording, w  | <= 20% |   30% | FAIL |" in shown


@pytest.mark.parametrize("part", ["tracing", "training"])
def test_tracing_and_training_are_measured_alone(part: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="2"):
        run.main(["--only", part, "host"])
    assert f"--only {part}: allowed alone, since it needs all cores" in capsys.readouterr().err


def test_a_worker_that_cannot_start_is_said():
    worker = subprocess.Popen(["true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with worker, pytest.raises(RuntimeError, match=r"found that it ended before it was ready"):
        sandboxes.together([worker])


# Training.


def test_a_quick_run_of_training_measures_everything_and_writes_both_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "new" / "training.json"
    cores = os.sched_getaffinity(0)
    assert run.main(["--only", "training", "--quick", "--out", str(out)]) == 0
    assert os.sched_getaffinity(0) == cores
    shown = capsys.readouterr().out
    assert shown == out.with_suffix(".md").read_text("utf-8")
    assert "**Updates in the file world**: 16 rollouts of 8 commands" in shown
    found = json.loads(out.read_text("utf-8"))
    (updates,) = found["updates"]
    measured = set(world_updates.CONTESTANTS) - {world_updates.PLAIN}
    assert updates["seconds"].keys() == updates["first"].keys() == measured
    assert all(spread["median"] > 0 for spread in updates["seconds"].values())
    assert all(seconds > 0 for seconds in updates["first_processor"].values())
    assert found["requirements"] == found["aims"] == []


def test_bound_and_aim_of_training():
    seconds = dict.fromkeys(world_updates.CONTESTANTS, spread([0.2]))
    first = dict.fromkeys(world_updates.CONTESTANTS, 10.0)
    found = world_updates.WorldUpdates(512, 16, 1000, seconds, 0.3, first, first, cached=False)
    results = training_report.TrainingResults(describe(pinned=False), quick=False, updates=[found])
    (bound,) = training_report.held_against(results, 300.0)
    (aim,) = training_report.held_against(results, 30.0)
    assert (bound.passed, aim.passed, aim.found) == (True, False, "39.8")
    shown = training_report.markdown(results)
    line = "| s for 150 updates of 512 rollouts, compilation included | <= 30 |  39.8 | FAIL |"
    assert line in shown
    assert "5.0 updates a second; processor time of one, all threads: 300 ms." in shown
