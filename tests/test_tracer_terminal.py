"""A terminal session: what survives, what is limited, what ends, and that nothing is left."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from depgpo_jax.errors import ConfigError
from depgpo_jax.tracer.descendants import belonging, descendants
from depgpo_jax.tracer.output import Output
from depgpo_jax.tracer.terminal import SessionLost, Terminal, TerminalConfig
from tests.sandboxes import until


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with Terminal() as session:
        yield session


def test_state_survives_from_text_to_text(terminal: Terminal, tmp_path: Path):
    ended = terminal.run(
        f"mkdir -p '{tmp_path}/a b'; cd '{tmp_path}/a b'; x=1; f() {{ echo f$1; }}"
    )
    assert (ended.number, ended.output, ended.exit_code) == (0, b"", 0)
    assert ended.cwd == f"{tmp_path}/a b"
    assert ended.started <= ended.ended
    assert terminal.run("export Y=2; f $x").output == b"f1\n"
    assert terminal.run("bash -c 'echo $Y'; pwd").output == f"2\n{tmp_path}/a b\n".encode()
    assert terminal.run("alias q=false; shopt -s expand_aliases; set -o pipefail").exit_code == 0
    assert terminal.run("q | true").exit_code == 1
    assert terminal.run("echo $?").output == b"1\n"


def test_texts_of_several_lines_and_any_characters(terminal: Terminal):
    text = "cat <<'E'\nä \\ $x \x1b[0m\nE\nprintf '%s' \"no newline\""
    assert terminal.run(text).output == "ä \\ $x \x1b[0m\nno newline".encode()
    assert terminal.run("").exit_code == 0
    assert terminal.run("# only a comment").output == b""
    assert terminal.run("printf '\\377\\n'").output == b"\xff\n"
    long = "x" * 200_000
    assert terminal.run(f": {long}; echo ok").output == b"ok\n"


def test_text_cannot_reach_the_descriptors_of_the_session(terminal: Terminal):
    assert terminal.run("ls -l /proc/self/fd | grep -c pipe").output == b"1\n"  # its own
    assert terminal.run("echo x >&201").exit_code == 1
    assert terminal.run("exec 200<&- 201>&- 202>&-; echo ok").output == b"ok\n"
    assert terminal.run("exec >/dev/null 2>&1; echo gone").output == b""
    assert terminal.run("echo still gone").exit_code == 0
    assert terminal.run("exec >/dev/tty; echo back").output == b"back\n"


def test_functions_with_the_names_of_our_builtins_do_no_harm(terminal: Terminal):
    terminal.run("printf() { echo mine; }; read() { false; }; cd() { false; }; eval() { false; }")
    assert terminal.run("printf x").output == b"mine\n"
    assert terminal.run("exit 1").shell_ended
    assert terminal.run("printf x").output == b"x"


def test_long_output_loses_its_middle():
    with Terminal(config=TerminalConfig(output_limit=1000)) as terminal:
        ended = terminal.run("echo begin; seq 100000; echo end")
        assert ended.output.startswith(b"begin\n1\n2\n")
        assert ended.output.endswith(b"100000\nend\n")
        left_out = re.search(rb"\.\.\. (\d+) bytes left out \.\.\.", ended.output)
        assert left_out is not None
        assert int(left_out[1]) == len("".join(f"{k}\n" for k in range(1, 100001))) + 10 - 1000
        assert len(ended.output) < 1100
        assert terminal.run("echo short").output == b"short\n"


def test_output_of_any_pieces():
    for size in (1, 3, 1000):
        output = Output(10)
        data = b"0123456789abcdef"
        for at in range(0, len(data), size):
            output.add(data[at : at + size])
        assert output.bytes() == b"01234\n... 6 bytes left out ...\nbcdef"


@pytest.mark.parametrize(
    "text",
    ["sleep 60", "while :; do :; done", "trap '' INT; sleep 60", "kill -STOP $$", "cat"],
    ids=["sleep", "busy", "ignored", "stopped", "reads"],
)
def test_time_limit(terminal: Terminal, text: str):
    terminal.run("cd /usr; sleep 65 & true")
    started = time.monotonic()
    ended = terminal.run(f"echo before; {text}", time_limit_s=0.2)
    assert time.monotonic() - started < 5.0
    assert ended.failure == "timed out after 0.2 s"
    assert ended.exit_code is None
    assert ended.output.startswith(b"before\n")
    after = terminal.run("pwd; trap - INT")
    assert after.output == b"/usr\n"
    assert after.failure is None
    assert _running(terminal, b"sleep\00065\0")  # what ran before goes on
    assert not _running(terminal, b"sleep\00060\0")


def test_program_that_took_the_terminal_over_gives_it_back(terminal: Terminal):
    terminal.run("stty raw -echo; sleep 60", time_limit_s=0.2)
    assert terminal.run("stty -a | grep -o ' icanon'").output == b" icanon\n"
    assert terminal.run("read -t 0.1 line; echo [$line]").output == b"[]\n"


def test_background_lives_on_until_the_end():
    with Terminal() as terminal:
        assert terminal.run("sleep 66 & echo $!").output.strip().isdigit()
        assert terminal.run("kill -0 $!").exit_code == 0
        assert terminal.run("(setsid sleep 67 &)").exit_code == 0
        (pid,) = [pid for pid in belonging(terminal.process.pid) if _line(pid) == b"sleep\00066\0"]
    assert until(lambda: not _lives(pid))


def test_programs_have_a_terminal(terminal: Terminal):
    assert terminal.run("tty >/dev/null && test -t 1 && stty size").output == b"40 120\n"
    assert terminal.run("echo typed > $(tty)").output == b"typed\n"
    assert terminal.run("bash --norc -ic 'echo $-' 2>/dev/null | grep -c i").output == b"1\n"
    # Nothing is asked for and nothing that was typed is repeated.
    assert terminal.run("true").output == b""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("exit 3", 3),
        ("exec sh -c 'exit 4'", 4),
        ("kill -9 $$", 137),
        ("set -e; false", 1),
        ("set -u; echo $missing", 127),
        ("echo x; kill $$", 143),
    ],
    ids=["exit", "exec", "kill", "set_e", "set_u", "term"],
)
def test_text_that_ends_the_shell(terminal: Terminal, text: str, code: int):
    terminal.run("cd /usr; x=1")
    ended = terminal.run(text)
    assert ended.failure == "the text ended the shell"
    assert (ended.exit_code, ended.shell_ended, ended.cwd) == (code, True, "/usr")
    after = terminal.run("echo $x; pwd")
    assert (after.output, after.exit_code, after.failure) == (b"\n/usr\n", 0, None)


def test_set_e_stays_and_does_not_end_the_shell_by_itself(terminal: Terminal):
    assert terminal.run("set -e").failure is None
    assert terminal.run("true").failure is None
    assert terminal.run("false").failure == "the text ended the shell"
    assert terminal.run("false").exit_code == 1


def test_text_that_is_no_shell_text(terminal: Terminal):
    ended = terminal.run("echo 'open")
    assert ended.exit_code not in (0, None)
    assert ended.failure is None
    assert b"unexpected EOF" in ended.output
    assert terminal.run("if true; then").exit_code not in (0, None)
    assert terminal.run("echo ok").output == b"ok\n"


def test_shell_that_dies_between_two_texts(terminal: Terminal):
    terminal.run("cd /usr; (sleep 0.1; kill -9 $$) &")
    time.sleep(0.4)
    ended = terminal.run("pwd")
    assert (ended.output, ended.failure, ended.shell_ended) == (b"/usr\n", None, False)
    terminal.run("(sleep 0.1; kill -9 $$) &")
    ended = terminal.run("sleep 60")  # dies within a text
    assert (ended.exit_code, ended.shell_ended) == (137, True)


def test_nul_and_half_a_character_are_refused(terminal: Terminal):
    with pytest.raises(ConfigError, match=r"found a NUL in the text; allowed: text without it"):
        terminal.run("echo \0")
    half = r"found half a character \('\\ud800'\) in the text; allowed: Unicode, and bytes as"
    with pytest.raises(ConfigError, match=half):
        terminal.run("echo \ud800")
    assert terminal.run("echo ok").number == 0


@pytest.mark.parametrize("field", ["time_limit_s", "output_limit", "columns", "rows"])
def test_limits_are_above_zero(field: str):
    with pytest.raises(ConfigError, match=rf"TerminalConfig.{field}: found 0; allowed: above 0"):
        TerminalConfig(**{field: 0})


def test_session_that_is_lost_says_so(terminal: Terminal):
    terminal.run("sleep 68 & true")
    pids = [terminal.process.pid, *belonging(terminal.process.pid)]
    terminal.process.kill()
    terminal.process.wait()
    with pytest.raises(SessionLost, match=r"its process ended with -9; start a new session"):
        terminal.run("echo x")
    assert until(lambda: not any(_lives(pid) for pid in pids))
    with pytest.raises(SessionLost, match="start a new session"):
        terminal.run("echo x")


def test_session_that_cannot_start():
    wrong = Terminal(lambda _: ["/missing/program"])
    with wrong, pytest.raises(SessionLost, match="start a new session"):
        wrong.run("echo x")


def test_environment_is_what_was_given():
    with Terminal(environment={"PATH": os.environ["PATH"], "ONLY": "1"}) as terminal:
        names = terminal.run("env | cut -d= -f1 | sort | tr '\\n' ' '").output.split()
    assert set(names) <= {b"ONLY", b"PATH", b"PWD", b"SHLVL", b"_", b"OLDPWD"}


def test_sessions_leave_no_descriptor_and_no_process():
    def left() -> tuple[int, int]:
        return len(list(os.scandir("/proc/self/fd"))), len(descendants(os.getpid()))

    with Terminal() as terminal:
        terminal.run("true")
    before = left()
    for number in range(100):
        with Terminal() as terminal:
            if number % 10 == 0:
                terminal.run("sleep 69 & true")
    assert left() == before
    terminal.close()


def _running(terminal: Terminal, line: bytes) -> bool:
    return any(_line(pid) == line for pid in belonging(terminal.process.pid))


def _line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False
