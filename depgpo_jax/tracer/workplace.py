"""A traced terminal over a real directory: commands change a copy of it until they are kept."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from msgspec import UNSET, structs

from depgpo_jax.errors import ConfigError, printable
from depgpo_jax.tracer.content import resource_name
from depgpo_jax.tracer.sandbox import Sandbox
from depgpo_jax.tracer.sandbox_config import SYSTEM, SandboxConfig
from depgpo_jax.tracer.session import TracedTerminal
from depgpo_jax.tracer.stdout_reuse import Reuse, ReuseConfig, StdoutReuse
from depgpo_jax.tracer.terminal import SessionLost
from depgpo_jax.traces import Command, Step, Trace

if TYPE_CHECKING:
    from depgpo_jax.tracer.changes import Change
    from depgpo_jax.tracer.terminal import CommandRecord, TerminalConfig

WRITABLE: Final = ("/tmp", "/var/tmp", "/run", "/dev/shm")
"""Where commands may write besides their workspaces and the home."""

REUSE_EXTRA: Final = "stdout_reuse"
"""Where in a command's `extra` it stands what made the edges of `stdout_from`."""
MAX_SHOWN: Final = 120

# Ctrl-C goes to the terminal's foreground. If the agent's shell had no process group of its own,
# that would be also the programs at the sandbox's entrance, with which all that is inside ends.
_FOREGROUND: Final = 'set -m; "$@"; while [ -n "$(jobs -s)" ]; do fg; done >/dev/null 2>&1'
_MADE_INSIDE: Final = ("/proc", "/dev", "/sys")
_PREFIXES: Final = ("tcp:", "udp:", "unix:", "process:", "meta:")


class Workplace:
    """A sandbox over one real directory, which shows at its own path, with a traced terminal.

    A context manager that leaves nothing running. The real directory stays as it is unless `keep`
    is called.

    Args:
        directory: absolute, every link resolved; where commands start.
        config: limits of the terminal.
        wall_s: seconds until everything ends.
        environment: variables for the commands.

    Raises:
        ConfigError: nothing can be mounted at the directory.
        SandboxError: this machine cannot build the sandbox.
    """

    def __init__(
        self,
        directory: str,
        config: TerminalConfig | None = None,
        *,
        wall_s: float = 3600.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        check_directory(directory)
        self.directory = directory
        self.texts: list[str] = []
        home = _home()
        with ExitStack() as stack:
            self.sandbox = stack.enter_context(
                Sandbox(
                    SandboxConfig(
                        workspaces={directory: directory},
                        environment=environment or {},
                        home=home,
                        wall_s=wall_s,
                    )
                )
            )
            self.terminal = stack.enter_context(
                TracedTerminal(
                    _without_inner([directory, home, *WRITABLE]),
                    root=lambda: root_of(self.sandbox),
                    identify=partial(self.sandbox.identity, follow=False),
                    wrap=entry(self.sandbox),
                    config=config,
                )
            )
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def run(self, text: str) -> CommandRecord:
        """Runs one text; see `TracedTerminal.run`. One with which the session ends counts too."""
        try:
            ended = self.terminal.run(text)
        except SessionLost:
            self.texts.append(text)
            raise
        self.texts.append(text)
        return ended

    def trace(self, *, trace_id: str, inspect: Iterable[str] = ()) -> Trace:
        """What has been recorded: one step a command, without a reward.

        Args:
            trace_id: its name.
            inspect: resources for `verifier`; relative paths begin at the directory.
        """
        commands = with_sources(self.terminal.commands(self.texts))
        return Trace(
            version=1,
            trace_id=trace_id,
            verifier=list(dict.fromkeys(resource_of(name, self.directory) for name in inspect)),
            steps=[Step(loss_tokens=1, commands=[command]) for command in commands],
        )

    def keep(self) -> list[Change]:
        """Ends what still runs and writes the changes to the real directory; the last call.

        Raises:
            OSError: the real directory cannot be written.
        """
        self.terminal.close()
        return self.sandbox.apply_changes(self.directory)


def entry(
    sandbox: Sandbox,
    *,
    private: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Callable[[list[str]], list[str]]:
    """What a terminal puts before its shell, so that the shell runs in a sandbox.

    Args:
        sandbox: one that has started.
        private: as in `Sandbox.enter_prefix`.
        environment: the same.
    """
    shell = ["bash", "--norc", "--noprofile", "-c", _FOREGROUND, "bash"]

    def wrap(argv: list[str]) -> list[str]:
        prefix = sandbox.enter_prefix(new_session=False, private=private, environment=environment)
        return [*prefix, *shell, *argv]

    return wrap


def root_of(sandbox: Sandbox) -> bytes:
    """The folder that is `/` for the commands of a sandbox, seen from here."""
    return sandbox.host_path(b"/").rstrip(b"/")


def with_sources(
    commands: Iterable[Command], prompt: str = "", config: ReuseConfig | None = None
) -> list[Command]:
    """The commands with `stdout_from` filled in from their texts and outputs.

    What made an edge stands in the command's `extra`, in `stdout_reuse`: under the producer's
    number, the token, what was printed, and the rule.

    Args:
        commands: all of a rollout, in order.
        prompt: what the agent was told.
        config: rules and thresholds; None: the defaults.
    """
    reuse = StdoutReuse(prompt, config or ReuseConfig())
    matched: list[Command] = []
    for command in commands:
        text, stdout = ("" if v is UNSET else v for v in (command.text, command.stdout))
        sources = reuse.sources(text)
        reuse.add(text, stdout)
        extra = {} if command.extra is UNSET else dict(command.extra)
        if sources:
            extra[REUSE_EXTRA] = {str(n): _shown(found) for n, found in sources.items()}
        matched.append(
            structs.replace(command, stdout_from=list(sources), extra=extra or command.extra)
        )
    return matched


def _shown(reuse: Reuse) -> dict[str, str]:
    """Why there is an edge, for a trace; a whole line may be long."""
    return {name: printable(value, MAX_SHOWN) for name, value in reuse._asdict().items()}


def resource_of(name: str, directory: str) -> str:
    """The resource that somebody means by a name.

    Args:
        name: a path, absolute or not, or one of the format's names with a prefix, such as tcp:80.
        directory: where relative paths begin.

    Raises:
        ConfigError: it is empty.
    """
    if not name:
        raise ConfigError(
            "inspected resource: found an empty name. Allowed: a path, or a name such as tcp:8080. "
            "Leave the option out where nothing is inspected."
        )
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    rest = name[len(prefix) :]
    if prefix in ("tcp:", "udp:", "process:"):
        return name
    path = "/" + posixpath.normpath(posixpath.join(directory, rest)).lstrip("/")
    return prefix + resource_name(os.fsencode(path))


def check_directory(path: str) -> None:
    """Refuses a directory over which a sandbox cannot mount its view of it.

    Raises:
        ConfigError: it is the root, one of the system's directories, or one that a sandbox makes.
    """
    made = any(path == place or path.startswith(place + "/") for place in _MADE_INSIDE)
    if path == "/" or made or path in SYSTEM:
        raise ConfigError(
            f"current directory: found {printable(path)}, of which a sandbox cannot have a copy. "
            "Allowed: a directory of your own. Change to one below your home, for example."
        )


def _home() -> str:
    """The home of who runs this, at its real path if it can be there."""
    path = os.path.realpath(Path("~").expanduser())
    taken = ("/", *_MADE_INSIDE, *SYSTEM)
    inside = any(path == place or path.startswith(place.rstrip("/") + "/") for place in taken[1:])
    return "/root" if path == "/" or inside else path


def _without_inner(paths: Sequence[str]) -> list[bytes]:
    """Each path once, and none that lies in another of them."""
    kept = [
        path
        for path in dict.fromkeys(paths)
        if not any(path.startswith(other + "/") for other in paths)
    ]
    return [os.fsencode(path) for path in kept]
