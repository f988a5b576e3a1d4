"""What a tool's answer says of the command that ran: its output and its exit code.

Agents wrap outputs in texts of their own. The wrappings that are known are taken off; any other
answer counts as output as it stands, so that a replay differs from it, which shows.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from msgspec import UNSET, UnsetType

from depgpo_jax.trajectories.values import Value, has_surrogates

NOT_EXECUTED: Final = "action was not executed"
ELIDED: Final = "\n[... elided ...]\n"
"""Stands where an agent's own note says that output is missing."""

# <returncode>0</returncode> <output>…</output>, as mini-swe-agent writes it.
_TAGS: Final = re.compile(
    r"\s*(?:<exception>(?P<exception>.*?)</exception>\s*)?<returncode>(?P<code>-?\d+)</returncode>"
    r"\s*(?:<warning>.*?</warning>\s*)?",
    re.DOTALL,
)
_ELIDED: Final = ("<elided_chars>", "</elided_chars>")
# Lines behind the output, as OpenHands writes them.
_NOTE: Final = re.compile(
    r"\[(?:The command completed with exit code (?P<first>-?\d+)\..*|"
    r"Command finished with exit code (?P<second>-?\d+)|"
    r"Current working directory: .*|Python interpreter: .*)\]"
)
_HEADINGS: Final = ("OBSERVATION:\n", "[Below is the output of the previous command.]\n")
_CODES: Final = ("exit_code", "returncode", "exitCode", "return_code")


class Answer(NamedTuple):
    """What an answer says.

    Attributes:
        output: None where it says nothing that can be compared.
        exit_code: None: the command did not end by itself; UNSET: not said.
        executed: False where it says that the command did not run.
    """

    output: str | None
    exit_code: int | UnsetType | None = UNSET
    executed: bool = True


def read_answer(message: Value) -> Answer:
    """Reads an answer.

    Args:
        message: a message of the role `tool` or `function`.

    Raises:
        TraceError: its content is no content of a message.
    """
    content = _content(message.get("content"))
    extra = message.get("extra").value
    if isinstance(extra, dict) and isinstance(extra.get("raw_output"), str):
        code = extra.get("returncode")
        executed = extra.get("exception_info") != NOT_EXECUTED
        return Answer(_plain(extra["raw_output"]), _code(code), executed)
    if content is None:
        return Answer(None)
    for unwrap in (_from_tags, _from_json):
        answer = unwrap(content)
        if answer is not None:
            return answer
    return _from_notes(content)


def _content(value: Value) -> str | None:
    """A message's text; None where it shows more than text."""
    if value.value is None:
        return ""
    if isinstance(value.value, str):
        return value.text()
    parts: list[str] = []
    for part in value.items():
        if part.get("type").value not in ("text", "output_text", "input_text"):
            return None
        parts.append(part.get("text").text())
    return "".join(parts)


def _from_tags(content: str) -> Answer | None:
    found = _TAGS.match(content)
    if found is None:
        return None
    output = _inside(content[found.end() :].rstrip())
    if output is None:
        return None
    executed = (found["exception"] or "").strip() != NOT_EXECUTED
    return Answer(output, _code(int(found["code"])), executed)


def _inside(wrapped: str) -> str | None:
    """The output in its tags, whole or with its middle left out; by steps of one look each."""
    whole = _between(wrapped, "<output>", "</output>")
    if whole is not None:
        return whole.removeprefix("\n")
    parts = _between(wrapped, "<output_head>", "</output_tail>")
    if parts is None:
        return None
    parts, has_tail, tail = parts.rpartition("<output_tail>")
    head, has_head, elided = parts.rpartition("</output_head>")
    if not (has_tail and has_head) or _between(elided.strip(), *_ELIDED) is None:
        return None
    return head.strip("\n") + ELIDED + tail.lstrip("\n")


def _between(text: str, start: str, end: str) -> str | None:
    if len(text) < len(start) + len(end) or not (text.startswith(start) and text.endswith(end)):
        return None
    return text[len(start) : -len(end)]


def _from_json(content: str) -> Answer | None:
    """An object with `output` and an exit code, that or its `metadata`'s."""
    if not content.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("output"), str):
        return None
    metadata = value.get("metadata")
    for holder in (value, metadata if isinstance(metadata, dict) else {}):
        for name in _CODES:
            if name in holder:
                return Answer(_plain(value["output"]), _code(holder[name]))
    return None  # a program may print an object, too


def _from_notes(content: str) -> Answer:
    code: int | UnsetType | None = UNSET
    while True:
        before, _, last = content.rstrip().rpartition("\n")
        note = _NOTE.fullmatch(last)
        if note is None:
            break
        said = note["first"] or note["second"]
        if said is not None:
            code = _code(int(said))
        content = before
    for heading in _HEADINGS:
        content = content.removeprefix(heading)
    return Answer(content, code)


def _code(code: Any) -> int | UnsetType | None:
    """An exit code; agents write -1 for a command that did not end."""
    if isinstance(code, bool) or not isinstance(code, int):
        return UNSET
    return None if code == -1 else code


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode() if has_surrogates(text) else text
