"""Programs that some families use beyond what every Debian system has."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Final

from depgpo_jax.errors import DepgpoError

PACKAGES: Final = {"git": "git", "jq": "jq", "sqlite3": "sqlite3"}
"""Program -> the Debian package that brings it."""

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where a sandbox looks for programs; what a user has elsewhere is not seen there."""


class MissingProgramError(DepgpoError, RuntimeError):
    """A program that a family of tasks uses is not on this machine; the message names its package.

    Args:
        family: the family's name.
        programs: what is missing, keys of `PACKAGES`.
    """

    def __init__(self, family: str, programs: Sequence[str]) -> None:
        packages = " ".join(PACKAGES[program] for program in programs)
        super().__init__(
            f"{family}: found no program {', '.join(programs)} in {PATH}. Allowed: a machine that "
            f"has what the family's tasks use. On Debian: apt-get install {packages}"
        )
        self.family = family
        self.programs = tuple(programs)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.family, self.programs)


def check_programs(family: str, programs: Sequence[str]) -> None:
    """Makes sure that a sandbox on this machine will find some programs.

    Raises:
        MissingProgramError: it will not.
    """
    missing = [program for program in programs if shutil.which(program, path=PATH) is None]
    if missing:
        raise MissingProgramError(family, missing)


def run_line(program: str) -> str:
    """The Dockerfile's line that gets a program, where there is an image to install it into."""
    package = PACKAGES[program]
    return (
        f"RUN command -v {program} > /dev/null || {{ apt-get update -q && apt-get install -qy "
        f"--no-install-recommends {package}; }} || {{ echo 'no program {program} here; on Debian: "
        f"apt-get install {package}'; exit 1; }}\n"
    )
