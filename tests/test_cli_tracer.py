"""`depgpo trace`, `depgpo shell` and `depgpo doctor`, on real commands in real sandboxes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from depgpo_jax import cli_commands
from depgpo_jax.cli import cli
from depgpo_jax.cli_shell import is_unfinished
from depgpo_jax.errors import ConfigError
from depgpo_jax.tracer import doctor
from depgpo_jax.tracer.session import TracedTerminal
from depgpo_jax.tracer.terminal import SessionLost
from depgpo_jax.tracer.workplace import Workplace, check_directory, resource_of
from depgpo_jax.traces import parse_trace
from tests.processes import Child
from tests.sandboxes import ROOT, commands, until


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin)


def start(*arguments: str, **streams: Any) -> Child:
    argv = [sys.executable, "-W", "error", "-m", "depgpo_jax", *arguments]
    return Child(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, **streams)


def only_trace(text: str) -> dict[str, Any]:
    """The one trace in a text; it has to be valid."""
    [line] = text.splitlines()
    parse_trace(line.encode())
    return json.loads(line)


def commands_of(trace: dict[str, Any]) -> list[dict[str, Any]]:
    assert all(step["loss_tokens"] == 1 for step in trace["steps"])
    return [command for step in trace["steps"] for command in step["commands"]]


# trace


def test_trace_records_each_command_at_its_real_path(place: Path):
    (place / "words.txt").write_text("pear\napple\nkey_81734\n")
    (place / "c.txt").write_text(
        "sort words.txt > sorted.txt\n\n"
        "# a comment is a command that does nothing\n"
        "tail -n 1 words.txt\n"
        "echo key_81734 > key; false\n"
    )
    result = run(
        *("trace", "--commands", "c.txt", "--out", "t.jsonl", "--trace-id", "mine"),
        *("--inspect", "sorted.txt", "--inspect", "tcp:80", "--inspect", "./sorted.txt"),
    )
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    trace = only_trace((place / "t.jsonl").read_text())
    assert trace["trace_id"] == "mine"
    assert trace["verifier"] == [f"{place}/sorted.txt", "tcp:80"]
    assert "reward" not in trace
    assert "group_id" not in trace
    sort, comment, tail, wrong = commands_of(trace)
    assert sort["reads"] == [f"{place}/words.txt"]
    assert sort["writes"] == [{"resource": f"{place}/sorted.txt", "hunks": [[0, 0, 1, 3]]}]
    assert comment["text"] == "# a comment is a command that does nothing"
    assert (comment["exit_code"], comment["writes"]) == (0, [])
    assert tail["stdout"] == "key_81734\n"
    assert (wrong["exit_code"], wrong["stdout_from"]) == (1, [2])
    assert {path.name for path in place.iterdir()} == {"words.txt", "c.txt", "t.jsonl"}
    lines = result.stderr.splitlines()
    assert lines[0].split() == ["#", "exit", "seconds", "command", "wrote"]
    assert lines[1].endswith(f"sort words.txt > sorted.txt  {place}/sorted.txt"[-60:])
    assert "4 commands, 1 failed, 2 resources written, inspected: " in lines[5]


def with_a_small_disk(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `depgpo` where a folder has 16 KiB, and lists afterwards what is in it."""
    script = (
        'mount -t tmpfs -o size=16k none "$1" && folder=$1 && shift && '
        '"$@"; code=$?; ls -A "$folder"; exit $code'
    )
    depgpo = [sys.executable, "-W", "error", "-m", "depgpo_jax", *arguments]
    return subprocess.run(
        ["unshare", "-Urm", "bash", "-c", script, "bash", str(folder), *depgpo],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_full_disk_leaves_no_torn_trace(place: Path, tmp_path_factory: pytest.TempPathFactory):
    (place / "big").write_text("a line of words\n" * 10_000)
    out = tmp_path_factory.mktemp("full")
    command = ["sh", "-c", "cat big; echo more >> big"]
    done = with_a_small_disk(out, "trace", "--keep", "--out", f"{out}/t.jsonl", "--", *command)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "t.jsonl: found a disk that takes no more (No space left on device)" in done.stderr
    assert (place / "big").read_text() == "a line of words\n" * 10_000  # nothing kept, either


def test_a_directory_with_a_mount_below_it_is_refused_by_name(place: Path):
    mounted = place / "a mount"
    mounted.mkdir()
    done = with_a_small_disk(mounted, "trace", "--", "true")
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        f"SandboxConfig.workspaces: found '{place}', below which another file system is mounted "
        f"({mounted}). Allowed: a directory without mounts below it. Choose a directory beside "
        "that mount, or unmount it."
    ) in done.stderr


def test_a_file_of_commands_has_an_end(place: Path):
    assert place.exists()
    result = run("trace", "--commands", "/dev/zero")
    assert result.exit_code == 1
    assert "/dev/zero: found more than 67108864 bytes. Allowed: fewer commands." in result.stderr
    result = run("trace", "--commands", "none.txt")
    assert "Allowed: a file of commands, or - for standard input." in result.stderr
    result = run("trace", "--out", "", "--", "true")
    assert "'': found a place where no file can be written" in result.stderr


def test_trace_takes_one_command_behind_dashes(place: Path):
    result = run("trace", "--", "sh", "-c", "echo $1", "x", "it's one word")
    assert result.exit_code == 0, result.stderr
    [command] = commands_of(only_trace(result.stdout))
    assert command["text"] == """sh -c 'echo $1' x 'it'"'"'s one word'"""
    assert command["stdout"] == "it's one word\n"


def test_trace_takes_a_json_list_and_standard_input(place: Path):
    texts = ["a=$(cat <<X\n1\nX\n)", 'test "$a" = 1']
    (place / "c.json").write_text(json.dumps(texts))
    trace = only_trace(run("trace", "--commands", "c.json").stdout)
    assert [c["text"] for c in commands_of(trace)] == texts
    assert [c["exit_code"] for c in commands_of(trace)] == [0, 0]
    result = run("trace", "--commands", "-", stdin="exit 3\npwd\n")
    first, second = commands_of(only_trace(result.stdout))
    assert (first["exit_code"], second["stdout"]) == (3, f"{place}\n")
    assert "command 0: the text ended the shell" in result.stderr


def test_trace_keeps_changes_only_if_asked(place: Path):
    (place / "a").write_text("1\n")
    (place / "c.txt").write_text("echo 2 >> a; rm gone; mkfifo p\nmkdir d; ln -s ../a d/l\nfalse")
    (place / "gone").touch()
    assert run("trace", "--commands", "c.txt").exit_code == 0
    assert (place / "a").read_text() == "1\n"
    assert sorted(path.name for path in place.iterdir()) == ["a", "c.txt", "gone"]
    result = run("trace", "--commands", "c.txt", "--keep", "--out", "t.jsonl")
    assert result.exit_code == 0, result.stderr
    assert (place / "a").read_text() == "1\n2\n"
    assert (place / "d" / "l").readlink() == Path("../a")
    assert sorted(path.name for path in place.iterdir()) == ["a", "c.txt", "d", "t.jsonl"]
    assert "not kept, as it is a device, pipe or socket: p" in result.stderr


def test_trace_keeps_nothing_if_the_trace_cannot_be_written(place: Path):
    result = run("trace", "--keep", "--out", "no/t.jsonl", "--", "touch", "new")
    assert result.exit_code == 1
    assert "no/t.jsonl: found a place where no file can be written" in result.stderr
    assert list(place.iterdir()) == []


def test_a_command_has_its_time(place: Path):
    result = run("trace", "--time-limit", "0.5", "--", "sleep", "60")
    [command] = commands_of(only_trace(result.stdout))
    assert command["exit_code"] is None
    assert "command 0: timed out after 0.5 s" in result.stderr


def test_nothing_of_the_host_is_there_but_its_programs(place: Path):
    secret = place.parent / "secret"
    secret.touch()
    trace = only_trace(run("trace", "--", "cat", str(secret)).stdout)
    assert commands_of(trace)[0]["exit_code"] == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.txt", "\n  \n", "c.txt: found no command. Allowed: at least one command. Write one a"),
        ("c.txt", b"ls\n\xff\n", "c.txt, line 2: found byte 0xff, which is not UTF-8. Allowed: te"),
        ("c.txt", "a\0b", "c.txt, command 0: found a text with a NUL character. Allowed: texts wi"),
        ("c.json", "[", "c.json: found text that is not JSON (Expecting value: line 1 column 2 ("),
        ("c.json", "[]", "c.json: found no command. Allowed: at least one command. Write one a li"),
        (
            "c.json",
            '{"a": 1}',
            "c.json: found an object instead of a list. Allowed: at least one c",
        ),
        ("c.json", '["ls", 3]', "c.json, command 1: found a number. Allowed: texts without NUL, o"),
        ("c.json", '["\\ud800"]', "c.json, command 0: found a text that is not Unicode. Allowed: "),
        ("c.json", '["ls", " "]', "c.json, command 1: found an empty text. Allowed: texts without"),
    ],
)
def test_what_is_no_list_of_commands(place: Path, name: str, content: str | bytes, message: str):
    (place / name).write_bytes(content.encode() if isinstance(content, str) else content)
    result = run("trace", "--commands", name, "--out", "t.jsonl")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {message}")
    assert not (place / "t.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give either --commands FILE, or one command behind -- ."),
        (["--commands", "c", "--", "ls"], "Give either --commands FILE, or one command behind"),
        (["--commands", "c", "--out", "c"], "--commands and --out are the same file, c"),
        (["--time-limit", "0", "ls"], "0.0 is not in the range 0.0<x<="),
        (["--time-limit", "nan", "ls"], "nan is not a finite number"),
    ],
)
def test_wrong_usage_of_trace(place: Path, arguments: list[str], message: str):
    result = run("trace", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize("path", ["/", "/usr", "/etc", "/proc", "/dev/shm", "/sys/kernel"])
def test_a_directory_that_cannot_be_copied(path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(path)
    result = run("trace", "--", "true")
    assert result.exit_code == 1
    place = os.path.realpath(path)
    assert f"current directory: found {place}, of which a sandbox cannot have a copy. " in (
        result.stderr
    )
    assert "Allowed: a directory of your own. Change to one below your home" in result.stderr
    with pytest.raises(ConfigError, match="of which a sandbox cannot have a copy"):
        check_directory(place)


def test_names_that_somebody_means():
    assert resource_of("a/../b.txt", "/app") == "/app/b.txt"
    assert resource_of("//x/y/", "/app") == "/x/y"
    assert resource_of("meta:run.sh", "/app") == "meta:/app/run.sh"
    assert resource_of("unix:/run/s", "/app") == "unix:/run/s"
    assert resource_of("process:nginx", "/app") == "process:nginx"
    assert resource_of("back\\slash", "/app") == "/app/back\\\\slash"
    with pytest.raises(ConfigError, match=r"found an empty name. Allowed: a path, or a name such"):
        resource_of("", "/app")


def test_a_bad_name_to_inspect_is_refused_with_the_trace(place: Path):
    result = run("trace", "--inspect", "tcp:x", "--out", "t.jsonl", "--keep", "--", "touch", "new")
    assert result.exit_code == 1
    assert 'verifier[0]: found "tcp:x", whose port is "x"' in result.stderr
    assert list(place.iterdir()) == []


def test_a_session_that_is_lost_leaves_no_trace(place: Path, monkeypatch: pytest.MonkeyPatch):
    def lost(self: Workplace, text: str) -> None:
        raise SessionLost("terminal session: found that its process ended with 1")

    monkeypatch.setattr(Workplace, "run", lost)
    result = run("trace", "--out", "t.jsonl", "--", "true")
    assert result.exit_code == 1
    assert "command 0: terminal session: found that its process ended with 1. No trace was" in (
        result.stderr
    )
    assert list(place.iterdir()) == []


def test_a_run_of_which_nothing_was_recorded_is_an_error(
    place: Path, monkeypatch: pytest.MonkeyPatch
):
    real = Workplace.trace

    def unrecorded(self: Workplace, **options: Any) -> Any:
        line = parse_trace(
            b'{"version": 1, "trace_id": "t", "verifier": [], "steps": [{"loss_tokens": 1, '
            b'"commands": [{"recorded": false, "unrecorded_reason": "the tracer ended"}]}]}'
        )
        assert len(real(self, **options).steps) == len(line.steps)
        return line

    monkeypatch.setattr(Workplace, "trace", unrecorded)
    monkeypatch.setattr(TracedTerminal, "tracer_was_lost", True)
    result = run("trace", "--out", "t.jsonl", "--", "true")
    assert result.exit_code == 1
    assert "found no command that could be recorded (the tracer ended). Allowed: at least" in (
        result.stderr
    )
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_sandbox_and_writes_nothing(
    place: Path, number: signal.Signals, code: int
):
    arguments = ("trace", "--keep", "--out", "t.jsonl", "--", "sh", "-c", "touch new; sleep 4321")
    with start(*arguments, cwd=place, stderr=subprocess.PIPE) as process:
        assert until(lambda: "sleep 4321 " in commands(), 60)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == code
    assert b"Traceback" not in stderr
    assert until(lambda: "sleep 4321 " not in commands())
    assert list(place.iterdir()) == []


def test_unusual_ends_are_told():
    line = (
        b'{"version": 1, "trace_id": "t", "verifier": [], "steps": [{"loss_tokens": 1, "commands": '
        b'[{"text": "[b]x", "untraced": ["/a", "/b", "/c", "/d", "/e"], "writes": ['
        b'{"resource": "/a", "whole": true}]}, {"text": "y", "recorded": false, '
        b'"unrecorded_reason": "the tracer lagged"}]}]}'
    )
    console = Console(record=True, width=200, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    with console.file:
        cli_commands.print_summary(parse_trace(line), console=console)
        shown = console.export_text()
    assert "command 0: changed without a traced call: /a, /b, /c, /d, 1 more" in shown
    assert "command 1: not recorded, the tracer lagged" in shown


# What a machine may lack


def test_without_the_extra(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cli_commands, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(place))
    for command in (["trace", "--", "true"], ["shell"]):
        result = run(*command)
        assert result.exit_code == 1
        assert "Tracing commands needs the optional extra 'tracer'" in result.stderr
        assert "pip install 'depgpo-jax[tracer]'" in result.stderr


def test_without_strace(place: Path, monkeypatch: pytest.MonkeyPatch):
    real = cli_commands.shutil.which
    monkeypatch.setattr(
        cli_commands.shutil, "which", lambda name: None if name == "strace" else real(name)
    )
    result = run("trace", "--", "true")
    assert result.exit_code == 1
    assert "tracing: found no strace. Allowed: a machine with strace, unshare, " in result.stderr
    assert "Run `depgpo doctor`: it says how to get what is missing." in result.stderr


def test_on_another_system(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    for command in (["trace", "--", "true"], ["shell"], ["doctor"]):
        result = run(*command)
        assert result.exit_code == 1
        assert "found the system 'darwin'. Allowed: Linux" in result.stderr


def test_doctor_finds_everything_here():
    result = run("doctor")
    assert result.exit_code == 0, result.stdout
    for name in ("strace", "bwrap", "overlay", "limits", "sandbox"):
        assert re.search(rf"^ *ok +{name} ", result.stdout, re.MULTILINE)
    assert result.stdout.endswith("Everything that tracing needs is there.\n")


def test_doctor_says_what_is_missing_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    found = [
        doctor.Check("bash", True, "bash", "the shell", "", True),
        doctor.Check("strace", False, "no strace", "records", "Debian: apt install [it].", True),
        doctor.Check("pygit2", False, "no pygit2", "fast diffs", "pip install it.", False),
    ]
    monkeypatch.setattr(doctor, "checks", lambda: found)
    result = run("doctor")
    assert result.exit_code == 1
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[1:] == [
        "ok bash bash the shell",
        "MISSING strace no strace records",
        "without pygit2 no pygit2 fast diffs",
        "strace: Debian: apt install [it].",
        "pygit2: pip install it.",
    ]
    assert result.stderr == "1 thing missing: see above for how to get it.\n"


# shell


@pytest.mark.parametrize(
    ("text", "unfinished"),
    [
        ("ls", False),
        ("echo 'a", True),
        ('echo "a', True),
        ("cat <<X\na", True),
        ("cat <<X\na\nX", False),
        ("for i in 1 2; do", True),
        ("echo $(ls", True),
        ("ls \\", True),
        ("ls \\\\", False),
        ("fi", False),
        ("echo é", False),
    ],
)
def test_what_is_unfinished(text: str, unfinished: bool):
    assert is_unfinished(text) is unfinished


def test_a_shell_of_piped_lines(place: Path):
    lines = "x=5\n\ncat > f <<END\na $x\nEND\nprintf no-end\nfalse\nexit 3\ntouch never\n"
    result = run("shell", "--out", "t.jsonl", "--keep", "--inspect", "f", stdin=lines)
    assert result.exit_code == 0, result.stderr
    trace = only_trace((place / "t.jsonl").read_text())
    assert [c["text"] for c in commands_of(trace)] == [
        "x=5",
        "cat > f <<END\na $x\nEND",
        "printf no-end",
        "false",
    ]
    assert trace["verifier"] == [f"{place}/f"]
    assert result.stdout == "no-end\n"
    assert (place / "f").read_text() == "a 5\n"
    assert not (place / "never").exists()
    assert "4 commands, 1 failed, 1 resource written, inspected: " in result.stderr


def test_a_shell_writes_its_trace_to_standard_output_and_the_rest_to_standard_error(place: Path):
    result = run("shell", stdin="echo seen; kill -9 $$\necho 'never closed\n")
    assert result.exit_code == 0, result.stderr
    killed, unclosed = commands_of(only_trace(result.stdout))
    assert killed["exit_code"] == 137
    assert unclosed["exit_code"] not in (0, None)
    assert result.stderr.startswith("seen\n")
    assert "\n[the text ended the shell]\n" in result.stderr


def test_bytes_that_are_no_text_do_not_lose_a_session(place: Path):
    typed_in = b"echo caf\xff > f\nfalse\n"
    done = start("shell", "--keep", stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=place)
    out, _ = done.communicate(typed_in, 60)
    assert done.returncode == 0
    first, second = commands_of(only_trace(out.decode()))
    assert first["text"] == "echo caf\\xff > f"
    assert second["exit_code"] == 1
    assert (place / "f").read_bytes() == b"caf\xff\n"


def test_an_empty_session(place: Path):
    result = run("shell", stdin="")
    assert result.exit_code == 0, result.stderr
    assert only_trace(result.stdout)["steps"] == []
    assert result.stderr == "0 commands, 0 failed, 0 resources written\n"


class Typist:
    """A person at a pseudo-terminal of `depgpo shell`."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self._master, follower = pty.openpty()
        # Wide, or the line editor would cut a long prompt.
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 400, 0, 0))
        argv = [sys.executable, "-W", "error", "-m", "depgpo_jax", "shell", *arguments]
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *argv],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"},
            stdin=follower,
            stdout=follower,
            stderr=follower,
        )
        os.close(follower)
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def see(self, wanted: str, seconds: float = 60.0) -> None:
        """Waits for a text, and forgets what was shown up to it."""
        deadline = time.monotonic() + seconds
        while wanted not in self.shown:
            ready, _, _ = select.select([self._master], [], [], deadline - time.monotonic())
            assert ready, f"{wanted!r} is not in {self.shown!r}"
            try:
                self.shown += os.read(self._master, 65536).decode().replace("\r\n", "\n")
            except OSError:  # the other side is closed
                assert wanted in self.shown, f"{wanted!r} is not in {self.shown!r}"
        self.shown = self.shown.partition(wanted)[2]

    def close(self) -> int:
        code = self.process.wait(30)
        os.close(self._master)
        return code


def typed(*arguments: str, cwd: Path, act: Callable[[Typist], None]) -> int:
    typist = Typist(*arguments, cwd=cwd)
    try:
        act(typist)
    except BaseException:
        typist.process.kill()
        raise
    finally:
        code = typist.close()
    return code


def test_a_person_at_the_keyboard(place: Path):
    prompt = f"depgpo:{place}$ "

    def act(person: Typist) -> None:
        person.see(prompt)
        person.type("cd /tmp; echo 'one\n")
        person.see("> ")
        person.type("two'\n")
        person.see("one\ntwo\n")
        person.see("depgpo:/tmp$ ")
        person.type("sh -c 'echo wai\"\"ting; exec sleep 1234'\n")
        person.see("waiting\n")  # shown while the command still runs
        person.type("\x03")
        person.see("depgpo:/tmp$ ")
        person.type("read -p 'name? ' name; echo \"<$name>\"; cat > out\n")
        person.see("name? ")
        person.type("Ada\n")
        person.see("<Ada>\n")
        person.type("a line\n")
        time.sleep(0.2)
        person.type("\x04")
        person.see("depgpo:/tmp$ ")
        person.type("while echo roun''d; do sleep 0.2; done\n")
        person.see("round\n")
        person.type("\x03")
        person.see("round\n")
        person.see("round\n")
        person.type("\x03")
        person.see("[once more ends the shell, and a new one begins]")
        person.type("\x03")
        person.see("[the text ended the shell]")
        person.see("depgpo:/tmp$ ")
        person.type("a line that I do not want\x03")
        person.see("depgpo:/tmp$ ")
        person.type("\x04")
        person.see("4 commands, 2 failed, 1 resource written")

    assert typed("--out", "t.jsonl", cwd=place, act=act) == 0
    several, slept, asked, _ = commands_of(only_trace((place / "t.jsonl").read_text()))
    assert several["stdout"] == "one\ntwo\n"
    assert slept["exit_code"] == 130
    assert asked["writes"] == [{"resource": "/tmp/out", "hunks": [[0, 0, 1, 1]]}]


def test_a_person_who_names_no_file_is_told_that_nothing_is_kept(place: Path):
    def act(person: Typist) -> None:
        person.see("The trace will not be kept; give --out FILE for that.")
        person.see("$ ")
        person.type("echo new > new\n")
        person.see("$ ")
        person.type("exit\n")
        person.see("1 command, 0 failed, 1 resource written")
        person.see("The directory is as it was; --keep writes changes back.")

    assert typed(cwd=place, act=act) == 0
    assert list(place.iterdir()) == []
