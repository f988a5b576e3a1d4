"""Families of tasks: `FAMILIES[name](seed, directory, difficulty)` writes one task directory.

=================  ===========================================  =============================
family             what is to be done                           a link of its chain
=================  ===========================================  =============================
`text_to_csv`      sum logs with doubled lines up in a table    a table without its first row
`config_edit`      edit the files that a rule picks, no others  a policy elsewhere
`local_server`     serve totals over a TCP port                 a setting elsewhere
`archive_links`    unpack an archive, put its links right       an archive in another
`json_processing`  join and sum up JSON documents               one recommended by another
`log_summary`      errors in packed logs with long entries      a cause of a cause
`permissions`      give files the modes of a policy             a policy elsewhere
`git_history`      find a commit, set its change right          a commit named by another
`stop_process`     stop those of like processes that do harm    a process named by another
`sqlite_query`     load, correct and query a database           an account that moved
`encodings`        texts in several encodings into UTF-8        a note on how to read another
`date_arithmetic`  a schedule over time zones                   a task after another
=================  ===========================================  =============================

Equal seeds and difficulties give equal files. Beside what the Harbor format asks for, a directory
holds three lists of commands for scripted rollouts: `solution/commands.json`, which solve.sh also
runs, `solution/wasteful.json`, which gets there with dead ends, and `wrong/commands.json`, a
tempting answer that scores 0 and that `wrong/wrong.sh` also runs.

What the tasks use is on every Debian system: bash, coreutils, findutils, grep, gzip, libc-bin, sed,
tar, mawk (or another awk) and perl-base. What a family needs besides stands in `NEEDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from training.tasks import (
    archive_links,
    config_edit,
    date_arithmetic,
    encodings,
    git_history,
    json_processing,
    local_server,
    log_summary,
    permissions,
    sqlite_query,
    stop_process,
    text_to_csv,
)
from training.tasks.difficulty import DEFAULT, Difficulty
from training.tasks.needs import MissingProgramError, check_programs
from training.tasks.splits import SPLITS, split_of, split_seeds
from training.tasks.writing import TaskFiles, write_task


@dataclass(frozen=True)
class Family:
    """One family of tasks.

    Attributes:
        name: its key in `FAMILIES`.
        make: a task's parts from a seed and a difficulty; touches no disk.
        needs: programs beyond Debian's base system.
    """

    name: str
    make: Callable[[int, Difficulty], TaskFiles]
    needs: tuple[str, ...] = ()

    def __call__(self, seed: int, directory: Path, difficulty: Difficulty = DEFAULT) -> None:
        """Writes one task directory.

        Args:
            seed: any whole number; `splits` says what each is for.
            directory: a folder that is not there yet, or empty.
            difficulty: how hard.

        Raises:
            MissingProgramError: this machine could not run the task.
            FileExistsError: there is something in the folder already.
        """
        check_programs(self.name, self.needs)
        write_task(self.make(seed, difficulty), directory)


FAMILIES: Final = {
    family.name: family
    for family in (
        Family("text_to_csv", text_to_csv.make),
        Family("config_edit", config_edit.make),
        Family("local_server", local_server.make),
        Family("archive_links", archive_links.make),
        Family("json_processing", json_processing.make, json_processing.NEEDS),
        Family("log_summary", log_summary.make),
        Family("permissions", permissions.make),
        Family("git_history", git_history.make, git_history.NEEDS),
        Family("stop_process", stop_process.make),
        Family("sqlite_query", sqlite_query.make, sqlite_query.NEEDS),
        Family("encodings", encodings.make),
        Family("date_arithmetic", date_arithmetic.make),
    )
}

NEEDS: Final = {name: family.needs for name, family in FAMILIES.items()}
"""Family -> the programs that it uses beyond Debian's base system."""

__all__ = [
    "FAMILIES",
    "NEEDS",
    "SPLITS",
    "Difficulty",
    "Family",
    "MissingProgramError",
    "split_of",
    "split_seeds",
]
