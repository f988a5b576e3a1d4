"""The reward that a verifier left behind, read with suspicion.

`reward.json` wins over `reward.txt`, also when it is malformed. What is not one finite number gives
a reason instead of a reward, so that the rollout becomes invalid: it never counts as a silent 0.
Nor do two files that contradict each other: one of them may be the work of a program of the agent's
that the verifier ran.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from depgpo_jax.errors import printable

if TYPE_CHECKING:
    from depgpo_jax.tracer.events import Event

MAX_REWARD: Final = 64 * 1024
"""Bytes of a file with a reward."""

NAMES: Final = ("reward.json", "reward.txt")

_WRITING: Final = frozenset({"O_WRONLY", "O_RDWR"})
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_MAX_DIGITS: Final = 400


class Reward(NamedTuple):
    """Exactly one of the two is set.

    Attributes:
        value: any finite number.
        invalid: why there is none; the trace's `invalid`.
    """

    value: float | None
    invalid: str | None


class RefusedFileError(Exception):
    """A file that gives no reward; its text is the reason."""


def read_reward(folder: str | Path) -> Reward:
    """Reads the reward, after the verifier and all that it started have ended.

    Args:
        folder: on the host, the folder that was the verifier's `/logs/verifier`.

    Returns:
        The reward, or the reason why the rollout has none. A JSON file holds a number, or an object
        with a number as `reward`, or with exactly one number.
    """
    found: dict[str, float] = {}
    for name, parse in zip(NAMES, (_from_json, _from_text), strict=True):
        try:
            content = read_bounded(Path(folder), name, MAX_REWARD)
            if content is not None:
                found[name] = parse(content)
        except RefusedFileError as reason:
            return Reward(None, f"{name}: {reason}")
        except OSError as error:
            return Reward(None, f"{name}: it cannot be read ({error.strerror})")
    if not found:
        return Reward(None, "no reward: the verifier wrote neither reward.json nor reward.txt")
    if len(set(found.values())) > 1:
        said = " and ".join(f"{name} says {value:g}" for name, value in found.items())
        return Reward(None, f"{said}: there must be one of them, or both the same")
    return Reward(next(iter(found.values())), None)


def refused_write(events: Iterable[Event], folder: str) -> str | None:
    """Why there is no reward although a file says so: a later writing of it failed.

    A program of the agent's that the verifier ran may have left a file that nobody can change.

    Args:
        events: of the verifier's run.
        folder: that of the reward, as the verifier sees it.
    """
    files = {f"{folder}/{name}".encode(): name for name in NAMES}
    for event in events:
        name = files.get(event.path2 or event.path)
        writes = event.call == "rename" or (event.call == "open" and event.flags & _WRITING)
        if name and writes and event.result != 0:
            return f"{name}: the verifier could not write it ({event.error})"
    return None


def read_bounded(folder: Path, name: str, limit: int) -> bytes | None:
    """A regular file's content; None where there is no file of that name. Links are not followed.

    Raises:
        OSError: it cannot be read.
        RefusedFileError: it is no regular file, or larger than `limit`.
    """
    try:
        # Without O_NONBLOCK, a named pipe would wait for somebody to write.
        descriptor = os.open(
            folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
    except FileNotFoundError:
        return None
    except OSError:
        if (folder / name).is_symlink():
            raise RefusedFileError("it is a symbolic link, not a regular file") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RefusedFileError("it is not a regular file")
    with os.fdopen(descriptor, "rb") as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise RefusedFileError(f"it is larger than {limit} bytes")
    return content


def _from_text(content: bytes) -> float:
    text = content.decode("utf-8", "replace").strip()
    if not _NUMBER.fullmatch(text) or len(text) > _MAX_DIGITS:
        raise RefusedFileError(f"it holds {_shown(text)}, not a number")
    return _finite(text)


def _from_json(content: bytes) -> float:
    try:
        value = json.loads(
            content.decode(),
            parse_constant=_Literal,
            parse_float=_Literal,
            parse_int=_Literal,
            object_pairs_hook=_object,
        )
    except (ValueError, RecursionError):
        raise RefusedFileError(
            f"it is not JSON: {_shown(content.decode('utf-8', 'replace').strip())}"
        ) from None
    if isinstance(value, dict):
        value = _number_of(value)
    if not isinstance(value, _Literal):
        raise RefusedFileError(f"it holds {_kind(value)}, not a number")
    return _finite(value)


class _Literal(str):
    """A number as it is spelled; NaN and Infinity are spelled in letters."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in pairs:
        if name in result:
            raise RefusedFileError(f"the key {_shown(name)} stands in it twice")
        result[name] = value
    return result


def _number_of(value: dict[str, Any]) -> object:
    """The object's `reward`, or its only number."""
    if "reward" in value:
        return value["reward"]
    numbers = [entry for entry in value.values() if isinstance(entry, _Literal)]
    if len(numbers) != 1:
        raise RefusedFileError(
            f'its object has no "reward", and {len(numbers)} numbers instead of one'
        )
    return numbers[0]


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise RefusedFileError(f"{_shown(text)} is not finite")
    return number


def _kind(value: object) -> str:
    kinds = {bool: "a boolean", str: "a text", list: "a list", dict: "an object"}
    return kinds.get(type(value), "null")


def _shown(text: str) -> str:
    return f"'{printable(text, 60)}'"
