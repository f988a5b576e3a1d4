"""Encodings: texts in several encodings into UTF-8, as an index says that has one itself."""

from __future__ import annotations

import hashlib
import random
from typing import Final, NamedTuple

from training.tasks.difficulty import Difficulty, distractors, task_name
from training.tasks.writing import TaskFiles, generator, insert, words

CODECS: Final = {
    "UTF-8": "utf-8",
    "UTF-16LE": "utf-16-le",
    "UTF-16BE": "utf-16-be",
    "UTF-32LE": "utf-32-le",
    "ISO-8859-1": "iso8859-1",
    "ISO-8859-15": "iso8859-15",
    "WINDOWS-1252": "cp1252",
}
"""Names that iconv knows -> Python's."""

WIDE: Final = ("UTF-16LE", "UTF-16BE", "UTF-32LE")
NAMES: Final = words(
    "anton berta cesar dora emil frida gustav hedwig ivan julia karl ludwig maria nora otto paula"
)
PLAIN: Final = words("größe café naïve señor façade crème über årsmøde mañana forêt pièce straße")
EURO: Final = words("10€ šestnáct Žofie 25€ œuvre")
"""Words with letters that ISO-8859-15 and WINDOWS-1252 have, at different places."""

INSTRUCTION: Final = """\
# Bring letters into UTF-8

The files `/app/letters/NAME.txt` are texts in several encodings. An index says which; it is a text
in some encoding itself. `/app/START` is plain ASCII and has one line: the path of another file,
relative to `/app`, one space, and that file's encoding. {way}

A line of the index is `NAME ENCODING`, for each letter; encodings are named as `iconv` names them.

1. Write each letter to `/app/utf8/NAME.txt` as UTF-8. Lines end with a newline alone: where a
   letter has carriage returns before its newlines, drop these. A byte-order mark at the beginning
   of a letter is dropped, too. All else stays. `/app/utf8` holds no other files.
2. Write `/app/sums.txt`: what `sha256sum *.txt` prints in that folder, in byte order of the names.
3. Write `/app/longest.txt`: one line, the name of the letter with the most characters (without
   `.txt`), one space, how many it has in `/app/utf8` (Unicode characters, newlines included).

Leave `/app/letters` as it is.
"""

WAY_SHORT: Final = "That file is the index."
WAY_LONG: Final = """\
That file has
one such line again, in its encoding, and so on. The index is file number {count}, counted from the
one that `/app/START` names."""

CHECKS: Final = """\
# texts FOLDER: whether all letters of a folder are as they should be.
texts() {
  local path
  for path in "/tests/$1/"*; do same "/app/$1/${path##*/}" "$path" || return; done
}

listing() { [ -d /app/utf8 ] && [ ! -L /app/utf8 ] && ls -A /app/utf8; }

check letters texts letters
check utf8 texts utf8
check no_other_files test "$(listing)" = "$(ls -A /tests/utf8)"
check sums same /app/sums.txt /tests/sums.txt
check longest same /app/longest.txt /tests/longest.txt
"""


class Letter(NamedTuple):
    """One letter: what it says, with plain newlines, and the bytes that it is given as."""

    name: str
    encoding: str
    text: str
    raw: bytes


def make(seed: int, difficulty: Difficulty) -> TaskFiles:
    """The task of a seed; a link of its chain is a note that says how to read another file."""
    rng = generator("encodings", seed)
    letters = _letters(rng)
    index = "".join(f"{letter.name} {letter.encoding}\n" for letter in letters)
    way = _way(seed, difficulty.depth)
    notes = {"START": f"{way[0][0]} {way[0][1]}\n".encode()}
    for (path, encoding), following in zip(way, [*way[1:], None], strict=True):
        text = index if following is None else f"{following[0]} {following[1]}\n"
        notes[path] = text.encode(CODECS[encoding])

    right = {f"{letter.name}.txt": letter.text.encode() for letter in letters}
    sums = "".join(f"{hashlib.sha256(right[n]).hexdigest()}  {n}\n" for n in sorted(right))
    longest = max(letters, key=lambda letter: len(letter.text))
    commands = _commands(way, longest)
    originals = {f"letters/{letter.name}.txt": letter.raw for letter in letters}
    count = difficulty.depth
    return TaskFiles(
        name=task_name("encodings", seed, difficulty),
        description="Bring texts in several encodings into UTF-8",
        instruction=INSTRUCTION.format(
            way=WAY_SHORT if count == 1 else WAY_LONG.format(count=count)
        ),
        files=originals | notes | distractors("encodings", seed, difficulty, _old_letter),
        checks=CHECKS,
        expected=originals
        | {f"utf8/{name}": text for name, text in right.items()}
        | {"sums.txt": sums, "longest.txt": f"{longest.name} {len(longest.text)}\n"},
        commands=commands,
        wasteful=_wasteful(commands, letters[0].name, count - 1),
        wrong=_wrong(),
    )


def _letters(rng: random.Random) -> list[Letter]:
    """Nine to twelve letters; the first, in a wide encoding, is the longest."""
    names = rng.sample(NAMES, rng.randint(9, 12))
    encodings = [rng.choice(WIDE), *rng.sample(list(CODECS), len(CODECS))]
    encodings += [rng.choice(list(CODECS)) for _ in names[len(encodings) :]]
    letters = [
        _letter(rng, name, encoding, 40 if number == 0 else rng.randint(3, 8))
        for number, (name, encoding) in enumerate(zip(names, encodings, strict=True))
    ]
    rng.shuffle(letters)
    return letters


def _letter(rng: random.Random, name: str, encoding: str, lines: int) -> Letter:
    with_euro = encoding != "ISO-8859-1"
    text = f"{name} {rng.getrandbits(32):08x}\n"
    for _ in range(lines):
        line = [rng.choice(PLAIN) for _ in range(6)]
        text += " ".join([*line, rng.choice(EURO if with_euro else PLAIN)]) + "\n"
    given = text.replace("\n", "\r\n") if rng.random() < 0.5 else text
    if encoding.startswith("UTF") and rng.random() < 0.5:
        given = f"\ufeff{given}"
    return Letter(name, encoding, text, given.encode(CODECS[encoding]))


def _way(seed: int, depth: int) -> list[tuple[str, str]]:
    """The files from the first note to the index: path and encoding."""
    rng = generator("encodings/depth", seed)
    numbers = rng.sample(range(1000, 10_000), depth)
    return [(f"notes/note{number}.dat", rng.choice(WIDE)) for number in numbers]


def _old_letter(rng: random.Random, number: int) -> tuple[str, bytes]:
    """A letter that nobody asks for."""
    letter = _letter(rng, rng.choice(NAMES), rng.choice(list(CODECS)), 3)
    return f"letters.old/{letter.name}-{number}.txt", letter.raw


CONVERTING: Final = (
    "mkdir -p utf8; while read -r name encoding; do "
    'iconv -f "$encoding" -t UTF-8 "letters/$name.txt" > "/tmp/raw/$name.txt"; '
    "done < /tmp/index.txt"
)
CLEANING: Final = (
    "for file in /tmp/raw/*.txt; do "
    'LC_ALL=C sed \'1s/^\\xef\\xbb\\xbf//; s/\\r$//\' "$file" > "utf8/${file##*/}"; done'
)
SUMS: Final = "(cd utf8 && LC_ALL=C; sha256sum *.txt) > sums.txt"
COUNTING: Final = "LC_ALL=C.UTF-8 wc -m utf8/*.txt | sort -n | tail -n 2 | head -n 1"


def _commands(way: list[tuple[str, str]], longest: Letter) -> list[str]:
    reading = [f"iconv -f {encoding} -t UTF-8 {path}" for path, encoding in way]
    return [
        "cat START",
        *reading[:-1],
        f"{reading[-1]} > /tmp/index.txt",
        "cat /tmp/index.txt",
        "mkdir -p /tmp/raw",
        CONVERTING,
        CLEANING,
        SUMS,
        COUNTING,
        f"echo {longest.name} {len(longest.text)} > longest.txt",
        "cat sums.txt longest.txt",
    ]


def _wasteful(commands: list[str], name: str, more: int) -> list[str]:
    return insert(
        commands,
        (1, "ls -l letters"),
        (more + 2, f"od -c letters/{name}.txt | head -n 4"),
        (more + 3, "mkdir /tmp/try; cp letters/*.txt /tmp/try/"),
        (more + 3, "wc -c /tmp/try/*.txt | sort -n > longest.txt"),
        (more + 6, "(cd /tmp/raw && sha256sum *.txt) > sums.txt"),
        (more + 7, "ls -l utf8"),
        (more + 7, "wc -l sums.txt"),
    )


def _wrong() -> list[str]:
    """Reads every letter as ISO-8859-1."""
    return [
        "ls letters",
        "mkdir -p utf8; for file in letters/*.txt; do "
        'iconv -f ISO-8859-1 -t UTF-8 "$file" > "utf8/${file##*/}"; done',
        SUMS,
        f"{COUNTING} > /tmp/longest.txt",
        'awk \'{ sub(/.*\\//, "", $2); sub(/.txt/, "", $2); print $2, $1 }\' /tmp/longest.txt '
        "> longest.txt",
    ]
