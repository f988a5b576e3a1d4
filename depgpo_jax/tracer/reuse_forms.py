"""Other ways to write a value: what two ways have in common is a key.

A key begins with a letter that says its kind, so that a number's key never meets a name's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Final

from depgpo_jax.tracer.reuse_shapes import is_name, shape
from depgpo_jax.tracer.reuse_words import FILE_ENDINGS

_PLAIN: Final = re.compile(r"([0-9][0-9,_]*)(?:\.([0-9]+))?(?:%|[A-Za-z]{1,3})?")
_GROUPS: Final = re.compile(r"[0-9]{1,3}(?:[,_][0-9]{3})+|[0-9]+")
_HEX: Final = re.compile(r"(0[xX])?([0-9a-fA-F]+)")
_DECIMAL: Final = re.compile(r"[0-9]+\.[0-9]+")
_DATE: Final = re.compile(r"([0-9]{4})([-/._]?)([0-9]{2})\2([0-9]{2})")
_DATE_BACKWARDS: Final = re.compile(r"([0-9]{2})([-/._])([0-9]{2})\2([0-9]{4})")
_SEPARATORS: Final = re.compile(r"[-_:]")
_HEX_RUN: Final = re.compile(r"[0-9a-f]{7,}", re.IGNORECASE)
_UUID: Final = re.compile(r"([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ROUNDINGS: Final = (ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_DOWN)

LONGEST_BEGINNING: Final = 12
"""Characters of a hexadecimal value's beginning that are looked at."""
_LONGEST_JOINED: Final = 64
_HEX_WIDEST: Final = 16
_HEX_SHORTEST: Final = 5
_LONGEST_DECIMAL: Final = 24
"""Characters of a number that is rounded, which is within the precision of `Decimal`."""
_SHORTEST_PLAIN_STEM: Final = 6


def number_keys(token: str) -> Iterator[str]:
    """Keys of a number, whatever its separators, leading and trailing zeros, unit or base."""
    plain = _PLAIN.fullmatch(token)
    if plain and _GROUPS.fullmatch(plain[1]):
        whole = plain[1].replace(",", "").replace("_", "").lstrip("0") or "0"
        fraction = (plain[2] or "").rstrip("0")
        value = f"{whole}.{fraction}" if fraction else whole
        if shape(value) == "number":
            yield f"n{value}"
    based = _HEX.fullmatch(token)
    if based:
        digits = based[2].lstrip("0").lower()
        if based[1] or (any(map(str.isalpha, digits)) and any(map(str.isdigit, digits))):
            value = str(int(digits or "0", 16)) if len(digits) <= _HEX_WIDEST else ""
            if value and shape(value) == "number":
                yield f"n{value}"
            if len(digits) >= _HEX_SHORTEST:
                yield f"x{digits}"
        elif len(digits) >= _HEX_SHORTEST:
            yield f"x{digits}"


def date_keys(token: str) -> Iterator[str]:
    """Keys of a day, year first or last; where the month may stand first, a key for either."""
    if found := _DATE.fullmatch(token):
        yield f"d{found[1]}{found[3]}{found[4]}"
    elif found := _DATE_BACKWARDS.fullmatch(token):
        yield f"d{found[4]}{found[3]}{found[1]}"
        yield f"d{found[4]}{found[1]}{found[3]}"


def name_keys(token: str, *, at_least: int) -> Iterator[str]:
    """The key of a name without regard to case and to what joins its parts.

    Args:
        token: the name.
        at_least: letters and digits that it has.
    """
    joined = _SEPARATORS.sub("", token)
    if len(joined) < at_least or not joined.isalnum() or joined.isdigit():
        return
    if len(joined) < len(token) or any(map(str.isdigit, joined)):
        yield f"c{joined.casefold()}"


def pieces(token: str) -> Iterator[str]:
    """Names within a joined name, as `secret-key` in `my-secret-key`."""
    names = re.split(r"[-_]", token) if len(token) <= _LONGEST_JOINED else []
    for begin in range(len(names)):
        for end in range(begin + 2, len(names) + (begin > 0)):
            yield "_".join(names[begin:end])


def stem(token: str) -> str:
    """A file's name without its ending; empty if the token is none."""
    head, _, ending = token.rpartition(".")
    return head if head and "/" not in token and ending.casefold() in FILE_ENDINGS else ""


def telling_stem(name: str) -> bool:
    """Whether a file's name says enough without its ending."""
    if shape(name) in ("mixed", "identifier", "digits"):
        return True
    return len(name) >= _SHORTEST_PLAIN_STEM and is_name(name)


def beginnings(token: str, *, at_least: int, whole: int) -> Iterator[str]:
    """What long hexadecimal values in a printed token begin with, in lower case; a UUID's block.

    Args:
        token: what was printed.
        at_least: characters of a beginning.
        whole: characters of a value that has one.
    """
    for run in _HEX_RUN.findall(token):
        if len(run) >= whole:
            for length in range(at_least, LONGEST_BEGINNING + 1):
                yield run[:length].lower()
    if found := _UUID.fullmatch(token):
        yield found[1].lower()


def is_hex(token: str) -> bool:
    """Whether a token has hexadecimal digits only."""
    found = _HEX.fullmatch(token)
    return found is not None and not found[1]


def is_decimal(token: str) -> bool:
    """Whether a token is a number with a point."""
    return _DECIMAL.fullmatch(token) is not None


def significant(number: str) -> int:
    """Digits of a decimal number from the first that is not 0."""
    return len(number.replace(".", "").lstrip("0"))


def rounded(token: str, *, digits: int) -> Iterator[str]:
    """A printed decimal number with fewer digits: rounded half up, half to even, and cut.

    Args:
        token: the number.
        digits: significant digits that must be left.
    """
    if len(token) > _LONGEST_DECIMAL:
        return
    value = Decimal(token)
    places = len(token.partition(".")[2])
    for kept in range(places - 1, -1, -1):
        step = Decimal(1).scaleb(-kept)
        found = {str(value.quantize(step, how)) for how in _ROUNDINGS}
        if significant(min(found)) < digits:
            return
        yield from sorted(found)
