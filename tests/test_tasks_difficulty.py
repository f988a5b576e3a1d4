"""Difficulty, seeds of the splits, and programs that a machine may lack."""

import hashlib
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from depgpo_jax.errors import ConfigError, printable
from depgpo_jax.tasks import TaskError, read_task
from depgpo_jax.tasks.run import TaskSession
from training.tasks import (
    FAMILIES,
    NEEDS,
    SPLITS,
    Difficulty,
    MissingProgramError,
    needs,
    split_of,
    split_seeds,
)
from training.tasks.__main__ import main
from training.tasks.difficulty import DEFAULT, MAX_DEPTH, MAX_DISTRACTORS
from training.tasks.writing import TaskFiles, write_task

FIRST = 200
"""Seeds of each split that are compared with each other."""


def answers(task: TaskFiles) -> str:
    """A digest of what is asked and of what is right."""
    parts = [task.instruction, *(f"{k}\n{v!r}" for k, v in sorted(task.expected.items()))]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


@pytest.mark.parametrize("family", FAMILIES)
def test_distractors_are_files_more_and_nothing_else(family: str) -> None:
    make = FAMILIES[family].make
    for depth in (1, MAX_DEPTH):
        plain = make(3, Difficulty(depth))
        some, many = (make(3, Difficulty(depth, count)) for count in (4, MAX_DISTRACTORS))
        for task, count in ((some, 4), (many, MAX_DISTRACTORS)):
            assert len(task.files) == len(plain.files) + count
            assert plain.files.items() <= task.files.items()
            for name in ("instruction", "checks", "expected", "commands", "wasteful", "wrong"):
                assert getattr(task, name) == getattr(plain, name)
        assert some.files.items() <= many.files.items()
        added = many.files.keys() - plain.files.keys()
        # They look as if: files of that ending count, or are told about.
        for ending in {Path(path).suffix for path in added}:
            assert any(path.endswith(ending) for path in plain.files) or ending in plain.instruction


@pytest.mark.parametrize("family", FAMILIES)
def test_depth_makes_the_solution_longer_each_time(family: str) -> None:
    tasks = [FAMILIES[family].make(3, Difficulty(depth)) for depth in range(1, MAX_DEPTH + 1)]
    lengths = [len(task.commands) for task in tasks]
    assert lengths == sorted(set(lengths))
    assert len({task.name for task in tasks}) == MAX_DEPTH


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"depth": 0}, "Difficulty.depth: found 0. Allowed: a whole number from 1 to 5."),
        ({"depth": 6}, "Difficulty.depth: found 6. Allowed: a whole number from 1 to 5."),
        ({"depth": True}, "Difficulty.depth: found True. Allowed: a whole number from 1 to 5."),
        (
            {"distractors": -1},
            "Difficulty.distractors: found -1. Allowed: a whole number from 0 to 50.",
        ),
        (
            {"distractors": 2.0},
            "Difficulty.distractors: found 2.0. Allowed: a whole number from 0 to 50.",
        ),
    ],
)
def test_what_is_no_difficulty(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Difficulty(**fields)
    assert str(error.value) == f"{message} Choose one of them."


def test_what_is_no_difficulty_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["encodings", "1", str(tmp_path / "new"), "--depth", "9"]) == 1
    assert capsys.readouterr().err == (
        "error: Difficulty.depth: found 9. Allowed: a whole number from 1 to 5. "
        "Choose one of them.\n"
    )
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("seed", ["-1", "1000000000", "1500000"])
def test_a_seed_of_no_split_is_refused_on_the_command_line(
    seed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["encodings", seed, str(tmp_path / "new")]) == 1
    assert capsys.readouterr().err == (
        f"error: seed: found {seed}. Allowed: 0 to 999999 (train), 1000000 to 1009999 "
        "(validation), 2000000 to 2009999 (test). Choose one of them.\n"
    )
    assert not (tmp_path / "new").exists()


def test_an_empty_name_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["encodings", "1", ""]) == 1
    assert capsys.readouterr().err == (
        "error: directory: found ''. Allowed: a folder that is not there yet, or empty. Name one; "
        "the current folder is '.'.\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("file", "File exists"),
        ("file/new", "Not a directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_an_error_of_the_system_says_what_to_do(
    name: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["encodings", "1", str(tmp_path / name)]) == 1
    assert capsys.readouterr().err == (
        f"error: {printable(str(tmp_path / name))}: found no way to write there ({found}). "
        "Allowed: a folder that is not there yet, or empty, on a disk with room and where you may "
        "write. Name another one, or remove what is in the way.\n"
    )


def test_splits_are_disjoint() -> None:
    assert list(SPLITS) == ["train", "validation", "test"]
    seen: set[int] = set()
    for name in SPLITS:
        seeds = split_seeds(name)
        assert seeds.step == 1
        assert seen.isdisjoint(seeds)
        seen.update(seeds)
        assert split_of(seeds[0]) == split_of(seeds[-1]) == name
    assert split_of(-1) is split_of(1_500_000) is split_of(5_000_000) is None


def test_no_such_split() -> None:
    with pytest.raises(ConfigError) as error:
        split_seeds("dev")
    assert str(error.value) == (
        "split: found 'dev'. Allowed: train, validation, test. Choose one of them."
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_no_task_of_a_split_is_one_of_another(family: str) -> None:
    seeds = [seed for name in SPLITS for seed in split_seeds(name)[:FIRST]]
    found = [answers(FAMILIES[family].make(seed, DEFAULT)) for seed in seeds]
    assert len(set(found)) == len(SPLITS) * FIRST


def test_a_missing_program_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(needs, "PATH", str(tmp_path))
    message = (
        f"git_history: found no program git in {tmp_path}. Allowed: a machine that has what the "
        "family's tasks use. On Debian: apt-get install git"
    )
    with pytest.raises(MissingProgramError) as error:
        FAMILIES["git_history"](0, tmp_path / "task")
    assert str(error.value) == message
    assert str(pickle.loads(pickle.dumps(error.value))) == message
    assert main(["git_history", "0", str(tmp_path / "task")]) == 1
    assert capsys.readouterr().err == f"error: {message}\n"
    assert not (tmp_path / "task").exists()
    # What Debian has anyway is not looked for.
    FAMILIES["date_arithmetic"](0, tmp_path / "date")


def test_needs_are_programs_with_a_package() -> None:
    assert list(NEEDS) == list(FAMILIES)
    assert {name: programs for name, programs in NEEDS.items() if programs} == {
        "json_processing": ("jq",),
        "git_history": ("git",),
        "sqlite_query": ("sqlite3",),
    }
    assert {program for programs in NEEDS.values() for program in programs} <= set(needs.PACKAGES)


def test_a_task_that_came_from_elsewhere_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(needs.PACKAGES, "depgpo-none", "depgpo-package")
    made = FAMILIES["date_arithmetic"].make(0, DEFAULT)
    write_task(replace(made, needs=("depgpo-none",)), tmp_path / "task")
    with pytest.raises(TaskError) as error:
        TaskSession(read_task(tmp_path / "task"))
    assert (
        "found a RUN that ends with exit code 1: no program depgpo-none here; on Debian: "
        "apt-get install depgpo-package" in str(error.value)
    )
