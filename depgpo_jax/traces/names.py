r"""Names of resources: which are allowed, and what is wrong with one that is not.

A file is its absolute, normalised path; everything else carries a prefix. In paths a backslash is
written `\\`, and a byte that is no part of valid UTF-8 `\xNN`, so that every name a file system can
hold has exactly one spelling. Source: docs/trace.md, "Resources".
"""

import re
from typing import Final

from depgpo_jax.errors import printable

NAMES_ALLOWED: Final = (
    "an absolute normalised path such as /app/a.txt, tcp:PORT, udp:PORT, unix:/path, process:NAME "
    "or meta:/path"
)

_PORT: Final = (
    "(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
)
_PATH: Final = (
    r"(?:/(?!\.{1,2}(?:/|\Z))(?:[^/\\\x00\ud800-\udfff]++|\\\\|\\x[89A-Fa-f][0-9A-Fa-f])++)++"
)
_NAME = re.compile(rf"(?:(?:unix:|meta:)?{_PATH}|(?:tcp|udp):{_PORT}|process:[^\ud800-\udfff]+)\Z")

SCHEMA_PORT: Final = _PORT
SCHEMA_PATH: Final = (
    r"(?:/(?!\.{1,2}(?:/|(?![\s\S])))(?:[^/\\\u0000]|\\\\|\\x[89A-Fa-f][0-9A-Fa-f])+)+"
)
"""The same in the regular expressions of JSON Schema, which know neither `\\Z` nor `++`."""

_ESCAPES = re.compile(r"\\\\|((?:\\x[0-9A-Fa-f]{2})+)")
_BAD_ESCAPE = re.compile(r"(?:[^\\]|\\\\|\\x[89A-Fa-f][0-9A-Fa-f])*+(\\.{0,3})", re.DOTALL)

# A rollout names the same few resources over and over, and rollouts of one task share most of them.
_MAX_CACHED: Final = 1 << 16
_MAX_CACHED_LENGTH: Final = 256
ACCEPTED: Final[set[str]] = set()
"""Names found valid before; that a name is missing here says nothing. Only `name_problem` adds."""


def is_file(name: str) -> bool:
    """Whether a valid name is a file's."""
    return name[0] == "/"


def name_problem(name: str) -> tuple[str, str] | None:
    """None for a valid name, else what is wrong with it and what to do."""
    if name in ACCEPTED:
        return None
    if not _NAME.match(name) or ("\\x" in name and _spells_valid_utf8(name)):
        return _explain(name)
    if len(name) <= _MAX_CACHED_LENGTH:
        if len(ACCEPTED) >= _MAX_CACHED:
            ACCEPTED.clear()
        ACCEPTED.add(name)
    return None


def _spells_valid_utf8(name: str) -> bool:
    r"""Whether a run of `\xNN` holds a whole UTF-8 character: that would be a second spelling."""
    for match in _ESCAPES.finditer(name):
        run = match.group(1)
        if run is not None:
            text = bytes.fromhex(run.replace("\\x", "")).decode("utf-8", "surrogateescape")
            if any(not "\udc80" <= character <= "\udcff" for character in text):
                return True
    return False


def _explain(name: str) -> tuple[str, str]:
    shown = f'"{printable(name)}"'
    problem, remedy = _reason(name)
    return f"{shown}, {problem}", remedy


def _reason(name: str) -> tuple[str, str]:
    if name == "":
        return "an empty name", "Name the resource or leave the entry out."
    if any("\ud800" <= character <= "\udfff" for character in name):
        return "with half a surrogate pair", r"Write a byte that is not UTF-8 as \xNN."
    kind, colon, rest = name.partition(":")
    if name[0] != "/" and colon:
        if kind in ("tcp", "udp"):
            return (
                f'whose port is "{printable(rest)}"',
                "Write the port as a number from 1 to 65535 without leading zeros.",
            )
        if kind == "process":
            return "a process without a name", "Put the process's name behind the colon."
        if kind in ("unix", "meta"):
            return _path_reason(rest)
    return _path_reason(name)


def _path_reason(path: str) -> tuple[str, str]:
    parts = path.split("/")
    if not path.startswith("/"):
        return (
            "which is neither an absolute path nor one of the prefixes",
            "Write the path from / on, or use one of the prefixes.",
        )
    if "\0" in path:
        return "with a NUL character", "No path holds NUL: correct the name."
    if path == "/":
        return "the root directory, which is no file", "Name the files themselves."
    if parts[-1] == "":
        return "with a / at its end", "Remove it; directories are not resources."
    if "" in parts[1:]:
        return "with an empty component", "Write one / between two names."
    for dots in (".", ".."):
        if dots in parts:
            return f'with the component "{dots}"', "Normalise the path."
    bad = _BAD_ESCAPE.match(path)
    if bad:
        return (
            f'where "{printable(bad.group(1))}" is no escape',
            r"Write a backslash as \\, and as \xNN (80 to ff) only a byte that is not UTF-8.",
        )
    return (
        r"whose \xNN bytes together are valid UTF-8",
        "Write that character itself: each file has one spelling.",
    )
