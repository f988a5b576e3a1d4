"""Limits on memory and processes: control groups where they can be written, else resource limits.

Disk is limited by the size of the sandbox's tmpfs and wall time by the process that holds the
sandbox; both hold without this module. A tmpfs's pages are memory too, so a group's memory limit is
memory and disk together.
"""

from __future__ import annotations

import functools
import itertools
import os
import secrets
import shlex
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from depgpo_jax.tracer.sandbox_config import SandboxConfig, SandboxError

# The shell, nsenter and bwrap on the way in count as processes of the group too.
ON_THE_WAY = 16
_PREFIX = "depgpo-"

ABANDONED_S = 60.0
"""A group of a process that is not there was left by it, once it is older."""

_counter = itertools.count()


class Groups(NamedTuple):
    """Where groups can be made.

    Args:
        version: 1 or 2.
        parents: for version 1 the memory and the pids directory, for version 2 one directory.
    """

    version: int
    parents: tuple[Path, ...]


class Limits(NamedTuple):
    """The limits of one sandbox.

    Args:
        method: "cgroup v1", "cgroup v2" or "rlimit".
        groups: the directories made, to be removed by `release_script`.
        outer: what a process must run before it enters, as shell text.
        inner: argv prefix inside.
    """

    method: str
    groups: tuple[Path, ...]
    outer: str
    inner: tuple[str, ...]

    def release_script(self) -> str:
        """Shell text that removes the groups once their last process has ended."""
        lines = []
        for group in self.groups:
            name = shlex.quote(str(group))
            lines.append(
                f"i=0; while [ -d {name} ] && ! rmdir {name} 2>/dev/null && [ $i -lt 200 ]; "
                "do sleep 0.02; i=$((i+1)); done"
            )
        return "\n".join(lines)


def make_limits(config: SandboxConfig) -> Limits:
    """Makes the groups of a new sandbox, or chooses resource limits.

    Raises:
        SandboxError: no groups, and as root, whom RLIMIT_NPROC does not hold.
    """
    found = find_groups()
    # A core dump may be piped to a program of the host; a limit of exactly 1 byte also stops that.
    core = "--core=1:1"
    if found is None:
        if os.geteuid() == 0:
            raise SandboxError(
                "limits: found no control groups that can be written, and root, whom a limit on "
                "processes does not "
                "hold. Allowed: root with writable control groups, or an ordinary user. Run as an "
                "ordinary user, "
                "or mount the memory and pids controllers so that they can be written."
            )
        outer = f"prlimit {core} --as={config.memory_bytes}:{config.memory_bytes}"
        # Inside, the count starts at nothing: it is kept per user namespace. Outside it would count
        # every process of the user.
        inner = ("prlimit", f"--nproc={config.processes}:{config.processes}", "--")
        return Limits("rlimit", (), f"exec {outer}", inner)
    name = f"{_PREFIX}{os.getpid()}-{next(_counter)}-{secrets.token_hex(4)}"
    groups = tuple(parent / name for parent in found.parents)
    try:
        for group in groups:
            group.mkdir()
        _write_limits(found.version, groups, config)
    except OSError as error:
        remove_groups(groups)
        raise SandboxError(
            f"limits: found a control group that cannot be set up ({error}). Allowed: one whose "
            "memory and pids "
            "limits can be written. Run `depgpo doctor`."
        ) from error
    joins = "; ".join(f"echo 0 > {shlex.quote(str(g / 'cgroup.procs'))}" for g in groups)
    return Limits(f"cgroup v{found.version}", groups, f"set -e; {joins}; exec prlimit {core}", ())


def _write_limits(version: int, groups: tuple[Path, ...], config: SandboxConfig) -> None:
    memory = str(config.memory_bytes + config.disk_bytes)
    processes = str(config.processes + ON_THE_WAY)
    if version == 1:
        (groups[0] / "memory.limit_in_bytes").write_text(memory)
        with_swap = groups[0] / "memory.memsw.limit_in_bytes"
        if with_swap.exists():
            with_swap.write_text(memory)
    else:
        (groups[0] / "memory.max").write_text(memory)
        swap = groups[0] / "memory.swap.max"
        if swap.exists():
            swap.write_text("0")
    (groups[-1] / "pids.max").write_text(processes)


def remove_groups(groups: tuple[Path, ...]) -> None:
    """Removes groups without processes; others stay."""
    for group in groups:
        try:
            group.rmdir()
        except OSError:
            continue


@functools.cache
def find_groups() -> Groups | None:
    """Where this process may make groups, tried once; those of dead processes are removed."""
    for groups in _candidates():
        if _works(groups):
            for parent in groups.parents:
                _sweep(parent)
            return groups
    return None


def _candidates() -> list[Groups]:
    """Version 1's two controllers, then version 2's directories from the own one up to the root."""
    own: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            own[controller] = path
    mounts = _mounts()
    found = []
    if "memory" in mounts and "pids" in mounts:
        places = [_place(mounts[name], own.get(name, "/")) for name in ("memory", "pids")]
        found.append(Groups(1, tuple(places)))
    if "" in mounts:
        top = mounts[""]
        place = _place(top, own.get("", "/"))
        while True:
            found.append(Groups(2, (place,)))
            if place == top or place == place.parent:
                break
            place = place.parent
    return found


def _mounts() -> dict[str, Path]:
    """Controller -> where it is mounted; version 2 is the empty name."""
    mounts: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        point = Path(fields.split(" ")[4])
        if kind == "cgroup2":
            mounts[""] = point
        elif kind == "cgroup":
            for option in options.split(","):
                if option in ("memory", "pids"):
                    mounts[option] = point
    return mounts


def _place(mount: Path, path: str) -> Path:
    """This process's group below the mount; in a container the path may be the host's."""
    place = mount / path.lstrip("/")
    return place if place.is_dir() else mount


def _works(groups: Groups) -> bool:
    """Whether a group can be made there, limited, and entered."""
    name = f"{_PREFIX}{os.getpid()}-try-{secrets.token_hex(4)}"
    made = tuple(parent / name for parent in groups.parents)
    try:
        for group in made:
            group.mkdir()
        _write_limits(groups.version, made, SandboxConfig())
        joins = " && ".join(f"echo 0 > {shlex.quote(str(g / 'cgroup.procs'))}" for g in made)
        tried = subprocess.run(["/bin/sh", "-c", joins], capture_output=True, check=False)
        return tried.returncode == 0
    except OSError:
        return False
    finally:
        remove_groups(made)


def _sweep(parent: Path) -> None:
    """Removes what a process left that was killed together with its cleaner."""
    for group in parent.glob(f"{_PREFIX}*"):
        owner = group.name[len(_PREFIX) :].split("-")[0]
        # A new one may be that of a process in another container, whose number means nothing here:
        # it is empty, and so could be removed, until its sandbox's first process has joined it.
        with suppress(OSError):
            age = time.time() - group.stat().st_mtime
            if age > ABANDONED_S and not Path("/proc", owner).exists():
                remove_groups((group,))
