"""What stands around a word of a command's text, and so what the word is there for."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from depgpo_jax.tracer.reuse_tokens import Word

_OPTION: Final = re.compile(r"(?:^|[\s\"'\[(,])--?$")
_BEFORE_OPTION_VALUE: Final = re.compile(r"(?:^|\s)(?:-{1,2}[A-Za-z][\w-]*[ =]?|-)$")
_ASSIGNED: Final = re.compile(r" ?=(?!=)| ?[-+*/|]=")
_VARIABLE: Final = re.compile(r"\b(?:for|as|let|const|var|lambda) $|\$\{?$")
_DEFINING: Final = re.compile(r"\b(?:def|class|function|fn|func|struct) $")
_DEFINED: Final = re.compile(r" ?[({:]")
_ADDRESSED: Final = re.compile(r"(?:,\d+|,\$)?[pqd]|,\d+[sc]")
_KEYWORD: Final = re.compile(r"[(,]\s*$")
_IMPORTING: Final = re.compile(r"\b(?:from|import) $")
_LOOK_BACK: Final = 24
"""Characters before a word that are looked at."""


class Look(NamedTuple):
    """A text that is looked at.

    Attributes:
        text: itself.
        few: whether it is short enough for plain names and short numbers.
        bound: names to which it gives a meaning of its own.
        files: names of files in it, without their folders.
    """

    text: str
    few: bool
    bound: frozenset[str]
    files: frozenset[str]


def is_option(text: str, word: Word) -> bool:
    """Whether a word is the name of an option, as in `--model_name`."""
    return _OPTION.search(text, max(0, word.start - 3), word.start) is not None


def follows_option(text: str, word: Word) -> bool:
    """Whether a word is the value of an option, as in `-n 36`, `--lines=36` or `-36`."""
    begin = max(0, word.start - _LOOK_BACK)
    return _BEFORE_OPTION_VALUE.search(text, begin, word.start) is not None


def is_bound(text: str, word: Word) -> bool:
    """Whether the text itself gives a name its meaning: it assigns, defines or expands it.

    An argument that is passed by its name, as in `f(limit=1)`, has its meaning from elsewhere.
    """
    begin = max(0, word.start - _LOOK_BACK)
    if _ASSIGNED.match(text, word.end):
        return text[word.end] != "=" or not _KEYWORD.search(text, begin, word.start)
    if _VARIABLE.search(text, begin, word.start):
        return True
    defined = _DEFINED.match(text, word.end)
    return defined is not None and _DEFINING.search(text, begin, word.start) is not None


def is_imported(text: str, word: Word) -> bool:
    """Whether a word is a module's name, so that `django.conf` is no file."""
    return _IMPORTING.search(text, max(0, word.start - _LOOK_BACK), word.start) is not None


def is_end_of_path(text: str, word: Word) -> bool:
    """Whether a word is the first or last name of a path."""
    before = text[max(0, word.start - 1) : word.start] == "/"
    behind = text[word.end : word.end + 1] == "/" and text[word.end + 1 : word.end + 2].isalnum()
    return before != behind


def is_middle_of_path(text: str, word: Word) -> bool:
    """Whether a word stands in a path between other names."""
    before = text[max(0, word.start - 2) : word.start]
    behind = text[word.end : word.end + 2]
    return before[1:] == "/" and before[:1].isalnum() and behind[:1] == "/" and behind[1:].isalnum()


def is_line_address(text: str, word: Word) -> bool:
    """Whether a number says where in a file `sed` begins, as in `sed -n '477,500p'`."""
    before = text[max(0, word.start - 1) : word.start]
    return before in ("'", '"', " ") and _ADDRESSED.match(text, word.end) is not None
