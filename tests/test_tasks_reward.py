"""The reward and the single tests that a verifier left: never a crash, never a silent 0."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depgpo_jax.tasks import Reward, read_reward, read_test_results
from depgpo_jax.tasks import reward as reward_module
from depgpo_jax.traces import TestResult


def left(folder: Path, **files: str | bytes) -> Reward:
    for name, content in files.items():
        path = folder / f"reward.{name}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_reward(folder)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("-0.5", -0.5),
        (' {"reward": 0.25, "other": 3}\n', 0.25),
        ('{"score": 1e-3, "note": "x", "ok": true, "all": [1, 2]}', 1e-3),
        ('{"reward": 0}', 0.0),
    ],
)
def test_json(tmp_path: Path, text: str, value: float) -> None:
    assert left(tmp_path, json=text) == Reward(value, None)


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1.0), (" 0.5\n", 0.5), ("-1e2", -100.0), ("+.5", 0.5), ("1.", 1.0)]
)
def test_text(tmp_path: Path, text: str, value: float) -> None:
    assert left(tmp_path, txt=text) == Reward(value, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is not JSON: ''"),
        ("{", "it is not JSON: '{'"),
        (b"\xff1", "it is not JSON: '�1'"),
        ("\ufeff1", "it is not JSON: '\\ufeff1'"),
        ("[" * 60_000, "it is not JSON: '" + "[" * 59 + "…'"),
        ("true", "it holds a boolean, not a number"),
        ("null", "it holds null, not a number"),
        ('"1"', "it holds a text, not a number"),
        ("[1]", "it holds a list, not a number"),
        ('{"reward": {}}', "it holds an object, not a number"),
        ('{"reward": null, "a": 1}', "it holds null, not a number"),
        ("{}", 'its object has no "reward", and 0 numbers instead of one'),
        ('{"a": 1, "b": 2}', 'its object has no "reward", and 2 numbers instead of one'),
        ('{"reward": 0, "reward": 1}', "the key 'reward' stands in it twice"),
        ('{"a": {"b": 0, "b": 1}, "reward": 1}', "the key 'b' stands in it twice"),
        ("NaN", "'NaN' is not finite"),
        ('{"reward": -Infinity}', "'-Infinity' is not finite"),
        ("1e999", "'1e999' is not finite"),
        ("9" * 5000, "'" + "9" * 59 + "…' is not finite"),
    ],
)
def test_json_without_a_reward(tmp_path: Path, text: str | bytes, reason: str) -> None:
    # A reward.txt does not help: reward.json wins.
    assert left(tmp_path, json=text, txt="1") == Reward(None, f"reward.json: {reason}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it holds '', not a number"),
        ("passed", "it holds 'passed', not a number"),
        ("1 2", "it holds '1 2', not a number"),
        ("nan", "it holds 'nan', not a number"),
        ("1_0", "it holds '1_0', not a number"),
        ("٣", "it holds '٣', not a number"),
        (b"\x00\xff", "it holds '\\x00�', not a number"),
        ("1e999", "'1e999' is not finite"),
        ("0" * 401, "it holds '" + "0" * 59 + "…', not a number"),
    ],
)
def test_text_without_a_reward(tmp_path: Path, text: str | bytes, reason: str) -> None:
    assert left(tmp_path, txt=text) == Reward(None, f"reward.txt: {reason}")


def test_two_files_have_to_agree(tmp_path: Path) -> None:
    assert left(tmp_path, json='{"reward": 1}', txt="1.0\n") == Reward(1.0, None)
    differ = "reward.json says 9 and reward.txt says 0: there must be one of them, or both the same"
    assert left(tmp_path, json="9", txt="0") == Reward(None, differ)
    odd = "reward.txt: it holds 'none', not a number"
    assert left(tmp_path, json="9", txt="none") == Reward(None, odd)


def test_no_file(tmp_path: Path) -> None:
    nothing = "no reward: the verifier wrote neither reward.json nor reward.txt"
    assert read_reward(tmp_path) == Reward(None, nothing)
    assert read_reward(tmp_path / "none") == Reward(None, nothing)


def test_a_large_file(tmp_path: Path) -> None:
    assert left(tmp_path, json=b"1" + b" " * (2**16 - 1)).value == 1.0
    reason = "reward.json: it is larger than 65536 bytes"
    assert left(tmp_path, json=b"1" + b" " * 2**16) == Reward(None, reason)


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("1")
    path = tmp_path / "reward.json"
    path.symlink_to("mine")
    link = "reward.json: it is a symbolic link, not a regular file"
    assert read_reward(tmp_path) == Reward(None, link)
    path.unlink()
    path.symlink_to("nowhere")
    assert read_reward(tmp_path) == Reward(None, link)
    path.unlink()
    os.mkfifo(path)
    other = Reward(None, "reward.json: it is not a regular file")
    assert read_reward(tmp_path) == other
    path.unlink()
    path.mkdir()
    assert read_reward(tmp_path) == other


def test_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(reward_module.os, "open", refuse)
    reason = "reward.json: it cannot be read (Permission denied)"
    assert read_reward(tmp_path) == Reward(None, reason)


@given(
    content=st.binary(max_size=60)
    | st.text(alphabet='{}[]":,0123e.-NaInfty reward').map(str.encode)
)
def test_any_bytes_give_a_number_or_a_reason(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("reward")
    for name in ("json", "txt"):
        found = left(folder, **{name: content})
        assert (found.value is None) != (found.invalid is None)
        (folder / f"reward.{name}").unlink()


def test_results_from_lines(tmp_path: Path) -> None:
    output = b"""collected 3 items
PASSED tests/a.py::test_one
FAILED tests/a.py::test_two - AssertionError: 1 - 2
  PASSED indented does not count
PASSED  name with spaces - and a dash \r
PASSEDx no
FAILED
PASSED again
FAILED again
PASSED again
PASSED \xff
"""
    assert read_test_results(tmp_path, output) == [
        TestResult("tests/a.py::test_one", True),
        TestResult("tests/a.py::test_two", False),
        TestResult("name with spaces - and a dash", True),
        TestResult("again", False),
        TestResult("�", True),
    ]


def report(folder: Path, content: object) -> list[TestResult]:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "ctrf.json").write_bytes(text)
    return read_test_results(folder, b"PASSED printed\n")


def test_results_from_a_report(tmp_path: Path) -> None:
    tests = [
        {"name": "a", "status": "passed", "duration": 1},
        {"name": "b", "status": "failed"},
        {"name": "c", "status": "skipped"},
        {"name": "d", "status": "pending"},
        {"name": "e", "status": "other"},
        {"name": "f"},
        {"name": "\ud800", "status": "passed"},
        {"name": " ", "status": "passed"},
        {"name": 3, "status": "passed"},
        "g",
    ]
    assert report(tmp_path, {"results": {"tests": tests}}) == [
        TestResult("a", True),
        TestResult("b", False),
        TestResult("e", False),
        TestResult("f", False),
        TestResult("\\ud800", True),
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b" " * (8 * 2**20 + 1),
        3,
        [],
        {"results": []},
        {"results": {}},
        {"results": {"tests": {}}},
        {"results": {"tests": []}},
    ],
)
def test_reports_that_say_nothing_leave_it_to_the_lines(tmp_path: Path, content: object) -> None:
    assert report(tmp_path, content) == [TestResult("printed", True)]


def test_results_are_bounded(tmp_path: Path) -> None:
    output = b"".join(b"PASSED %d\n" % number for number in range(10_500))
    assert len(read_test_results(tmp_path, output)) == 10_000
    assert read_test_results(tmp_path, b"PASSED " + b"x" * 9999) == [TestResult("x" * 500, True)]
