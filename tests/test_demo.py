"""The demo's program: what it prints for the real rollouts, other files, and bad ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from depgpo_jax.explain.table import LEGEND
from depgpo_jax.traces import read_traces
from training.demo import LOSS_TOKENS, main

REAL = Path(__file__).resolve().parent / "real" / "log-summary-group.jsonl"


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("demo") / "new"
    assert main(["--traces", str(REAL), "--out", str(folder)]) == 0
    return (folder / "demo.txt").read_text("utf-8")


def test_every_rollout_has_its_table(output: str):
    for number, reward in enumerate((1, 1, 1, 0, 0)):
        assert re.search(rf"^log-summary/{number} · reward {reward} · advantage", output, re.M)
    assert output.count("step   tokens") == 5
    assert "writes /app/summary.csv*" in output
    assert re.search(r"In all: \d+% of a rollout's commands are on the path", output)
    assert "10 of 43 read-only commands have an outgoing stdout edge" in output


def test_the_numbers_are_explained_once_before_the_tables(output: str):
    before, _, after = " ".join(output.split()).partition("log-summary/0 ·")
    assert "recorded without command texts; the tables show what each command read" in before
    assert LEGEND in before
    assert "credit: share" not in after
    assert re.search(r"^ +0 +246 +0 +reused by #2 +0\.750", output, re.MULTILINE)


def test_both_updates_have_one_loss_and_two_gradients(output: str):
    loss, norm = {}, {}
    for name in ("GRPO", "DepGPO"):
        numbers = re.search(rf"^{name} +(\S+) +(\S+) +(\S+) +(\S+)", output, re.MULTILINE)
        assert numbers is not None
        loss[name], norm[name], clipped, ratio = map(float, numbers.groups())
        assert clipped == 0.0
        assert ratio == pytest.approx(1.0, abs=1e-5)
    assert loss["DepGPO"] == pytest.approx(loss["GRPO"], abs=2e-6)
    assert norm["DepGPO"] > 1.1 * norm["GRPO"] > 0


def test_it_says_that_tokens_are_stand_ins_and_how_long_it_took(output: str):
    tokens = re.search(r"on ([\d,]+) loss tokens in rows of (\d+)\.\n", output)
    assert tokens is not None
    assert 0 < int(tokens[1].replace(",", "")) <= 5 * (LOSS_TOKENS + 20)
    assert "Token ids were not recorded, so random ids stand in." in output
    assert f"cut to about {LOSS_TOKENS} tokens at most, with each step's share kept" in output
    for name in ("credit kernels", "policy update"):
        assert re.search(rf"^{name} +[\d.]+ +[\d.]+", output, re.MULTILINE)
    assert re.search(r"s in all, on \w+", output)


def test_piped_output_is_plain(output: str, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    empty = tmp_path / "[red]none[bold].jsonl"
    empty.write_text("")
    assert main(["--traces", str(empty)]) == 0
    assert capsys.readouterr().out == "No traces in [red]none[bold].jsonl\n"
    assert "\x1b" not in output
    assert "[bold]" not in output


def test_bad_input_is_a_message_and_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"version": 2}\n')
    assert main(["--traces", str(bad)]) == 1
    assert capsys.readouterr().err.startswith("error: ")
    assert main(["--traces", str(tmp_path / "missing.jsonl")]) == 1
    assert "missing.jsonl" in capsys.readouterr().err


def test_without_a_file_it_runs_a_task_in_a_sandbox(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["--out", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    for name, reward in (("good", "1.0"), ("wasteful", "1.0"), ("wrong", "0.0")):
        assert re.search(
            rf"text_to_csv-0/{name}: \d+ commands, \d of 3 tests passed, reward {reward}", output
        )
    traces = list(read_traces(tmp_path / "rollouts.jsonl"))
    assert [trace.reward for trace in traces] == [1.0, 1.0, 0.0]
    assert all(command.text for trace in traces for command in trace.commands)
    assert "/app/summary.csv" in traces[0].verifier
    # The wasteful rollout's first table was overwritten, so only the second one counts.
    rows = re.findall(r"^ +\d+ +\d+ +\d+ +awk .* (\S+) +\S+ +\S+$", output, re.MULTILINE)
    assert rows == ["1.000", "0", "1.000", "1.000"]
