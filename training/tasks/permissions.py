"""Permissions: give files the modes that a policy asks for, and tell which were too open."""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from training.tasks.difficulty import TRAIL, Difficulty, Trail, distractors, task_name, trail
from training.tasks.writing import TaskFiles, generator, insert, words

FOLDERS: Final = words("bin data docs lib tools")
NAMES: Final = words(
    "build check clean deploy fetch graph index label merge notes pack plan query render scan tidy"
)

INSTRUCTION: Final = """\
# Give files the modes of a policy

`/app/policy.conf` gives four modes, in octal. Set the mode of everything below `/app/share`, and of
`/app/share` itself:

1. Each folder gets the mode of `folders`.
2. Each file that `/app/private.txt` lists (paths relative to `/app/share`, one a line) gets the
   mode of `private`, whatever else it is.
3. Each other file that is a script gets the mode of `scripts`. A file is a script if its first two
   bytes are `#!`; names and present modes say nothing.
4. Each other file gets the mode of `files`.

Then write `/app/exposed.txt`: a line for each file below `/app/share` that everybody could write to
before (the mode's bit for others), in byte order of the paths: its mode before, as three octal
digits, one space, its path relative to `/app/share`.

Change nothing else: no content, no names, no other file.
"""

CHECKS: Final = """\
share=/app/share

# modes FILE: whether everything that it lists has the mode that it says.
modes() {
  local mode path
  while read -r mode path; do
    [ "$(realpath -e -- "$share/$path")" = "$(realpath -m -s -- "$share/$path")" ] || return
    [ "$(stat -c %a -- "$share/$path")" = "$mode" ] || return
  done < "$1"
}

contents() {
  local path
  while read -r path; do same "$share/$path" "/tests/share/$path" || return; done < /tests/paths.txt
}

listing() { (cd "$share" 2> /dev/null && find . ! -type d -printf '%P\\n' | sort); }

check contents contents
check no_other_files test "$(listing)" = "$(cat /tests/paths.txt)"
check folders modes /tests/folders.txt
check private modes /tests/private.txt
check scripts modes /tests/scripts.txt
check files modes /tests/files.txt
check exposed same /app/exposed.txt /tests/exposed.txt
"""

CHOICES: Final = {
    "folders": (0o750, 0o755, 0o711, 0o770),
    "private": (0o600, 0o400),
    "scripts": (0o750, 0o755, 0o700, 0o710),
    "files": (0o640, 0o644, 0o660, 0o440),
}
OPEN: Final = (0o666, 0o777, 0o646, 0o757, 0o662)
CLOSED: Final = (0o600, 0o644, 0o640, 0o755, 0o700, 0o664)


class File(NamedTuple):
    """A file and its mode at the start; kind: a key of `CHOICES`."""

    path: str
    kind: str
    mode: int
    text: str


def make(seed: int, difficulty: Difficulty) -> TaskFiles:
    """The task of a seed; a link of its chain is a policy that another file has."""
    rng = generator("permissions", seed)
    modes = {kind: rng.choice(choices) for kind, choices in CHOICES.items()}
    files = sorted(_files(rng))
    folders = [".", *sorted({file.path.rpartition("/")[0] for file in files})]
    private = [file.path for file in files if file.kind == "private"]
    exposed = [f"{file.mode:o} {file.path}\n" for file in files if file.mode & 0o002]

    policies = trail("permissions", seed, difficulty, "policy.conf", _policy(modes))
    commands = _commands(policies, modes, private)
    return TaskFiles(
        name=task_name("permissions", seed, difficulty),
        description="Give files the modes of a policy",
        instruction=INSTRUCTION + (TRAIL if difficulty.depth > 1 else ""),
        files={f"share/{file.path}": file.text for file in files}
        | {"private.txt": "".join(f"{path}\n" for path in private)}
        | policies.files
        | distractors("permissions", seed, difficulty, _old_policy),
        modes={f"share/{file.path}": file.mode for file in files},
        checks=CHECKS,
        expected={f"share/{file.path}": file.text for file in files}
        | {"paths.txt": "".join(f"{file.path}\n" for file in files)}
        | {"folders.txt": "".join(f"{modes['folders']:o} {folder}\n" for folder in folders)}
        | {
            f"{kind}.txt": "".join(
                f"{modes[kind]:o} {file.path}\n" for file in files if file.kind == kind
            )
            for kind in ("private", "scripts", "files")
        }
        | {"exposed.txt": "".join(exposed)},
        commands=commands,
        wasteful=_wasteful(commands, files[0].path, difficulty.depth - 1),
        wrong=_wrong(policies, modes),
    )


def _files(rng: random.Random) -> list[File]:
    """Fourteen to eighteen files in four folders; some quote `#!` without being scripts."""
    folders = rng.sample(FOLDERS, 4)
    names = [f"{name}{rng.randint(10, 99)}" for name in rng.sample(NAMES, rng.randint(14, 16))]
    kinds = ["private", "private", "private-script", "scripts", "scripts", "scripts"]
    kinds += ["quoting", "quoting", "files"]
    kinds += [rng.choice(("scripts", "quoting", "files")) for _ in names[len(kinds) :]]
    modes = [*rng.sample(OPEN, 4), *(rng.choice(CLOSED) for _ in names[4:])]
    rng.shuffle(kinds)
    rng.shuffle(modes)
    files = []
    for number, (name, kind, mode) in enumerate(zip(names, kinds, modes, strict=True)):
        text = f"{name} {rng.getrandbits(32):08x}\n"
        if kind in ("scripts", "private-script"):
            text = f"#!/bin/sh\necho {text}"
        elif kind == "quoting":
            text = f"begin a script with\n#!/bin/sh\nas in {text}"
        kind = {"private-script": "private", "quoting": "files"}.get(kind, kind)
        ending = rng.choice(("", ".sh", ".txt"))
        files.append(File(f"{folders[number % 4]}/{name}{ending}", kind, mode, text))
    return files


def _policy(modes: dict[str, int]) -> str:
    return "# modes\n" + "".join(f"{kind} = {mode:04o}\n" for kind, mode in modes.items())


def _old_policy(rng: random.Random, number: int) -> tuple[str, str]:
    """A policy that holds no longer."""
    modes = {kind: rng.choice(choices) for kind, choices in CHOICES.items()}
    return f"policy.old/policy-{number + 1}.conf", _policy(modes)


EXPOSED: Final = (
    "(cd share && find . -type f -perm -0002 -printf '%m %P\\n') "
    "| LC_ALL=C sort -k 2,2 > exposed.txt"
)


def _commands(policies: Trail, modes: dict[str, int], private: list[str]) -> list[str]:
    return [
        *policies.commands,
        "cat private.txt",
        EXPOSED,
        "find share -type f | while read -r file; do "
        'if [ "$(head -c 2 "$file" | tr -d \'\\0\')" = "#!" ]; then echo "$file"; fi; '
        "done > /tmp/scripts.txt",
        f"find share -type f -exec chmod {modes['files']:04o} {{}} +",
        f"xargs chmod {modes['scripts']:04o} < /tmp/scripts.txt",
        f"(cd share && chmod {modes['private']:04o} {' '.join(private)})",
        f"find share -type d -exec chmod {modes['folders']:04o} {{}} +",
        "find share -printf '%m %p\\n'",
        "cat exposed.txt",
    ]


def _wasteful(commands: list[str], path: str, more: int) -> list[str]:
    return insert(
        commands,
        (1, "ls -lR share"),
        (more + 1, f"cat share/{path}"),
        (more + 2, "find share -type f -perm -0020 > exposed.txt"),
        (more + 3, "wc -l exposed.txt"),
        (more + 3, "find share -name '*.sh' > /tmp/scripts.txt"),
        (more + 3, "xargs chmod 0777 < /tmp/scripts.txt"),
        (more + 7, "wc -l /tmp/scripts.txt"),
    )


def _wrong(policies: Trail, modes: dict[str, int]) -> list[str]:
    """Takes every file with `#!` in it for a script, and scripts before what is private."""
    return [
        *policies.commands,
        EXPOSED,
        f"find share -type f -exec chmod {modes['files']:04o} {{}} +",
        f"sed 's,^,share/,' private.txt | xargs chmod {modes['private']:04o}",
        f"grep -rl '^#!' share | xargs chmod {modes['scripts']:04o}",
        f"find share -type d -exec chmod {modes['folders']:04o} {{}} +",
    ]
