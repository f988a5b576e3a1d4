"""A sandbox: own namespaces, a copy-on-write view of the workspaces, limits that hold.

How it is built::

    a shell that waits, and removes the control groups at the end
      unshare: user and mount namespace; a sized tmpfs is mounted over /sys
        bwrap: own mount, pid, network, ipc and uts namespaces; the host is not mounted in them
          the holder: bwrap as pid 1 of that pid namespace, and a shell that ends when its input
          ends or after `wall_s`

The holder's mount namespace has `/r`, everything that commands see, `/b`, the tmpfs itself, and
`/bw`, bwrap. No command runs there. `Sandbox.enter_prefix` gives the argv that joins it and starts
a second bwrap, in a user namespace of its own without capabilities and in a pid namespace of its
own, with `/r` as its root. A verifier enters the same way and gets private directories on top,
which live in `/b/private` and never show in `/r`.

When the holder ends, the kernel kills its pid namespace and what is nested in it; with the last
process the mounts go. The holder's input is a pipe from this process, so that also holds when this
process is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from depgpo_jax.errors import printable
from depgpo_jax.tracer import mount_points, namespaces
from depgpo_jax.tracer.limits import Limits, make_limits, remove_groups
from depgpo_jax.tracer.sandbox_config import SandboxConfig, SandboxError
from depgpo_jax.tracer.sandbox_files import SandboxFiles
from depgpo_jax.tracer.sandbox_layout import ENTRY, build_script, holder_arguments
from depgpo_jax.tracer.seccomp import filter_program

START_S = 20.0
STOP_S = 10.0
# Nothing of the host's environment comes in, not even into bwrap, whose /proc/1/environ shows
# inside.
_CLEAN = ("/usr/bin/env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
_INFO_FD = 7
_FILTER_FD = 8
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Sandbox(SandboxFiles):
    """One sandbox, from `start` to `close`; also a context manager.

    A prefix from `enter_prefix` is put before an argv and runs it inside. Only descriptors passed
    on purpose reach it. Pass pipes, and ptys made for it: a directory leads out, a file can be
    opened again through /proc/self/fd, and of either, of /dev/null too, root can change the mode.

    Args:
        config: what the sandbox is given.
    """

    def __init__(self, config: SandboxConfig) -> None:
        super().__init__(config)
        self._limits: Limits | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._namespace = -1
        self._filter = b""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- start and end

    def start(self) -> None:
        """Builds the mounts and namespaces; nothing runs in them yet.

        Raises:
            SandboxError: it was started before, a host path is missing, or this machine cannot do
                it.
        """
        if self._process is not None:
            raise SandboxError(
                "sandbox: found it started already. Allowed: one start. Make another Sandbox."
            )
        holder = holder_arguments(self.config, _INFO_FD)
        limits = make_limits(self.config)
        self._limits = limits
        unshare = ["unshare", "--user", "--map-root-user", "--mount", "--"]
        build = [*unshare, "/bin/sh", "-c", build_script(self.config), "sh", *holder]
        script = f'"$@" {_INFO_FD}>&1 2>&1\ncode=$?\n{limits.release_script()}\nexit $code'
        try:
            self._process = subprocess.Popen(
                [*_CLEAN, "/bin/sh", "-c", script, "sh", *build],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd="/",
                start_new_session=True,  # Ctrl-C at a terminal must not end the cleaner first
            )
        except BaseException:
            remove_groups(limits.groups)
            raise
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.close()
            raise

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        output = process.stdout.fileno()
        said = b""
        deadline = time.monotonic() + START_S
        poll = select.poll()
        poll.register(output, select.POLLIN)
        while not said.endswith(b"ready\n"):
            waited = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
            more = os.read(output, 65536) if waited else b""
            said += more
            if not more:
                lines = said.decode("utf-8", "replace").splitlines() or ["no answer"]
                text = printable(lines[-1])
                raise SandboxError(
                    f"sandbox: found that it cannot be built here: {text}. Allowed: a machine "
                    "with user, mount, "
                    "pid and network namespaces and overlays in them. Run `depgpo doctor`."
                )
        info, _ = json.JSONDecoder().raw_decode(said[said.index(b"{") :].decode("utf-8"))
        self._holder = info["child-pid"]
        self._namespace = namespaces.pid_namespace(self._holder)
        self._root = os.open(f"{namespaces.root_of(self._holder)}/r", _DIRECTORY)
        self._base = os.open(f"{namespaces.root_of(self._holder)}/b", _DIRECTORY)
        self._filter = filter_program()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open("seccomp", flags, 0o644, dir_fd=self._base)
        with open(fd, "wb") as file:  # noqa: PTH123 - a descriptor, no path
            file.write(self._filter)

    @property
    def alive(self) -> bool:
        """Whether it was started and has not ended, by itself or by `close`."""
        return self._process is not None and self._process.poll() is None

    @property
    def timed_out(self) -> bool:
        """Whether it ended because `wall_s` was over."""
        # What bash's `read -t` returns then.
        return self._process is not None and self._process.poll() == 128 + signal.SIGALRM

    @property
    def limits_method(self) -> str:
        """How memory and processes are limited: "cgroup v1", "cgroup v2" or "rlimit"."""
        return self._started().method

    def _started(self) -> Limits:
        if self._limits is None or not self.alive:
            why = "its wall time is over" if self.timed_out else "it was not started or has ended"
            raise SandboxError(
                f"sandbox: found that {why}. Allowed: use between start and close. Start a new "
                "Sandbox."
            )
        return self._limits

    def stop(self) -> None:
        """Kills every process inside; files, mounts and the network namespace stay.

        An entry that was started but is not inside yet is not seen: wait for its first sign first.

        Raises:
            SandboxError: it has ended, or something is left after ten seconds (a tracer that does
                not answer).
        """
        self._started()
        if not namespaces.end_members(self._namespace, STOP_S):
            raise SandboxError(
                f"sandbox: found processes that are still there after {STOP_S:g} s. Allowed: none. "
                "End the tracer that holds them, then close the sandbox."
            )

    def close(self) -> None:
        """Ends everything inside, with its files, and waits for that; again, it does nothing."""
        process = self._process
        for fd in (self._root, self._base):
            if fd >= 0:
                os.close(fd)
        self._root = self._base = -1
        if process is None or process.stdin is None or process.stdout is None:
            return
        # The holder's input ends, and with the holder all that is inside.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if self._limits is not None:
                remove_groups(self._limits.groups)
        process.stdout.close()

    # --- running something

    def enter_prefix(
        self,
        *,
        private: Mapping[str, str] | None = None,
        join: bool = False,
        new_session: bool = True,
        environment: Mapping[str, str] | None = None,
        workdir: str | None = None,
    ) -> list[str]:
        """The argv that runs the argv after it inside; it works under strace and needs no setuid.

        Args:
            private: name of a private directory -> its path inside, for this entry alone.
            join: live in the pid namespace of the one entry that runs now, to see and reach its
                processes; without it the entry has a pid namespace of its own. Network, ipc and
                files are shared either way.
            new_session: run in a session of its own, without a controlling terminal. Give False
                only when the terminal is a pty made for this sandbox.
            environment: on top of the config's.
            workdir: where to start; None is the config's.

        Raises:
            SandboxError: it has ended; a private directory has a bad name; `join` and not exactly
                one entry.
            ConfigError: a private directory's place may not be mounted over.
        """
        limits = self._started()
        target = ["--target", str(self._holder), "--user", "--mount", "--net", "--ipc", "--uts"]
        argv = ["nsenter", *target, "--preserve-credentials"]
        if join:
            # With the /proc of the namespace joined: bwrap shows the one that is there.
            argv += [f"--pid=/proc/{self._first_inside()}/ns/pid", "--", "unshare", "--mount"]
            argv += ["--mount-proc", "--", *ENTRY]
        else:
            argv += ["--pid", "--", *ENTRY, "--unshare-pid"]
        argv += ["--new-session"] if new_session else []
        argv += ["--seccomp", str(_FILTER_FD)] if self._filter else []
        for name, point in (private or {}).items():
            self._make_private(name)
            mount_points.clear_way(self._root, self._base, point)
            argv += ["--bind", f"/b/private/{name}", point]
        argv += ["--chdir", workdir or self.config.start_directory, "--clearenv"]
        for name, value in {**self.config.full_environment, **(environment or {})}.items():
            argv += ["--setenv", name, value]
        # The filter is opened before the way in: bwrap takes a descriptor and closes it.
        place = f"{namespaces.root_of(self._holder)}/b/seccomp"
        opened = f"{_FILTER_FD}<{place}" if self._filter else ""
        way = ["/bin/sh", "-c", f'cd /; unset PWD OLDPWD; {limits.outer} "$@" {opened}', "sh"]
        return [*_CLEAN, "LD_LIBRARY_PATH=/bw", *way, *argv, "--", *limits.inner]

    def _first_inside(self) -> int:
        firsts = [
            m.pid for m in namespaces.members(self._namespace) if m.nested and m.inner_pid == 1
        ]
        if len(firsts) != 1:
            raise SandboxError(
                f"sandbox: found {len(firsts)} entries running. Allowed: exactly one, to join it. "
                "Enter without join, or after the other entries have ended."
            )
        return firsts[0]
