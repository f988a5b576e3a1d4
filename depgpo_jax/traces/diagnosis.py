"""What is wrong with a line that could not be read: from a decoder's complaint to a good message.

msgspec stops at the first problem and says neither what it found nor, for malformed text, where. So
a refused line is read a second time with the standard library, whose slowness does not matter here.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from depgpo_jax.errors import TraceError
from depgpo_jax.traces.fields import allowed_at, show
from depgpo_jax.traces.rules import check_version
from depgpo_jax.traces.structs import Command, Step, TestResult, Trace, Write

_ONE_OBJECT: Final = "one JSON object a line, in UTF-8"
_STRUCTS: Final = {
    "": Trace,
    "tests[]": TestResult,
    "steps[]": Step,
    "steps[].commands[]": Command,
    "steps[].commands[].writes[]": Write,
}
_MAX_DIGITS: Final = 308
_TRACE_ID = re.compile(rb'"trace_id"\s*:\s*("(?:[^"\\]|\\.)*+")')
_MESSAGE = re.compile(r"(.*?)(?: - at `\$(.*)`)?", re.DOTALL)


class _Duplicate(dict[str, Any]):
    """An object with one key twice."""

    key = ""


class _Unreadable:
    """A number that JSON or a float64 cannot hold."""

    def __init__(self, text: str) -> None:
        self.text = text


def explain(line: bytes, error: Exception) -> TraceError:
    """The message for a line that msgspec refused with `error`, without file and line number."""
    try:
        tree = _load(line)
    except TraceError as problem:
        return problem.located(trace_id=_guess_trace_id(line))
    if isinstance(error, RecursionError):
        return too_deep().located(trace_id=_guess_trace_id(line))
    problem = (
        first_json_problem(tree) or _version_problem(tree) or _schema_problem(tree, str(error))
    )
    if isinstance(tree, dict) and isinstance(tree.get("trace_id"), str):
        return problem.located(trace_id=tree["trace_id"])
    return problem


def explain_duplicate(line: bytes) -> TraceError:
    """The message for a line with a key that occurs twice."""
    return explain(line, ValueError("a key that occurs twice"))


def _guess_trace_id(line: bytes) -> str | None:
    """The trace's id in a line that is no JSON, if it stands there whole."""
    match = _TRACE_ID.search(line)
    try:
        return json.loads(match.group(1)) if match else None
    except ValueError:
        return None


def _load(line: bytes) -> Any:
    if line.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise TraceError(
            "a byte-order mark", _ONE_OBJECT, "Save the file as UTF-8 without a byte-order mark."
        )
    try:
        return json.loads(
            line.decode(),
            object_pairs_hook=_object,
            parse_constant=_Unreadable,
            parse_float=_float,
            parse_int=_int,
        )
    except UnicodeDecodeError as error:
        raise TraceError(
            f"byte 0x{line[error.start]:02x} at offset {error.start}, which is not UTF-8",
            _ONE_OBJECT,
            r"Encode the file as UTF-8; bytes of a path that are not UTF-8 are written \xNN.",
        ) from None
    except json.JSONDecodeError as error:
        raise TraceError(
            f"text that is not JSON: {error.msg} at column {error.pos + 1}",
            _ONE_OBJECT,
            "Write each trace as one complete JSON object on its own line.",
        ) from None
    except RecursionError:
        raise too_deep() from None


def too_deep(field: str | None = None) -> TraceError:
    """The message for nesting that Python's own limit of recursion does not let through."""
    return TraceError(
        "arrays or objects nested too deeply to be read",
        "a few hundred levels",
        "Flatten `extra`.",
        field=field,
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) == len(pairs):
        return result
    duplicate = _Duplicate(result)
    seen: set[str] = set()
    duplicate.key = next(key for key, _ in pairs if key in seen or seen.add(key))
    return duplicate


def _float(text: str) -> float | _Unreadable:
    value = float(text)
    return value if math.isfinite(value) else _Unreadable(text)


def _int(text: str) -> int | _Unreadable:
    return int(text) if len(text) <= _MAX_DIGITS else _Unreadable(text)


def _walk(value: Any, field: str) -> Iterator[tuple[str, Any]]:
    """Every value of a tree with its path, objects before their members; keys count as values."""
    stack = [(field, value)]
    while stack:
        field, value = stack.pop()
        yield field, value
        if isinstance(value, dict):
            for key in value:
                yield field, key
            stack += [(f"{field}.{k}" if field else k, v) for k, v in reversed(value.items())]
        elif isinstance(value, list | tuple):
            stack += [(f"{field}[{k}]", value[k]) for k in range(len(value) - 1, -1, -1)]


def first_json_problem(tree: Any, root: str = "") -> TraceError | None:
    """What no JSON text should hold, whatever the schema: in a tree of plain Python values."""
    for field, value in _walk(tree, root):
        if isinstance(value, _Duplicate):
            return TraceError(
                f"the key {show(value.key)} twice",
                "each key once",
                "Remove one of the two.",
                field=f"{field}.{value.key}" if field else value.key,
            )
        unreadable = (
            value.text
            if isinstance(value, _Unreadable)
            else repr(value)
            if isinstance(value, float) and not math.isfinite(value)
            else None
        )
        if unreadable is not None:
            return TraceError(
                show(unreadable)[1:-1],
                "a finite number within the range of a float64",
                "Leave the field out where there is no number.",
                field=field,
            )
        if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
            return TraceError(
                f"{show(value)}, with half a surrogate pair",
                "Unicode text",
                r"Write both halves; a byte of a path that is not UTF-8 is written \xNN.",
                field=field,
            )
    return None


def _version_problem(tree: Any) -> TraceError | None:
    """Comes before all other rules: a later version may break any of them."""
    version = tree.get("version") if isinstance(tree, dict) else None
    if isinstance(version, int) and not isinstance(version, bool):
        try:
            check_version(version)
        except TraceError as problem:
            return problem
    return None


def _schema_problem(tree: Any, message: str) -> TraceError:
    """What msgspec's message says, with the value looked up in the tree."""
    text, path = _split(message)
    field = path.removeprefix(".")
    pattern = re.sub(r"\[\d+\]", "[]", field)
    try:
        allowed = allowed_at(field)
        value = _value_at(tree, field)
    except (KeyError, IndexError, TypeError):
        return _unexplained(text, field)
    struct = _STRUCTS.get(pattern)
    if struct is not None and isinstance(value, dict):
        return _key_problem(value, struct, field) or _unexplained(text, field)
    remedy = "Correct the value."
    if value is None:
        remedy = "Leave the field out; only exit_code may be null."
    elif isinstance(value, float) and "integer" in allowed:
        remedy = "Write the integer without a fraction or exponent."
    return TraceError(show(value), allowed, remedy, field=field or None)


def _unexplained(text: str, field: str) -> TraceError:
    """For what this module does not foresee: better the decoder's own words than none."""
    return TraceError(
        f"what the decoder refuses ({text})",
        "what docs/trace.md describes",
        "Correct the line.",
        field=field or None,
    )


def _split(message: str) -> tuple[str, str]:
    match = _MESSAGE.fullmatch(message)
    return (match.group(1), match.group(2) or "") if match else (message, "")


def _value_at(tree: Any, field: str) -> Any:
    for name, index in re.findall(r"([a-z_]+)|\[(\d+)\]", field):
        tree = tree[name] if name else tree[int(index)]
    return tree


def _key_problem(
    value: dict[str, Any], struct: type[msgspec.Struct], field: str
) -> TraceError | None:
    known = struct.__struct_encode_fields__
    unknown = [key for key in value if key not in known]
    if unknown:
        extra = "extra" in known
        return TraceError(
            f"the unknown field {show(unknown[0])}",
            ", ".join(known),
            "Remove the field or move it into `extra`." if extra else "Remove the field.",
            field=f"{field}.{unknown[0]}" if field else unknown[0],
        )
    required = [f.name for f in msgspec.structs.fields(struct) if f.required]
    missing = [name for name in required if name not in value]
    if not missing:
        return None
    return TraceError(
        f"no field `{missing[0]}`",
        f"an object with {', '.join(required)}",
        "Add the field.",
        field=field or None,
    )
