"""A Dockerfile, read: the steps that make a task's files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

START: Final = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
"""The variables before the first ENV, as base images have them."""


@dataclass(frozen=True)
class Copy:
    """Files of the context into the tree.

    Attributes:
        sources: patterns relative to the context.
        target: absolute and normalised.
        into: the target is a folder, which is made if need be.
        mode: of every file and folder copied, or None for its own.
        line: of the Dockerfile.
    """

    sources: tuple[str, ...]
    target: str
    into: bool
    mode: int | None
    line: int


@dataclass(frozen=True)
class Workdir:
    """A folder that must exist from here on."""

    path: str
    line: int


@dataclass(frozen=True)
class Run:
    """A text for a shell inside the sandbox, without network.

    Attributes:
        text: for `bash -c`.
        workdir: where it runs.
        environment: the variables set so far.
        line: of the Dockerfile.
    """

    text: str
    workdir: str
    environment: Mapping[str, str]
    line: int


@dataclass(frozen=True)
class Plan:
    """A Dockerfile, read.

    Attributes:
        file: its name, for messages.
        steps: in order.
        workdir: where the agent's shell starts.
        environment: its variables.
        warnings: what is ignored, a sentence each.
    """

    file: str
    steps: tuple[Copy | Workdir | Run, ...] = ()
    workdir: str = "/"
    environment: Mapping[str, str] = field(default_factory=lambda: dict(START))
    warnings: tuple[str, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of the root that hold the task's files, such as `/app`."""
        paths = [step.path if isinstance(step, Workdir) else step.target for step in self._placed]
        return tuple(sorted({"/" + path.split("/")[1] for path in paths if path != "/"}))

    @property
    def _placed(self) -> list[Copy | Workdir]:
        return [step for step in self.steps if not isinstance(step, Run)]
