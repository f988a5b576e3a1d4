"""What this machine has of what the tracer and the sandbox need, and how to get the rest.

Every check tries the thing itself instead of reading a setting: settings differ between systems,
and containers add rules.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from typing import NamedTuple

from depgpo_jax.errors import DepgpoError
from depgpo_jax.tracer.limits import find_groups
from depgpo_jax.tracer.sandbox import Sandbox
from depgpo_jax.tracer.sandbox_config import SandboxConfig
from depgpo_jax.tracer.sandbox_layout import find_bwrap
from depgpo_jax.tracer.seccomp import filter_program

MIN_STRACE = (5, 19)
MIN_BWRAP = (0, 11)
_SECONDS = 20

_NAMESPACES = (
    "As root: sysctl -w user.max_user_namespaces=15000; on Debian also "
    "kernel.unprivileged_userns_clone=1, on Ubuntu also "
    "kernel.apparmor_restrict_unprivileged_userns=0. In a container: start it with --privileged, "
    "or with "
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --cap-add SYS_ADMIN."
)


class Check(NamedTuple):
    """What one check found.

    Args:
        name: what was looked for.
        ok: whether it is there and works.
        found: what was found, in a few words.
        purpose: what needs it.
        remedy: how to get it; empty if it is there.
        required: whether nothing can be traced without it.
    """

    name: str
    ok: bool
    found: str
    purpose: str
    remedy: str
    required: bool


class Found(NamedTuple):
    """What a probe says: whether it works, and in words."""

    ok: bool
    words: str


class Probe(NamedTuple):
    """A check before it ran."""

    name: str
    look: Callable[[], Found]
    purpose: str
    remedy: str
    required: bool = True


def checks() -> list[Check]:
    """Runs every check; takes about a second and leaves nothing behind."""
    done = []
    for probe in PROBES:
        try:
            found = probe.look()
        except (OSError, subprocess.SubprocessError, DepgpoError) as error:
            found = Found(False, " ".join(str(error).split()))
        remedy = "" if found.ok else probe.remedy
        done.append(Check(probe.name, found.ok, found.words, probe.purpose, remedy, probe.required))
    return done


def ready(done: Iterable[Check]) -> bool:
    """Whether everything required works."""
    return all(check.ok for check in done if check.required)


def text(done: Iterable[Check]) -> str:
    """The checks as plain text, one or two lines each."""
    lines = []
    for check in done:
        sign = "ok     " if check.ok else ("MISSING" if check.required else "without")
        lines.append(f"{sign} {check.name}: {check.found} (for {check.purpose})")
        if check.remedy:
            lines.append(f"        {check.remedy}")
    return "\n".join(lines) + "\n"


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command without input and with the end of its output at hand."""
    return subprocess.run(
        argv,
        input="",
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_SECONDS,
        check=False,
    )


def _tries(argv: list[str], works: str) -> Found:
    """Whether a command ends well."""
    ran = _run(argv)
    if ran.returncode == 0:
        return Found(True, works)
    said = (ran.stderr or ran.stdout).strip().splitlines()
    return Found(False, said[-1] if said else f"exit status {ran.returncode}")


def _version(argv: list[str], lowest: tuple[int, int]) -> Found:
    """Whether a program is new enough."""
    ran = _run(argv)
    match = re.search(r"(\d+)\.(\d+)(\.\d+)*", ran.stdout + ran.stderr)
    if ran.returncode or match is None:
        return Found(False, f"{argv[0]} does not say its version")
    wanted = ".".join(map(str, lowest))
    if (int(match[1]), int(match[2])) < lowest:
        return Found(False, f"version {match[0]}, older than {wanted}")
    return Found(True, f"version {match[0]}")


def _programs(*names: str) -> Found:
    missing = [name for name in names if shutil.which(name) is None]
    return Found(not missing, f"no {', '.join(missing)}" if missing else ", ".join(names))


def _namespaces() -> Found:
    argv = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--uts"]
    return _tries([*argv, "--fork", "true"], "user, mount, pid, network, ipc, uts")


def _in_namespace(script: str, works: str) -> Found:
    argv = ["unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-ec", script]
    return _tries(argv, works)


def _tmpfs() -> Found:
    script = "mount -n -t tmpfs -o size=64k none /sys; ! head -c 200000 /dev/zero > /sys/big"
    return _in_namespace(f"{script} 2>/dev/null", "sized")


def _overlay() -> Found:
    # A directory that is removed and made again needs extended attributes on the tmpfs (Linux 6.6).
    script = (
        "mount -n -t tmpfs none /sys; cd /sys; mkdir -p l/d u w m; : > l/d/old; cd /; "
        "mount -n -t overlay -o lowerdir=/sys/l,upperdir=/sys/u,workdir=/sys/w,userxattr none "
        "/sys/m; "
        "rm -r /sys/m/d; mkdir /sys/m/d; [ ! -e /sys/m/d/old ]"
    )
    return _in_namespace(script, "over a tmpfs, removed directories included")


def _limits() -> Found:
    groups = find_groups()
    if groups is not None:
        return Found(True, f"cgroup v{groups.version} at {', '.join(map(str, groups.parents))}")
    if os.geteuid() == 0:
        return Found(False, "no writable cgroups, and root, whom RLIMIT_NPROC does not hold")
    return Found(True, "resource limits (memory for each process, not together)")


def _sandbox(argv: list[str]) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        config = SandboxConfig(workspaces={os.path.realpath(folder): "/app"}, wall_s=_SECONDS)
        with Sandbox(config) as box:
            return _run([*box.enter_prefix(), *argv])


def _whole_sandbox() -> Found:
    ran = _sandbox(["/bin/sh", "-c", "echo x > /app/x && cat /app/x"])
    if ran.stdout == "x\n":
        return Found(True, "started, written in, ended")
    return Found(False, (ran.stderr.strip().splitlines() or ["no answer"])[-1])


def _filter() -> Found:
    known = bool(filter_program())
    return Found(known, "known processor" if known else "unknown processor: calls are not filtered")


def _python_inside() -> Found:
    ran = _sandbox(["/usr/bin/python3", "--version"])
    if ran.returncode == 0:
        return Found(True, ran.stdout.strip())
    return Found(False, "no /usr/bin/python3 (a Python below a home does not show inside)")


def _pty() -> Found:
    master, slave = os.openpty()
    os.close(master)
    os.close(slave)
    return Found(True, "can be opened")


def _package(name: str) -> Found:
    try:
        return Found(True, f"version {importlib.metadata.version(name)}")
    except importlib.metadata.PackageNotFoundError:
        return Found(False, "not installed")


PROBES: tuple[Probe, ...] = (
    Probe(
        "namespaces",
        _namespaces,
        "sandboxes",
        _NAMESPACES,
    ),
    Probe(
        "util-linux",
        lambda: _programs("unshare", "nsenter", "prlimit", "mount", "ldd", "env"),
        "sandboxes",
        "Debian: apt install util-linux mount libc-bin coreutils.",
    ),
    Probe(
        "bash", lambda: _programs("bash"), "the shell of a terminal", "Debian: apt install bash."
    ),
    Probe(
        "strace",
        lambda: _version(["strace", "-V"], MIN_STRACE),
        "records of reads and writes",
        f"Debian: apt install strace ({'.'.join(map(str, MIN_STRACE))} or later).",
    ),
    Probe(
        "ptrace",
        lambda: _tries(["strace", "-f", "-o", "/dev/null", "true"], "allowed"),
        "strace",
        "As root: sysctl -w kernel.yama.ptrace_scope=1 (2 and 3 forbid it). In a container: "
        "--cap-add SYS_PTRACE.",
    ),
    Probe(
        "bwrap",
        lambda: _version([find_bwrap(), "--version"], MIN_BWRAP),
        "sandboxes",
        "pip install 'depgpo-jax[tracer]' (Debian 12's bubblewrap 0.8 has no --overlay).",
    ),
    Probe("tmpfs", _tmpfs, "the limit on disk", _NAMESPACES),
    Probe(
        "overlay",
        _overlay,
        "copy-on-write workspaces",
        "Linux 6.6 or later with the overlay module (modprobe overlay), and namespaces as above.",
    ),
    Probe(
        "limits",
        _limits,
        "the limits on memory and processes",
        "Run as an ordinary user, or make the memory and pids cgroups writable (in a container: "
        "--privileged).",
    ),
    Probe("pty", _pty, "terminals", "Mount devpts: mount -t devpts devpts /dev/pts (Debian does)."),
    Probe(
        "sandbox",
        _whole_sandbox,
        "every rollout",
        "See the lines above; all of them have to be ok.",
    ),
    Probe(
        "call filter",
        _filter,
        "keeping io_uring and CLONE_UNTRACED from hiding",
        "Use x86_64 or aarch64.",
        False,
    ),
    Probe(
        "python inside",
        _python_inside,
        "tasks that run Python",
        "Debian: apt install python3.",
        False,
    ),
    Probe(
        "pygit2",
        lambda: _package("pygit2"),
        "fast line diffs",
        "pip install 'depgpo-jax[tracer]'; without it diffs take about eight times as long.",
        False,
    ),
    Probe(
        "numba",
        lambda: _package("numba"),
        "fast ownership replay",
        "pip install 'depgpo-jax[fast]'.",
        False,
    ),
)
