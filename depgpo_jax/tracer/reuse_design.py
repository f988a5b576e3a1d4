"""The plain rule, kept so that figures of the other rules have something to be compared with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_TOKEN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@%+-]*[A-Za-z0-9_]|[A-Za-z0-9_]")
_PART: Final = re.compile(r"[^/=:]+")
_NUMBER: Final = re.compile(r"\d{4,}(\.\d+)?")
_SNAKE: Final = re.compile(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)+")
_CAMEL: Final = re.compile(r"[a-z]+[A-Z][A-Za-z0-9]*|[A-Z][a-z0-9]+[A-Z][A-Za-z0-9]*")
_SHORTEST_SNAKE: Final = 6


def tokens(text: str) -> Sequence[str]:
    """The words of a text, with paths, numbers and names whole and also in their parts."""
    found: list[str] = []
    for word in _TOKEN.findall(text):
        found.append(word)
        if "/" in word or ":" in word:
            found += _PART.findall(word)
    return found


def is_informative(token: str) -> bool:
    """Whether a token is unlikely to come up twice by chance."""
    if any(c.isalpha() for c in token) and any(c.isdigit() for c in token):
        return True
    return bool(
        _NUMBER.fullmatch(token)
        or "/" in token.strip("/")
        or (len(token) >= _SHORTEST_SNAKE and _SNAKE.fullmatch(token))
        or _CAMEL.fullmatch(token)
    )
