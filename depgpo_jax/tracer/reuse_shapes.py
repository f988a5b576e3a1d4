"""Which words are unlikely to come up twice by chance, by what they are made of."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

from depgpo_jax.tracer.reuse_words import (
    ATTRIBUTES,
    COMMON,
    COMMON_NAMES,
    COMMON_NUMBERS,
    ENDINGS,
    FILE_ENDINGS,
    MODULES,
    SHORT_NUMBERS,
)

Shape = Literal["number", "digits", "mixed", "path", "file", "identifier", "dotted", "long", ""]

_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?|[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_DIGITS: Final = re.compile(r"[0-9]+(?:[-.:/_+][0-9]+){2,}")
_VERSION: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){2}")
_SNAKE: Final = re.compile(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)+")
_CAMEL: Final = re.compile(r"[a-z]+[A-Z][A-Za-z0-9]*|[A-Z][a-z0-9]+[A-Z][A-Za-z0-9]*")
_YEAR: Final = re.compile(r"(?:19|20)[0-9]{2}")
_COMMON: Final = frozenset(word.casefold() for word in COMMON)
_MODULES: Final = frozenset(word.casefold() for word in MODULES)
_ADDRESSES: Final = frozenset(("127.0.0.1", "0.0.0.0", "8.8.8.8", "1.1.1.1", "255.255.255.0"))
_SHORTEST: Final = 4
_SHORTEST_STEM: Final = 3
_SHORTEST_SNAKE: Final = 6
_NEVER_ROUND: Final = 9
"""Digits from which a number is told by its length, even with zeros only behind the first."""


@lru_cache(maxsize=1 << 16)
def shape(token: str) -> Shape:
    """What makes a token informative; empty if nothing does, or if every agent knows it."""
    if _NUMBER.fullmatch(token):
        return "number" if _telling_number(token) else ""
    folded = token.casefold()
    if folded in _COMMON:
        return ""
    if _DIGITS.fullmatch(token):
        enough = sum(c.isdigit() for c in token) >= _SHORTEST
        return "digits" if enough and token not in _ADDRESSES else ""
    if "/" in token:
        return "path" if _telling_path(token) else ""
    if "." in token:
        head, _, ending = token.rpartition(".")
        module = head.split(".")[0].casefold() in _MODULES
        ending = ending.casefold()
        if ending in FILE_ENDINGS and not (module and ending in ATTRIBUTES):
            return "file" if len(head) >= _SHORTEST_STEM else ""
        if module:
            return ""
    letters = any(c.isalpha() for c in token)
    if letters and any(c.isdigit() for c in token):
        return "mixed"
    if (len(token) >= _SHORTEST_SNAKE and _SNAKE.fullmatch(token)) or _CAMEL.fullmatch(token):
        return "identifier"
    if not letters or (token.isalpha() and folded.endswith(ENDINGS)):
        return ""
    return "dotted" if "." in token else "long"


def is_version(token: str) -> bool:
    """Whether a token is of three short numbers with points."""
    return _VERSION.fullmatch(token) is not None


def is_short_number(token: str) -> bool:
    """Whether a token is a number that says something where it is all that was printed."""
    if not _NUMBER.fullmatch(token) or token in SHORT_NUMBERS:
        return False
    return 2 <= len(token.replace(".", "").lstrip("0")) < _SHORTEST


def is_name(token: str) -> bool:
    """Whether a token may be the name of a file or folder that an output lists."""
    return (
        len(token) >= _SHORTEST
        and token.isascii()
        and token.replace("-", "").replace("_", "").isalpha()
        and token.casefold() not in COMMON_NAMES
        and token.casefold() not in _COMMON
    )


def telling_digits(token: str) -> int:
    """Digits of a number, date or version without zeros before and behind, which say little."""
    return len("".join(filter(str.isdigit, token)).strip("0"))


def _telling_number(token: str) -> bool:
    digits = token.replace(",", "").replace(".", "").lstrip("0")
    if len(digits) < _SHORTEST or token in COMMON_NUMBERS or _YEAR.fullmatch(token):
        return False
    return telling_digits(token) > 1 or len(digits) > _NEVER_ROUND


def _telling_path(token: str) -> bool:
    """Whether one of a path's names tells something, or it is deep enough that all together do."""
    inner = token.strip("/")
    names = inner.split("/")
    if len(names) < 2:
        return False
    if "." in names[-1] or len(names) > 2:
        return True
    return any(c.isdigit() or c in "_-" for c in inner)
