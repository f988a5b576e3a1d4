"""A Dockerfile's text: instructions over several lines, comments, quotes, variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from depgpo_jax.errors import printable
from depgpo_jax.tasks.errors import TaskError

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTINUED: Final = re.compile(r"(?<!\\)\\[ \t]*\Z")
_DIRECTIVE: Final = re.compile(r"#[ \t]*([A-Za-z][A-Za-z0-9]*)[ \t]*=[ \t]*(.*?)[ \t]*")
_ESCAPED_IN_QUOTES: Final = '"$\\'


class Instruction(NamedTuple):
    """One instruction, its lines joined.

    Attributes:
        file: the Dockerfile's name, for messages.
        line: where it begins, from 1.
        keyword: in capitals.
        rest: what follows, without space around it.
    """

    file: str
    line: int
    keyword: str
    rest: str

    def error(self, found: str, allowed: str, remedy: str) -> TaskError:
        """An error at this instruction."""
        return TaskError(found, allowed, remedy, file=self.file, line=self.line)


def instructions(text: str, *, file: str) -> Iterator[Instruction]:
    """The instructions of a Dockerfile.

    Comments and empty lines vanish, also between the lines of one instruction, as Docker has it.

    Raises:
        TaskError: the file makes another character than the backslash continue a line.
    """
    first, parts = 0, list[str]()
    directives = True
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        line = raw.removesuffix("\r")
        if line.lstrip().startswith("#"):
            directives = directives and _directive(line.strip(), file, number)
            continue
        directives = False
        if not line.strip():
            continue
        first = first if parts else number
        more = _CONTINUED.search(line)
        parts.append(line[: more.start()] if more else line)
        if not more:
            yield _instruction(file, first, parts)
            parts = []
    if "".join(parts).strip():
        yield _instruction(file, first, parts)


def _instruction(file: str, line: int, parts: list[str]) -> Instruction:
    keyword, _, rest = "".join(parts).strip().replace("\t", " ", 1).partition(" ")
    return Instruction(file, line, keyword.upper(), rest.strip())


def _directive(comment: str, file: str, line: int) -> bool:
    """Whether a comment at the top is one of Docker's directives; the escape one is checked."""
    match = _DIRECTIVE.fullmatch(comment)
    if match and match[1].lower() == "escape" and match[2] != "\\":
        raise TaskError(
            f"another escape character, {printable(match[2], 20)}",
            "the backslash",
            "Remove the line and write continuations with a backslash.",
            file=file,
            line=line,
        )
    return match is not None


def quoted_words(instruction: Instruction) -> list[str]:
    """The text after a keyword, split at spaces outside quotes; quotes and backslashes stay."""
    words, word, quote = list[str](), "", ""
    characters = iter(instruction.rest)
    for character in characters:
        if character == "\\" and quote != "'":
            word += character + next(characters, "")
        elif quote:
            word += character
            quote = "" if character == quote else quote
        elif character in " \t":
            words += [word] if word else []
            word = ""
        else:
            quote = character if character in "'\"" else ""
            word += character
    return words + ([word] if word else [])


def expand(word: str, variables: Mapping[str, str], instruction: Instruction) -> str:
    """A word without its quotes and backslashes, with the values of its variables.

    `$X` and `${X}` are replaced outside single quotes. A variable without a value is an error, not
    an empty text: it may be one that the ignored base image would have set.

    Raises:
        TaskError: a quote without its partner, a variable without a value, another `${…}` form.
    """
    result, quote, place = list[str](), "", 0
    while place < len(word):
        character = word[place]
        if character == quote:
            quote, place = "", place + 1
        elif quote == "'":
            result.append(character)
            place += 1
        elif character in "'\"" and not quote:
            quote, place = character, place + 1
        elif character == "\\":
            text, place = _escape(word, place, quoted=bool(quote))
            result.append(text)
        elif character == "$":
            text, place = _variable(word, place, variables, instruction)
            result.append(text)
        else:
            result.append(character)
            place += 1
    if quote:
        raise instruction.error(
            f"a quote {quote} without its partner in {printable(word, 80)}",
            "quotes in pairs",
            "Close the quote, or write a backslash before it.",
        )
    return "".join(result)


def _escape(word: str, place: int, *, quoted: bool) -> tuple[str, int]:
    """What a backslash and its next character mean, and the place after them."""
    following = word[place + 1 : place + 2]
    if not following or (quoted and following not in _ESCAPED_IN_QUOTES):
        return "\\" + following, place + 2
    return following, place + 2


def _variable(
    word: str, place: int, variables: Mapping[str, str], instruction: Instruction
) -> tuple[str, int]:
    """The value of the variable whose `$` stands at `place`, and the place after it."""
    braced = word.startswith("{", place + 1)
    match = NAME.match(word, place + 1 + braced)
    if not match:
        if braced:
            raise _form_error(word, place, instruction)
        return "$", place + 1
    if braced and not word.startswith("}", match.end()):
        raise _form_error(word, place, instruction)
    if match[0] not in variables:
        raise instruction.error(
            f"${match[0]}, which nothing above sets",
            "PATH and what an ENV above it sets",
            "Set it with ENV before this line (the base image, which may set it, is ignored), "
            "or write a backslash before the $.",
        )
    return variables[match[0]], match.end() + braced


def _form_error(word: str, place: int, instruction: Instruction) -> TaskError:
    return instruction.error(
        printable(word[place:], 80), "$NAME and ${NAME}", "Write the value itself."
    )
