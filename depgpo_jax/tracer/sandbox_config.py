"""What a sandbox is given: directories, environment, limits."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from depgpo_jax.errors import ConfigError, DepgpoError, printable

MIB = 1024**2
GIB = 1024**3

# What programs need, and no more: a home, /srv, /var or /run of the host never shows.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc")
RESERVED = ("/", "/proc", "/dev", "/sys")


class SandboxError(DepgpoError, RuntimeError):
    """A sandbox cannot be built, entered or ended here; the message says what to do."""


@dataclass(frozen=True)
class SandboxConfig:
    """What a sandbox is given.

    Args:
        workspaces: host directory -> its path inside. A copy-on-write view: the host's files show,
            changes stay in the sandbox.
        read_only: host directory or file -> its path inside, besides `system`.
        system: host paths that show read-only at the same path where they exist. Files of /etc that
            a stranger may not read are empty inside, also for root.
        environment: the whole environment, besides PATH, HOME, USER, SHELL and LANG, which it may
            override.
        home: the home directory, empty at the start.
        workdir: where commands start; None is the first workspace, or the home.
        hostname: the name of the machine inside.
        memory_bytes: memory of all processes together with cgroups, of each process without.
        disk_bytes: everything written, wherever: workspaces, /tmp, the home, /dev/shm.
        files: the most files, directories and links that may be written.
        processes: processes and threads at one time.
        wall_s: seconds from the start until everything inside is killed.
        private_bytes: size of the directories that only a verifier sees; not part of `disk_bytes`.

    Raises:
        ConfigError: a path is not absolute and plain or may not be replaced, or a limit is not
            positive.
    """

    workspaces: Mapping[str, str] = field(default_factory=dict)
    read_only: Mapping[str, str] = field(default_factory=dict)
    system: tuple[str, ...] = SYSTEM
    environment: Mapping[str, str] = field(default_factory=dict)
    home: str = "/root"
    workdir: str | None = None
    hostname: str = "sandbox"
    memory_bytes: int = 2 * GIB
    disk_bytes: int = GIB
    files: int = 200_000
    processes: int = 256
    wall_s: float = 3600.0
    private_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        for name in ("workspaces", "read_only", "environment"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        self._check_paths()
        self._check_environment()
        for name in ("memory_bytes", "disk_bytes", "files", "processes", "wall_s", "private_bytes"):
            value = getattr(self, name)
            if not value > 0:
                raise ConfigError(
                    f"SandboxConfig.{name}: found {value!r}. Allowed: a number above 0. "
                    "Give the limit that a command may reach."
                )
        if not self.hostname.replace("-", "").isalnum() or len(self.hostname) > 63:
            raise ConfigError(
                f"SandboxConfig.hostname: found {printable(self.hostname)!r}. Allowed: 1 to 63 "
                "letters, "
                "digits and hyphens. Choose a plain name."
            )

    def _check_paths(self) -> None:
        for name in ("workspaces", "read_only"):
            for host, inside in getattr(self, name).items():
                check_path(host, f"SandboxConfig.{name} (host path)")
                check_mount_point(inside, f"SandboxConfig.{name}[{printable(host)!r}]")
        for path in self.system:
            check_mount_point(path, "SandboxConfig.system")
        check_mount_point(self.home, "SandboxConfig.home")
        if self.workdir is not None:
            check_path(self.workdir, "SandboxConfig.workdir")
        points = [*self.workspaces.values(), *self.read_only.values()]
        for point in points:
            if points.count(point) > 1:
                raise ConfigError(
                    f"SandboxConfig: found {printable(point)!r} as the place of two host paths. "
                    "Allowed: one each. Give one of them another place."
                )

    def _check_environment(self) -> None:
        for name, value in self.environment.items():
            if not name or "=" in name or "\0" in name + value:
                raise ConfigError(
                    f"SandboxConfig.environment: found the name {printable(name)!r} or its value "
                    "with a sign "
                    "that no environment can hold. Allowed: names without '=', no NUL. Rename it."
                )

    @property
    def start_directory(self) -> str:
        """Where commands start."""
        if self.workdir is not None:
            return self.workdir
        return next(iter(self.workspaces.values()), self.home)

    @property
    def full_environment(self) -> dict[str, str]:
        """The environment inside, complete."""
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": self.home,
            "USER": "root",
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            **self.environment,
        }


def check_path(path: str, where: str) -> None:
    """Refuses what is not an absolute path in its shortest spelling.

    Raises:
        ConfigError: it is relative, has `.`, `..`, `//` or a slash at its end, or a NUL.
    """
    if not path.startswith("/") or "\0" in path or posixpath.normpath(path) != path:
        raise ConfigError(
            f"{where}: found {printable(path)!r}. Allowed: an absolute path without '.', '..', "
            "'//' and "
            "without a slash at its end. Use os.path.realpath."
        )


def check_mount_point(path: str, where: str) -> None:
    """Refuses a path at which nothing may be mounted.

    Raises:
        ConfigError: not a plain absolute path, or /, /proc, /dev, /sys or below the last three.
    """
    check_path(path, where)
    if path in RESERVED or path.startswith(("/proc/", "/dev/", "/sys/")):
        raise ConfigError(
            f"{where}: found {printable(path)!r}, which the sandbox makes itself. Allowed: any "
            "other "
            "absolute path. Use a directory such as /app."
        )
