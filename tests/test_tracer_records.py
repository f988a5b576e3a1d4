"""Every row of the tracer's table of edge cases, run for real: the exact record."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from depgpo_jax.tracer.descendants import belonging
from depgpo_jax.tracer.events import Event
from depgpo_jax.tracer.recorder import Recorder
from depgpo_jax.tracer.session import TracedTerminal
from depgpo_jax.tracer.terminal import SessionLost
from tests.sandboxes import in_sandbox, until
from tests.tracing import (
    DELETED,
    WHOLE,
    Form,
    Record,
    Row,
    come_from,
    record,
    traced,
    validated,
    write_files,
)

ABC = b"one\ntwo\nthree\n"
FIVE = [(0, 0, 1, 5)]
THREE = [(0, 0, 1, 3)]
ONE = [(0, 0, 1, 1)]
PYTHON = f"{shlex.quote(sys.executable)} -ISB -c"

MMAP = """
import mmap
with open('f', 'r+b') as file, mmap.mmap(file.fileno(), 0) as memory:
    memory[4:7] = b'TWO'
"""
EXCHANGE = """
import ctypes
assert ctypes.CDLL(None).renameat2(-100, b'a', -100, b'b', 2) == 0
"""
SQLITE = """
import sqlite3
with sqlite3.connect('db') as db:
    db.execute('create table t(a)')
    db.execute('insert into t values(1)')
"""
WAL = """
import os, sqlite3
db = sqlite3.connect('db')
db.execute('pragma journal_mode=wal')
db.execute('insert into t values(2)')
db.commit()
os._exit(0)
"""
SERVER = """
use IO::Socket::INET;
my $s = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 5, Reuse => 1);
open(my $f, '>', 'port') or die; print $f $s->sockport, "\\n"; close $f;
while (my $c = $s->accept) { print $c "hello\\n"; close $c }
"""
CLIENT = """
use IO::Socket::INET;
open(my $f, '<', 'port') or die; my $p = <$f>; chomp $p;
my $c = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $p) or die; print <$c>;
"""
WAIT = "until [ -s port ]; do sleep 0.01; done"

ROWS = [
    Row("copy", "cat a > b", {"a"}, {"b": THREE}, {"a": ABC}),
    Row("sed", "sed -i s/two/2/ f", {"f"}, {"f": [(2, 1, 2, 1)]}, {"f": ABC}),
    Row(
        "cp_a",
        "cp -a d d2",
        {"d/x", "d/in/y"},
        {"d2/x": THREE, "d2/in/y": ONE},
        {"d/x": ABC, "d/in/y": b"y\n"},
    ),
    Row("move", "mv a b", {"a"}, {"b": come_from("a")}, {"a": ABC}),
    Row("move_over", "mv a b", {"a"}, {"b": come_from("a")}, {"a": ABC, "b": b"old\n"}),
    Row("move_append", "mv a b; echo z >> b", {"a"}, {"b": come_from("a")}, {"a": ABC}),
    Row("move_read", "mv a b; cat b", {"a"}, {"b": come_from("a")}, {"a": ABC}),
    Row("move_back", "mv a b; mv b a", {"a"}, {}, {"a": ABC}),
    Row("move_remove", "mv a b; rm b", {"a"}, {"a": DELETED}, {"a": ABC}),
    Row(
        "swap",
        "mv a t; mv b a; mv t b",
        {"a", "b"},
        {"a": come_from("b"), "b": come_from("a")},
        {"a": ABC, "b": b"b\n"},
    ),
    Row(
        "exchange",
        f"{PYTHON} {shlex.quote(EXCHANGE)}",
        {"a", "b"},
        {"a": come_from("b"), "b": come_from("a")},
        {"a": ABC, "b": b"b\n"},
    ),
    Row(
        "move_rewrite",
        "mv a b; echo new > a",
        {"a"},
        {"b": come_from("a"), "a": ONE},
        {"a": ABC},
    ),
    Row(
        "move_folder",
        "mv d e",
        {"d/x", "d/in/y"},
        {"e/x": come_from("d/x"), "e/in/y": come_from("d/in/y")},
        {"d/x": ABC, "d/in/y": b"y\n"},
    ),
    Row("move_new_folder", "mkdir d; echo x > d/f; mv d e; cat e/f", set(), {"e/f": ONE}),
    Row(
        "move_through_link",
        "ln -s d l; mv l/x l/y",
        {"d/x"},
        {"l": WHOLE, "d/y": come_from("d/x")},
        {"d/x": ABC},
    ),
    Row("symlink", "ln -s a l; cat l", {"a"}, {"l": WHOLE}, {"a": ABC}),
    Row(
        "symlink_exec",
        "chmod +x a; ln -s a l; ./l",
        {"a"},
        {"l": WHOLE, "meta:a": WHOLE},
        {"a": b"#!/bin/true\n"},
    ),
    Row("hard_link", "ln a h; echo z >> h", {"a"}, {"a": [(3, 0, 4, 1)]}, {"a": ABC}),
    Row("tee", "tee t1 t2 <<< x", set(), {"t1": ONE, "t2": ONE}),
    Row("python", f"{PYTHON} \"open('f', 'w').write('x\\n')\"", set(), {"f": ONE}),
    Row("remove", "rm f", set(), {"f": DELETED}, {"f": ABC}),
    Row("remove_folder", "rm -r d", set(), {"d/x": DELETED}, {"d/x": ABC}),
    Row("truncate", "truncate -s0 f", set(), {"f": WHOLE}, {"f": ABC}),
    Row("empty", ": > f", set(), {"f": WHOLE}, {"f": ABC}),
    Row("create_empty", ": > f", set(), {"f": WHOLE}),
    Row("append", "echo z >> f", set(), {"f": [(3, 0, 4, 1)]}, {"f": ABC}),
    Row("append_joined", "echo z >> f", set(), {"f": [(3, 1, 3, 1)]}, {"f": ABC[:-1]}),
    Row("append_read", "echo z >> f; cat f", {"f"}, {"f": [(3, 0, 4, 1)]}, {"f": ABC}),
    Row("final_newline", "echo >> f", set(), {}, {"f": ABC[:-1]}),
    Row("crlf", "printf 'a\\r\\nB\\r\\n' > f", set(), {"f": [(2, 1, 2, 1)]}, {"f": b"a\r\nb\r\n"}),
    Row(
        "atomic_save",
        "sed s/two/2/ f > .f.tmp; mv .f.tmp f",
        {"f"},
        {"f": [(2, 1, 2, 1)]},
        {"f": ABC},
    ),
    Row(
        "backup_save",
        "mv f f~; sed s/two/2/ f~ > f; rm f~",
        {"f"},
        {"f": [(2, 1, 2, 1)]},
        {"f": ABC},
    ),
    Row("temporary", "echo x > t; cat t; rm t", set(), {}),
    Row("write_read", "echo x > n; cat n", set(), {"n": ONE}),
    Row("overwrite_read", "echo x > f; cat f", set(), {"f": [(1, 3, 1, 1)]}, {"f": ABC}),
    Row("open_only", "exec 9>>f 8<>g 9>&- 8>&-; touch f", {"g"}, {}, {"f": ABC, "g": ABC}),
    Row("same", "cp f g", {"f"}, {}, {"f": ABC, "g": ABC}),
    Row("chmod", "chmod +x f", set(), {"meta:f": WHOLE}, {"f": ABC}),
    Row("chmod_same", "chmod --reference=f f", set(), {}, {"f": ABC}),
    Row("chmod_folder", "chmod 700 d", set(), {"meta:d": WHOLE}, {"d/x": ABC}),
    Row("chmod_made", "echo x > f; chmod +x f; mkdir d; chmod 700 d", set(), {"f": ONE}),
    Row("sparse", "truncate -s 1G f", set(), {"f": WHOLE}),
    Row("binary", "printf 'a\\0b' > f", set(), {"f": WHOLE}, {"f": ABC}),
    Row("not_utf8", "printf 'a\\xff' > f", set(), {"f": WHOLE}),
    Row("mmap", f"{PYTHON} {shlex.quote(MMAP)}", {"f"}, {"f": [(2, 1, 2, 1)]}, {"f": ABC}),
    Row("many", "for i in {1..1000}; do /bin/true; done; echo x > f", set(), {"f": ONE}),
    Row("pipe", "mkfifo p; (cat p > f) & echo x > p; wait", set(), {"p": WHOLE, "f": ONE}),
    Row("kind", "rm f; ln -s g f", set(), {"f": WHOLE}, {"f": ABC}),
    Row("failed", "cat missing; mv missing x; false", set(), {}, exit_code=1),
    Row("names_newline", "cat $'a\\nb' > \"q'\\\"\"", {"a\nb"}, {"q'\"": THREE}, {"a\nb": ABC}),
    Row(
        "names_backslash",
        "cat 'a\\b' > $'\\\\\\xff'",
        {"a\\\\b"},
        {"\\\\\\xff": ONE},
        {"a\\b": b"x\n"},
    ),
    Row("names_utf8", "echo x > 'ä 🂡'", set(), {"ä 🂡": ONE}),
    Row("wal", "echo x > notes-wal; cat notes-wal", set(), {"notes-wal": ONE}, {"notes": ABC}),
    Row("sqlite", f"{PYTHON} {shlex.quote(SQLITE)}", set(), {"db": WHOLE}),
]


@pytest.fixture(scope="module", params=["real directory", "sandbox"])
def records(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Record]:
    """All rows, each in its folder, in one session."""
    folder = tmp_path_factory.mktemp("rows")
    for row in ROWS:
        write_files(folder / row.name, row.files)
    texts = [f"cd {folder}/{row.name}\n{row.command}" for row in ROWS]
    with ExitStack() as stack:
        options = stack.enter_context(in_sandbox(folder)) if request.param == "sandbox" else {}
        terminal = stack.enter_context(TracedTerminal([bytes(folder)], **options))
        for text in texts:
            terminal.run(text)
        commands = validated(terminal.commands(texts))
    return {
        row.name: record(command, folder / row.name)
        for row, command in zip(ROWS, commands, strict=True)
    }


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_record_of_one_command(row: Row, records: dict[str, Record]):
    assert records[row.name] == Record(row.reads, row.writes, set(), row.exit_code)


def test_archive_is_read_and_what_comes_out_is_new(tmp_path: Path):
    files = {"d/text": ABC, "d/bin": b"\0\1", "d/in/y": b"y\n"}
    texts = ["tar cf t.tar d", "mkdir out; tar xf t.tar -C out", "tar xf t.tar"]
    packed, fresh, again = traced(tmp_path, texts, files)
    assert packed == Record({"d/text", "d/bin", "d/in/y"}, {"t.tar": WHOLE})
    new: dict[str, Form] = {"out/d/text": THREE, "out/d/bin": WHOLE, "out/d/in/y": ONE}
    assert fresh == Record({"t.tar"}, new)
    assert again == Record({"t.tar"}, {})  # the same contents again


def test_git_checkout_changes_lines_and_takes_files_away(tmp_path: Path):
    git = "git -c user.name=n -c user.email=e@x -c gc.auto=0"
    texts = [
        f"git init -q -b main . && git add f bin && {git} commit -q -m 1",
        f"git checkout -q -b other; sed -i s/two/2/ f; printf '\\0\\2' > bin; echo n > new; "
        f"git add f bin new; {git} commit -q -m 2",
        "git checkout -q main",
        "git checkout -q other",
    ]
    found = traced(tmp_path, texts, {"f": ABC, "bin": b"\0\1"})
    trees = [
        {name: form for name, form in one.writes.items() if not name.startswith(".git/")}
        for one in found
    ]
    assert trees == [
        {},
        {"f": [(2, 1, 2, 1)], "bin": WHOLE, "new": ONE},
        {"f": [(2, 1, 2, 1)], "bin": WHOLE, "new": DELETED},
        {"f": [(2, 1, 2, 1)], "bin": WHOLE, "new": ONE},
    ]
    assert {one.exit_code for one in found} == {0}
    for one in found:
        assert not one.untraced
        assert not [name for name in one.writes if name.startswith("meta:")]
    assert ".git/HEAD" in found[2].reads


def test_hard_links_are_one_resource_under_the_name_that_is_left(tmp_path: Path):
    texts = [
        "ln a h",
        "echo z >> h; cat h",
        "mv h k",
        "rm k; ln a h",
        "rm a",
        "cat h",
        "echo y >> h",
    ]
    assert traced(tmp_path, texts, {"a": ABC}) == [
        Record({"a"}, {}),
        Record({"a"}, {"a": [(3, 0, 4, 1)]}),
        Record({"a"}, {}),
        Record({"a"}, {}),
        Record(set(), {"h": come_from("a")}),
        Record({"h"}, {}),
        Record(set(), {"h": [(4, 0, 5, 1)]}),
    ]


def test_hard_links_of_files_of_the_real_directory(tmp_path: Path):
    """In an overlay a linked file has one inode under its old name and another under the new."""
    texts = [
        "ln a h; echo z >> h",
        "echo y >> a",
        "ln d/x e; echo 1 >> e; echo 2 >> d/x",
        "mv d/x f; echo 3 >> e; cat f",
        "rm a; cat h",
        "cp -al p q",  # the two names of p/x part: the overlay copies each of them
        "echo k >> p/x; cat q/x",
    ]
    write_files(tmp_path, {"a": ABC, "d/x": b"x\n", "p/x": b"x\n"})
    (tmp_path / "p/y").hardlink_to(tmp_path / "p/x")
    with in_sandbox(tmp_path) as options:
        found = traced(tmp_path, texts, **options)
    assert found == [
        Record({"a"}, {"a": [(3, 0, 4, 1)]}),
        Record(set(), {"a": [(4, 0, 5, 1)]}),
        Record({"d/x"}, {"d/x": [(1, 0, 2, 2)]}),
        Record({"d/x"}, {"e": come_from("d/x")}),
        Record({"a"}, {"h": come_from("a")}),
        Record({"p/x"}, {"p/y": ONE}),
        Record({"p/x"}, {"p/x": [(1, 0, 2, 1)]}),
    ]


def test_what_passes_through_a_pipe_is_no_change_of_it(tmp_path: Path):
    texts = ["mkfifo p", "(cat p > f) & echo x > p; wait"]
    with in_sandbox(tmp_path) as options:
        made, used = traced(tmp_path, texts, **options)
    assert made == Record(set(), {"p": WHOLE})
    assert used == Record({"p"}, {"f": ONE})


def test_meta_is_read_by_a_later_exec(tmp_path: Path):
    found = traced(tmp_path, ["chmod +x f", "./f", "chown 12345 f"], {"f": b"#!/bin/true\n"})
    assert found[:2] == [Record(set(), {"meta:f": WHOLE}), Record({"f", "meta:f"}, {})]
    may = os.geteuid() == 0
    owner = Record(set(), {"meta:f": WHOLE} if may else {}, exit_code=0 if may else 1)
    assert found[2] == owner


def test_server_owns_port_and_process_until_it_is_killed(tmp_path: Path):
    files = {"server.pl": SERVER.encode(), "client.pl": CLIENT.encode()}
    texts = [
        f"nohup perl server.pl >/dev/null 2>&1 & {WAIT}",
        "perl client.pl",
        "kill $!; wait",
    ]
    server, client, kill = traced(tmp_path, texts, files)
    port = f"tcp:{(tmp_path / 'port').read_text().strip()}"
    assert server == Record({"server.pl"}, {"port": ONE, port: WHOLE, "process:perl": WHOLE})
    assert client == Record({"client.pl", "port", port}, {})
    assert kill == Record(set(), {port: DELETED, "process:perl": DELETED})


def test_unix_and_udp_sockets(tmp_path: Path):
    script = """
        use IO::Socket::UNIX; use IO::Socket::INET;
        my $s = IO::Socket::UNIX->new(Local => 's', Listen => 1);
        my $u = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Proto => 'udp',
            LocalPort => $ARGV[0]) or die;
        my $c = IO::Socket::UNIX->new(Peer => 's') or die;
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (found,) = traced(tmp_path, [f"perl -e {shlex.quote(script)} {port}"])
    assert found == Record(set(), {"unix:s": WHOLE, f"udp:{port}": WHOLE})


def test_late_write_belongs_to_the_command_that_started_the_writer(tmp_path: Path):
    texts = [
        "(sleep 0.3; echo late > f; echo more >> f) &",
        "echo other > g",
        "wait; cat f",
        "sed -i s/late/2/ f",
    ]
    late, other, reader, editor = traced(tmp_path, texts)
    assert late.writes == {"f": [(0, 0, 1, 2)], "process:bash": WHOLE, "process:sleep": WHOLE}
    assert other == Record(set(), {"g": ONE})
    assert reader == Record({"f"}, {})
    assert editor == Record({"f"}, {"f": [(1, 1, 1, 1)]})


def test_writes_through_what_was_opened_earlier(tmp_path: Path):
    texts = [
        "(for i in 1 2 3 4; do sleep 0.1; echo $i; done) > log & exec 7>>mine",
        "sleep 0.25",
        "echo x >&7",
        "wait",
    ]
    log, sleep, own, wait = traced(tmp_path, texts)
    assert log.writes["log"] == [(0, 0, 1, 4)]
    assert log.writes["mine"] == WHOLE  # created empty
    assert (sleep.writes, wait.writes) == ({}, {})
    assert own == Record(set(), {"mine": ONE})


def test_one_file_by_two_commands_at_one_time(tmp_path: Path):
    texts = [
        "(until [ -e go ]; do sleep 0.01; done; echo a >> f; : > done) &",
        "echo b >> f; : > go; until [ -e done ]; do sleep 0.01; done; echo c >> f",
        "cat f",
    ]
    first, second, reader = traced(tmp_path, texts, {"f": ABC})
    assert first.writes["f"] == WHOLE
    assert second.writes["f"] == WHOLE
    assert "f" in second.reads
    assert reader == Record({"f"}, {})


def test_sqlite_log_that_stays_is_a_write_of_the_database(tmp_path: Path):
    texts = [
        f"{PYTHON} {shlex.quote(SQLITE)}",
        f"{PYTHON} {shlex.quote(WAL)}",
        "cat db-wal > /dev/null",
    ]
    found = traced(tmp_path, texts)
    assert (tmp_path / "db-wal").stat().st_size > 0
    assert found == [
        Record(set(), {"db": WHOLE}),
        Record({"db"}, {"db": WHOLE}),
        Record({"db"}, {}),
    ]


def test_change_from_outside_is_untraced(tmp_path: Path):
    write_files(tmp_path, {"f": ABC, "g": ABC})
    with TracedTerminal([bytes(tmp_path)]) as terminal:
        terminal.run(f"cd {tmp_path}; true")
        (tmp_path / "f").write_bytes(ABC + b"four\n")
        (tmp_path / "n").write_bytes(b"n\n")
        (tmp_path / "g").chmod(0o700)
        terminal.run("cat f")
        os.utime(tmp_path / "f")
        terminal.run("true")
        commands = validated(terminal.commands(["cd", "cat f", "true"]))
    _, changed, touched = [record(command, tmp_path) for command in commands]
    writes: dict[str, Form] = {"f": [(3, 0, 4, 1)], "n": ONE, "meta:g": WHOLE}
    assert changed == Record({"f"}, writes, {"f", "n", "meta:g"})
    assert touched == Record(set(), {})


def test_a_call_that_is_told_late_explains_the_change_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A background process may write just before its command ends, and be told of just after."""
    recorder = Recorder(b"/", [bytes(tmp_path)], "/marks")
    told: list[Event] = []
    monkeypatch.setattr(recorder, "_parser", SimpleNamespace(feed=lambda _: told))

    def feed(*events: Event) -> None:
        told[:] = events
        recorder.feed(b"")

    def mark(name: str) -> Event:
        return Event(2, "open", b"/marks/" + name.encode(), result=-1, error="ENOENT")

    feed(mark("0/begin"), Event(2, "fork", result=3, detail="3"), mark("0/end"))
    write_files(tmp_path, {"log": b"started\n", "other": b"x\n"})
    assert list(recorder.finish(0).untraced) == [f"{tmp_path}/log", f"{tmp_path}/other"]
    flags = frozenset({"O_WRONLY", "O_CREAT", "O_TRUNC"})
    feed(Event(3, "open", bytes(tmp_path / "log"), flags=flags))
    [draft] = recorder.drafts()
    assert list(draft.untraced) == [f"{tmp_path}/other"]
    assert {f"{tmp_path}/log", f"{tmp_path}/other"} < set(draft.writes)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("echo x > f; kill -9 $$; echo y > g", 137),
        ("echo x > f; exit 3; echo y > g", 3),
        ("exec sh -c 'echo x > f; exit 4'", 4),
        ("set -e; echo x > f; false; echo y > g", 1),
    ],
    ids=["kill", "exit", "exec", "set_e"],
)
def test_text_that_ends_the_shell_has_a_record(text: str, code: int, tmp_path: Path):
    broken, later = traced(tmp_path, [text, "pwd > h; cat f"])
    assert broken == Record(set(), {"f": ONE}, exit_code=code)
    assert later == Record({"f"}, {"h": ONE})
    assert (tmp_path / "h").read_text().strip() == str(tmp_path)


def test_text_that_is_no_shell_text(tmp_path: Path):
    quote, later = traced(tmp_path, ["echo 'x > f", "set -e", "echo x > f"])[::2]
    assert quote.writes == {}
    assert quote.exit_code not in (0, None)
    assert later == Record(set(), {"f": ONE})


def test_command_that_runs_out_of_time_keeps_what_it_did(tmp_path: Path):
    write_files(tmp_path, {"f": ABC})
    texts = [f"cd {tmp_path}", "cat f > g; trap '' INT; sleep 60; echo > h", "cat g"]
    with TracedTerminal([bytes(tmp_path)]) as terminal:
        terminal.run(texts[0])
        assert terminal.run(texts[1], time_limit_s=0.3).failure == "timed out after 0.3 s"
        terminal.run(texts[2])
        commands = validated(terminal.commands(texts))
    _, half, later = [record(command, tmp_path) for command in commands]
    assert half.reads == {"f"}
    assert half.writes["g"] == THREE
    assert half.exit_code is None
    assert later == Record({"g"}, {})


def test_tracer_that_is_killed_leaves_nothing_running(tmp_path: Path):
    texts = [f"cd {tmp_path}; echo x > f", "setsid sleep 61 & sleep 60", "cat f"]
    with TracedTerminal([bytes(tmp_path)]) as terminal:
        tracer = terminal.terminal.process.pid
        terminal.run(texts[0])
        killer = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -9 {tracer}"])
        started = time.monotonic()
        with pytest.raises(SessionLost, match="terminal session: found that"):
            terminal.run(texts[1])
        assert time.monotonic() - started < 10.0
        killer.wait()
        with pytest.raises(SessionLost, match="start a new session"):
            terminal.run(texts[2])
        pids = [int(pid) for pid in vars(terminal)["_recorder"].pids()]
        commands = validated(terminal.commands(texts))
    assert pids
    assert until(lambda: not any(_lives(pid) for pid in pids))
    whole, lost, later = [record(command, tmp_path) for command in commands]
    assert whole == Record(set(), {"f": ONE})
    assert [lost.recorded, later.recorded] == [False, False]
    assert "start a new session" in str(commands[1].unrecorded_reason)


def test_close_ends_what_left_the_shell(tmp_path: Path):
    terminal = TracedTerminal([bytes(tmp_path)])
    with terminal:
        terminal.run("(setsid sleep 62 &) ; sleep 63 & disown")
        pids = belonging(terminal.terminal.process.pid)
        assert len(pids) >= 4
        started = time.monotonic()
    assert time.monotonic() - started < 2.0
    assert until(lambda: not any(_lives(pid) for pid in pids))
    terminal.close()


def test_command_line_that_cannot_start_does_not_hang(tmp_path: Path):
    started = time.monotonic()
    wrong = TracedTerminal([bytes(tmp_path)], wrap=lambda argv: ["/missing", *argv])
    with wrong, pytest.raises(SessionLost, match="its process ended with"):
        wrong.run("true")
    assert time.monotonic() - started < 5.0


def test_tracer_is_named_and_late_lines_are_waited_for(tmp_path: Path):
    with TracedTerminal([bytes(tmp_path)]) as terminal:
        tracer = terminal.terminal.process.pid
        threading.Timer(0.4, os.kill, (tracer, signal.SIGCONT)).start()
        os.kill(tracer, signal.SIGSTOP)
        terminal.run(f"echo x > {tmp_path}/f")
        (command,) = validated(terminal.commands(["echo"]))
    assert record(command, tmp_path) == Record(set(), {"f": ONE})
    assert command.backend == "strace"


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False
