"""Labelled pairs: outputs of real commands, and a later text that reuses a value of theirs or not.

The label is known because the later text is made from it. How a value is rewritten is decided here
by itself, without the matcher's code.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.reuse_decoys import decoys
from benchmarks.reuse_worlds import Half, Value, World, make_world

Kind = Literal[
    "literal",
    "reformatted",
    "cut",
    "computed",
    "twice",
    "coincidence",
    "prompt",
    "own",
    "unrelated",
]
REUSED: Final = ("literal", "reformatted", "cut", "computed", "twice")
"""Kinds of pairs that have a producer."""

WORLDS: Final = 24
"""Worlds of a half."""

PROMPT: Final = (
    "Look around in this folder. Put what you find into answer.txt, report.ini, summary.md, "
    "notes.json or final.py, as answer = ... or as you are asked. Copies go to backup/."
)


@dataclass(frozen=True)
class Pair:
    """What a matcher is given, and what it should say.

    Attributes:
        kind: why there is an edge, or none.
        detail: the value's kind, or how it was rewritten.
        prompt: the task's text.
        earlier: texts of earlier commands, each with what it printed.
        text: the later command.
        producer: number of the earlier command whose value the text reuses; None: it reuses none.
    """

    kind: Kind
    detail: str
    prompt: str
    earlier: tuple[tuple[str, str], ...]
    text: str
    producer: int | None


_SCRIPTS: Final[dict[Half, str]] = {
    "development": """cat > final.py <<'EOF'
#!/usr/bin/env python3
import csv
import sys
from collections import defaultdict


def load(path):
    rows = []
    with open(path, newline="") as stream:
        for row in csv.reader(stream):
            if not row or row[0].startswith("#"):
                continue
            rows.append(row)
    return rows


def main():
    answer = "{v}"
    seen = defaultdict(int)
    for row in load(sys.argv[1]):
        seen[row[0]] += 1
    print(answer, len(seen))


if __name__ == "__main__":
    main()
EOF""",
    "held-out": """cat << 'EOF' > final.py
import json, os, subprocess

def check(folder="."):
    found = {}
    for name in sorted(os.listdir(folder)):
        full = os.path.join(folder, name)
        if os.path.isfile(full):
            found[name] = os.path.getsize(full)
    return found

result = {"answer": "{v}", "files": check()}
done = subprocess.run(["true"], check=False)
with open("notes.json", "w", encoding="utf-8") as out:
    json.dump(result, out, indent=2)
print("done", done.returncode)
EOF
python3 final.py""",
}

_ANY: Final[dict[Half, list[str]]] = {
    "development": [
        "echo {v} > answer.txt",
        "printf 'answer=%s\\n' '{v}' >> report.ini",
        'sed -i "s|^answer = .*|answer = {v}|" report.ini',
        "python3 -c \"open('answer.txt', 'w').write('{v}')\"",
    ],
    "held-out": [
        "cat > summary.md <<'EOF'\n# Summary\n\nThe answer is {v}.\nEOF",
        "jq -n --arg found '{v}' '{answer: $found}' > notes.json",
        "python3 - <<'EOF'\nfrom pathlib import Path\nPath('answer.txt').write_text('{v}\\n')\nEOF",
        'test "$(cat answer.txt)" = "{v}" && echo same',
    ],
}
_USES: Final[dict[Half, dict[str, list[str]]]] = {
    "development": {
        "file": ["head -n 3 inbox/{v}", "cp inbox/{v} backup/", "cat 'inbox/{v}' | wc -l"],
        "path": ["cat {v}", "cp ./{v} backup/"],
        "name": ["ls teams/{v}", "cp -r teams/{v} backup/", "grep -w {v} report.ini"],
        "hash": ["grep {v} answer.txt", "echo '{v}  report.ini' | sha256sum -c"],
        "id": ["grep -n '{v}' report.ini", "echo {v} | tee -a answer.txt"],
        "identifier": ["grep -rn '{v}' .", "sed -n '/{v}/,/^$/p' final.py"],
        "ip": ["ping -c 1 {v}", "ssh admin@{v} true"],
        "date": ["grep '^{v}' report.ini", "touch -d {v} answer.txt"],
    },
    "held-out": {
        "file": ["file shelf/{v}", "mv shelf/{v} backup/{v}", "tar cf - shelf/{v} | wc -c"],
        "path": ["sort {v} | head", "python3 final.py {v}"],
        "name": ["cat crews/{v}/plan", "tar cf backup/one.tar crews/{v}", "awk '/{v}/' summary.md"],
        "hash": ["git show --stat {v}", "git checkout -q {v} -- ."],
        "id": ['curl -s "$API/tickets/{v}"', "sqlite3 s.db \"select * from t where id = '{v}'\""],
        "identifier": ["pytest -q -k {v}", "ctags -x lib.py | grep {v}"],
        "ip": ["curl -s http://{v}/health", "nc -z {v} 22"],
        "date": ["awk '$1 >= \"{v}\"' summary.md", "echo since {v} >> summary.md"],
    },
}

_KINDS: Final = (
    "integer", "decimal", "short", "id", "hash", "file", "path", "name", "date", "address", "ip",
    "identifier", "version", "uuid", "unit", "grouped",
)  # fmt: skip
_WEAK: Final = ("short", "name")
"""Kinds that mean something in a short text only, where nobody would miss them."""


def make_pairs(half: Half, worlds: int = WORLDS) -> list[Pair]:
    """A half of the corpus, the same every time."""
    made = [make_world(half, seed) for seed in range(worlds)]
    return [
        pair
        for k, world in enumerate(made)
        for pair in _Pairs(world, made[k - 1], random.Random(f"pairs/{half}/{k}")).all()
    ]


class _Pairs:
    """The pairs of one world."""

    def __init__(self, world: World, other: World, chance: random.Random) -> None:
        self.world, self.other, self.random = world, other, chance

    def all(self) -> Iterator[Pair]:
        yield from self.literal()
        yield from self.rewritten("reformatted", reformatted(self.world.half))
        yield from self.rewritten("cut", cut(self.world.half))
        yield from self.computed()
        yield from self.twice()
        yield from self.known()
        for detail, printing, text in decoys(self.world, self.random):
            earlier, _ = self.some(None)
            yield Pair("coincidence", detail, PROMPT, (*earlier, printing), text, None)
        for value in self.random.sample(self.other.values, 3):
            earlier, _ = self.some(None)
            if not any(value.text in output for _, output in earlier):
                text = self.text(value.kind, value.text)
                yield Pair("unrelated", value.kind, PROMPT, earlier, text, None)

    def literal(self) -> Iterator[Pair]:
        for kind in _KINDS:
            for value in self.pick(kind):
                yield self.pair("literal", kind, value, value.text)

    def rewritten(
        self, kind: Kind, ways: Sequence[tuple[str, str, Callable[[str], str]]]
    ) -> Iterator[Pair]:
        for way, of, rewrite in ways:
            for value in self.pick(of):
                if (text := rewrite(value.text)) != value.text:
                    yield self.pair(kind, way, value, text)

    def computed(self) -> Iterator[Pair]:
        integers = self.world.of_kind("integer")
        value = self.random.choice(integers)
        number = int(value.text)
        for way, result in (
            ("plus one", number + 1),
            ("double", 2 * number),
            ("a tenth", round(number / 10)),
            ("complement", 10 ** len(value.text) - number),
        ):
            yield self.pair("computed", way, value, str(result))

    def twice(self) -> Iterator[Pair]:
        """Values that a later command printed again: the first one is the producer."""
        outputs = [output for _, output in self.world.commands]
        again = [
            (value, k)
            for value in self.world.values
            for k in range(value.command + 1, len(outputs))
            if value.text in outputs[k] and value.kind not in _WEAK
        ]
        for value, k in self.random.sample(again, min(3, len(again))):
            yield self.pair("twice", value.kind, value, value.text, also=k)

    def known(self) -> Iterator[Pair]:
        """Values that are printed, but that the prompt or an earlier text had before."""
        strong = [v for v in self.world.values if v.kind not in _WEAK]
        for value in self.random.sample(strong, 3):
            earlier, _ = self.some(value.command)
            prompt = f"{PROMPT} Start from {value.text} if it is there."
            yield Pair(
                "prompt", value.kind, prompt, earlier, self.text(value.kind, value.text), None
            )
        for value in self.random.sample(strong, 3):
            earlier, at = self.some(value.command)
            typed = (f"grep -rl -- '{value.text}' backup", "")
            known = (*earlier[:at], typed, *earlier[at:])
            yield Pair("own", value.kind, PROMPT, known, self.text(value.kind, value.text), None)
        for value in self.pick("integer", "grouped"):
            other = _plain(value.text) if "," in value.text else _grouped(value.text)
            earlier, _ = self.some(value.command)
            prompt = f"{PROMPT} There should be {other} of them."
            yield Pair("prompt", "other form", prompt, earlier, self.text("", value.text), None)

    def pick(self, *kinds: str) -> list[Value]:
        found = self.world.of_kind(*kinds)
        return [self.random.choice(found)] if found else []

    def pair(
        self, kind: Kind, detail: str, value: Value, text: str, *, also: int | None = None
    ) -> Pair:
        earlier, producer = self.some(value.command, also)
        use = self.text(value.kind, text)
        return Pair(kind, detail, PROMPT, earlier, use, producer)

    def some(
        self, wanted: int | None, also: int | None = None
    ) -> tuple[tuple[tuple[str, str], ...], int]:
        """About half of the commands, the wanted ones among them, and the new number of one."""
        must = {k for k in (wanted, also) if k is not None}
        kept = [
            k for k in range(len(self.world.commands)) if k in must or self.random.random() < 0.5
        ]
        at = kept.index(wanted) if wanted is not None else len(kept)
        return tuple(self.world.commands[k] for k in kept), at

    def text(self, kind: str, value: str) -> str:
        half = self.world.half
        uses = [*_ANY[half], *2 * _USES[half].get(kind, [])]
        if kind not in _WEAK:
            uses.append(_SCRIPTS[half])
        return self.random.choice(uses).replace("{v}", value)


def _grouped(number: str) -> str:
    return re.sub(r"(?<=\d)(?=(\d{3})+$)", ",", number)


def _plain(number: str) -> str:
    return number.replace(",", "")


def _unit_dropped(value: str) -> str:
    return value.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _day(pattern: str) -> Callable[[str], str]:
    def rewrite(date: str) -> str:
        year, month, day = date.split("-")
        return pattern.format(y=year, m=month, d=day)

    return rewrite


def _shorter(places: int) -> Callable[[str], str]:
    return lambda number: f"{float(number):.{places}f}"


def _words_of_camel(name: str) -> list[str]:
    return re.findall(r"[A-Z][a-z]+", name) or name.split("_")


def reformatted(half: Half) -> list[tuple[str, str, Callable[[str], str]]]:
    """Ways to write the same value: their name, the kind of value, how."""
    both: list[tuple[str, str, Callable[[str], str]]] = [
        ("thousands", "integer", _grouped),
        ("no thousands", "grouped", _plain),
        ("hex", "integer", lambda s: hex(int(s))),
        ("decimal", "address", lambda s: str(int(s, 16))),
        ("rounded to 2", "decimal", _shorter(2)),
        ("unit dropped", "unit", _unit_dropped),
        ("slashes", "date", _day("{y}/{m}/{d}")),
        ("hyphens dropped", "uuid", lambda s: s.replace("-", "")),
    ]
    if half == "development":
        return [
            *both,
            ("leading zeros", "integer", lambda s: s.zfill(8)),
            ("lower case", "id", str.lower),
            ("upper case hex", "address", lambda s: "0x" + s[2:].upper()),
            ("compact", "date", _day("{y}{m}{d}")),
            ("trailing zero", "decimal", lambda s: s + "0"),
            ("capitals", "identifier", str.upper),
            ("capital", "name", str.title),
            ("unit apart", "unit", lambda s: f"{_unit_dropped(s)} {s[-2:]}"),
        ]
    return [
        *both,
        ("underscores", "grouped", lambda s: s.replace(",", "_")),
        ("upper case", "uuid", str.upper),
        ("joined", "id", lambda s: s.replace("-", "_")),
        ("hex without zeros", "address", lambda s: "0x" + s.lstrip("0")),
        ("day first", "date", _day("{d}.{m}.{y}")),
        ("rounded to 4", "decimal", _shorter(4)),
        ("snake case", "identifier", lambda s: "_".join(_words_of_camel(s)).lower()),
        ("capitals", "name", str.upper),
    ]


def cut(half: Half) -> list[tuple[str, str, Callable[[str], str]]]:
    """Ways to write a part of a value: their name, the kind of value, how."""
    short = 7 if half == "development" else 10
    return [
        ("hash begins", "hash", lambda s: s[:short]),
        ("uuid begins", "uuid", lambda s: s.split("-")[0]),
        ("ending dropped", "file", lambda s: s.rsplit(".", 1)[0]),
        ("last of path", "path", lambda s: s.rsplit("/", 1)[1]),
        ("other ending", "file", lambda s: s.rsplit(".", 1)[0] + ".out"),
        ("last two places dropped", "decimal", lambda s: s[:-2]),
    ]
