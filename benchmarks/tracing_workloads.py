"""What is traced: three programs that do little but open files, and a command that does nothing.

The first is the worst case of any tracer, the second a tool that agents use all the time, the third
one in which programs also compute.
"""

from __future__ import annotations

import shlex
import sys
from typing import NamedTuple

# Each file is written, and then read again by its name.
_PYTHON = """
import os, sys
count = int(sys.argv[1])
os.mkdir("files")
for number in range(count):
    with open(f"files/{number}", "w") as file:
        file.write(f"{number} is the number of this file\\n" * 3)
total = 0
for number in range(count):
    with open(f"files/{number}") as file:
        total += len(file.read())
print(total)
"""

_FILES = """
import os, sys
for number in range(int(sys.argv[1])):
    os.makedirs(f"{number % 20}", exist_ok=True)
    with open(f"{number % 20}/{number}.txt", "w") as file:
        file.write(f"{number} is the number of this file\\n" * 3)
"""

_SOURCE = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
int compare(const void *a, const void *b) { return strcmp(a, b); }
int main(int count, char **words) {
  qsort(words, count, sizeof *words, compare);
  for (int i = 0; i < count; i++) printf("%s %g\\n", words[i], sqrt(i));
  return 0;
}
"""

_GIT = "git -c user.name=nobody -c user.email=nobody@example.org -c gc.auto=0"


class Workload(NamedTuple):
    """Two texts for a terminal; each round begins in an empty folder."""

    name: str
    prepare: str
    """What is needed first; not timed."""
    text: str
    """What is timed."""
    at_most: float
    """Bound on the time traced over the time untraced."""
    aim: float


def workloads(*, files: int, compilations: int) -> list[Workload]:
    """The three, by their size.

    Args:
        files: that Python writes and reads, and that git takes in.
        compilations: runs of gcc.
    """
    python = shlex.quote(sys.executable)
    return [
        Workload(f"Python, {files:,} files", ":", f"{_script(python, _PYTHON)} {files}", 6.0, 3.0),
        Workload(
            f"git, {files:,} files",
            f"{_script(python, _FILES)} {files}",
            " && ".join(
                f"{_GIT} {words}"
                for words in ("init -q .", "add -A", "commit -q -m all", "status --short")
            ),
            6.0,
            2.2,
        ),
        Workload(
            f"{compilations} × gcc",
            f"printf %s {shlex.quote(_SOURCE)} > source.c",
            f"for i in $(seq {compilations}); do gcc -O1 -c source.c -o $i.o || exit; done",
            2.2,
            1.6,
        ),
    ]


def _script(python: str, code: str) -> str:
    # -S: an environment's site-packages are no part of the workload.
    return f"{python} -I -S -c {shlex.quote(code)}"
