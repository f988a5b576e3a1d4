"""Random edits by shell commands: replaying what was recorded gives the files as they are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import UNSET

from depgpo_jax.tracer.linediff import apply_hunks, split_lines
from depgpo_jax.tracer.session import TracedTerminal
from depgpo_jax.traces import Command
from tests.tracing import validated, write_files

SEQUENCES = 50
LENGTH = 3
NAMES = ("a", "b", "c", "d/e")
State = dict[str, list[bytes]]


def edits(chance: random.Random) -> str:
    """One to three edits of files that may or may not be there."""
    return "; ".join(edit(chance) for _ in range(chance.choice((1, 1, 2, 3))))


def edit(chance: random.Random) -> str:
    one, two = chance.sample(NAMES, 2)
    line, word = chance.randint(1, 6), chance.choice("xyz")
    text = "".join(
        chance.choice(("x\\n", "y\\n", "z\\n", "x")) for _ in range(chance.randint(0, 5))
    )
    return chance.choice(
        [
            f"echo {word} >> {one}",
            f"printf {word} >> {one}",
            f"sed -i '{line}i {word}' {one}",
            f"sed -i '{line},{line + 1}d' {one}",
            f"sed -i {line}s/.*/{word}{word}/ {one}",
            f"printf '{text}' > {one}",
            f"mv {one} {two}",
            f"mv {one} t; mv {two} {one}; mv t {two}",
            f"cp {one} {two}",
            f"truncate -s {line} {one}",
            f"rm {one}",
            f"ln -f {one} {two}",
            f"mv d x; mv x d; cat {one}",
        ]
    )


def on_disk(folder: Path) -> State:
    """Lines by name."""
    return {
        str(path.relative_to(folder)): split_lines(path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def replay(state: State, command: Command, after: State, prefix: str) -> State:
    """What the files hold after a command, by its record alone."""
    writes = {write.resource.removeprefix(prefix): write for write in command.writes}
    moves = [write.moved_from for write in writes.values() if write.moved_from is not UNSET]
    sources = {str(source).removeprefix(prefix) for source in moves}
    left = {name: lines for name, lines in state.items() if name not in sources}
    done = dict(left)
    for name, write in writes.items():
        if write.deleted is True:
            assert name in left
            del done[name]
        elif write.hunks is not UNSET:
            done[name] = apply_hunks(left.get(name, []), after[name], write.hunks)
        else:
            # Text that did not come from elsewhere is one record only if nothing is left of it.
            binary = any(b"\0" in line for line in left.get(name, []) + after[name])
            assert write.moved_from is not UNSET or not after[name] or binary
            done[name] = after[name]
    return done


def names_of_one(folder: Path, state: State) -> Iterator[set[str]]:
    """The names of each file."""
    inodes: dict[int, set[str]] = {}
    for name in state:
        inodes.setdefault((folder / name).stat().st_ino, set()).add(name)
    yield from inodes.values()


@pytest.mark.parametrize("seed", range(4))
def test_replaying_the_record_gives_the_files(seed: int, tmp_path: Path):
    chance = random.Random(seed)
    folders = [tmp_path / str(place) for place in range(SEQUENCES)]
    for folder in folders:
        lines = [chance.choice((b"x\n", b"y\n", b"z\n")) for _ in range(8)]
        write_files(folder, {"a": b"".join(lines), "b": b"".join(lines[:4]), "d/e": b"x"})
    states = {folder: on_disk(folder) for folder in folders}
    plan = [(folder, edits(chance)) for folder in folders for _ in range(LENGTH)]
    texts = [f"cd {folder}; {text}" for folder, text in plan]
    afters: list[State] = []
    groups: list[list[set[str]]] = []
    with TracedTerminal([bytes(tmp_path)]) as terminal:
        for (folder, _), text in zip(plan, texts, strict=True):
            terminal.run(text)
            afters.append(on_disk(folder))
            groups.append(list(names_of_one(folder, afters[-1])))
        commands = validated(terminal.commands(texts))
    for (folder, text), command, after, files in zip(plan, commands, afters, groups, strict=True):
        assert command.untraced is UNSET, text
        state = states[folder] = replay(states[folder], command, after, f"{folder}/")
        for names in files:
            known = names & state.keys()
            assert len(known) == 1, (text, names)
            assert state[min(known)] == after[min(known)], text
        assert len(state) == len(files), (text, state)
