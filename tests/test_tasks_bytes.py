"""Streams and repositories that are written without the programs that usually write them."""

import gzip
import subprocess
import zlib
from pathlib import Path

import pytest

from training.tasks import FAMILIES, Difficulty
from training.tasks.git_objects import Repository
from training.tasks.stored import gzip_stored, zlib_stored


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 200_000])
def test_stored_streams_unpack(size: int) -> None:
    content = bytes(k * k % 251 for k in range(size))
    assert zlib.decompress(zlib_stored(content)) == content
    assert gzip.decompress(gzip_stored(content)) == content


def git(folder: Path, *arguments: str) -> str:
    """What git says of a repository, without the settings of whoever runs the tests."""
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }
    command = ["git", "--no-pager", "--git-dir", str(folder), *arguments]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return ran.stdout


def written(folder: Path, repository: Repository) -> Path:
    for name, content in repository.files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def test_a_repository_is_what_git_takes_it_for(tmp_path: Path) -> None:
    repository = Repository()
    # git sorts a folder as if its name ended with a slash: behind a.txt, before a0.
    files = {"a/b/c.txt": "c\n", "a.txt": "plain\n", "a0": "", "z": "größe\n"}
    first = repository.commit("main", files, "First\n\nwith text", 1_700_000_000)
    second = repository.commit("main", {"a/b/c.txt": "d\n"}, "Second", 1_700_000_060)
    folder = written(tmp_path, repository)
    assert git(folder, "fsck", "--strict", "--full") == ""
    assert git(folder, "rev-list", "main").split() == [second, first]
    assert git(folder, "ls-tree", "-r", "--name-only", first).split() == [
        "a.txt",
        "a/b/c.txt",
        "a0",
        "z",
    ]
    assert git(folder, "show", f"{first}:z") == "größe\n"
    assert git(folder, "log", "-1", "--format=%an|%ae|%ct|%B", first).strip() == (
        "Ada Archer|ada@depgpo.test|1700000000|First\n\nwith text"
    )
    assert git(folder, "rev-parse", "main^{tree}").strip() == Repository().tree(
        {"a/b/c.txt": "d\n"}
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_history_of_a_task_is_sound(seed: int, tmp_path: Path) -> None:
    task = FAMILIES["git_history"].make(seed, Difficulty(3, 2))
    for name, content in task.files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    assert git(tmp_path / "project.git", "fsck", "--strict", "--full") == ""
    assert int(git(tmp_path / "project.git", "rev-list", "--count", "main")) >= 12
