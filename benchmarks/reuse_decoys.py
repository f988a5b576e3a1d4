"""Texts that say what an output said, by chance: words and numbers that people use all the time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from benchmarks.reuse_worlds import Half, World

Decoy = tuple[str, tuple[str, str], str]
"""What coincides; a command and its output; the later text."""

_USAGE: Final = """usage: tool [-h] [--output_dir DIR] [--max-depth N] [--dry-run] path
  --output_dir DIR   where results go
  --max-depth N      default 16
  --dry-run          only say what would be done
"""
_SOURCE: Final = """import os
import subprocess


def read_rows(file_name):
    result = subprocess.run(["sort", file_name], capture_output=True, check=True)
    row_count = len(result.stdout.splitlines())
    base = os.path.join("out", os.path.basename(file_name))
    return row_count, base


if __name__ == "__main__":
    print(read_rows("a"))
"""
_CONFIG: Final = """listen 8080
buffer 4096
retries 12
since 2024
limit 65536
mode 0644
"""
_LOG: Final = """Successfully installed. Configuration and documentation are in the directory.
warning: permission denied for user root
error: connection to localhost timed out, see the log file
"""

_FIXED: Final[dict[Half, list[Decoy]]] = {
    "development": [
        ("option names", ("cat usage.txt", _USAGE), "du --max-depth 2 . && rsync --dry-run a b"),
        (
            "idioms",
            ("cat old.py", _SOURCE),
            "cat > final.py <<'EOF'\nimport os\nimport subprocess\n\nfiles = os.listdir()\n"
            'row_count = 0\nsubprocess.run(["true"], capture_output=True)\n'
            'print(os.path.join("a", "b"), row_count)\nEOF',
        ),
        ("numbers", ("cat server.conf", _CONFIG), "dd if=/dev/zero of=answer.txt bs=4096 count=12"),
        ("numbers", ("cat server.conf", _CONFIG), "chmod 0644 answer.txt && date -d 2024-01-01"),
        ("prose", ("tail -n 3 setup.log", _LOG), "echo 'Successfully written' > summary.md"),
        ("commands", ("type python3 sort", "python3 is /usr/bin/python3\n"), "python3 final.py"),
    ],
    "held-out": [
        ("option names", ("sed -n 1,4p help.txt", _USAGE), "./run --output_dir=. --max-depth=3"),
        (
            "idioms",
            ("sed -n '1,40p' reader.py", _SOURCE),
            "python3 - <<'EOF'\nimport subprocess, os.path\n\ndef read_rows(file_name):\n"
            "    return subprocess.run(['wc', file_name])\n\nif __name__ == \"__main__\":\n"
            "    print(read_rows('answer.txt'))\nEOF",
        ),
        ("numbers", ("grep . app.conf", _CONFIG), "python3 -m http.server 8080"),
        ("numbers", ("grep . app.conf", _CONFIG), "ulimit -n 65536; retries=12; ./run"),
        (
            "prose",
            ("head -n 3 install.log", _LOG),
            "git commit -qm 'Write documentation of the configuration'",
        ),
        (
            "commands",
            ("head -n 1 run.py", "#!/usr/bin/env python3\n"),
            "#!/bin/bash\nexec python3 x",
        ),
    ],
}


def decoys(world: World, chance: random.Random) -> Iterator[Decoy]:
    """What coincides in one world: some fixed texts, and some with numbers of the world."""
    yield from chance.sample(_FIXED[world.half], 4)
    (short,) = world.of_kind("short")
    printing = world.commands[short.command]
    use = (
        "head -n {} answer.txt" if world.half == "development" else "timeout --kill-after={} 5 ./x"
    )
    yield "value of an option", printing, use.format(short.text)
    numbers = [chance.randrange(1000, 10000) for _ in range(400)]
    table = "".join(f"{a} {b}\n" for a, b in zip(numbers[::2], numbers[1::2], strict=True))
    hit = next(n for n in numbers if n % 10)
    if world.half == "development":
        yield (
            "one of many numbers",
            ("cat table.txt", table),
            f"head -c {hit} final.py > answer.txt",
        )
    else:
        yield "one of many numbers", ("sort points.txt", table), f"awk '$1 < {hit}' final.py"
    small = chance.randrange(3, 10)
    counts = "".join(f"{small + k} item\n" for k in range(4))
    yield "small numbers", ("uniq -c items", counts), f"seq {small} | head -n {small + 1}"
