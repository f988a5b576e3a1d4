"""Every family: the solution and the wasteful way score 1; nothing and the wrong answer score 0."""

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from depgpo_jax.tasks import read_task
from tests.task_rollouts import Made
from training.tasks import FAMILIES, NEEDS, Difficulty
from training.tasks.__main__ import main
from training.tasks.difficulty import DEFAULT, MAX_DEPTH
from training.tasks.writing import as_script

ROOT = Path(__file__).resolve().parent.parent
SEEDS = range(20)
HARDER = [(20 + depth, Difficulty(depth, 3 * depth)) for depth in range(2, MAX_DEPTH + 1)]
RIGHT_IN_WRONG = {
    "text_to_csv": [],
    "config_edit": ["policy", "no_other_files"],
    "local_server": ["unknown_item"],
    "archive_links": ["archive", "contents", "no_other_files", "manifest", "digest"],
    "json_processing": [],
    "log_summary": [],
    "permissions": ["contents", "no_other_files", "folders", "scripts", "exposed"],
    "git_history": ["main"],
    "stop_process": ["stopped", "handover"],
    "sqlite_query": ["accounts", "payments"],
    "encodings": ["letters", "no_other_files"],
    "date_arithmetic": [],
}
"""The checks that the wrong answer passes: it is wrong where it means to be, and nowhere else."""

DIGESTS = {
    "text_to_csv": "363d362dceae7e98fc6f1ceb3b462f1623552855c83ac58003483a92985f2328",
    "config_edit": "4f3771d53a48c0b18e4bb4e1bfcca3b1ed2417b08dfbc5534a3edd3fc867b1e2",
    "local_server": "5b73a0661e7d3cc4464808375681893c64823232212307be8ec0249a338b9401",
    "archive_links": "af30a51a3ae65150ea2e9214d2f2746480f6ea4eee0ecc24e8b3d0b21950d7f8",
    "json_processing": "fb26f45b2a7b3ee93265475f281914b785c2b34a34ee7328c73bf780c29b06f3",
    "log_summary": "de19ff389c835a3e9e523d282111a282068b2374db1898c8dbcba2b446dd3411",
    "permissions": "20585569c1ad59743bc221c5b6a8b1188d37f1faba0bf1f393fb6662a91c950b",
    "git_history": "4bf5bd80b4c2a23eabc9a0448cb7ca066ed86db79c836955c04ba9cbc6853ac0",
    "stop_process": "c68f9bada5544391d84d86ccf480129b3cc5266500a1159d35be1bd86906cb9b",
    "sqlite_query": "76a5a2f6d9b89ff42f3322dc7f2a5295b4264ba18f0d16deab531664fa45e335",
    "encodings": "8176c12ae1c9955032f63f8e7e33ec420dc7d51453ac34b02ebc0a02e2eac65c",
    "date_arithmetic": "69b732525c9a9a2435c2e0c5540a0fdb4cd93b6b8672a4cf0780601e207ca339",
}
"""SHA-256 of what seed 0 of each family gives: tasks that somebody has used stay what they were."""


def scores(family: str, folder: Path, kind: tuple[int, Difficulty]) -> None:
    seed, difficulty = kind
    made = Made(family, folder, seed, difficulty)
    for name, (script, expected) in made.scripts().items():
        reward, tests = made.run(script)
        assert reward == expected, (family, seed, difficulty, name, tests)
        assert len(tests) >= 3
        assert all(test.passed for test in tests) == (expected == 1.0)
        if name == "wrong" and difficulty == DEFAULT:
            assert [test.name for test in tests if test.passed] == RIGHT_IN_WRONG[family]


@pytest.mark.parametrize("family", FAMILIES)
def test_scores(family: str, tmp_path: Path) -> None:
    kinds = [*((seed, DEFAULT) for seed in SEEDS), *HARDER]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(partial(scores, family, tmp_path), kinds))


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    """The files of a folder: bytes and mode."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_seeds_give_equal_files(family: str, tmp_path: Path) -> None:
    def files(name: str, seed: int, depth: int = 2) -> dict[str, tuple[bytes, int]]:
        FAMILIES[family](seed, tmp_path / name, Difficulty(depth, 2))
        return content(tmp_path / name)

    # Another process has another hash seed, so an order taken from a set would show.
    command = [sys.executable, "-m", "training.tasks", family, "5", str(tmp_path / "other")]
    command += ["--depth", "2", "--distractors", "2"]
    environment = os.environ | {"PYTHONHASHSEED": "1", "TZ": "Asia/Kolkata"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, umask=0o077)
    first = files("first", 5)
    assert first == content(tmp_path / "other")
    assert first != files("next", 6)
    assert first != files("deeper", 5, 3)
    # A folder's mode goes into the sandbox, so it must not be that of somebody's umask.
    folders = {path.stat().st_mode for path in (tmp_path / "other/environment/app").glob("**/")}
    assert {mode & 0o777 for mode in folders} == {0o755}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_task_stays_what_it_was(family: str, tmp_path: Path) -> None:
    FAMILIES[family](0, tmp_path / "task")
    digest = hashlib.sha256(repr(content(tmp_path / "task")).encode()).hexdigest()
    assert digest == DIGESTS[family]


@pytest.mark.parametrize("family", FAMILIES)
def test_tasks_are_complete_and_their_commands_are_their_scripts(
    family: str, tmp_path: Path
) -> None:
    FAMILIES[family](0, tmp_path / "task")
    task = read_task(tmp_path / "task")
    assert task.name == f"depgpo/{family}-0"
    assert task.has_solution
    assert task.plan.workdir == "/app"
    assert task.plan.folders == ("/app",)
    assert [warning for warning in task.warnings if "base image" not in warning] == []
    for folder, script in (("solution", "solve.sh"), ("wrong", "wrong.sh")):
        commands = json.loads((task.directory / folder / "commands.json").read_text("utf-8"))
        assert (task.directory / folder / script).read_text("utf-8") == as_script(commands)
    solution = json.loads((task.solution / "commands.json").read_text("utf-8"))
    wasteful = json.loads((task.solution / "wasteful.json").read_text("utf-8"))
    assert len(wasteful) >= len(solution) + 5
    assert [text for text in wasteful if text in solution] == solution
    dockerfile = (task.context / "Dockerfile").read_text("utf-8")
    assert dockerfile.count("\nRUN ") == len(NEEDS[family])


def test_a_folder_with_content_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").touch()
    assert main(["text_to_csv", "1", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"error: {tmp_path}: found a folder with content. Allowed: a folder that is not there yet, "
        "or empty. Remove it, or name another one.\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_command_writes_a_task(tmp_path: Path) -> None:
    assert main(["config_edit", "4", str(tmp_path / "new")]) == 0
    assert read_task(tmp_path / "new").name == "depgpo/config_edit-4"
    options = ["--depth", "3", "--distractors", "7"]
    assert main(["encodings", "4", str(tmp_path / "hard"), *options]) == 0
    assert read_task(tmp_path / "hard").name == "depgpo/encodings-4-depth3-distractors7"
