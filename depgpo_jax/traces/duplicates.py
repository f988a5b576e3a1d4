"""Keys that occur twice in one JSON object, found without a slow JSON parser.

msgspec keeps the last of two equal keys in silence, so texts are compared by their number of
colons: a colon stands either behind a key or inside a string.

* The trace written again has every string of the line once, and every key that the line has, but
  for those that came twice or gave a default value. Without escapes that could hide a colon, equal
  numbers prove that no key came twice: the usual case.
* Otherwise the line is decoded into shadow structs whose leaves are raw bytes, and written again:
  that keeps every value byte for byte and each key once, so the numbers are equal exactly if no key
  occurs twice. White space and escapes in keys do not matter, as no field name holds a colon.

What `extra` holds is free, so each one is read by the standard library.
"""

import json
from collections.abc import Iterator
from typing import Any, Union

import msgspec
import numpy as np
from msgspec import UNSET, Raw, Struct, UnsetType

from depgpo_jax.traces.structs import Command, Step, TestResult, Trace, Write


def has_duplicate_keys(line: bytes, trace: Trace) -> bool:
    """Whether an object in a line that decodes to `trace` has a key twice."""
    plain = b"\\u" not in line and line.rfind(b'"extra"') < 0
    if plain and _colons(line) == _colons(_ENCODER.encode(trace)):
        return False
    shadow = _DECODER.decode(line)
    if _colons(line) != _colons(_ENCODER.encode(shadow)):
        return True
    # The key stands there as such or with \u escapes. (rfind is twice as fast as `in`.)
    if b"\\" not in line and line.rfind(b'"extra"') < 0:
        return False
    return any(_extra_has_duplicates(extra) for extra in _extras(shadow))


def _colons(text: bytes) -> int:
    # Several times as fast as bytes.count.
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord(":")))


def _shadow(source: type[Struct], **nested: type[Struct]) -> type[Struct]:
    """A struct with the same fields, all raw but the nested arrays of structs."""
    fields: list[tuple[str, Any, Any]] = []
    for name in source.__struct_fields__:
        leaf = list[nested[name]] if name in nested else Raw
        fields.append((name, Union[leaf, UnsetType], UNSET))  # noqa: UP007
    return msgspec.defstruct(f"Shadow{source.__name__}", fields, gc=False)


_COMMAND = _shadow(Command, writes=_shadow(Write))
_DECODER = msgspec.json.Decoder(
    _shadow(Trace, steps=_shadow(Step, commands=_COMMAND), tests=_shadow(TestResult))
)
_ENCODER = msgspec.json.Encoder()


def _extras(shadow: Any) -> Iterator[Raw]:
    holders = [shadow, *shadow.steps, *(c for step in shadow.steps for c in step.commands)]
    return (holder.extra for holder in holders if holder.extra is not UNSET)


class _DuplicateKeyError(Exception):
    """Ends the parse of an `extra`."""


def _refuse(pairs: list[tuple[str, object]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        raise _DuplicateKeyError


def _extra_has_duplicates(extra: Raw) -> bool:
    try:
        json.loads(bytes(extra), object_pairs_hook=_refuse)
    except _DuplicateKeyError:
        return True
    return False
