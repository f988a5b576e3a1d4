"""`depgpo run` and TaskSession: tasks in the Harbor format, run for real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from depgpo_jax.cli import cli
from depgpo_jax.tasks import read_task
from depgpo_jax.tasks.run import TaskSession
from depgpo_jax.tracer.terminal import SessionLost
from depgpo_jax.traces import parse_trace
from tests.sandboxes import commands, until
from training.tasks import FAMILIES

TEST = """\
if [ "$(cat /app/answer.txt 2>/dev/null)" = 42 ]; then
  echo PASSED answer; echo 1 > /logs/verifier/reward.txt
else
  echo FAILED answer; echo 0 > /logs/verifier/reward.txt
fi
"""
DOCKERFILE = "FROM debian:bookworm\nWORKDIR /app\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_task(
    place: Path,
    *,
    toml: str = "",
    dockerfile: str = DOCKERFILE,
    test: str = TEST,
    solve: str | None = "echo 42 > answer.txt\n",
    **files: str,
) -> Path:
    """A task directory; `files` go into environment/."""
    task = place / "task"
    texts = {
        "task.toml": toml,
        "instruction.md": "Write the answer.",
        "environment/Dockerfile": dockerfile,
        "tests/test.sh": test,
        **{f"environment/{name}": text for name, text in files.items()},
        **({} if solve is None else {"solution/solve.sh": solve}),
    }
    for name, text in texts.items():
        path = task / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return task


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["run", *arguments], input=stdin)


def trace_of(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    [line] = result.stdout.splitlines()
    parse_trace(line.encode())
    return json.loads(line)


def texts_of(trace: dict[str, Any]) -> list[str]:
    return [command["text"] for step in trace["steps"] for command in step["commands"]]


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_solution_and_nothing_on_our_own_tasks(place: Path, family: str):
    FAMILIES[family](5, place / "task")
    listed = json.loads((place / "task" / "solution" / "commands.json").read_text())
    good = run("task", "--solution", "--out", "good.jsonl")
    assert (good.exit_code, good.stdout) == (0, ""), good.stderr
    trace = json.loads((place / "good.jsonl").read_text())
    assert trace["trace_id"] == f"depgpo/{family}-5/solution"
    assert trace["group_id"] == f"depgpo/{family}-5"
    assert texts_of(trace) == listed
    assert all(step["loss_tokens"] == 1 and len(step["commands"]) == 1 for step in trace["steps"])
    assert trace["reward"] == 1
    assert trace["verifier"]
    assert all(test["passed"] for test in trace["tests"])
    assert good.stderr.endswith("\nreward 1\n")
    nothing = run("task", "--nothing")
    trace = trace_of(nothing)
    assert (trace["trace_id"], trace["reward"]) == (f"depgpo/{family}-5/nothing", 0)
    assert texts_of(trace) == []
    assert "\nFAILED  " in nothing.stderr
    assert "the base image debian:bookworm-slim is ignored" in nothing.stderr


def test_commands_from_a_file(place: Path):
    make_task(place)
    (place / "c.txt").write_text("echo 41 > answer.txt\nsed -i s/41/42/ answer.txt\n")
    result = run("task", "--commands", "c.txt", "--trace-id", "mine")
    trace = trace_of(result)
    assert (trace["trace_id"], trace["group_id"], trace["reward"]) == ("mine", "task", 1)
    assert trace["tests"] == [{"name": "answer", "passed": True}]
    assert "/app/answer.txt" in trace["verifier"]
    assert "passed  answer\nreward 1\n" in result.stderr
    assert not (place / "task" / "environment" / "answer.txt").exists()


def test_solve_sh_sees_the_solution_and_its_variables_and_nobody_else_does(place: Path):
    solve = 'cp /solution/key.txt answer.txt; test "$SECRET" = s && echo more >> /solution/x\n'
    test = f"ls /solution; env | grep SECRET\n{TEST}"
    task = make_task(place, toml='[solution.env]\nSECRET = "s"\n', solve=solve, test=test)
    (task / "solution" / "key.txt").write_text("42\n")
    trace = trace_of(run("task", "--solution"))
    assert texts_of(trace) == ["bash /solution/solve.sh"]
    assert trace["steps"][0]["commands"][0]["exit_code"] == 0
    assert trace["reward"] == 1
    assert trace["tests"] == [{"name": "answer", "passed": True}]
    (place / "c.txt").write_text('ls /solution; echo "<$SECRET>"')
    [step] = trace_of(run("task", "--commands", "c.txt"))["steps"]
    assert step["commands"][0]["stdout"].endswith("<>\n")
    assert "key.txt" not in step["commands"][0]["stdout"]
    assert not (task / "solution" / "x").exists()


def test_a_rollout_without_a_reward_is_invalid(place: Path):
    make_task(place, test="echo nan > /logs/verifier/reward.txt")
    result = run("task", "--nothing")
    trace = trace_of(result)
    assert "reward" not in trace
    assert trace["invalid"] == "reward.txt: it holds 'nan', not a number"
    assert result.stderr.endswith("no reward: reward.txt: it holds 'nan', not a number\n")


def test_run_steps_of_the_dockerfile(place: Path):
    dockerfile = """\
FROM debian:bookworm
WORKDIR /app
COPY data.txt /app/
ENV FACTOR=2
RUN tr -d '\\n' < data.txt > joined.txt && echo $((21 * FACTOR)) >> joined.txt \\
    && mkdir made && ln -s ../joined.txt made/link && rm data.txt && echo x > /tmp/gone
COPY data.txt /app/again.txt
WORKDIR /srv/work
RUN ["sh", "-c", "pwd > where.txt; ls /tmp /solution /tests > seen.txt 2>&1; sleep 9876 &"]
"""
    make_task(place, dockerfile=dockerfile, **{"data.txt": "a\nb\n"})
    (place / "c.txt").write_text("pwd; cat where.txt /app/made/link; ls -1 /app /tmp; cat seen.txt")
    trace = trace_of(run("task", "--commands", "c.txt"))
    output = trace["steps"][0]["commands"][0]["stdout"]
    assert output.startswith("/srv/work\n/srv/work\nab42\n/app:\nagain.txt\njoined.txt\nmade\n")
    assert "gone" not in output
    assert output.count("No such file or directory") == 2
    assert until(lambda: "sleep 9876 " not in commands())


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("echo 'about to'; echo no such >&2; exit 3", "ends with exit code 3: no such. Allowed: "),
        ("exit 4", "ends with exit code 4. Allowed: RUN of programs that this machine"),
        ("sleep 60", "does not end in 0.5 s. Allowed: one that ends in environment.bui"),
        ("mkdir /data", "writes /data, which is in no folder of the task. Allowed: cha"),
        ("echo > ~/x", "writes /root/x, which is in no folder of the task. Allowed: ch"),
    ],
)
def test_a_run_step_that_cannot_be_honoured(place: Path, step: str, message: str):
    make_task(
        place,
        dockerfile=f"{DOCKERFILE}RUN {step}\n",
        toml="[environment]\nbuild_timeout_sec = 0.5\n",
    )
    result = run("task", "--nothing", "--out", "t.jsonl")
    assert result.exit_code == 1
    assert f"/task/environment/Dockerfile, line 3: found a RUN that {message}" in result.stderr
    assert not (place / "t.jsonl").exists()


def test_sizes_and_times_of_task_toml(place: Path):
    toml = """\
[environment]
memory_mb = 200
storage_mb = 4
[agent]
timeout_sec = 3.0
"""
    make_task(place, toml=toml)
    (place / "c.json").write_text(
        json.dumps(
            [
                "head -c 8000000 /dev/zero > big",
                "rm big; python3 -c 'x = bytearray(600 << 20)'",
                "echo still here",
                "sleep 50",
                "echo never",
            ]
        )
    )
    result = run("task", "--commands", "c.json")
    trace = trace_of(result)
    disk, memory, after, slow = (step["commands"][0] for step in trace["steps"])
    assert "No space left on device" in disk["stdout"]
    assert memory["exit_code"] != 0
    assert (after["exit_code"], after["stdout"]) == (0, "still here\n")
    assert slow["exit_code"] is None
    assert trace["reward"] == 0
    assert "Warning: the agent's 3 s are over; 1 command did not run\n" in result.stderr


def test_a_lost_session_still_meets_its_verifier(place: Path, monkeypatch: pytest.MonkeyPatch):
    make_task(place)
    session = TaskSession(read_task(place / "task"))
    with session:
        session.step(["echo 42 > answer.txt"])
        session.terminal.terminal.process.kill()
        with pytest.raises(SessionLost, match="terminal session: found that its process"):
            session.step(["echo 41 > answer.txt"])
        trace = session.finish(trace_id="t")
    assert [command.recorded for command in trace.commands] == [True, False]
    assert trace.reward == 1

    def lost(self: TaskSession, texts: list[str]) -> None:
        raise SessionLost("terminal session: found that it is gone")

    monkeypatch.setattr(TaskSession, "step", lost)
    (place / "c.txt").write_text("echo 42 > answer.txt\npwd\n")
    result = run("task", "--commands", "c.txt")
    assert trace_of(result)["reward"] == 0
    assert "Warning: command 0 was the last one: terminal session: found that it" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dockerfile": f"{DOCKERFILE}USER bob\n"}, "environment/Dockerfile, line 3: found USER."),
        ({"toml": "agent = 3\n"}, "task.toml, agent: found 3. Allowed: a table."),
    ],
)
def test_a_bad_task(place: Path, options: dict[str, str], message: str):
    make_task(place, **options)
    result = run("task", "--nothing")
    assert result.exit_code == 1
    assert message in result.stderr


def test_a_task_without_a_solution(place: Path):
    make_task(place, solve=None)
    result = run("task", "--solution")
    assert result.exit_code == 1
    assert "task: found no solution. Allowed: solution/commands.json or solution/solve.sh. " in (
        result.stderr
    )
    assert run("nowhere", "--nothing").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["task"], "Give one of --commands FILE, --solution and --nothing."),
        (["task", "--solution", "--nothing"], "Give one of --commands FILE, --solution and"),
        (["task", "--commands", "c", "--out", "c"], "--commands and --out are the same file, c"),
        ([], "Missing argument 'TASK'"),
    ],
)
def test_wrong_usage(place: Path, arguments: list[str], message: str):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
