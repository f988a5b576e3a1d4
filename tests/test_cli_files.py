"""`depgpo` and its surroundings: files named twice, closed streams, encodings, big numbers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from depgpo_jax import batch as batch_module
from depgpo_jax import cli_console
from depgpo_jax.cli_console import flush_streams
from depgpo_jax.cli_files import refuse_same_file
from depgpo_jax.cli_output import open_sink
from depgpo_jax.errors import TraceError
from depgpo_jax.traces import index_traces
from tests.processes import Child
from tests.test_cli import REAL, ROOT, read_lines, run, start, trace, write_lines

COMMAND = f"{sys.executable} -W error -m depgpo_jax"


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A command line with redirections, as bash takes it."""
    return subprocess.run(
        ["bash", "-c", line],
        cwd=ROOT,
        env=os.environ | {"DEPGPO": COMMAND} | environment,
        capture_output=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("file", "out", "report", "names"),
    [
        ("a.jsonl", "a.jsonl", None, "FILE and --out"),
        ("a.jsonl", "./sub/../a.jsonl", None, "FILE and --out"),
        ("a.jsonl", "link.jsonl", None, "FILE and --out"),
        ("link.jsonl", "hard.jsonl", None, "FILE and --out"),
        ("a.jsonl", "-", "a.jsonl", "FILE and --skip-bad"),
        ("link.jsonl", "-", "./a.jsonl", "FILE and --skip-bad"),
        ("a.jsonl", "new.jsonl", "sub/../new.jsonl", "--out and --skip-bad"),
        ("a.jsonl", "dangling.jsonl", "target.jsonl", "--out and --skip-bad"),
    ],
)
def test_files_of_one_run_must_differ(
    file: str,
    out: str,
    report: str | None,
    names: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    before = write_lines(tmp_path / "a.jsonl", trace("a", reward=1)).read_bytes()
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.jsonl").symlink_to("a.jsonl")
    (tmp_path / "hard.jsonl").hardlink_to(tmp_path / "a.jsonl")
    (tmp_path / "dangling.jsonl").symlink_to("target.jsonl")
    there = sorted(tmp_path.iterdir())
    result = run("credit", file, "--out", out, *(() if report is None else ("--skip-bad", report)))
    assert result.exit_code == 2
    assert f"{names} are the same file, " in result.stderr
    assert "Give each a file of its own" in " ".join(result.stderr.split())
    assert sorted(tmp_path.iterdir()) == there
    assert (tmp_path / "a.jsonl").read_bytes() == before


def test_what_may_be_named_twice():
    refuse_same_file({"FILE": "/dev/null", "--skip-bad": "/dev/null", "--out": "-", "more": "-"})
    refuse_same_file({"FILE": "new", "--out": "other", "--skip-bad": None})


def long_trace(name: str, commands: int) -> dict[str, object]:
    steps = [{"loss_tokens": 1, "commands": [{"text": "ls"}] * part} for part in (1, commands - 1)]
    return trace(name, steps=steps, reward=1)


def test_a_trace_that_is_too_long_is_bad_input(tmp_path: Path):
    most = batch_module.MAX_COMMANDS
    file = write_lines(tmp_path / "a.jsonl", trace("a", reward=1), long_trace("b", most + 1))
    message = (
        f'{file}, line 2, trace "b", steps: found {most + 1} commands. '
        f"Allowed: at most {most} in one trace, since paths are searched among all pairs of them. "
        "Leave the trace out, or join commands that belong together."
    )
    assert run("validate", file).exit_code == 0
    for arguments in (("credit", file), ("explain", file, "--trace", "a")):
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert message in result.stderr
    report = tmp_path / "report.jsonl"
    result = run("credit", file, "--skip-bad", report)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)
    assert result.stderr == f"1 of 2 lines was bad and left out, see {report}\n"
    assert read_lines(report) == [{"line": 2, "trace_id": "b", "message": message}]


def test_the_index_takes_exactly_as_many_commands_as_it_is_told(tmp_path: Path):
    file = write_lines(tmp_path / "a.jsonl", long_trace("a", 3))
    with index_traces(file, max_commands=3) as index:
        assert len(index) == 1
    with pytest.raises(TraceError, match=r"steps: found 3 commands\. Allowed: at most 2 in one"):
        index_traces(file, max_commands=2)


def advantages(path: Path, rewards: list[float], kind: str) -> list[float]:
    traces = [trace(str(k), group_id="g", reward=reward) for k, reward in enumerate(rewards)]
    traces.append(trace("other", reward=5.0))
    result = run("credit", write_lines(path / "a.jsonl", *traces), "--advantage", kind)
    assert result.exit_code == 0, result.stderr
    found = [json.loads(line)["advantage"] for line in result.stdout.splitlines()]
    assert found.pop() == 0.0
    return found


@pytest.mark.parametrize("kind", ["grpo", "dr_grpo", "rloo"])
def test_what_rewards_have_in_common_costs_no_digits(kind: str, tmp_path: Path):
    small = advantages(tmp_path, [0.0, 1.0, 2.0], kind)
    assert small[0] < small[1] < small[2]
    for common in (1e8, -1e8, 1e15):
        assert advantages(tmp_path, [common + k for k in range(3)], kind) == small
    for equal in (0.1, 1e300, -1.7e308):
        assert advantages(tmp_path, [equal] * 3, kind) == [0.0] * 3


def test_huge_rewards_are_compared_without_overflow(tmp_path: Path):
    largest = 3.4028235e38
    assert advantages(tmp_path, [1.7e308, 1.7e308], "dr_grpo") == [0.0, 0.0]
    assert advantages(tmp_path, [1.7e308, -1.7e308], "dr_grpo") == [largest, -largest]
    assert advantages(tmp_path, [1e300, 1e300, -1e300], "grpo") == pytest.approx(
        [3**-0.5, 3**-0.5, -2 * 3**-0.5], rel=1e-5
    )


def test_an_argument_that_is_no_text_names_no_trace(tmp_path: Path):
    result = shell(f"$DEPGPO explain {REAL} --trace $'\\xff'")
    assert result.returncode == 1
    assert b"no trace has the id '\\udcff'. Allowed: one of its 5 ids, such as" in result.stderr
    assert b"Traceback" not in result.stderr
    missing = shell("$DEPGPO validate $'\\xff'")
    assert missing.returncode == 1
    assert missing.stderr.startswith(b"Error: \\udcff: found no readable file")


def test_an_unknown_id_is_escaped_once(tmp_path: Path):
    file = write_lines(tmp_path / "a.jsonl", trace("x\ty"))
    result = run("explain", file, "--trace", "x\tz")
    assert result.exit_code == 1
    shown = " ".join(result.stderr.split())
    assert r"no trace has the id 'x\tz'. Allowed: one of its 1 id, such as: x\ty." in shown


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("validate - <&-", "<stdin>: found a closed stream. Allowed: an open standard input"),
        ("credit - <&-", "<stdin>: found a closed stream. Allowed: an open standard input"),
        ("schema >&-", "<stdout>: found a closed stream. Allowed: an open standard output"),
        (f"credit {REAL} >&-", "<stdout>: found a closed stream. Allowed: an open standard"),
        (f"explain {REAL} --trace log-summary/0 >&-", "<stdout>: found a closed stream."),
        ("--help > /dev/full", "No space left on device"),
        ("schema > /dev/full", "No space left on device"),
    ],
)
def test_streams_that_cannot_be_used_are_1(line: str, message: str):
    result = shell(f"$DEPGPO {line}")
    assert result.returncode == 1
    assert message in result.stderr.decode()
    assert b"Traceback" not in result.stderr


def test_closed_streams_that_are_not_needed_are_fine(tmp_path: Path):
    out = tmp_path / "out.csv"
    result = shell(f"$DEPGPO credit {REAL} --out {out} <&- >&- 2>&-")
    assert result.returncode == 0
    assert out.read_text().startswith("trace_id,")
    assert shell(f"$DEPGPO validate {REAL} >&- 2>&-").returncode == 0


def test_a_full_disk_is_told_with_the_file_and_leaves_none(tmp_path: Path):
    script = (
        f"mkdir {tmp_path}/small; mount -t tmpfs -o size=4k none {tmp_path}/small; "
        f"$DEPGPO credit {REAL} --out {tmp_path}/small/credit.csv; code=$?; "
        f"ls -A {tmp_path}/small; exit $code"
    )
    result = shell(f"exec unshare --user --map-root-user --mount bash -c '{script}'")
    assert result.returncode == 1, result
    assert result.stdout == b""
    assert (
        f"Error: {tmp_path}/small/credit.csv: found a disk that takes no more (No space left on "
        "device). Allowed: room for the whole output. Free some space, or choose another path. No "
        "file was left behind."
    ) in result.stderr.decode()


def test_a_stream_that_cannot_be_flushed_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cli_console.sys, "stderr", None)
    assert flush_streams()
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(cli_console.sys, "stdout", full)
        full.write("x")
        assert not flush_streams()
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space left"):
            full.close()


def test_an_encoding_without_the_character_gives_escapes(tmp_path: Path):
    file = write_lines(tmp_path / "a.jsonl", trace("ä·", reward=1))
    for arguments in (f"explain {file} --trace ä·", f"explain {file} --trace ß", "schema"):
        result = shell(f"$DEPGPO {arguments}", PYTHONIOENCODING="ascii")
        assert b"Traceback" not in result.stderr
        assert result.returncode == (1 if "ß" in arguments else 0)
    shown = shell(f"$DEPGPO explain {file} --trace ä·", PYTHONIOENCODING="ascii").stdout
    assert shown.startswith(rb"\xe4\xb7 \xb7 reward 1")


def test_an_interrupted_parquet_file_ends_quietly(tmp_path: Path):
    rollouts = [trace(str(k), reward=k % 3) for k in range(1000)]
    file = write_lines(tmp_path / "a.jsonl", *rollouts)
    arguments = ("credit", file, "--batch-size", "1", "--out", tmp_path / "out.parquet")
    with start(*arguments, stderr=subprocess.PIPE) as process:
        while not any(part.stat().st_size for part in tmp_path.glob(".out.parquet.*.part")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (130, b"interrupted\n")
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_a_sink_is_closed_when_its_block_fails(ending: str, tmp_path: Path):
    out = (tmp_path / "out").open("wb")
    with pytest.raises(KeyboardInterrupt), out, open_sink(out, ending):
        raise KeyboardInterrupt
    if ending == ".parquet":
        assert pq.read_table(tmp_path / "out").num_rows == 0


def test_nohup_is_respected(tmp_path: Path):
    command = ["nohup", sys.executable, "-m", "depgpo_jax", "validate", "-"]
    with Child(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"\n" * (1 << 20))
        process.stdin.flush()
        process.send_signal(signal.SIGHUP)
        stdout, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert b"<stdin>: fine, 0 traces" in stdout


def test_standard_input_is_read_once_only():
    result = run("validate", "-", "-", stdin=REAL.read_bytes())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "FILE: - stands there twice; it can be read once." in result.stderr


def test_messages_count_in_words(tmp_path: Path):
    bad = write_lines(tmp_path / "bad.jsonl", "{")
    assert run("validate", bad).stderr.endswith(f"{bad}: 1 bad line, 0 good\n")
    result = run("credit", bad, "--skip-bad", tmp_path / "report.jsonl")
    assert result.stderr.startswith("1 of 1 line was bad and left out, see ")
    many = write_lines(tmp_path / "many.jsonl", *["{"] * 21)
    assert "... and 1 more bad line in " in run("validate", many).stderr


@pytest.mark.parametrize("dropped", ["KeyboardInterrupt", "SystemExit"])
def test_an_interrupt_that_python_drops_comes_again(dropped: str):
    code = f"""
import os, signal, sys, time
from depgpo_jax.cli_console import keep_interrupts

def stop(number, frame):
    raise {dropped}

keep_interrupts()
signal.signal(signal.SIGINT, stop)
signal.signal(signal.SIGTERM, stop)

class Late:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)

try:
    Late()
    time.sleep(20)
except {dropped}:
    print("ended")
"""
    argv = [sys.executable, "-W", "error", "-c", code]
    run = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (run.stdout, run.stderr) == ("ended\n", "")


def test_other_dropped_exceptions_are_still_reported():
    code = """
from depgpo_jax.cli_console import keep_interrupts

keep_interrupts()

class Bad:
    def __del__(self):
        raise ValueError("lost")

Bad()
"""
    argv = [sys.executable, "-c", code]
    run = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert "ValueError: lost" in run.stderr
