"""Readers of trajectories: what ran, what it printed, and what is wrong with a file."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
import zstandard
from msgspec import UNSET

from depgpo_jax.errors import ConfigError, TraceError
from depgpo_jax.trajectories import (
    Found,
    ToolNames,
    Trajectory,
    find_files,
    read_document,
    read_file,
)
from depgpo_jax.trajectories.answers import Answer, read_answer
from depgpo_jax.trajectories.values import Value

Json = dict[str, Any]


def read(document: object, **names: Any) -> Trajectory:
    return read_document(Value(document, "t.json"), "t", "t.json", ToolNames(**names))


def texts(trajectory: Trajectory) -> list[list[str]]:
    return [[command.text for command in turn.commands] for turn in trajectory.turns]


def call(text: object, name: str = "bash", id: str | None = "1", key: str = "command") -> Json:
    arguments = text if key == "" else json.dumps({key: text})
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def says(*calls: Json, **fields: Any) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **fields}


def answer(content: object = "", id: str | None = "1", **fields: Any) -> Json:
    return {"role": "tool", "tool_call_id": id, "content": content, **fields}


def trace(*steps: Json, **fields: Any) -> Json:
    return {"version": 1, "trace_id": "t", "verifier": [], "steps": list(steps), **fields}


def step(loss_tokens: int, *commands: Json, **fields: Any) -> Json:
    return {"loss_tokens": loss_tokens, "commands": list(commands), **fields}


USER = {"role": "user", "content": "Do it."}


# Lists of texts, and our own object.


def test_a_list_of_texts():
    found = read(["ls", "cat <<X\na\nX\n"])
    assert (found.trajectory_id, found.task, found.reward) == ("t", None, None)
    assert texts(found) == [["ls"], ["cat <<X\na\nX\n"]]
    assert all(each.output is None and each.exit_code is UNSET for each in found.commands)
    assert all(turn.loss_tokens is None for turn in found.turns)


def test_our_own_object():
    commands = [
        "ls",
        {"text": "x", "output": "o", "exit_code": 3},
        {"text": "y", "exit_code": None},
    ]
    fields = {"id": "i", "task": "a", "group": "g", "reward": 0.5, "extra": {"model": "m"}}
    found = read({**fields, "commands": commands})
    assert (found.trajectory_id, found.task, found.group_id, found.reward) == ("i", "a", "g", 0.5)
    assert [(c.text, c.output, c.exit_code) for c in found.commands] == [
        ("ls", None, UNSET),
        ("x", "o", 3),
        ("y", None, None),
    ]
    assert found.extra == {"model": "m"}
    turns = [{"loss_tokens": 7, "commands": ["ls", "id"]}, {"commands": []}]
    found = read({"turns": turns})
    assert texts(found) == [["ls", "id"], []]
    assert [turn.loss_tokens for turn in found.turns] == [7, None]


def test_a_trace_of_ours():
    first = step(31, {"text": "ls", "stdout": "a\n", "exit_code": 0}, {"text": " "})
    second = step(2, token_ids=[4, 5], logprobs=[-1.0, -2.0])
    found = read(trace(first, second, trace_id="r/3", group_id="r", reward=1.0, extra={"k": 1}))
    assert (found.trajectory_id, found.task, found.group_id, found.reward) == ("r/3", "r", "r", 1)
    assert texts(found) == [["ls", " "], []]
    assert (found.commands[0].output, found.commands[0].exit_code) == ("a\n", 0)
    assert [turn.loss_tokens for turn in found.turns] == [31, 2]
    assert found.turns[1].step is not None
    assert found.turns[1].step.token_ids == [4, 5]
    assert found.extra == {"k": 1}


# Messages.


def test_messages_with_tool_calls():
    found = read(
        [
            {"role": "system", "content": "s"},
            USER,
            says(call("cd /app", id="a")),
            answer("", "a"),
            says(content="I think."),
            says(call("pwd", id="a"), call("ls", name="Terminal", id="b", key="cmd")),
            answer([{"type": "text", "text": "/"}, {"type": "text", "text": "app\n"}], "a"),
            answer("f\n", "b"),
            says(call("echo x\n", id="c", key="keystrokes")),
            answer("x\n", "c"),
            {"role": "exit", "content": "done"},
        ]
    )
    assert texts(found) == [["cd /app"], [], ["pwd", "ls"], ["echo x\n"]]
    assert [each.output for each in found.commands] == ["", "/app\n", "f\n", "x\n"]
    assert all(turn.loss_tokens is None and turn.not_run == () for turn in found.turns)


def test_only_calls_with_an_answer_ran():
    turn = says(call("one", id="a"), call("two", id="b"), call("three", id="c"))
    found = read([USER, turn, answer("1", "a"), says(call("four", id="d"))])
    assert texts(found) == [["one"], []]
    assert found.turns[0].not_run == (
        "call 1 did not run: nothing answers it",
        "call 2 did not run: nothing answers it",
    )
    assert found.turns[1].not_run == ("call 0 did not run: nothing answers it",)


def test_an_answer_may_say_that_nothing_ran():
    said = {"exception_info": "action was not executed", "raw_output": "", "returncode": -1}
    tags = "<exception>action was not executed</exception>\n<returncode>-1</returncode>\n"
    found = read(
        [
            says(call("a", id="a"), call("b", id="b"), call("c", id="c")),
            answer("<returncode>0</returncode>\n<output>\nok</output>", "a"),
            answer("whatever", "b", extra=said),
            answer(f"{tags}<output>\n</output>", "c"),
        ]
    )
    assert texts(found) == [["a"]]
    assert found.turns[0].not_run == (
        "call 1 did not run: its answer says so",
        "call 2 did not run: its answer says so",
    )


def test_ids_that_stand_twice_or_not_at_all_are_answered_in_order():
    again = [says(call("a"), call("b"), call("c")), answer("1"), answer("2")]
    found = read([*again, says(call("d")), answer("4")])
    assert texts(found) == [["a", "b"], ["d"]]
    assert [each.output for each in found.commands] == ["1", "2", "4"]
    none = [says(call("a", id=None), call("b", id=None)), answer("1", None)]
    assert texts(read(none)) == [["a"]]


def test_the_older_form_of_calls():
    function = {"name": "run_command", "arguments": {"command": ["bash", "-c", "echo 'a b'"]}}
    found = read(
        [
            {"role": "assistant", "content": "", "function_call": function},
            {"role": "function", "name": "run_command", "content": "a b\n"},
        ]
    )
    assert texts(found) == [["bash -c 'echo '\"'\"'a b'\"'\"''"]]
    assert found.commands[0].output == "a b\n"


def test_calls_that_were_refused_did_not_run():
    found = read(
        [
            says(
                call('{"command": "cut', id="a", key=""),
                call("{}", id="b", key=""),
                call("[1]", id="c", key=""),
                call("  ", id="d"),
                call([], id="e"),
                call("ls", id="f"),
            ),
            *(answer("", id) for id in "abcdef"),
        ]
    )
    assert texts(found) == [["ls"]]
    assert found.turns[0].not_run == (
        "call 0 did not run: its arguments are not JSON",
        "call 1 did not run: it has no arguments",
        "call 2 did not run: its arguments are a list",
        "call 3 did not run: it is empty",
        "call 4 did not run: its list is empty",
    )


def test_several_texts_and_a_directory_in_one_call():
    found = read(
        [
            says(
                call('{"commands": ["ls", "pwd"]}', id="a", key=""),
                call('{"cmd": ["ls", "a b"], "workdir": "/tmp/x y"}', id="b", key=""),
            ),
            *(answer("", id) for id in "ab"),
        ]
    )
    assert texts(found) == [["ls\npwd", "cd -- '/tmp/x y'\nls 'a b'"]]


def test_answers_that_look_like_frames_cost_no_more_than_their_length():
    odd = "</output_head><elided_chars></elided_chars><output_tail>" * 20_000
    content = f"<returncode>0</returncode><output_head>\n{odd}"
    found = read([says(call("ls")), answer(content)])
    assert found.commands[0].output == content  # no frame: its end is missing


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('["ls", ' + "[" * 300 + "]" * 301, "more than 200 lists and objects inside each"),
        ('{"commands": ["ls"], "extra": {"\\ud800": 1}}', "a name with half a character"),
        ('{"commands": ["ls"], "extra": {"a": NaN}}', "the number nan"),
        ('{"commands": ["ls"], "extra": {"a": 9007199254740993}}', "a whole number beyond 2^53"),
    ],
)
def test_what_no_trace_could_carry_on_is_found_first(text: str, found: str, tmp_path: Path):
    (tmp_path / "t.json").write_text(text)
    [read] = read_file(tmp_path / "t.json", "t")
    assert f"t.json: found {found}" in str(read.error)
    assert "Allowed: JSON of at most 200 levels, with names of whole characters" in str(read.error)


def test_pipes_in_a_folder_and_empty_names(tmp_path: Path):
    os.mkfifo(tmp_path / "a.json")
    (tmp_path / "b.json").write_text('["ls"]')
    files, _ = find_files([str(tmp_path)])
    assert [path.name for path, _ in files] == ["b.json"]
    with pytest.raises(TraceError, match=r"'': found an empty name. Allowed: a file, or a folder"):
        find_files([""])


def test_tools_that_change_nothing_are_left_out_and_others_are_named():
    messages = [
        says(call("x", "sh9", "a", "input"), call("view", "editor", "b"), call("t", "think", "c")),
        *(answer("", id) for id in "abc"),
    ]
    names = {"shells": ("sh9",), "ignored": ("editor",), "argument": "input"}
    assert texts(read(messages, **names)) == [["x"]]
    with pytest.raises(TraceError, match="a call of the tool 'sh9'"):
        read(messages)
    # A tool that is not known does no harm where its call was not carried out.
    unanswered = says(call("ls"), call("view", "editor", "9"))
    assert texts(read([unanswered, answer()])) == [["ls"]]


def test_a_name_may_overrule_what_is_known():
    messages = [
        says(call("x", "think", "a"), call("ls", "bash", "b")),
        answer("", "a"),
        answer("", "b"),
    ]
    assert texts(read(messages, shells=("think",), ignored=("bash",))) == [["x"]]


def test_an_object_with_messages():
    messages = [says(call("ls")), answer("f\n")]
    found = read(
        {"messages": messages, "instance_id": "i", "task_id": "a", "reward": 1, "info": {}}
    )
    assert (found.trajectory_id, found.task, found.reward) == ("i", "a", 1.0)
    found = read({"messages": messages, "id": "x", "trajectory_id": "y", "group": "g"})
    assert (found.trajectory_id, found.group_id, found.task, found.reward) == ("x", "g", None, None)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("plain\n", Answer("plain\n")),
        (None, Answer("")),
        ("<returncode>2</returncode>\n<output>\na\nb\n</output>", Answer("a\nb\n", 2)),
        ("<returncode>0</returncode><output></output>", Answer("", 0)),
        (
            "<exception>it took too long</exception>\n<returncode>-1</returncode>\n"
            "<output>\na</output>",
            Answer("a", None),
        ),
        (
            "<returncode>0</returncode>\n<warning>\nToo long.\n</warning><output_head>\na\nb\n"
            "</output_head>\n<elided_chars>\n9 characters elided\n</elided_chars>\n"
            "<output_tail>\ny\nz\n</output_tail>",
            Answer("a\nb\n[... elided ...]\ny\nz\n", 0),
        ),
        (
            "a\n[The command completed with exit code 1.]\n[Current working directory: /app]\n"
            "[Python interpreter: /usr/bin/python3]\n[Command finished with exit code 1]",
            Answer("a", 1),
        ),
        ("a\n\n[Current working directory: /app]", Answer("a\n")),
        ("OBSERVATION:\na\n", Answer("a\n")),
        ('{"output": "a", "metadata": {"exit_code": 4}}', Answer("a", 4)),
        ('{"output": "a", "exit_code": true}', Answer("a", UNSET)),
        ('{"output": "a"}', Answer('{"output": "a"}')),
        ('{"output": 1, "exit_code": 0}', Answer('{"output": 1, "exit_code": 0}')),
        ("{not json}", Answer("{not json}")),
        ([{"type": "image_url", "image_url": {}}], Answer(None)),
        ("half \ud83d", Answer("half ?")),
    ],
)
def test_what_an_answer_says(content: object, expected: Answer):
    assert read_answer(Value(answer(content), "t.json")) == expected


def test_the_raw_output_of_an_answer_counts():
    extra = {"raw_output": "a\ud83d\n", "returncode": 5}
    message = answer("<cut>", extra=extra)
    assert read_answer(Value(message, "t.json")) == Answer("a?\n", 5)


# What is wrong.


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "t.json: found no command. Allowed: at least one command. Leave the"),
        (["ls", 3], "t.json, [1]: found a number. Allowed: texts without NUL"),
        (["ls\0"], "t.json, [0]: found a text with a NUL character. Allowed: texts without"),
        (["\ud83d"], "t.json, [0]: found a text that is not Unicode. Allowed: texts"),
        (["ls", " "], "t.json, [1]: found an empty text. Allowed: texts without NUL"),
        (3, "t.json: found a number. Allowed: a list of texts; a list of messages; a trace"),
        (None, "t.json: found null. Allowed: a list of texts; "),
        ({"a": 1}, "t.json: found an object with 'a'. Allowed: a list of texts; "),
        ({}, "t.json: found an object with no key. Allowed: a list of texts; "),
        ([{}], "t.json: found a list that begins with an object. Allowed: a list of texts"),
        ({"commands": []}, "t.json: found no command. Allowed: at least one command."),
        (
            {"commands": 3},
            "t.json, commands: found a number. Allowed: a list. Put the value in […]",
        ),
        ({"commands": ["ls"], "turns": []}, "found both `commands` and `turns`. Allowed: one of"),
        ({"commands": ["ls"], "x": 1}, "found the key 'x'. Allowed: the keys id, task, group, rew"),
        ({"commands": [3]}, "t.json, commands[0]: found a number. Allowed: an object. Put the"),
        ({"commands": [{"text": "ls", "out": 1}]}, "t.json, commands[0]: found the key 'out'. All"),
        ({"commands": [{"output": ""}]}, "commands[0].text: found null. Allowed: texts without"),
        (
            {"commands": [{"text": "ls", "output": 1}]},
            "commands[0].output: found a number. Allowed: a text. Put the value in",
        ),
        (
            {"commands": [{"text": "ls", "exit_code": "0"}]},
            "commands[0].exit_code: found a text. Allowed: an integer. Correct the number.",
        ),
        (
            {"turns": [{"loss_tokens": -1, "commands": ["ls"]}]},
            "turns[0].loss_tokens: found -1. Allowed: an integer of at least 0. Correct the n",
        ),
        ({"commands": ["ls"], "id": ""}, "t.json, id: found an empty text. Allowed: a text that"),
        ({"commands": ["ls"], "extra": 3}, "t.json, extra: found a number. Allowed: an object. "),
        (
            {"commands": ["ls"], "reward": float("nan")},
            "t.json, reward: found nan. Allowed: a finite number. Correct it, or remove the key.",
        ),
        ({"commands": ["ls"], "reward": True}, "t.json, reward: found a boolean. Allowed: a fin"),
        ({"commands": ["ls"], "reward": 10**5000}, "reward: found a number too large to show. A"),
        (
            {"version": 1, "steps": [], "trace_id": "a"},
            't.json, trace "a": found',
        ),
        (
            trace(step(1, {})),
            "steps[0].commands[0].text: found no text. Allowed: commands with the text that ran. ",
        ),
        (
            trace(step(1, {"text": "a\0"})),
            "steps[0].commands[0].text: found a text with a NUL character. Allowed: commands wit",
        ),
        ([USER], "t.json: found no call of a tool that runs texts. Allowed: assistant messages"),
        (
            [USER, says(call("ls"))],
            "found no call that ran (call 0 did not run: nothing answers it). ",
        ),
        ([USER, answer()], "t.json, [1]: found an answer before any call. Allowed: answers behind"),
        (
            [says(call("ls")), answer(id="9")],
            "t.json, [1]: found an answer to the call '9', which the turn before it does not make",
        ),
        (
            [says(call("ls")), answer(), answer()],
            "t.json, [2]: found one answer more to the call '1'. Allowed: one answer to each call",
        ),
        (
            [says(call("ls")), answer(id=None)],
            "t.json, [1]: found an answer to a call, which the turn before it does not make. ",
        ),
        (
            [says(), {"role": "function", "name": "x", "content": ""}],
            "t.json, [1]: found an answer to a call, which the turn before it does not make. ",
        ),
        ([USER, {"content": ""}], "t.json, [1].role: found null. Allowed: a text that is not em"),
        ([USER, 3], "t.json, [1]: found a number. Allowed: an object. Put the value in {…}."),
        (
            [says(call("view", "editor")), answer()],
            "[0].tool_calls[0].function.name: found a call of the tool 'editor'. Allowed: tools th",
        ),
        (
            [says(call("y", key="answer")), answer()],
            "tool_calls[0].function.arguments: found the arguments 'answer'. Allowed: an argument",
        ),
        (
            [says(call('{"command": "C-c", "is_input": "true"}', key="")), answer()],
            "arguments: found input to a program that is already running. Allowed: texts for a sh",
        ),
        (
            [says(call("C-c")), answer()],
            "arguments.command: found the keys 'C-c'. Allowed: texts for a shell that waits for o",
        ),
        (
            [says(call('{"command": "y\\u0003"}', key="")), answer()],
            "arguments.command: found the keys 'y\\x03'. Allowed: texts for a shell that waits for",
        ),
        ([says(call(3)), answer()], "function.arguments.command: found a number. Allowed: texts"),
        ([says(call([1])), answer()], "arguments.command[0]: found a number. Allowed: a text. "),
        ([says(call("ls")), answer(3)], "t.json, [1].content: found a number. Allowed: a list. "),
        ({"messages": "x"}, "t.json, messages: found a text. Allowed: a list. Put the value in"),
    ],
)
def test_a_bad_document(document: object, message: str):
    with pytest.raises(TraceError) as caught:
        read(document)
    assert message in str(caught.value)
    assert str(caught.value).startswith("t.json")


def test_a_tool_is_not_run_and_ignored_at_a_time():
    with pytest.raises(ConfigError) as caught:
        ToolNames(("a", "b"), ("b",))
    assert str(caught.value) == (
        "ToolNames: found 'b' in both `shells` and `ignored`. Allowed: a tool is one of the two. "
        "Remove it from one of them."
    )


# Files.


def found(path: Path) -> list[Found]:
    return list(read_file(path, "stem"))


def ids(path: Path) -> list[str | None]:
    return [each.trajectory and each.trajectory.trajectory_id for each in found(path)]


def test_a_file_of_texts(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbf[ -f x ] || touch x\n\n  { ls; }\nlast")
    [each] = found(path)
    assert each.trajectory is not None
    assert texts(each.trajectory) == [["[ -f x ] || touch x"], ["  { ls; }"], ["last"]]
    assert (each.source, each.folder, each.trajectory.trajectory_id) == (
        str(path),
        tmp_path.name,
        "stem",
    )
    path.write_text('[\n"ls"\n]')
    [each] = found(path)
    assert each.trajectory is not None
    assert texts(each.trajectory) == [["ls"]]


def test_documents_one_a_line_and_a_bad_one_among_them(tmp_path: Path):
    good = json.dumps({"id": "x", "commands": ["ls"]})
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstandard.compress(f'{good}\n\n[1\n["id"]\n{{"a": 1}}\n'.encode()))
    first, second, third, fourth = found(path)
    assert [each and each.trajectory_id for each in (first.trajectory, third.trajectory)] == [
        "x",
        "stem/4",
    ]
    assert third.source == f"{path}, line 4"
    assert second.trajectory is None
    assert "a.jsonl.zst, line 3: found text that is not JSON (Expecting" in str(second.error)
    assert "line 5: found an object with 'a'" in str(fourth.error)
    assert len({each.digest for each in (first, second, third, fourth)}) == 4


def test_messages_one_a_line_are_one_trajectory(tmp_path: Path):
    messages = [USER, says(call("ls")), answer("f\n")]
    path = tmp_path / "a.jsonl.gz"
    lines = "".join(f"{json.dumps(message)}\n" for message in messages)
    path.write_bytes(gzip.compress(lines.encode()))
    [each] = found(path)
    assert each.trajectory is not None
    assert (each.trajectory.trajectory_id, texts(each.trajectory)) == ("stem", [[], ["ls"]][1:])
    path.write_bytes(gzip.compress(f"{lines}[1\n".encode()))
    [each] = found(path)
    assert "a.jsonl.gz, line 4: found text that is not JSON" in str(each.error)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b"[1", "a.json: found text that is not JSON (Expecting ',' delimiter: line 1 c"),
        (
            "a.json",
            b'["a"\n\n\n,]',
            ": line 4 column ",
        ),
        ("a.json", b"", "a.json: found text that is not JSON (Expecting value: line 1 column 1 "),
        ("a.traj", b"[" * 100_000, "a.traj: found text that is not JSON (maximum recursion dept"),
        ("a.json", b'["a",\n"\xff"]', "a.json, line 2: found byte 0xff, which is not UTF-8. Allow"),
        ("a.jsonl", b'["a"]\n["\xff"]', "a.jsonl, line 2: found byte 0xff, which is not UTF-8. "),
        ("a.jsonl", b"\n \n", "a.jsonl: found no line. Allowed: trajectories, one a line. Remove"),
        ("a.txt", b"ls\n\xff", "a.txt, line 2: found byte 0xff, which is not UTF-8. Allowed: text"),
        ("a.txt", b"\n", "a.txt: found no command. Allowed: at least one command. Leave the traj"),
        ("a.json.gz", b"no", "a.json.gz: found damaged compressed data (Not a gzipped file (b'no"),
    ],
)
def test_a_bad_file(tmp_path: Path, name: str, content: bytes, message: str):
    (tmp_path / name).write_bytes(content)
    each = found(tmp_path / name)[-1]
    assert each.trajectory is None
    assert message in str(each.error)


def test_files_of_folders(tmp_path: Path):
    for name in (
        "b/2.json",
        "b/10.jsonl.zst",
        "a.txt",
        "c.log",
        ".hidden.json",
        ".d/x.json",
        "é.traj",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "x.y").touch()
    files, left = find_files([str(tmp_path), str(tmp_path / "x.y")])
    assert [stem for _, stem in files] == ["a", "é", "b/10", "b/2", "x.y"]
    assert left == 2
    with pytest.raises(
        TraceError, match=r"nothing: found nothing of that name. Allowed: a file, or"
    ):
        find_files([str(tmp_path / "nothing")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        TraceError, match=r"empty: found no trajectory in the folder. Allowed: files"
    ):
        find_files([str(tmp_path / "empty")])


def test_a_name_that_is_no_text_gives_an_id_that_is_one(tmp_path: Path):
    path = Path(str(tmp_path) + "/\udcff.json")
    path.write_text('["ls"]')
    assert [stem for _, stem in find_files([str(tmp_path)])[0]] == [r"\xff"]


def test_a_file_that_cannot_be_read(tmp_path: Path):
    [each] = found(tmp_path / "gone.json")
    assert "gone.json: found no readable file (No such file or directory). Allowed: " in str(
        each.error
    )
