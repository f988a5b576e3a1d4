"""The command `depgpo` as people meet it: help, exit codes, `validate`, `explain`, `schema`."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from rich.table import Table

from depgpo_jax import cli as module
from depgpo_jax.cli import cli
from depgpo_jax.cli_console import print_table, progress_bars
from depgpo_jax.version import __version__
from tests.processes import Child

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden" / "traces.jsonl"
REAL = ROOT / "tests" / "real" / "log-summary-group.jsonl"


COLUMNS = "step tokens # command credit weight advantage"


def run(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin)


def start(
    *arguments: str | Path,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> Child:
    command = [sys.executable, "-W", "error", "-m", "depgpo_jax", *map(str, arguments)]
    return Child(command, cwd=ROOT, stdin=stdin, stdout=stdout, stderr=stderr)


def trace(trace_id: str, **fields: Any) -> dict[str, Any]:
    write = {"resource": "/app/out", "whole": True}
    steps = [
        {"loss_tokens": 3, "commands": [{"text": "ls /app"}]},
        {"loss_tokens": 2, "commands": [{"writes": [write]}]},
    ]
    whole = {"version": 1, "trace_id": trace_id, "verifier": ["/app/out"], "steps": steps}
    return whole | fields


def write_lines(path: Path, *traces: dict[str, Any] | str) -> Path:
    lines = [line if isinstance(line, str) else json.dumps(line) for line in traces]
    path.write_text("".join(line + "\n" for line in lines), "utf-8")
    return path


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_version():
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"depgpo, version {__version__}\n")


@pytest.mark.parametrize("command", [[], *([name] for name in sorted(cli.commands))])
def test_help_shows_an_example_and_every_option(command: list[str]):
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert "\n    depgpo " in result.stdout
    shown = cli.commands[command[0]] if command else cli
    for parameter in shown.params:
        if isinstance(parameter, click.Option):
            assert parameter.opts[0] in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["validate"], "Missing argument 'FILE...'"),
        (["credit"], "Missing argument 'FILE'"),
        (["credit", REAL, "--beta", "0"], "0.0 is not in the range 0.0<x<=1.0"),
        (["credit", REAL, "--beta", "1.5"], "1.5 is not in the range 0.0<x<=1.0"),
        (["credit", REAL, "--beta", "nan"], "'--beta': nan is not a finite number"),
        (["credit", REAL, "--max-weight", "0.5"], "0.5 is not in the range x>=1.0"),
        (["credit", REAL, "--max-weight", "inf"], "'--max-weight': inf is not a finite number"),
        (["credit", REAL, "--relevance", "all"], "'all' is not one of 'paper', 'stdout', 'slice'"),
        (["credit", REAL, "--write-credit", "x"], "'x' is not one of 'fraction', 'binary'"),
        (["credit", REAL, "--inspect", "x"], "'x' is not one of 'verifier', 'all'"),
        (["credit", REAL, "--advantage", "ppo"], "'ppo' is not one of 'grpo', 'dr_grpo', 'rloo'"),
        (["credit", REAL, "--batch-size", "0"], "0 is not in the range x>=1"),
        (["credit", REAL, "--out", "a.json"], "found 'a.json'; it must end in .jsonl, .jsonl.gz"),
        (["credit", REAL, "--skip-bad", "-"], "the report needs a file of its own"),
        (["credit", REAL, "--out", "a.csv", "--skip-bad", "a.csv"], "a file of its own"),
        (["explain", REAL], "Missing option '--trace'"),
    ],
)
def test_wrong_usage_is_2(arguments: list[str | Path], message: str, tmp_path: Path):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""
    assert not Path("a.csv").exists()


def test_validate_counts(tmp_path: Path):
    more = write_lines(
        tmp_path / "more.jsonl",
        trace("a", group_id="g", reward=1.0),
        "",
        trace("b", group_id="g", invalid="crashed"),
    )
    result = run("validate", more, GOLDEN)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{more}: fine, 2 traces in 1 group, 1 without a reward, 1 invalid",
        f"{GOLDEN}: fine, 136 traces in 136 groups, 136 without a reward, 0 invalid",
    ]
    assert result.stderr == ""


def test_validate_reads_standard_input():
    result = run("validate", "-", stdin=REAL.read_bytes())
    assert result.stdout == "<stdin>: fine, 5 traces in 1 group, 0 without a reward, 0 invalid\n"


def test_validate_an_empty_file(tmp_path: Path):
    result = run("validate", write_lines(tmp_path / "empty.jsonl"))
    assert result.exit_code == 0
    assert "fine, 0 traces in 0 groups" in result.stdout


def test_validate_names_every_bad_line_and_goes_on_with_the_next_file(tmp_path: Path):
    bad = write_lines(
        tmp_path / "bad.jsonl", trace("a"), trace("b", steps=3), trace("a"), '{"version": 1'
    )
    result = run("validate", bad, tmp_path / "missing.jsonl", REAL)
    assert result.exit_code == 1
    assert "fine, 5 traces" in result.stdout
    errors = result.stderr.splitlines()
    for line, error in zip((2, 3, 4), errors[:3], strict=True):
        assert error.startswith(f"Error: {bad}, line {line}")
    assert errors[3] == f"{bad}: 3 bad lines, 1 good"
    assert "missing.jsonl: found no readable file" in errors[4]


def test_validate_stops_naming_bad_lines_after_twenty(tmp_path: Path):
    result = run("validate", write_lines(tmp_path / "bad.jsonl", *["{}"] * 25))
    assert result.exit_code == 1
    assert result.stderr.count("Error: ") == 20
    assert f"... and 5 more bad lines in {tmp_path / 'bad.jsonl'}" in result.stderr


def test_explain_shows_what_each_command_did():
    result = run("explain", REAL, "--trace", "log-summary/0", "--relevance", "stdout")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("log-summary/0 · reward 1 · advantage +0.730")
    assert lines[1].split() == COLUMNS.split()
    assert "writes /app/summary.csv*" in result.stdout
    assert all(line == line.rstrip() and "\x1b" not in line for line in lines)


def test_explain_needs_no_rewards():
    first = read_lines(GOLDEN)[0]["trace_id"]
    result = run("explain", GOLDEN, "--trace", first)
    assert result.exit_code == 0, result.stderr
    assert "advantage" not in result.stdout


@pytest.mark.parametrize("wanted", ["log-summary/7", "nothing like it"])
def test_explain_an_unknown_trace(wanted: str):
    result = run("explain", REAL, "--trace", wanted)
    assert result.exit_code == 1
    assert f"{REAL}: no trace has the id '{wanted}'" in result.stderr
    assert "Allowed: one of its 5 ids, such as: log-summary/" in result.stderr


def test_explain_an_empty_file(tmp_path: Path):
    result = run("explain", write_lines(tmp_path / "empty.jsonl"), "--trace", "a")
    assert result.exit_code == 1
    assert "Allowed: nothing, the file holds no trace." in result.stderr


def test_schema_is_a_json_schema():
    result = run("schema")
    assert result.exit_code == 0
    schema = json.loads(result.stdout)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert "trace_id" in json.dumps(schema)


def test_errors_of_the_system_are_1(monkeypatch: pytest.MonkeyPatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "index_traces", full)
    result = run("credit", REAL)
    assert result.exit_code == 1
    assert "Error: [Errno 28] No space left on device" in result.stderr


def test_ctrl_c_is_130_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("depgpo_jax.cli_credit.dependency_credit", interrupted)
    result = run("credit", REAL, "--out", tmp_path / "out.jsonl")
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_waiting_run(number: signal.Signals, code: int):
    with start("validate", "-", stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        # More than a pipe holds: when this is written, the command is up and reading.
        process.stdin.write(b"\n" * (1 << 20))
        process.stdin.flush()
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == code
    assert b"Traceback" not in stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_computing_leaves_no_file(number: signal.Signals, tmp_path: Path):
    rollouts = [trace(str(k), reward=k % 3) for k in range(200)]
    file = write_lines(tmp_path / "a.jsonl", *rollouts)
    arguments = ("credit", file, "--batch-size", "1", "--out", tmp_path / "out.csv")
    with start(*arguments, stderr=subprocess.PIPE) as process:
        while not list(tmp_path.glob(".out.csv.*.part")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else 128 + number)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("command", ["validate", "credit"])
def test_a_closed_pipe_ends_quietly(command: str):
    with start(command, REAL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_progress_is_shown_on_a_terminal_only():
    terminal, follower = pty.openpty()
    with start("validate", GOLDEN, stdout=subprocess.PIPE, stderr=follower) as process:
        stdout, _ = process.communicate(timeout=30)
    os.close(follower)
    shown = os.read(terminal, 1 << 16)
    os.close(terminal)
    assert b"fine, 136 traces" in stdout
    assert b"checking" in shown
    with progress_bars() as bar:
        bar("unseen")(1, 2)


def test_a_table_is_framed_on_a_terminal_and_plain_elsewhere(tmp_path: Path):
    def shown(terminal: bool) -> str:
        table = Table("name", "long text")
        table.add_row("[b]a", "x" * 300)
        with (tmp_path / "table").open("w+") as file:
            print_table(table, Console(file=file, force_terminal=terminal, width=80))
            file.seek(0)
            return file.read()

    assert "x" * 300 in shown(terminal=False)
    assert "┏" in shown(terminal=True)
