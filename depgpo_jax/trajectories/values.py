"""A JSON document's values, each with the place that a message about it names."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from depgpo_jax.errors import TraceError, printable

MAX_NESTED = 200
"""Lists and objects inside each other: far above any real recording."""

_LARGEST = 2**53


def odd_part(value: object) -> str | None:
    """What in a JSON document no trace could carry on: found before anything runs."""
    waiting: list[tuple[object, int]] = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_NESTED:
            return f"more than {MAX_NESTED} lists and objects inside each other"
        if isinstance(part, dict):
            if any(has_surrogates(name) for name in part):
                return "a name with half a character"
            waiting += [(inner, depth + 1) for inner in part.values()]
        elif isinstance(part, list):
            waiting += [(inner, depth + 1) for inner in part]
        elif isinstance(part, float) and not math.isfinite(part):
            return f"the number {part}"
        elif isinstance(part, int) and abs(part) > _LARGEST:
            return "a whole number beyond 2^53"
    return None


def text_problem(text: object) -> str | None:
    """What keeps a value from being a text that a terminal and a trace can take."""
    if not isinstance(text, str):
        return kind(text)
    if "\0" in text:
        return "a text with a NUL character"
    if has_surrogates(text):
        return "a text that is not Unicode"
    return None if text.strip() else "an empty text"


def has_surrogates(text: str) -> bool:
    """Whether JSON's escapes left halves of characters in a text."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def kind(value: object) -> str:
    """A JSON value in words."""
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a boolean"}
    return "null" if value is None else kinds.get(type(value), "a number")


@dataclass(frozen=True)
class Value:
    """A value and where it stands.

    Attributes:
        value: as JSON gives it.
        file: the file's name.
        line: the line in it, where a line is a document.
        field: the path inside the document.
    """

    value: Any
    file: str
    line: int | None = None
    field: str = ""

    def wrong(self, found: str, allowed: str, remedy: str) -> NoReturn:
        """Refuses the value.

        Raises:
            TraceError: always.
        """
        raise TraceError(
            found, allowed, remedy, file=self.file, line=self.line, field=self.field or None
        )

    def has(self, name: str) -> bool:
        """Whether it is an object with a key that is not null."""
        return isinstance(self.value, dict) and self.value.get(name) is not None

    def get(self, name: str) -> Value:
        """The value of an object's key; of one that is not there, null."""
        field = f"{self.field}.{name}" if self.field else name
        return Value(self.object().get(name), self.file, self.line, field)

    def items(self) -> Iterator[Value]:
        """The values of a list."""
        if not isinstance(self.value, list):
            self.wrong(kind(self.value), "a list", "Put the value in […].")
        for number, value in enumerate(self.value):
            yield Value(value, self.file, self.line, f"{self.field}[{number}]")

    def object(self) -> dict[str, Any]:
        """The value as an object."""
        if not isinstance(self.value, dict):
            self.wrong(kind(self.value), "an object", "Put the value in {…}.")
        return self.value

    def only(self, names: Collection[str]) -> None:
        """Refuses an object with other keys."""
        for name in self.object():
            if name not in names:
                self.wrong(
                    f"the key {printable(repr(name), 80)}",
                    f"the keys {', '.join(names)}",
                    "Correct or remove it; what is yours can stand in `extra`.",
                )

    def name(self) -> str:
        """The value as a name: a text that is not empty."""
        problem = text_problem(self.value)
        if problem:
            self.wrong(problem, "a text that is not empty", "Give it a name, or remove the key.")
        return self.value

    def command(self) -> str:
        """The value as a text to run."""
        problem = text_problem(self.value)
        if problem:
            self.wrong(
                problem,
                "texts without NUL, of whole Unicode characters, and not empty",
                "Correct or remove it.",
            )
        return self.value

    def text(self) -> str:
        """The value as any text; halves of characters are replaced."""
        if not isinstance(self.value, str):
            self.wrong(kind(self.value), "a text", 'Put the value in "…".')
        if has_surrogates(self.value):
            return self.value.encode("utf-8", "replace").decode()
        return self.value

    def integer(self, least: int = -(2**31)) -> int:
        """The value as an integer from `least` to 2^53."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LARGEST:
            allowed = f"an integer of at least {least}" if least >= 0 else "an integer"
            self.wrong(shown(value), allowed, "Correct the number.")
        return value

    def number(self) -> float:
        """The value as a finite number."""
        value = self.value
        good = not isinstance(value, bool) and isinstance(value, int | float)
        if not good or abs(value) > 2**1023 or not math.isfinite(value):
            self.wrong(shown(value), "a finite number", "Correct it, or remove the key.")
        return float(value)


def shown(value: object) -> str:
    """A value for a message: numbers as they are, others in a word."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return printable(repr(value), 40)
        except ValueError:  # an integer with more digits than Python prints
            return "a number too large to show"
    return kind(value)
