"""`depgpo report` and `depgpo explain --why/--html`: what is written, where, and what never is."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import click
import pytest

from depgpo_jax.cli_files import REPORT_MARK, open_report
from tests.test_cli import REAL, run, start, trace, write_lines


def made(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_report_has_an_index_groups_and_rollouts(tmp_path: Path):
    out = tmp_path / "report"
    result = run("report", REAL, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"7 pages, to be opened at {out}/index.html\n"
    rollouts = [f"rollouts/00000{number}.html" for number in range(5)]
    assert made(out) == [REPORT_MARK, "groups/000000.html", "index.html", *rollouts]
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    group = (out / "groups" / "000000.html").read_text("utf-8")
    assert [group.index(f"log-summary/{number}<") for number in range(5)] == sorted(
        group.index(f"log-summary/{number}<") for number in range(5)
    )
    assert "10 of 43 read-only commands have an outgoing stdout edge" in (
        out / "index.html"
    ).read_text("utf-8")


def test_groups_may_be_spread_over_the_file(tmp_path: Path):
    rewards = {"a": 1.0, "b": 0.0, "c": 0.0, "d": 1.0}
    file = write_lines(
        tmp_path / "t.jsonl",
        *(
            trace(name, group_id="odd" if name in "ac" else "even", reward=reward)
            for name, reward in rewards.items()
        ),
    )
    assert run("report", file, "--out", tmp_path / "out", "--batch-size", "1").exit_code == 0
    odd = (tmp_path / "out" / "groups" / "000000.html").read_text("utf-8")
    assert re.findall(r'<a href="../rollouts/(\d+).html">(\w)</a>', odd) == [
        ("000000", "a"),
        ("000002", "c"),
    ]
    assert "+0.707" in odd  # GRPO over the two rollouts of the group
    page = (tmp_path / "out" / "rollouts" / "000002.html").read_text("utf-8")
    assert '<a href="../groups/000000.html">← group odd</a>' in page


def test_settings_reach_the_pages(tmp_path: Path):
    options = ("--relevance", "slice", "--beta", "0.25", "--advantage", "none")
    assert run("report", REAL, "--out", tmp_path / "out", *options).exit_code == 0
    for name in ("index.html", "groups/000000.html", "rollouts/000003.html"):
        text = (tmp_path / "out" / name).read_text("utf-8")
        assert "Credit by relevance rule slice, beta 0.25" in text
    assert "advantage</button>" not in (tmp_path / "out" / "groups/000000.html").read_text("utf-8")


def test_a_file_without_traces_and_rewards_of_any_size(tmp_path: Path):
    empty = write_lines(tmp_path / "empty.jsonl")
    assert run("report", empty, "--out", tmp_path / "none").exit_code == 0
    assert "The file holds no rollout." in (tmp_path / "none" / "index.html").read_text("utf-8")
    names = [f"t{number}" for number in range(4)]
    huge = write_lines(
        tmp_path / "huge.jsonl", *(trace(name, group_id="g", reward=1.7e308) for name in names)
    )
    assert run("report", huge, "--out", tmp_path / "huge").exit_code == 0
    assert "1.7e+308" in (tmp_path / "huge" / "groups" / "000000.html").read_text("utf-8")


def test_an_earlier_report_is_replaced_whole(tmp_path: Path):
    out = tmp_path / "out"
    assert run("report", REAL, "--out", out).exit_code == 0
    one = write_lines(tmp_path / "one.jsonl", trace("only", reward=1))
    assert run("report", one, "--out", out).exit_code == 0
    assert made(out) == [
        REPORT_MARK,
        "groups/000000.html",
        "index.html",
        "rollouts/000000.html",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.jsonl", "out"]


def test_an_empty_folder_is_taken_and_another_left_alone(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    assert run("report", REAL, "--out", tmp_path / "empty").exit_code == 0
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    for out in (mine, mine / "thesis.tex"):
        result = run("report", REAL, "--out", out)
        assert result.exit_code == 2
        assert f"--out {out} holds something that is no page of a report: thes" in result.stderr
        assert "Give a new or empty folder" in result.stderr
    (mine / REPORT_MARK).touch()
    assert run("report", REAL, "--out", mine).exit_code == 2
    assert made(mine) == [REPORT_MARK, "thesis.tex"]


@pytest.mark.parametrize("name", ["notes.txt", "groups/notes.txt", "rollouts/a/000000.html"])
def test_a_report_that_somebody_added_to_is_left_alone(tmp_path: Path, name: str):
    out = tmp_path / "out"
    assert run("report", REAL, "--out", out).exit_code == 0
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_text("mine")
    before = made(out)
    assert run("report", REAL, "--out", out).exit_code == 2
    assert made(out) == before


def test_the_file_itself_may_not_lie_in_the_folder(tmp_path: Path):
    out = tmp_path / "out"
    assert run("report", REAL, "--out", out).exit_code == 0
    inside = out / "groups" / "000007.html"
    inside.write_bytes(REAL.read_bytes())
    result = run("report", inside, "--out", out)
    assert result.exit_code == 2
    assert "holds something that is no page of a report: 000007.html" in result.stderr
    assert inside.read_bytes() == REAL.read_bytes()


@pytest.mark.parametrize("out", ["", "-"])
def test_a_folder_needs_a_name(out: str):
    result = run("report", REAL, "--out", out)
    assert result.exit_code == 2
    assert f"--out found {out!r}. Give the path of a folder." in result.stderr


def test_what_comes_into_the_folder_meanwhile_is_kept(tmp_path: Path):
    out = tmp_path / "out"

    def write() -> None:
        with open_report(str(out), "-") as folder:
            (folder / "index.html").touch()
            (out / "late.txt").touch()

    with pytest.raises(click.UsageError, match=r"no page of a report: late\.txt"):
        write()
    assert made(out) == ["late.txt"]


def test_a_failed_exchange_brings_the_earlier_report_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out = tmp_path / "out"
    assert run("report", REAL, "--out", out).exit_code == 0
    before = made(out)
    rename = Path.rename

    def fails_late(self: Path, target: Path) -> Path:
        if self.name == "rollouts" and self.parent.name == "new":
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails_late)
    one = write_lines(tmp_path / "one.jsonl", trace("only", reward=1))
    assert run("report", one, "--out", out).exit_code == 1
    assert made(out) == before
    assert "log-summary" in (out / "index.html").read_text("utf-8")


def test_a_report_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert run("report", REAL, "--out", ".").exit_code == 0
        assert "index.html" in made(Path())


def test_what_a_killed_run_left_is_removed_in_time(tmp_path: Path):
    out = tmp_path / "out"
    old, young = out / ".depgpo-part-old", out / ".depgpo-part-young"
    for folder in (old, young):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    assert run("report", REAL, "--out", out).exit_code == 0
    assert young.exists()
    assert not old.exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path):
    result = run("report", REAL, "--out", tmp_path / "no" / "such")
    assert result.exit_code == 1
    assert "found a place where no folder can be made (No such file or directory)" in result.stderr
    assert "Make the folder around it" in result.stderr


def test_a_bad_file_leaves_no_folder(tmp_path: Path):
    bad = write_lines(tmp_path / "bad.jsonl", trace("a", reward=1), '{"version": 1}')
    result = run("report", bad, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "line 2" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.jsonl"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_report_leaves_nothing(tmp_path: Path, number: int):
    many = write_lines(tmp_path / "many.jsonl", *(trace(f"t{k}", reward=1) for k in range(20_000)))
    process = start("report", many, "--out", tmp_path / "out", "--batch-size", "64")
    deadline = time.monotonic() + 60
    while (
        not any(tmp_path.glob("out/.depgpo-part-*/new/rollouts/000*"))
        and time.monotonic() < deadline
    ):
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(timeout=60) == (130 if number == signal.SIGINT else 128 + number)
    assert [path.name for path in tmp_path.iterdir()] == ["many.jsonl"]


def test_explain_writes_one_page(tmp_path: Path):
    page = tmp_path / "page.html"
    result = run("explain", REAL, "--trace", "log-summary/0", "--html", page)
    assert (result.exit_code, result.stdout) == (0, "")
    text = page.read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert "0.25 = 0.5² × 1.0 via" in text
    assert "+0.730" in text
    again = run("explain", REAL, "--trace", "log-summary/0", "--html", "-")
    assert again.stdout == text


def test_explain_tells_why(tmp_path: Path):
    result = run("explain", REAL, "--trace", "log-summary/0", "--why")
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert "0.25 = 0.5² × 1.0 via #2 → #3" in said
    assert "/app/summary.csv (whole): inspected by the verifier." in said
    both = run("explain", REAL, "--trace", "log-summary/0", "--why", "--html", tmp_path / "x")
    assert both.exit_code == 2
    assert "--why and --html are two ways to see the same; give one." in both.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_page_is_never_written_over_its_file(tmp_path: Path):
    file = write_lines(tmp_path / "t.jsonl", trace("a", reward=1))
    for arguments in (
        ("explain", file, "--trace", "a", "--html", file),
        ("report", file, "--out", file),
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "are the same file" in result.stderr
    assert '"trace_id"' in file.read_text("utf-8")
