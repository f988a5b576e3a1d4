"""`depgpo replay`: many trajectories, interrupted and gone on with, good ones and bad ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from depgpo_jax.cli import cli
from depgpo_jax.tasks import TaskError
from depgpo_jax.tasks.agreement import Verdict
from depgpo_jax.tasks.catalogue import Catalogue
from depgpo_jax.tasks.replay import ReplayConfig
from depgpo_jax.tasks.replay_pool import Job, run_jobs
from depgpo_jax.tasks.replay_store import ReplayStore, StoreError
from depgpo_jax.traces import read_traces
from depgpo_jax.trajectories import RecordedCommand, Trajectory, Turn
from tests.sandboxes import ROOT, commands, until
from tests.test_cli_tasks import make_task

Json = dict[str, Any]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a task and a folder for trajectories in it."""
    monkeypatch.chdir(tmp_path)
    make_task(tmp_path)
    (tmp_path / "in").mkdir()
    return tmp_path


def put(place: Path, name: str, *texts: str, **fields: Any) -> None:
    path = place / "in" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"commands": list(texts), **fields}))


def arguments(*more: str, source: str = "in", task: str = "task") -> list[str]:
    return ["replay", source, "--task", task, "--out", "out.jsonl", *more]


def replay(*more: str, source: str = "in", task: str = "task") -> Result:
    return CliRunner().invoke(cli, arguments(*more, source=source, task=task))


def traces(place: Path, name: str = "out.jsonl") -> dict[str, Json]:
    """By their ids, in order; each a valid trace."""
    list(read_traces(place / name))
    lines = (place / name).read_text("utf-8").splitlines()
    return {trace["trace_id"]: trace for trace in map(json.loads, lines)}


def texts(trace: Json) -> list[str]:
    return [command["text"] for step in trace["steps"] for command in step["commands"]]


@contextmanager
def started(*more: str) -> Generator[subprocess.Popen[str]]:
    """The command as a process of its own, with a session of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "depgpo_jax", *arguments(*more)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


# All of them, in order.


def test_many_come_out_in_the_order_of_their_files(place: Path):
    put(place, "a.json", "sleep 0.8", "echo 42 > answer.txt", reward=1)
    put(place, "b/c.json", "echo 41 > answer.txt", reward=0, group="g")
    put(place, "d.json", "echo 42 > answer.txt", id="inner", reward=0)
    lines = [{"commands": ["pwd"]}, {"id": "second", "commands": ["id -u"]}]
    (place / "in" / "e.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (place / "in" / "notes.md").touch()
    done = replay("--jobs", "2", "--report", "report.jsonl")
    assert done.exit_code == 0, done.stderr
    found = traces(place)
    assert list(found) == ["a", "inner", "e/1", "second", "b/c"]
    assert [trace["reward"] for trace in found.values()] == [1, 1, 0, 0, 0]
    assert [trace["group_id"] for trace in found.values()] == ["task", "task", "task", "task", "g"]
    assert found["second"]["steps"][0]["commands"][0]["stdout"] == "0\n"
    assert done.stderr.endswith(
        "inner diverged: reward 1 instead of 0\n"
        "outputs: 6 not recorded\nexit codes: 6 not recorded\n"
        "rewards: 2 equal, 1 differs, 2 not recorded\n"
        "5 replayed, 1 of them diverged, 0 failed\n"
    )
    assert "1 file with another ending left out" in done.stderr
    assert "Warning: " in done.stderr
    assert "the base image debian:bookworm is ignored" in done.stderr
    [line] = (place / "report.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "status": "diverged",
        "source": "in/d.json",
        "trace_id": "inner",
        "message": "reward 1 instead of 0",
    }
    assert not (place / "out.jsonl.part").exists()


def test_bad_ones_are_reported_and_stop_nobody(place: Path):
    put(place, "a.json", "echo 42 > answer.txt")
    (place / "in" / "b.json").write_text("[1")
    put(place, "c.json", "pwd", id="a")
    put(place, "d.json", "pwd", x=1)
    done = replay("--report", "report.jsonl.gz")
    assert done.exit_code == 1
    assert list(traces(place)) == ["a"]
    assert "Error: in/b.json: found text that is not JSON (Expecting ',' delimiter" in done.stderr
    assert (
        "Error: in/c.json: found the id 'a' again, that of in/a.json. Allowed: one trajectory of "
        "an id. Give it another one, or leave the copy out.\n"
    ) in done.stderr
    assert "Error: in/d.json: found the key 'x'. Allowed: the keys id, task, " in done.stderr
    assert done.stderr.endswith(
        "1 replayed, 0 of them diverged, 3 failed\n"
        "The same command tries those again that failed. 1 replay kept in out.jsonl.part\n"
    )
    # Once they are put right, only they run.
    kept = (place / "out.jsonl").read_text()
    (place / "in" / "b.json").write_text('["id -u"]')
    put(place, "c.json", "pwd", id="c")
    (place / "in" / "d.json").unlink()
    done = replay()
    assert done.exit_code == 0, done.stderr
    assert list(traces(place)) == ["a", "b", "c"]
    assert (place / "out.jsonl").read_text().startswith(kept)
    assert not (place / "out.jsonl.part").exists()


def test_when_all_are_bad_there_is_no_file(place: Path):
    (place / "in" / "b.json").write_text("[1")
    done = replay()
    assert done.exit_code == 1
    assert "0 replayed, 0 of them diverged, 1 failed\n" in done.stderr
    assert sorted(path.name for path in place.iterdir()) == ["in", "task"]


def test_messages_are_counted_and_the_report_has_all(place: Path):
    for number in range(25):
        (place / "in" / f"{number:02}.json").write_text("[1")
    done = replay("--report", "report.jsonl")
    assert done.stderr.count("Error: ") == 20
    assert "... and 5 more\n" in done.stderr
    assert len((place / "report.jsonl").read_text().splitlines()) == 25


def test_one_that_hangs(place: Path):
    put(place, "a.json", "sleep 1000", "echo 42 > answer.txt")
    put(place, "b.json", "echo 42 > answer.txt")
    done = replay("--time-limit", "0.4", "--stretch", "2")
    assert done.exit_code == 0, done.stderr
    found = traces(place)
    assert found["a"]["steps"][0]["commands"][0]["extra"]["failure"] == "timed out after 0.8 s"
    assert [trace["reward"] for trace in found.values()] == [1, 1]


def test_names_of_tools_and_packed_output(place: Path):
    function = {"name": "sh9", "arguments": {"input": "echo 42 > answer.txt"}}
    other = {"name": "note", "arguments": {}}
    messages = [
        {"role": "assistant", "tool_calls": [{"function": function}, {"function": other}]},
        {"role": "tool", "content": ""},
        {"role": "tool", "content": ""},
    ]
    (place / "chat.json").write_text(json.dumps(messages))
    more = ("--tool", "sh9", "--ignore-tool", "note", "--argument", "input")
    done = CliRunner().invoke(
        cli, ["replay", "chat.json", "--task", "task", "--out", "out.jsonl.zst", *more]
    )
    assert done.exit_code == 0, done.stderr
    [trace] = read_traces(place / "out.jsonl.zst")
    assert (trace.trace_id, trace.reward) == ("chat", 1)


# Which task.


def test_each_trajectory_names_its_task(place: Path):
    for name, answer in (("one", 42), ("two", 41)):
        folder = place / "tasks" / "group" / name
        folder.mkdir(parents=True)
        toml = '[task]\nname = "org/one"\n' if name == "one" else ""
        made = make_task(folder, toml=toml, dockerfile=f"FROM x\nWORKDIR /app\nENV A={answer}\n")
        made.rename(folder / "task")
        for child in (folder / "task").iterdir():
            child.rename(folder / child.name)
        (folder / "task").rmdir()
    put(place, "a.json", "echo $A", task="org/one")
    put(place, "b.json", "echo $A", task="two")
    put(place, "c.json", "echo $A", task="group/two")
    put(place, "two/d.json", "echo $A")  # its folder says it
    put(place, "e.json", "echo $A")
    put(place, "f.json", "echo $A", task="three")
    done = replay(task="tasks")
    assert done.exit_code == 1
    found = traces(place)
    assert [trace["steps"][0]["commands"][0]["stdout"] for trace in found.values()] == [
        *("42\n", "41\n", "41\n", "41\n"),
    ]
    assert found["a"]["group_id"] == "org/one"
    assert "in/e.json: found its folder's name 'in', which no tasks in tasks have. Allowed: a" in (
        done.stderr
    )
    assert "in/f.json: found the task 'three', which no tasks in tasks have. Allowed: a name" in (
        done.stderr
    )


def test_a_name_that_two_tasks_have(place: Path):
    for name in ("x/one", "y/one"):
        (place / "tasks" / name).mkdir(parents=True)
        (place / "tasks" / name / "task.toml").write_text("not = = toml")
    catalogue = Catalogue("tasks")
    with pytest.raises(TaskError) as caught:
        catalogue.find("one", "in", "in/a.json")
    assert str(caught.value) == (
        "in/a.json: found the task 'one', which 2 tasks in tasks have. Allowed: a name of one of "
        "them, such as tasks/x/one, tasks/y/one. Name the task in the trajectory, or give the "
        "task's own directory with --task."
    )
    assert catalogue.find("x/one", "in", "in/a.json").directory == "tasks/x/one"
    first = catalogue.find("x/one", "", "").digest
    assert Catalogue("tasks").find("y/one", "", "").digest == first
    (place / "tasks" / "linked").symlink_to(place / "tasks" / "x")
    (place / "tasks" / "back").symlink_to(place)
    assert Catalogue("tasks").find("linked/one", "", "").digest == first
    (place / "tasks" / "y" / "one" / "link").symlink_to("task.toml")
    assert Catalogue("tasks").find("y/one", "", "").digest != first
    for folder, what in (("in", "no task in it"), ("nowhere", "no folder there")):
        with pytest.raises(TaskError, match=f"{folder}: found {what}. Allowed: a task directory,"):
            Catalogue(folder)


def test_a_bad_task_stops_the_run_or_fails_its_trajectories(place: Path):
    put(place, "a.json", "ls", task="task")
    (place / "task" / "task.toml").write_text("agent = 3\n")
    done = replay()
    assert done.exit_code == 1
    assert "task.toml, agent: found 3. Allowed: a table." in done.stderr
    done = replay(task=".")
    assert done.exit_code == 1
    assert "Error: in/a.json: " in done.stderr
    assert "task.toml, agent: found 3. Allowed: a table." in done.stderr


# Interrupted, and gone on with.


def many(place: Path, count: int) -> list[str]:
    for number in range(count):
        put(place, f"{number:02}.json", f"sleep 0.1; echo {number}", "echo 42 > answer.txt")
    return [f"{number:02}" for number in range(count)]


def kept(place: Path) -> list[str]:
    """The ids of whole lines in the work file."""
    path = place / "out.jsonl.part"
    lines = path.read_bytes().split(b"\n")[1:-1] if path.exists() else []
    return [json.loads(line)["id"] for line in lines]


def test_killed_in_the_middle_and_gone_on_with(place: Path):
    names = many(place, 8)
    with started("--jobs", "2") as process:
        assert until(lambda: len(kept(place)) >= 3, 60)
        group = process.pid
        os.kill(process.pid, signal.SIGKILL)
    done = kept(place)
    assert len(done) < len(names)
    assert not (place / "out.jsonl").exists()
    # Its workers see that it is gone, and take their sandboxes down.
    assert until(lambda: not session_of(group), 60), session_of(group)
    with (place / "out.jsonl.part").open("ab") as part:
        part.write(b'{"id": "torn", "digest": "x", "tra')
    before = dict(zip(done, lines(place), strict=True))
    result = replay("--jobs", "2")
    assert result.exit_code == 0, result.stderr
    found = traces(place)
    assert list(found) == names
    assert "8 replayed, 0 of them diverged" in result.stderr
    for name, line in before.items():
        assert found[name] == json.loads(line)["trace"]  # not run again: same times


def lines(place: Path) -> list[bytes]:
    return (place / "out.jsonl.part").read_bytes().split(b"\n")[1:-1]


def session_of(leader: int) -> list[str]:
    """The processes that a session still has."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text()
            except OSError:
                continue
            fields = status.rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(status)
    return found


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "terminated"]
)
def test_interrupted(place: Path, number: int, code: int):
    many(place, 8)
    put(place, "99.json", "sleep 4321")
    with started("--jobs", "2") as process:
        assert until(lambda: len(kept(place)) >= 2, 60)
        os.killpg(process.pid, number)  # as a terminal does: workers get it, too
        _, said = process.communicate(timeout=60)
        assert process.returncode == code
        assert until(lambda: not session_of(process.pid))
    assert not (place / "out.jsonl").exists()
    assert f"{len(kept(place))} replays kept in out.jsonl.part" in said
    assert said.endswith("interrupted\n") == (number == signal.SIGINT)
    assert "Traceback" not in said
    assert until(lambda: not any("sleep 4321" in line for line in commands()))


def test_interrupted_before_anything_is_finished_nothing_stays(place: Path):
    put(place, "a.json", "sleep 4322")
    with started() as process:
        assert until(lambda: any("sleep 4322" in line for line in commands()), 60)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130
    assert said.endswith("interrupted\n")
    assert sorted(path.name for path in place.iterdir()) == ["in", "task"]


def test_another_trajectory_or_task_of_the_same_name_runs_again(place: Path):
    put(place, "a.json", "echo 41 > answer.txt")
    put(place, "b.json", "echo 42 > answer.txt")
    (place / "in" / "c.json").write_text("[1")
    replay()
    first = traces(place)
    put(place, "a.json", "echo 42 > answer.txt")
    replay()
    second = traces(place)
    assert [trace["reward"] for trace in second.values()] == [1, 1]
    assert second["b"] == first["b"]
    (place / "task" / "tests" / "test.sh").write_text("echo 0.5 > /logs/verifier/reward.txt")
    replay()
    assert [trace["reward"] for trace in traces(place).values()] == [0.5, 0.5]


def test_other_options_are_refused_while_there_is_something_to_go_on_with(place: Path):
    put(place, "a.json", "ls")
    (place / "in" / "c.json").write_text("[1")
    replay()
    done = replay("--stretch", "4")
    assert done.exit_code == 1
    assert done.stderr.endswith(
        "Error: out.jsonl.part: found what a run with stretch 3.0 left, and now it is 4.0. "
        "Allowed: the same options, to go on with it. Give these, or remove the file to begin "
        "anew.\n"
    )


def test_inputs_that_change_while_they_are_replayed(place: Path):
    names = many(place, 8)
    with started() as process:
        assert until(lambda: len(kept(place)) >= 1, 60)
        for name in reversed(names):
            (place / "in" / f"{name}.json").write_text('["id"]')
        _, said = process.communicate(timeout=60)
        assert process.returncode == 1
    assert (
        ".json: found something else than a moment ago. Allowed: files that stay as they " in said
    )
    assert "kept in out.jsonl.part" in said


# The work file.


FINE = Verdict("", "equal", {"exact": 1}, {})
DIVERGED = Verdict("reward 0 instead of 1", "differs", {}, {"equal": 2})


def test_the_store_keeps_whole_lines(tmp_path: Path):
    out = str(tmp_path / "t.jsonl")
    with ReplayStore(out, {"a": 1}) as store:
        store.add("x", "d1", FINE, b'{"t":1}')
        store.add("y", "d2", DIVERGED, b'{"t":2}')
        store.add("x", "d3", FINE, b'{"t":3}')
        assert (store.trace("x"), store.trace("y")) == (b'{"t":3}', b'{"t":2}')
    content = store.path.read_bytes()
    for cut in range(1, len(content) - content.rindex(b'{"id":"x"')):
        store.path.write_bytes(content[:-cut])
        with ReplayStore(out, {"a": 1}) as store:
            assert store.kept["x"].digest == "d1"
            assert store.kept["y"].verdict == DIVERGED
            store.add("z", "d4", FINE, b'{"t":4}')
            assert (store.trace("z"), store.trace("x")) == (b'{"t":4}', b'{"t":1}')
    # Nothing to go on with: other options do no harm.
    store.path.write_bytes(content[: content.index(b"\n") + 9])
    with ReplayStore(out, {"a": 2}) as store:
        assert store.kept == {}
        store.remove()
    assert not store.path.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"mine\n",
            "found no file of a replay. Allowed: what an earlier run of the same command l",
        ),
        (
            b"mine, without an end",
            "found no file of a replay. Allowed: what an earlier run of the same command l",
        ),
        (
            b'{"format": "depgpo-replay"}\n',
            "found no file of a replay. Allowed: what an earlier run of the same command l",
        ),
        (
            b"[]\n",
            "found no file of a replay. Allowed: what an earlier run of the same command lef",
        ),
        (
            b'{"format": "depgpo-replay", "settings": {"a": 1}}\n{"id": 3}\n',
            "found a damaged line 2 (Expected `str`, got `int` - at `$.id`). Allowed: lines that t",
        ),
    ],
)
def test_a_work_file_that_is_none(tmp_path: Path, content: bytes, message: str):
    (tmp_path / "t.part").write_bytes(content)
    with pytest.raises(StoreError) as caught:
        ReplayStore(str(tmp_path / "t"), {"a": 1})
    assert f"t.part: {message}" in str(caught.value)
    assert (tmp_path / "t.part").read_bytes() == content


def test_a_work_file_of_two_or_nowhere(tmp_path: Path):
    out = str(tmp_path / "t")
    with ReplayStore(out, {}), pytest.raises(StoreError) as caught:
        ReplayStore(out, {})
    assert "t.part: found that another process writes it. Allowed: one run at a time for one " in (
        str(caught.value)
    )
    with pytest.raises(StoreError, match=r"found a place where no file can be written \(No such "):
        ReplayStore(str(tmp_path / "no" / "t"), {})


# Workers.


def job(number: int, task: Path, *commands: str) -> Job:
    turns = tuple(Turn((RecordedCommand(text),)) for text in commands)
    return Job(number, str(task), Trajectory(f"t{number}", f"t{number}.json", "test", turns))


def test_a_worker_that_is_killed_costs_one_trajectory(place: Path):
    task = place / "task"
    jobs = [job(0, task, "sleep 4323"), job(1, task, "ls"), job(2, task, "ls"), job(3, task, "ls")]
    seen = []
    for outcome in run_jobs(iter(jobs), 2, ReplayConfig()):
        seen.append(outcome)
        if outcome.number == 1:
            assert until(lambda: any("sleep 4323" in line for line in commands()))
            [worker] = [pid for pid in workers() if "sleep 4323" in below(pid)]
            os.kill(worker, signal.SIGKILL)
    assert {outcome.number for outcome in seen} == {0, 1, 2, 3}
    [lost] = [outcome for outcome in seen if outcome.done is None]
    assert lost.problem == (
        "t0.json: found that its worker process ended (signal 9). Allowed: one that lives until "
        "its trajectory is done. Give it more memory, or lower --jobs."
    )
    assert until(lambda: not any("sleep 4323" in line for line in commands()))


def workers() -> list[int]:
    """Processes that this one has started."""
    path = Path(f"/proc/{os.getpid()}/task")
    found = [pid for each in path.iterdir() for pid in (each / "children").read_text().split()]
    return [int(pid) for pid in found]


def below(pid: int) -> str:
    """The command lines of all that a process has started."""
    told = ""
    for each in Path(f"/proc/{pid}/task").iterdir():
        for child in (each / "children").read_text().split():
            line = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ")
            told += line.decode("utf-8", "replace") + below(int(child))
    return told


def test_a_mistake_of_ours_costs_one_trajectory(place: Path):
    broken = job(0, place / "task")
    broken = broken._replace(trajectory=Trajectory("t", "t.json", "test", None))  # pyright: ignore
    gone = job(1, place / "nowhere", "ls")
    first, second = run_jobs(iter([broken, gone]), 1, ReplayConfig())
    assert first.problem == "t.json: TypeError: 'NoneType' object is not iterable"
    assert "t1.json: " in second.problem
    assert "nowhere: found no folder there. Allowed: a task directory." in second.problem


# Wrong usage.


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["in", "--task", "task"], "Missing option '--out'"),
        (["in", "--out", "o"], "Missing option '--task'"),
        (["--task", "task", "--out", "o"], "Missing argument 'TRAJECTORY...'"),
        (
            ["in", "--task", "task", "--out", "-"],
            "the traces need a file; what is finished is kept",
        ),
        (["in", "--task", "task", "--out", ""], "the traces need a file; what is finished is kept"),
        (["in", "--task", "task", "--out", "o", "--report", "-"], "the report needs a file of its"),
        (["in", "--task", "task", "--out", "o", "--report", "o"], "--out and --report are the sam"),
        (
            ["in/a.json", "--task", "task", "--out", "in/a.json"],
            "TRAJECTORY and --out are the same",
        ),
        (
            ["in", "--task", "task", "--out", "in/o.jsonl"],
            "--out lies in in, among the trajectorie",
        ),
        (["in", "--task", "task", "--out", "o", "--report", "in/b/r"], "--report lies in in, amon"),
        (
            ["in", "--task", "task", "--out", "o", "--report", "o.part"],
            "the store of --out, o.part and --report are the same file",
        ),
        (["in", "--task", "task", "--out", "o", "--stretch", "0.5"], "0.5 is not in the range"),
        (["in", "--task", "task", "--out", "o", "--time-limit", "nan"], "is not a finite number"),
        (["in", "--task", "task", "--out", "o", "--jobs", "0"], "0 is not in the range 1<=x<=1024"),
    ],
)
def test_wrong_usage(place: Path, given: Sequence[str], message: str):
    put(place, "a.json", "ls")
    done = CliRunner().invoke(cli, ["replay", *given])
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
    assert sorted(path.name for path in place.iterdir()) == ["in", "task"]


def test_a_tool_that_is_both(place: Path):
    put(place, "a.json", "ls")
    done = replay("--tool", "x", "--ignore-tool", "x")
    assert done.exit_code == 1
    assert "ToolNames: found 'x' in both `shells` and `ignored`." in done.stderr


@pytest.mark.parametrize("name", ["--out", "--report"])
@pytest.mark.parametrize("path", ["none/o", "in"])
def test_places_that_cannot_be_written_are_found_before_anything_runs(
    place: Path, name: str, path: str
):
    put(place, "a.json", "ls")
    (place / "other").mkdir()
    path = path.replace("in", "other")
    outputs = {"--out": "o", name: path}
    given = [word for pair in outputs.items() for word in pair]
    done = CliRunner().invoke(cli, ["replay", "in", "--task", "task", *given])
    assert done.exit_code == 1
    assert f"{path}: found a place where no file can be written ({name})" in done.stderr
    assert not (place / "o").exists()
    assert not (place / "o.part").exists()


def test_an_interrupt_between_file_and_memory_forgets_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
):
    """A signal may come when a replay is in the file and not yet counted."""
    write = ReplayStore._write

    def interrupted(store: ReplayStore, line: bytes) -> None:
        write(store, line)
        if b'"digest"' in line:
            raise KeyboardInterrupt

    monkeypatch.setattr(ReplayStore, "_write", interrupted)
    put(place, "a.json", "ls")
    done = replay()
    assert "1 replay kept in out.jsonl.part" in done.stderr
    monkeypatch.undo()
    monkeypatch.chdir(place)
    assert len(kept(place)) == 1
    replay()
    assert list(traces(place)) == ["a"]
