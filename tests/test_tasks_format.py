"""A task directory: what is read from it, and the message for everything that is refused."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from depgpo_jax.errors import DepgpoError
from depgpo_jax.tasks import Settings, TaskError, read_task
from depgpo_jax.tasks import task as task_module
from depgpo_jax.tasks.settings import parse_settings

DOCKERFILE = "FROM debian\nWORKDIR /app\nENV A=1 B=2\n"


def write(folder: Path, **files: str | bytes) -> Path:
    content: dict[str, str | bytes] = {
        "task.toml": "",
        "instruction.md": "Do it.\n",
        "environment/Dockerfile": DOCKERFILE,
        "tests/test.sh": "exit 0\n",
        **{name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()},
    }
    for name, text in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def message(folder: Path) -> str:
    with pytest.raises(TaskError) as caught:
        read_task(folder)
    return str(caught.value).replace(str(folder), "TASK")


def settings(text: str) -> Settings:
    return parse_settings(text, file="task.toml")


def settings_message(text: str) -> str:
    with pytest.raises(TaskError) as caught:
        settings(text)
    return str(caught.value)


def test_a_whole_task(tmp_path: Path) -> None:
    write(
        tmp_path / "t",
        task_dot_toml="""
            schema_version = "1.1"
            other = [1, 2]
            [task]
            name = "org/name"
            [metadata]
            anything = { a = 1 }
            [agent]
            timeout_sec = 10
            [verifier]
            timeout_sec = 2.5
            env = { MODE = "strict" }
            [solution.env]
            KEY = "k"
            [environment]
            build_timeout_sec = 30
            memory_mb = 512
            storage_mb = 100
            cpus = 2
            gpus = 0
            docker_image = "x"
            allow_internet = false
            env = { B = "3", C = "" }
        """,
        solution__solve_dot_sh="true\n",
    )
    task = read_task(tmp_path / "t")
    assert task.name == "org/name"
    assert task.instruction == "Do it.\n"
    assert task.has_solution
    assert (task.tests, task.solution) == (tmp_path / "t" / "tests", tmp_path / "t" / "solution")
    assert task.context == tmp_path / "t" / "environment"
    assert task.settings == Settings(
        name="org/name",
        agent_timeout=10.0,
        verifier_timeout=2.5,
        build_timeout=30.0,
        memory_mb=512,
        storage_mb=100,
        environment={"B": "3", "C": ""},
        verifier_environment={"MODE": "strict"},
        solution_environment={"KEY": "k"},
        warnings=task.settings.warnings,
    )
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert task.environment == {"PATH": path, "A": "1", "B": "3", "C": ""}
    assert [warning.replace(str(tmp_path), "") for warning in task.warnings] == [
        "/t/task.toml: environment.docker_image: the image is ignored: commands find this "
        "machine's own programs",
        "/t/task.toml: environment.cpus: the number of CPUs is not limited",
        "/t/environment/Dockerfile, line 1: the base image debian is ignored: commands find this "
        "machine's own programs",
    ]


def test_the_least_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "least")
    monkeypatch.chdir(tmp_path)
    task = read_task("least")
    assert task.directory == tmp_path / "least"
    assert task.name == "least"
    assert not task.has_solution
    assert task.settings == Settings()
    assert task.settings.agent_timeout == 600.0


def test_users_and_networks_are_warned_about() -> None:
    found = settings(
        "agent.user = 'a'\nverifier.user = 0\nenvironment.allow_internet = true"
    ).warnings
    assert found == (
        "task.toml: environment.allow_internet: there is no network but the loopback",
        "task.toml: agent.user: ignored, a sandbox has one user",
        "task.toml: verifier.user: ignored, a sandbox has one user",
    )


@pytest.mark.parametrize(
    ("size", "megabytes"),
    [("512M", 512), ("2G", 2048), ("1t", 2**20), ("2048K", 2), ("4GB", 4096), ("1GiB", 1024)],
)
def test_sizes_in_the_first_spelling(size: str, megabytes: int) -> None:
    found = settings(f"[environment]\nmemory = '{size}'\nstorage = '{size}'")
    assert (found.memory_mb, found.storage_mb) == (megabytes, megabytes)


SECONDS = (
    "Allowed: a number of seconds above 0, at most 604800. "
    "Write a number, or remove the key for 600 seconds."
)
MEGABYTES = (
    "Allowed: a whole number of megabytes from 1 to 16777216. "
    "Write a number, or remove the key for the sandbox's own limit."
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "a = ",
            "task.toml: found text that is not TOML: Invalid value (at end of document). "
            "Allowed: a TOML file. Put it right there.",
        ),
        (
            "agent = 1",
            "task.toml, agent: found 1. Allowed: a table. Write it as [agent].",
        ),
        ("agent.timeout_sec = '5'", f"task.toml, agent.timeout_sec: found '5'. {SECONDS}"),
        ("agent.timeout_sec = true", f"task.toml, agent.timeout_sec: found true. {SECONDS}"),
        ("verifier.timeout_sec = 0", f"task.toml, verifier.timeout_sec: found 0. {SECONDS}"),
        ("verifier.timeout_sec = nan", f"task.toml, verifier.timeout_sec: found nan. {SECONDS}"),
        ("agent.timeout_sec = {}", f"task.toml, agent.timeout_sec: found a table. {SECONDS}"),
        (
            "environment.build_timeout_sec = [1]",
            f"task.toml, environment.build_timeout_sec: found a list. {SECONDS}",
        ),
        (
            "environment.memory_mb = 1.5",
            f"task.toml, environment.memory_mb: found 1.5. {MEGABYTES}",
        ),
        (
            "environment.storage_mb = 0",
            f"task.toml, environment.storage_mb: found 0. {MEGABYTES}",
        ),
        (
            "environment.memory = 'lots'",
            "task.toml, environment.memory: found 'lots'. Allowed: a size such as \"512M\" or "
            '"2G", from 1 to 16777216 megabytes. Write such a text, or use memory_mb with a whole '
            "number.",
        ),
        (
            "task.name = ''",
            "task.toml, task.name: found ''. Allowed: a text that is not empty. "
            'Put a text in "…" there.',
        ),
        (
            "environment.env.'a-b' = '1'",
            "task.toml, environment.env: found the variable 'a-b'. Allowed: names of letters, "
            "digits and _, not beginning with a digit. Rename it.",
        ),
        (
            "verifier.env.A = 1",
            "task.toml, verifier.env.A: found 1. Allowed: a text without a NUL. "
            'Put the value in "…".',
        ),
        (
            "solution.env.KEY = '${KEY}'",
            "task.toml, solution.env.KEY: found '${KEY}'. Allowed: the value itself. "
            "Write it out: nothing of the host's environment reaches a sandbox.",
        ),
        (
            "[[steps]]\nname = 'one'",
            "task.toml, steps: found a task of several steps. Allowed: one instruction and one "
            "verifier. Remove `steps`, or make each step a task of its own.",
        ),
        (
            "environment.mcp_servers = [{}]",
            "task.toml, environment.mcp_servers: found tool servers. Allowed: a task for a "
            "terminal alone. Remove `mcp_servers`.",
        ),
        (
            "environment.gpus = 1",
            "task.toml, environment.gpus: found 1. Allowed: 0. "
            "Remove the key: a sandbox has no GPU.",
        ),
    ],
)
def test_refused_settings(text: str, expected: str) -> None:
    assert settings_message(text) == expected


@pytest.mark.parametrize("value", ["1" + "0" * 5000, "0x" + "f" * 9000])
def test_huge_integers_are_refused(value: str) -> None:
    assert "task.toml" in settings_message(f"agent.timeout_sec = {value}")


def test_deep_nesting_is_refused() -> None:
    assert "not TOML" in settings_message("a = " + "[" * 100_000)


def test_no_folder(tmp_path: Path) -> None:
    assert message(tmp_path / "none") == (
        "TASK: found no folder there. Allowed: a task directory. "
        "Give the folder that holds task.toml."
    )
    (tmp_path / "file").touch()
    assert message(tmp_path / "file").startswith("TASK: found a file. Allowed: a task directory.")


@pytest.mark.parametrize(
    "name", ["task.toml", "instruction.md", "environment/Dockerfile", "tests/test.sh"]
)
def test_missing_files(tmp_path: Path, name: str) -> None:
    (write(tmp_path) / name).unlink()
    assert message(tmp_path) == (
        f"TASK/{name}: found no such file. Allowed: a text file. "
        f"Write {Path(name).name}: every task has one."
    )
    (tmp_path / name).mkdir()
    assert message(tmp_path).startswith(f"TASK/{name}: found something that is no regular file. ")


def test_text_that_is_no_text(tmp_path: Path) -> None:
    write(tmp_path, instruction_dot_md=b"ab\xff")
    assert message(tmp_path) == (
        "TASK/instruction.md: found byte 0xff at offset 2, which is not UTF-8. "
        "Allowed: text in UTF-8. Save the file as UTF-8."
    )


def test_text_that_is_too_long(tmp_path: Path) -> None:
    write(tmp_path, instruction_dot_md=b"a" * (2**20 + 1))
    assert message(tmp_path) == (
        "TASK/instruction.md: found a larger file. Allowed: at most 1048576 bytes. Shorten it."
    )


def test_text_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(13, "Permission denied")

    write(tmp_path)
    monkeypatch.setattr(task_module.Path, "open", refuse)
    assert message(tmp_path) == (
        "TASK/task.toml: found a file that cannot be read (Permission denied). "
        "Allowed: a text file. Give yourself the right to read it."
    )


def test_several_containers(tmp_path: Path) -> None:
    write(tmp_path, **{"environment__docker-compose_dot_yaml": "services: {}"})
    assert message(tmp_path) == (
        "TASK/environment/docker-compose.yaml: found several containers. Allowed: one sandbox, "
        "from environment/Dockerfile. Remove the file, and start what it starts from the task's "
        "own commands."
    )


def test_dockerignore(tmp_path: Path) -> None:
    write(tmp_path, environment___dot_dockerignore="# nothing\n\n")
    read_task(tmp_path)
    write(tmp_path, environment___dot_dockerignore="# nothing\n\n*.tmp\n")
    assert message(tmp_path) == (
        "TASK/environment/.dockerignore, line 3: found the pattern *.tmp. Allowed: no patterns: "
        "every file of environment/ can be copied. Remove the file, and move what must not be "
        "copied out of environment/."
    )


def test_errors_can_be_pickled_and_caught() -> None:
    error = TaskError("x", "y", "Do z.", file="f\n", line=3, field="a.b")
    assert isinstance(error, DepgpoError)
    assert isinstance(error, ValueError)
    assert str(error) == "f\\n, line 3, a.b: found x. Allowed: y. Do z."
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert (copy.line, copy.field, copy.remedy) == (3, "a.b", "Do z.")


def test_folders_that_cannot_be_shown(tmp_path: Path) -> None:
    folder = write(tmp_path / "t", solution__solve_dot_sh="true\n")
    os.mkfifo(folder / "tests" / "pipe")
    wanted = "found a pipe, socket or device. Allowed: files, folders and links. Let the script"
    assert f"TASK/tests/pipe: {wanted} make it." in message(folder)
    (folder / "tests" / "pipe").unlink()
    (folder / "tests" / "data").symlink_to("/app/data")  # leads to what the sandbox has there
    assert read_task(folder).shown_bytes == len("exit 0\n") + len("true\n")
    outside = tmp_path / "outside"
    outside.write_text("true\n")
    for name, kept in (("solution", "solve.sh"), ("tests", "test.sh")):
        script = folder / name / kept
        script.unlink()
        script.symlink_to(outside)
        assert (
            f"TASK/{name}/{kept}: found a link to {outside}, outside of {name}/. Allowed: the "
            "task's own folders and scripts. Put a copy in its place."
        ) in message(folder)
        script.unlink()
        (folder / name / "real.sh").write_text("true\n")
        script.symlink_to("real.sh")
        read_task(folder)
    (folder / "tests").rename(tmp_path / "away")
    (folder / "tests").symlink_to(tmp_path / "away")
    assert f"TASK/tests: found a link to {tmp_path}/away, outside of tests/" in message(folder)
