"""Recorded texts, run again in a sandbox: what comes out, and how far it agrees."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET, structs

from depgpo_jax.errors import ConfigError
from depgpo_jax.tasks import Task, read_task
from depgpo_jax.tasks.replay import ReplayConfig, Replayed, replay
from depgpo_jax.tasks.run import TaskSession
from depgpo_jax.traces import Command, Trace, encode_trace, validate_trace
from depgpo_jax.trajectories import RecordedCommand, Trajectory, Turn, read_document, read_file
from depgpo_jax.trajectories.values import Value
from tests.test_cli_tasks import make_task
from training.tasks import FAMILIES

# What `ls -l` and `ls -i` say of a file that is made anew for each run.
MADE = re.compile(r"^ *\d+ (?=[-dl]r)|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d", re.MULTILINE)

LISTS = ("solution/commands.json", "solution/wasteful.json", "wrong/commands.json")


def read(document: object) -> Trajectory:
    return read_document(Value(document, "t.json"), "t", "t.json")


def replayed(place: Path, document: object, *, toml: str = "", **options: Any) -> Replayed:
    task = read_task(make_task(place, toml=toml))
    done = replay(task, read(document), ReplayConfig(**options))
    validate_trace(done.trace)
    return done


def outputs(done: Replayed) -> list[str]:
    return [str(command.stdout) for command in done.trace.commands]


def marks(done: Replayed) -> dict[str, Any]:
    assert isinstance(done.trace.extra, dict)
    return done.trace.extra["replay"]


# The same trace again.


def same(trace: Trace) -> Trace:
    """A trace without what no two runs share.

    That is when commands started and ended, what this run says of its recording, the order in which
    the processes of one command, which run side by side, read and wrote (an order that means
    nothing), and in listings the times and inodes of files. `background` is left out too: whether a
    process that is about to end still runs when its command does is a matter of microseconds; and
    of git what it reads outside of its own folder: it reads a file again if that is no older than
    its index, to the millisecond. All else has to be equal: texts, what was read, what was written
    with its lines, edges, outputs, exit codes, what the verifier looked at, its tests, the reward.
    """

    def bare(command: Command) -> Command:
        extra = {} if command.extra is UNSET else dict(command.extra)
        extra.pop("replay", None)
        text = str(command.text)
        return structs.replace(
            command,
            reads=sorted(r for r in command.reads if "git " not in text or "/.git/" in r),
            writes=sorted(command.writes, key=lambda write: write.resource),
            started=UNSET,
            ended=UNSET,
            background=UNSET,
            stdout=UNSET if command.stdout is UNSET else MADE.sub("", command.stdout),
            extra=extra or UNSET,
        )

    steps = [structs.replace(s, commands=[bare(c) for c in s.commands]) for s in trace.steps]
    return structs.replace(trace, steps=steps, verifier=sorted(trace.verifier), extra=UNSET)


def rollout(task: Task, texts: Sequence[str]) -> Trace:
    with TaskSession(task) as session:
        for text in texts:
            session.step([text])
        return session.finish(trace_id="t")


@pytest.mark.parametrize("family", FAMILIES)
def test_round_trip_over_all_families(family: str, tmp_path: Path):
    FAMILIES[family](2, tmp_path / "task")
    task = read_task(tmp_path / "task")
    for name in LISTS:
        texts = json.loads((task.directory / name).read_text("utf-8"))
        first = rollout(task, texts)
        if name == LISTS[0]:  # from a list of texts, which says nothing else
            again = replay(task, read(texts))
            assert marks(again)["outputs"] == {"not recorded": len(texts)}
        else:  # from the trace, which says in addition what came of them
            (tmp_path / "t.jsonl").write_bytes(encode_trace(first) + b"\n")
            [found] = read_file(tmp_path / "t.jsonl", "t")
            assert found.trajectory is not None
            again = replay(task, found.trajectory)
            assert again.agreement.reward_agrees is True
            assert set(again.agreement.outputs) <= {"exact", "numbers"}  # times of `ls -l`
            assert set(again.agreement.exit_codes) == {"equal"}
        assert not again.agreement.diverged, (name, again.agreement.sentence())
        assert same(again.trace) == same(first), name


# One shell for all texts.


def test_directory_environment_functions_and_processes_live_on(tmp_path: Path):
    done = replayed(
        tmp_path,
        {
            "turns": [
                {"commands": ["mkdir -p a/b; cd a/b", "export X=1; Y=2; f() { echo $X$Y; }"]},
                {"commands": []},
                {"commands": ["pwd; f", "sleep 60 & echo kept > ../f", "jobs | wc -l; cat ../f"]},
                {"commands": ["exit 3"]},
                {"commands": ["pwd; echo 42 > /app/answer.txt"]},
            ]
        },
    )
    assert outputs(done)[2] == "/app/a/b\n12\n"
    assert outputs(done)[4] == "1\nkept\n"
    assert outputs(done)[6] == "/app/a/b\n"
    assert done.trace.commands[5].exit_code == 3
    assert [len(step.commands) for step in done.trace.steps] == [2, 0, 3, 1, 1]
    assert done.trace.reward == 1
    assert not done.agreement.diverged


def test_a_heredoc_of_50_kb(tmp_path: Path):
    body = "".join(f"line {n} 'quoted' \"twice\" $HOME `x` \\\\ é\n" for n in range(1300))
    assert len(body) > 50_000
    done = replayed(
        tmp_path,
        [
            "cat > big.txt <<'END OF IT'\n" + body + "END OF IT\necho $?",
            "sha256sum < big.txt",
            "cat big.txt",
        ],
    )
    first, _, third = done.trace.commands
    assert (first.stdout, first.exit_code) == ("0\n", 0)
    assert third.stdout == body
    [write] = first.writes
    assert (write.resource, write.hunks) == ("/app/big.txt", [(0, 0, 1, 1300)])


# What the recording says.


def call(name: str, text: str) -> dict[str, Any]:
    function = {"name": "bash", "arguments": json.dumps({"command": text})}
    return {"id": name, "type": "function", "function": function}


def test_messages_of_which_only_the_first_call_ran(tmp_path: Path):
    done = replayed(
        tmp_path,
        [
            {"role": "user", "content": "Write the answer."},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [call("a", "cd /tmp"), call("b", "rm -r /app/*"), call("c", "exit")],
            },
            {"role": "tool", "tool_call_id": "a", "content": ""},
            {"role": "assistant", "tool_calls": [call("a", "pwd; echo 42 > /app/answer.txt")]},
            {
                "role": "tool",
                "tool_call_id": "a",
                "content": "<returncode>0</returncode>\n<output>\n/tmp\n</output>",
            },
        ],
    )
    assert [command.text for command in done.trace.commands] == [
        "cd /tmp",
        "pwd; echo 42 > /app/answer.txt",
    ]
    assert marks(done) == {
        "source": "t.json",
        "format": "messages",
        "stretch": 3.0,
        "diverged": False,
        "outputs": {"exact": 2},
        "exit_codes": {"equal": 1, "not recorded": 1},
        "reward": "not recorded",
        "not_run": [
            "turn 0, call 1 did not run: nothing answers it",
            "turn 0, call 2 did not run: nothing answers it",
        ],
        "loss_tokens": "not recorded; 1 a turn where they are not",
    }


def test_what_diverged_is_marked_and_the_reward_is_the_one_measured_now(tmp_path: Path):
    commands = [
        {"text": "echo 41 > answer.txt; echo done", "output": "done", "exit_code": 0},
        {"text": "cat answer.txt; false", "output": "42\n", "exit_code": 0},
        "true",
    ]
    done = replayed(
        tmp_path, {"id": "i", "group": "g", "reward": 1, "commands": commands, "extra": {"k": [1]}}
    )
    trace = done.trace
    assert (trace.trace_id, trace.group_id, trace.reward) == ("i", "g", 0)
    assert trace.invalid is UNSET
    assert isinstance(trace.extra, dict)
    assert trace.extra["k"] == [1]
    assert marks(done)["diverged"] is True
    assert (marks(done)["reward"], marks(done)["recorded_reward"]) == ("differs", 1.0)
    extras = [command.extra for command in trace.commands]
    assert extras[0] == {"replay": {"output": "spaces", "exit_code": "equal", "diverged": False}}
    assert extras[1] == {
        "replay": {
            "output": "numbers",
            "first_difference": {"line": 1, "recorded": "42", "replayed": "41"},
            "exit_code": "differs",
            "recorded_exit_code": 0,
            "diverged": True,
        }
    }
    assert extras[2] is UNSET
    assert done.agreement.sentence() == (
        "reward 0 instead of 1; 1 of 3 commands differ, first of all 1 (exit code 1 instead of 0)"
    )


def test_tokens_of_a_trace_are_kept(tmp_path: Path):
    steps = [
        {
            "loss_tokens": 2,
            "commands": [{"text": "ls"}],
            "token_ids": [7, 8],
            "logprobs": [-1, -2],
            "context_token_ids": [1],
            "state": "s",
            "reward": 0.25,
            "extra": {"temperature": 1},
        },
        {"loss_tokens": 0, "commands": []},
    ]
    done = replayed(
        tmp_path,
        {"version": 1, "trace_id": "t", "verifier": ["/x"], "steps": steps, "extra": {"replay": 1}},
    )
    first, second = done.trace.steps
    assert (first.token_ids, first.logprobs, first.context_token_ids) == ([7, 8], [-1, -2], [1])
    assert (first.state, first.reward, first.extra) == ("s", 0.25, {"temperature": 1})
    assert (second.loss_tokens, second.commands) == (0, [])
    assert "loss_tokens" not in marks(done)


# Time.


def test_a_command_gets_more_time_than_it_had(tmp_path: Path):
    commands = [{"text": "sleep 1", "exit_code": 0}, {"text": "sleep 60", "exit_code": None}]
    done = replayed(tmp_path, {"commands": commands}, time_limit_s=0.6, stretch=3)
    assert [command.exit_code for command in done.trace.commands] == [0, None]
    assert not done.agreement.diverged
    assert isinstance(done.trace.commands[1].extra, dict)
    assert done.trace.commands[1].extra["failure"] == "timed out after 1.8 s"
    assert done.trace.commands[1].extra["replay"] == {"exit_code": "equal", "diverged": False}


def test_a_run_that_hangs_ends_with_the_agents_time(tmp_path: Path):
    toml = "[agent]\ntimeout_sec = 0.5\n"
    texts = ["echo 42 > answer.txt", "sleep 60", "echo 41 > answer.txt", "ls"]
    done = replayed(tmp_path, texts, toml=toml, stretch=2)
    assert [command.text for command in done.trace.commands] == texts[:2]
    assert done.trace.reward == 1
    assert marks(done)["stopped"] == "the agent's 1 s are over"
    assert marks(done)["commands_left"] == 2
    assert done.agreement.diverged


def test_a_session_that_is_lost_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real = TaskSession.step

    def step(self: TaskSession, texts: Sequence[str], *, loss_tokens: int = 1) -> object:
        if "lost" in texts:
            self.terminal.terminal.process.kill()
        return real(self, texts, loss_tokens=loss_tokens)

    monkeypatch.setattr(TaskSession, "step", step)
    task = read_task(make_task(tmp_path))
    turns = (
        Turn((RecordedCommand("echo 42 > answer.txt"),)),
        Turn((RecordedCommand("lost"), RecordedCommand("ls"))),
    )
    done = replay(task, Trajectory("t", "t.json", "test", turns, reward=1.0))
    validate_trace(done.trace)
    assert [command.recorded for command in done.trace.commands] == [True, False]
    assert done.agreement.reward_agrees is True
    assert done.agreement.diverged
    assert marks(done)["stopped"].startswith("terminal session: found that its process")
    assert marks(done)["commands_left"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stretch": 0.5}, "ReplayConfig.stretch: found 0.5. Allowed: 1 to 1000. Give how many "),
        ({"stretch": float("nan")}, "ReplayConfig.stretch: found nan. Allowed: 1 to 1000. Give "),
        ({"time_limit_s": 0}, "ReplayConfig.time_limit_s: found 0. Allowed: seconds above 0, or"),
        ({"time_limit_s": float("inf")}, "ReplayConfig.time_limit_s: found inf. Allowed: second"),
    ],
)
def test_a_bad_config(options: dict[str, float], message: str):
    with pytest.raises(ConfigError) as caught:
        ReplayConfig(**options)
    assert str(caught.value).startswith(message)
