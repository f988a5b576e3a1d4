"""Attempts to get out of a sandbox, or to hide in it; each has to fail."""

import os
import pty
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from depgpo_jax.tracer import sandbox, seccomp
from depgpo_jax.tracer.sandbox import Sandbox
from depgpo_jax.tracer.sandbox_config import MIB, SandboxError
from tests.sandboxes import commands, run, running, small, until

# Debian's perl-base is on every machine; it can make any system call.
SERVER = (
    "use Socket; socket(S, PF_INET, SOCK_STREAM, 0); setsockopt(S, SOL_SOCKET, SO_REUSEADDR, 1); "
    'bind(S, sockaddr_in($ARGV[0], inet_aton("127.0.0.1"))) or die $!; listen(S, 5); '
    '$| = 1; print "listening\\n"; while (accept(C, S)) { print C "hello\\n"; close C }'
)
PTRACE_ATTACH = {"x86_64": "syscall(101, 16, $ARGV[0], 0, 0)"}.get(
    os.uname().machine, "syscall(117, 16, $ARGV[0], 0, 0)"
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a").write_text("real\n")
    return folder


@pytest.fixture
def box(workspace: Path) -> Iterator[Sandbox]:
    with Sandbox(small(workspaces={str(workspace): "/app"})) as made:
        yield made


@pytest.fixture(params=["filter", "no filter"])
def either_box(
    request: pytest.FixtureRequest, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sandbox]:
    """With the filter of system calls, and without: then namespaces have to hold alone."""
    if request.param == "no filter":
        monkeypatch.setattr(sandbox, "filter_program", lambda: b"")
    with Sandbox(small(workspaces={str(workspace): "/app"})) as made:
        yield made


def test_nothing_outside_is_written(box: Sandbox, workspace: Path, tmp_path: Path) -> None:
    outside = [Path("/"), Path("/etc"), Path("/usr")]
    before = [sorted(folder.iterdir()) for folder in outside]
    mark = f"escaped-{uuid.uuid4().hex}"
    places = ["/", "/tmp", "/var/tmp", "/run", "/root", "/home", "/dev/shm", "/app", str(tmp_path)]
    for place in places:
        run(box, f"mkdir -p {place}; echo x > {place}/{mark}; echo x >> /app/a; rm -f /app/a")
    for place in ("/usr", "/etc", "/usr/bin", "/proc", "/dev", "/bin", "/lib"):
        assert run(box, f"echo x > {place}/{mark}").returncode != 0, place
    assert (workspace / "a").read_text() == "real\n"
    assert [place for place in places if os.path.lexists(f"{place}/{mark}")] == []
    assert before == [sorted(folder.iterdir()) for folder in outside]


def test_the_host_s_home_and_environment_do_not_show(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = uuid.uuid4().hex
    monkeypatch.setenv("SECRET_TOKEN", secret)
    beside = tmp_path / "secret"
    beside.write_text(secret)
    at_home = Path.home() / f".depgpo-test-{uuid.uuid4().hex}"
    at_home.write_text(secret)
    try:
        with Sandbox(small(workspaces={str(workspace): "/app"})) as box:
            found = run(
                box,
                f"env; cat /proc/*/environ /proc/*/cmdline; cat {beside} {at_home}; ls -a ~ /root "
                "/home; "
                f"grep -rs {secret[:16]} /root /home /tmp /run /var /srv /mnt /opt /dev/shm /app; "
                "true",
            ).stdout
    finally:
        at_home.unlink()
    # The names were asked for by the script itself, whose text is in its own command line.
    assert secret not in found
    assert found.count("No such file") == 2
    inside = {line.split("=")[0] for line in found.splitlines()[:20] if "=" in line}
    assert inside >= {"PATH", "HOME", "LANG"}
    assert "SECRET_TOKEN" not in found
    assert str(Path.cwd()) not in found


def test_what_only_root_may_read_in_etc_is_empty(box: Sandbox) -> None:
    found = run(
        box, "cat /etc/shadow /etc/gshadow 2>/dev/null | wc -c; cat /etc/hostname /etc/hosts"
    )
    assert found.stdout.splitlines()[:2] == ["0", "sandbox"]
    unreadable = "find /etc -type f -size +0 -readable ! -perm -004 2>/dev/null | wc -l"
    assert run(box, unreadable).stdout.strip() == "0"


def test_host_processes_are_neither_seen_nor_killed(box: Sandbox) -> None:
    with subprocess.Popen(["sleep", "4321.5"]) as victim:
        try:
            found = run(box, f"ps axo args; kill -9 {victim.pid}; kill -9 {os.getpid()}")
            assert "4321.5" not in found.stdout.replace(f"kill -9 {victim.pid}", "")
            assert found.stdout.count("No such process") == 2
            run(box, "kill -9 1; kill -9 -1")
            assert victim.poll() is None
            assert box.alive
            assert run(box, "echo still here").stdout == "still here\n"
        finally:
            victim.kill()


def test_ports_and_sockets_of_the_host_are_out_of_reach(box: Sandbox) -> None:
    name = f"depgpo-{uuid.uuid4().hex}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        abstract.bind(f"\0{name}")
        abstract.listen()
        port = tcp.getsockname()[1]
        connect = (
            "use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); "
            f'connect(S, pack("S a*", AF_UNIX, "\\0{name}")) and print "in"; print "$!\\n"'
        )
        found = run(box, f"echo x > /dev/tcp/127.0.0.1/{port}; perl -e '{connect}'").stdout
        assert found.count("Connection refused") >= 2
        assert "in" not in found.splitlines()[-1].split()
        others = run(
            box, "cat /proc/net/dev | tail -n +3 | cut -d: -f1; cat /proc/net/unix | wc -l"
        )
        assert others.stdout.split() == ["lo", "1"]


def test_another_sandbox_s_files_and_ports_are_out_of_reach(box: Sandbox, workspace: Path) -> None:
    with (
        Sandbox(small(workspaces={str(workspace): "/app"})) as other,
        running(other, f"echo mine > /tmp/mine; echo x > /app/a; perl -e '{SERVER}' 8080"),
    ):
        assert run(other, "cat < /dev/tcp/127.0.0.1/8080").stdout == "hello\n"
        found = run(box, "cat < /dev/tcp/127.0.0.1/8080; ls /tmp; cat /app/a; ps ax | grep -c perl")
        assert "refused" in found.stdout
        assert "mine" not in found.stdout
        assert "real\n" in found.stdout
        # System V memory is shared by all of one ipc namespace.
        run(other, "ipcmk -M 4096")
        assert run(other, "ipcs -m | grep -c 0x").stdout.strip() == "1"
        assert run(box, "ipcs -m | grep -c 0x").stdout.strip() == "0"


def test_a_fork_bomb_ends_with_the_sandbox(workspace: Path) -> None:
    with Sandbox(small(processes=40)) as box:
        bomb = subprocess.Popen(
            [*box.enter_prefix(), "bash", "-c", "bomb() { bomb | bomb & }; bomb; sleep 60"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.5)
        mine = [line for line in commands() if "bomb | bomb" in line and "bwrap" not in line]
        assert len(mine) <= 60
        assert subprocess.run(["true"], check=False).returncode == 0
        box.stop()
        bomb.wait(10)
        assert run(box, "echo again").stdout == "again\n"
    assert not [line for line in commands() if "bomb | bomb" in line]


def test_a_memory_bomb_is_killed() -> None:
    with Sandbox(small(memory_bytes=100 * MIB)) as box:
        bomb = run(box, "perl -e '$x = \"a\" x (400 << 20); print length $x'; echo $?")
        assert bomb.stdout.splitlines()[-1] != "0"
        assert str(400 << 20) not in bomb.stdout
        many = (
            "exec 2>/dev/null; for i in 1 2 3 4 5 6; "
            "do perl -e '$x = \"a\" x (60 << 20); sleep 1; print qq(held)' & done; wait"
        )
        if box.limits_method != "rlimit":  # which counts each process for itself
            assert run(box, many).stdout.count("held") < 6
        assert run(box, "echo again").stdout == "again\n"


def test_the_disk_fills_up_at_its_limit_everywhere() -> None:
    with Sandbox(small(disk_bytes=8 * MIB, files=500)) as box:
        for place in ("/tmp/f", "/dev/shm/f", "/root/f", "/f", "/var/tmp/f", "/run/f"):
            found = run(box, f"head -c 20M /dev/zero > {place}; stat -c %s {place}; rm {place}")
            assert "No space left" in found.stdout, place
            assert int(found.stdout.splitlines()[-1]) <= 8 * MIB
        found = run(box, "head -c 5M /dev/zero > /tmp/a; head -c 5M /dev/zero > /dev/shm/b")
        assert "No space left" in found.stdout
        found = run(box, "rm /tmp/a; mkdir /tmp/many; cd /tmp/many; touch $(seq 700); ls | wc -l")
        assert "No space left" in found.stdout
        assert int(found.stdout.splitlines()[-1]) <= 600
        # What a verifier writes has room of its own.
        kept = run(box, "echo 1 > /reward/x; cat /reward/x", private={"reward": "/reward"})
        assert kept.stdout == "1\n"


def test_nothing_grows_in_the_kernel_s_own_file_systems(box: Sandbox) -> None:
    found = run(
        box, "head -c 1M /dev/zero > /dev/x; mkdir /dev/y; echo x > /dev/pts/x; mkdir /proc/x"
    )
    assert len(found.stdout.splitlines()) == 4
    assert "x" not in run(box, "ls /dev").stdout.split()


def test_a_daemon_does_not_outlive_the_end(workspace: Path) -> None:
    mark = f"5{int(time.time() * 1000) % 10**9}"
    with Sandbox(small()) as box:
        run(box, f"nohup setsid sleep {mark} >/dev/null 2>&1 & (setsid -f sleep {mark}); sleep 0.1")
        with running(box, f"setsid -f sleep {mark}; trap '' TERM HUP INT; echo up; sleep {mark}"):
            assert until(lambda: [line for line in commands() if line.startswith(f"sleep {mark}")])
    assert not [line for line in commands() if mark in line]


def test_what_an_entry_leaves_behind_ends_with_it(box: Sandbox) -> None:
    mark = f"6{int(time.time() * 1000) % 10**9}"
    run(box, f"nohup setsid sleep {mark} >/dev/null 2>&1 & sleep 0.1")
    assert until(lambda: not [line for line in commands() if line.startswith(f"sleep {mark}")])


@pytest.mark.parametrize(
    "attempt",
    [
        "mount -t tmpfs none /mnt",
        "mount -t proc none /mnt",
        "mount --bind / /mnt",
        "mount -o remount,rw /usr",
        "mount -o remount,bind,rw /usr",
        "umount /usr",
        "umount -l /etc",
        "umount /app",
        "unshare -U true",
        "unshare -Ur mount -t tmpfs none /mnt",
        "unshare -m true",
        "unshare -n true",
        "unshare -p true",
        "nsenter -t 1 -m true",
        "nsenter -t 1 -U true",
        "nsenter -t 1 -p true",
        "chroot /app /bin/true",
        "pivot_root /app /app/old",
        "swapon /app/a",
        "hostname other",
        "ip link add d0 type dummy",
        "date -s 2001-01-01",
        "setpriv --reuid=1 true",
        "chown 12345 /app/a",
        "su nobody -s /bin/true",
        "chmod 777 /usr",
        "mknod /tmp/mem c 1 1",
        "mknod /tmp/disk b 254 0",
        "mknod /app/null c 1 3",
        "cat /dev/mem",
        "cat /dev/kmsg",
        "cat /proc/kcore",
        "cat /proc/kmsg",
        "dmesg",
        "ln /etc/passwd /tmp/passwd",
        "ln /usr/bin/true /app/true",
        "ls /sys/fs/cgroup/cgroup.procs",
        "prlimit --pid 1 --nofile=1:1 --nproc=1000000:1000000",
    ],
)
def test_refused(box: Sandbox, attempt: str) -> None:
    assert run(box, attempt).returncode != 0


def test_settings_of_the_kernel_are_not_written(box: Sandbox) -> None:
    # The same value again: were it written, nothing would change.
    script = (
        "for f in kernel/core_pattern vm/overcommit_memory kernel/printk net/ipv4/ip_forward "
        "fs/file-max "
        "kernel/hostname; do v=$(cat /proc/sys/$f); echo $v > /proc/sys/$f && echo written; done; "
        "echo h > /proc/sysrq-trigger && echo written; "
        "echo 0 > /proc/self/oom_score_adj && echo written; echo 0 0 1 > /proc/self/uid_map && "
        "echo written"
    )
    assert "written" not in run(box, script).stdout.splitlines()


def test_devices_are_the_harmless_ones(box: Sandbox) -> None:
    nodes = set(run(box, "cd /dev; find . -type c -o -type b | sort").stdout.split())
    assert nodes <= {
        f"./{name}"
        for name in ("null", "zero", "full", "random", "urandom", "tty", "console", "pts/ptmx")
    }


def test_the_host_s_device_nodes_keep_their_modes(box: Sandbox) -> None:
    nodes = [Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom", "tty")]
    before = [(node.stat().st_mode, node.stat().st_uid) for node in nodes]
    try:
        # For root these nodes are its own; the mode tried is not worse than the real one.
        ran = run(box, "for n in null zero full random urandom tty; do chmod 667 /dev/$n; done")
        assert ran.stdout.count("Read-only file system") == len(nodes)
        assert [(node.stat().st_mode, node.stat().st_uid) for node in nodes] == before
    finally:
        if os.geteuid() == 0:
            for node, (mode, _) in zip(nodes, before, strict=True):
                node.chmod(mode & 0o7777)
    assert run(box, "echo x > /dev/null && head -c 3 /dev/zero | wc -c").stdout == "3\n"


def test_no_privileges_and_none_to_gain(box: Sandbox) -> None:
    found = run(box, "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status").stdout.split("\n")
    values = dict(line.split(":\t") for line in found if line)
    assert {value for name, value in values.items() if name.startswith("Cap")} == {"0" * 16}
    assert values["NoNewPrivs"] == "1"
    assert values["Seccomp"] == "2"


def test_ptrace_of_a_process_outside(either_box: Sandbox) -> None:
    box = either_box
    attach = f"print {PTRACE_ATTACH} == 0 ? qq(attached) : $!"
    for pid in (os.getpid(), os.getppid()):
        said = run(box, f"perl -e '{attach}' {pid}").stdout
        assert said in ("No such process", "Operation not permitted")


def test_dot_dot_and_proc_links_stay_inside(box: Sandbox) -> None:
    found = run(box, "ls -a /../../.. /proc/*/root/ /proc/*/cwd/ /proc/self/root/../..").stdout
    names = set(found.split())
    assert "app" in names
    assert names.isdisjoint({"oldroot", "newroot", "bw", "seccomp", "private", "u0", "w0"})
    opened = run(box, "for fd in /proc/1/fd/* /proc/2/fd/[012]; do readlink $fd; done").stdout
    assert [name for name in opened.split() if name[:5] not in ("pipe:", "/dev/", "anon_")] == []
    planted = run(box, "echo x > /proc/1/root/planted; ls /proc/1/root/planted")
    assert not Path("/planted").exists()
    assert planted.returncode == 0


def test_typing_into_the_terminal_is_refused(box: Sandbox) -> None:
    master, slave = pty.openpty()
    type_x = 'perl -e \'$x = "x"; print ioctl(STDIN, 0x5412, $x) ? "typed" : "refused: $!"\''
    linux = 'perl -e \'$x = "\\3"; print ioctl(STDIN, 0x541c, $x) ? "typed" : "refused: $!"\''
    try:
        for new_session in (True, False):
            for attempt in (type_x, linux, f"setsid -c {type_x}"):
                argv = [*box.enter_prefix(new_session=new_session), "bash", "-c", attempt]
                ran = subprocess.run(argv, stdin=slave, capture_output=True, text=True, check=False)
                assert ran.stdout.startswith("refused"), (new_session, attempt, ran)
        os.set_blocking(slave, False)
        with pytest.raises(BlockingIOError):
            os.read(slave, 1)
    finally:
        os.close(master)
        os.close(slave)


def test_what_hides_from_a_tracer_is_refused(box: Sandbox) -> None:
    clone = seccomp.MACHINES[os.uname().machine].clone
    keyctl = seccomp.MACHINES[os.uname().machine].absent[2]
    attempts = {
        f"syscall({clone}, 0x00800000 | 17, 0, 0, 0, 0)": "Operation not permitted",
        "syscall(425, 8, 0)": "Function not implemented",
        "syscall(426, 1, 1, 0, 0, 0)": "Function not implemented",
        "syscall(435, 0, 0)": "Function not implemented",
        f"syscall({keyctl}, 0, -3, 0)": "Function not implemented",
        **{
            f"syscall({number}, 1, 0, 0, 0, 0)": "Operation not permitted"
            for number in (438, *seccomp.MACHINES[os.uname().machine].refused)
        },
    }
    for attempt, answer in attempts.items():
        assert run(box, f"perl -e '{attempt}; print $!'").stdout == answer, attempt
    if os.uname().machine == "x86_64":
        x32 = f"perl -e 'syscall({0x40000000 + 39}); print $!'"
        assert run(box, x32).stdout == "Function not implemented"
    assert run(box, "perl -e 'fork() == 0 and exit 7; wait; print $? >> 8'").stdout == "7"


def test_the_filter_of_an_unknown_processor_is_empty() -> None:
    assert seccomp.filter_program("vax") == b""
    assert len(seccomp.filter_program("x86_64")) % 8 == 0
    assert seccomp.filter_program("aarch64") != seccomp.filter_program("x86_64")


def test_a_planted_link_does_not_make_the_host_read(box: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    up = "../" * 20
    run(
        box,
        f"ln -s {secret} /app/abs; ln -s {up}{secret} /app/rel; ln -s / /app/root; "
        f"ln -s {tmp_path} /app/dir; ln -s /proc/self/root/ /app/magic; ln -s loop /app/loop; "
        "mkfifo /app/pipe; ln -s /dev/zero /app/zero; mkdir /app/d; ln -s /etc/hostname /app/h",
    )
    for name in ("abs", "rel", f"root{secret}", "dir/secret", f"magic{secret}", f"{up}{secret}"):
        for read in (box.host_path, box.open, lambda path: box.read(path, 100)):
            with pytest.raises(OSError, match=r"No such file|Too many"):
                read(os.fsencode(f"/app/{name}"))
    with pytest.raises(OSError, match="Too many"):
        box.stat(b"/app/loop")
    for name, kind in (("pipe", "a named pipe"), ("d", "a directory")):
        with pytest.raises(SandboxError, match=f"found {kind}. Allowed: a regular file"):
            box.read(f"/app/{name}".encode(), 100)
    with pytest.raises(SandboxError, match="found a symbolic link"):
        box.read(b"/app/h", 100, follow=False)
    # Followed inside, where the sandbox has a host name of its own.
    assert box.read(b"/app/h", 100) == b"sandbox\n"
    assert box.host_path(b"/app/h").endswith(b"/root/r/etc/hostname")
    run(box, "head -c 1000 /dev/zero > /app/big")
    with pytest.raises(SandboxError, match="found more than 999 bytes"):
        box.read(b"/app/big", 999)


def test_links_that_change_all_the_time_do_not_lead_out(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/x").write_text("outside")
    flip = (
        f"mkdir r; echo inside > r/x; ln -s {tmp_path}/d l; echo up; "
        "while :; do mv -T r d; mv -T d r; mv -T l d; mv -T d l; done"
    )
    seen: set[bytes] = set()
    with running(box, f"mkdir /app/t; cd /app/t; {flip}"):
        for _ in range(3000):
            try:
                seen.add(box.read(b"/app/t/d/x", 100))
            except OSError:
                continue
    assert seen <= {b"inside\n"}


def test_keeping_does_not_write_outside(box: Sandbox, workspace: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (workspace / "link").symlink_to(outside)
    (workspace / "folder").mkdir()
    (workspace / "folder/x").write_text("x")
    (workspace / "filelink").symlink_to(outside / "kept")
    with Sandbox(small(workspaces={str(workspace): "/app"})) as other:
        ran = run(
            other,
            f"cd /app; rm link; mkdir link; echo bad > link/kept; rm -r folder; ln -s {outside} "
            "folder; "
            "rm filelink; echo bad > filelink; mkfifo pipe; cp /bin/true true; chmod 4755 true; "
            "truncate -s 1T huge; mkdir -m 2777 open",
        )
        assert ran.returncode == 0
        changes = {change.path: change for change in other.apply_changes(str(workspace))}
    assert [p.name for p in outside.iterdir()] == ["kept"]
    assert (outside / "kept").read_text() == "kept"
    assert (workspace / "link").is_dir()
    assert not (workspace / "link").is_symlink()
    assert (workspace / "link/kept").read_text() == "bad\n"
    assert (workspace / "folder").is_symlink()
    assert (workspace / "filelink").read_text() == "bad\n"
    assert changes[b"pipe"].kind == "skipped"
    assert not (workspace / "pipe").exists()
    assert (workspace / "true").stat().st_mode & 0o7777 == 0o755
    assert (workspace / "open").stat().st_mode & 0o7000 == 0
    assert (workspace / "huge").stat().st_size == 1 << 40
    assert (workspace / "huge").stat().st_blocks < 100


def test_hard_links_of_the_workspace_do_not_reach_the_host(box: Sandbox, workspace: Path) -> None:
    os.link(workspace / "a", workspace / "b")
    with Sandbox(small(workspaces={str(workspace): "/app"})) as other:
        run(other, "cd /app; echo more >> b; ln a c; echo other >> c")
    assert (workspace / "a").read_text() == "real\n"


@pytest.mark.parametrize(
    "plant",
    [
        "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt",
        "ln -s /tmp /logs",
        "mkdir /logs; ln -s /app /logs/verifier",
        "mkdir /logs; ln -s /b/private/reward /logs/verifier",
        "mkdir /logs; ln -s ../../../../oldroot/b/private/reward /logs/verifier",
        "echo file > /logs",
        "mkdir -m 0 /logs",
    ],
)
def test_a_planted_reward_does_not_count(box: Sandbox, plant: str) -> None:
    run(box, plant)
    box.stop()
    seen = run(
        box,
        "ls -A /logs/verifier; mount | grep -c /logs/verifier; echo 0.25 > "
        "/logs/verifier/reward.txt",
        private={"reward": "/logs/verifier"},
    )
    assert seen.stdout == "1\n"
    assert box.read_private("reward", b"reward.txt", 100) == b"0.25\n"
    assert "0.25" not in run(box, "cat /logs/verifier/reward.txt").stdout


def test_a_reward_is_not_rewritten_by_a_process_left_behind(either_box: Sandbox) -> None:
    box = either_box
    attach = f"perl -e 'exit({PTRACE_ATTACH} == 0 ? 0 : 1)'"
    rewrite = (
        "echo up; while :; do mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; "
        "for p in /proc/[0-9]*; do echo 1 > $p/root/logs/verifier/reward.txt; "
        "echo 1 > $p/cwd/reward.txt; cat $p/environ >> /tmp/environ; done; "
        f"for p in $(pgrep verifier-here); do {attach} $p && echo $p >> /tmp/attached; "
        "ls /proc/$p/root/logs/verifier >> /tmp/looked; cat /proc/$p/mem >> /tmp/looked; done; "
        "done 2>/dev/null"
    )
    with running(box, rewrite):
        time.sleep(0.1)
        ran = run(
            box,
            "cp /bin/sleep /logs/verifier/verifier-here; cd /logs/verifier; ./verifier-here 0.5; "
            "ls; cat reward.txt 2>/dev/null; echo 0 > reward.txt; ./verifier-here 0.3; cat "
            "reward.txt",
            private={"reward": "/logs/verifier"},
            join=True,
            environment={"VERIFIER_ONLY": "verifier's own"},
        )
    assert ran.stdout == "verifier-here\n0\n"
    assert box.read_private("reward", b"reward.txt", 100) == b"0\n"
    left = run(box, "cat /tmp/attached /tmp/looked; grep -c own /tmp/environ").stdout
    assert left.splitlines()[-1] == "0"
    assert "verifier-here" not in left
    assert not [line for line in left.splitlines() if line.isdigit() and line != "0"]


def test_reading_a_private_directory_follows_nothing_out_of_it(
    box: Sandbox, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("1")
    run(
        box,
        f"cd /reward; ln -s {tmp_path}/secret reward.txt; ln -s ../../seccomp up; mkfifo pipe",
        private={"reward": "/reward"},
    )
    for name in (b"reward.txt", b"up", b"../../seccomp"):
        with pytest.raises(FileNotFoundError):
            box.read_private("reward", name, 100)
    with pytest.raises(SandboxError, match="a named pipe"):
        box.read_private("reward", b"pipe", 100)


def test_only_descriptors_passed_on_purpose_are_inherited(box: Sandbox) -> None:
    found = run(box, "ls /proc/self/fd; ls -l /proc/self/fd").stdout.split("total")[0].split()
    assert found == ["0", "1", "2", "3"]  # 3 is the directory that ls reads
