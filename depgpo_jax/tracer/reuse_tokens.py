"""The words of outputs and of commands' texts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_WORD: Final = re.compile(r"\w[\w./:@+-]*\w|\w")
_JOINS: Final = re.compile(r"[/:@]")
_PART: Final = re.compile(r"[^/:@]+")
_PATH: Final = re.compile(r"[^:@]+/[^:@]+")
_GROUPED: Final = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w,]|\.\d)")
_CONTROL: Final = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.|\r"
)
_JOINERS: Final = re.compile(r"[-_.:\s]+")
_LISTED: Final = re.compile(
    r"[-dlcbps][-rwxsStT]{9}[.+@]?\s.*?(\S+)(?: -> \S+)?|(\S+)(?:\t| {2,})\S.*|\d+ (\S+)"
)
_PINNED: Final = re.compile(
    r"(?<![\w.-])([A-Za-z]\w*(?:-[A-Za-z]\w*)*)(?:\[[\w,]+\])?"
    r"(?: ?(?:==?|>=|<=|~=|@|-|/)| )v?(\d+(?:\.\d+)+)"
)
_GREPPED: Final = re.compile(r"^(?:([^\s:]+):)?(\d{2,6}):", re.MULTILINE)
_MOSTLY: Final = 0.8
"""Of the numbers that follow each other, where there are several ranges of lines."""
_COUNTED: Final = re.compile(r"^ *(\d{1,6})\t", re.MULTILINE)
_BEFORE_LINE: Final = re.compile(r"\s*(?:(?:[^\s:]+[:-])?\d+[:\t-])?\s*")
# Bounded, since a text of quotes without an end would be read once for each of them.
_QUOTED: Final = re.compile(r"\"((?:[^\"\\\n]|\\.){0,400}+)\"|'((?:[^'\\\n]|\\.){0,400}+)'")
_IMPORTS: Final = ("import ", "from ", "#include ")
"""What lines begin with that programs write alike."""
_SHOWN_BEHIND_NAMES: Final = "/*@|="
_FOLDERS: Final = 16
"""Of one path, so that one of a thousand names takes no thousand times its length."""
_FOLDER_NAMES: Final = 3
"""Names of a folder that may stand for a path in it."""


class Word(NamedTuple):
    """A word of a text and its place in it."""

    text: str
    start: int
    end: int


def plain(output: str) -> str:
    """An output without colours, cursor movements and carriage returns."""
    return _CONTROL.sub("", output)


def words(text: str) -> Iterator[Word]:
    """Paths, numbers and names, and `1,234` also in one."""
    for pattern in (_WORD, _GROUPED):
        for match in pattern.finditer(text):
            yield Word(match.group(), match.start(), match.end())


def parts(word: Word) -> list[Word]:
    """What is between the `/`, `:` and `@` of a word; nothing if it has none of them."""
    if not _JOINS.search(word.text):
        return []
    return [
        Word(part.group(), word.start + part.start(), word.start + part.end())
        for part in _PART.finditer(word.text)
    ]


def tokens(text: str) -> Sequence[str]:
    """Words and their parts, without their places, which take time to find in a long output.

    Of a path, also the last folder and the name together.
    """
    found: list[str] = []
    for word in _WORD.findall(text):
        found.append(word)
        if not _JOINS.search(word):
            continue
        found += _PART.findall(word)
        for path in _PATH.findall(word):
            found.append(path)
            found.append("/".join(path.split("/")[-2:]))
    found += _GROUPED.findall(text)
    return found


def bare_words(text: str) -> set[str]:
    """Words that are not a part of a longer one."""
    return set(_WORD.findall(text))


def folders(path: str) -> Iterator[str]:
    """The folders that a path is in, from the inside, as long as they have three names."""
    names = path.split("/")
    for count in range(len(names) - 1, max(_FOLDER_NAMES - 1, len(names) - 1 - _FOLDERS), -1):
        yield "/".join(names[:count])


def pinned_versions(text: str) -> list[tuple[str, str]]:
    """Names with a version behind them, as in `numpy==1.9.0` or `numpy 1.9.0`."""
    return _PINNED.findall(text)


def grepped_lines(output: str) -> Iterator[tuple[str, str]]:
    """Numbers of lines that `grep -n` found, each with the file's name if it is said."""
    for file, number in _GREPPED.findall(output):
        yield file.rpartition("/")[2], number


def counted_lines(output: str) -> list[str]:
    """Numbers of lines that `nl` or `cat -n` printed: each is one more than the one before."""
    found = _COUNTED.findall(output)
    steps = sum(int(b) - int(a) == 1 for a, b in itertools.pairwise(found))
    return found if len(found) > 2 and steps >= _MOSTLY * (len(found) - 1) else []


def without_line_numbers(output: str) -> str:
    """An output without numbers that say nothing but where in a file a line is."""
    output = _GREPPED.sub(r"\1 ", output)
    return _COUNTED.sub("", output) if counted_lines(output) else output


def lines(output: str, *, at_least: int) -> Iterator[str]:
    """Lines without what stands before them: spaces, numbers, a file's name.

    Args:
        output: what was printed.
        at_least: characters of a line.
    """
    for line in output.split("\n"):
        if len(line) >= at_least:
            found = line[_BEFORE_LINE.match(line).end() :].rstrip()  # pyright: ignore
            if len(found) >= at_least and not found.startswith(_IMPORTS):
                yield found


def quoted_lines(text: str, *, at_least: int) -> Iterator[str]:
    """Lines of a text, whole and within quotes, without the spaces around them."""
    for line in text.split("\n"):
        if len(line) < at_least:
            continue
        found = [line, *line.split("'''"), *line.split('"""')]
        for quoted in _QUOTED.findall(line):
            found += (quoted[0] or quoted[1]).split("\\n")
        yield from (each for raw in found if len(each := raw.strip()) >= at_least)


def listed_names(output: str) -> Iterator[str]:
    """What lines are about: a word alone, the first column, the name in `ls -l` and `uniq -c`.

    A single line such as `37 rows` is no list.
    """
    counted: list[str] = []
    for line in output.split("\n"):
        stripped = line.strip()
        if " " not in stripped and "\t" not in stripped:
            yield from _name(stripped.removeprefix("./"))
        elif listed := _LISTED.fullmatch(stripped):
            yield from _name(listed[1] or listed[2] or "")
            counted += _name(listed[3] or "")
    if len(counted) > 1:
        yield from counted


def _name(shown: str) -> list[str]:
    """A listed name without the sign that says what it is; nothing if it is no word."""
    name = shown.rstrip(_SHOWN_BEHIND_NAMES)
    return [name] if _WORD.fullmatch(name) else []


def joined(text: str) -> str:
    """A text in small letters and with `_` for whatever joins words."""
    return _JOINERS.sub("_", text.casefold())


def says(text: str, name: str) -> bool:
    """Whether a text has a name, without regard to case and to what joins its parts.

    Args:
        text: from `joined`.
        name: what is looked for.
    """
    name = joined(name)
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if not (text[max(0, at - 1) : at].isalnum() or text[end : end + 1].isalnum()):
            return True
        at = text.find(name, at + 1)
    return False
