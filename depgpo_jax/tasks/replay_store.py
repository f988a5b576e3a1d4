"""What is finished of a run of many replays, kept beside its output until that is written.

A file of whole lines. The first says which options the run has, each other one holds a finished
trace. It outlives any end of the run: a last line that is torn is dropped, and the same command
goes on behind it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec

from depgpo_jax.errors import DepgpoError, printable
from depgpo_jax.tasks.agreement import Verdict

ENDING: Final = ".part"
_FORMAT: Final = "depgpo-replay"
_BEGINNING: Final = json.dumps({"format": _FORMAT}).encode()[:-1]


class StoreError(DepgpoError):
    """The file cannot be gone on with; the message says what to do."""


class Kept(NamedTuple):
    """What is known of a finished replay without reading its trace.

    Attributes:
        digest: of what it was made from.
        verdict: how far it agrees.
        offset: where its line begins.
    """

    digest: str
    verdict: Verdict
    offset: int


class _Entry(msgspec.Struct, gc=False):
    """A line."""

    id: str
    digest: str
    verdict: Verdict
    trace: msgspec.Raw


class ReplayStore:
    """The finished replays of one run; a context manager.

    Args:
        out: where the run's traces will go; the file is beside it.
        settings: the run's options, as JSON has them; those of the file must be the same.

    Raises:
        StoreError: the file is another run's, or no such file, or another process writes it.
        OSError: it cannot be written.
    """

    def __init__(self, out: str, settings: Mapping[str, Any]) -> None:
        self.path = Path(out + ENDING)
        self.kept: dict[str, Kept] = {}
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(_Entry).decode
        try:
            self._file = self.path.open("a+b", buffering=0)
        except OSError as error:
            raise self._error(
                f"a place where no file can be written ({error.strerror})",
                "a path in an existing, writable directory",
                "Create the directory, or choose another --out.",
            ) from None
        try:
            self._lock()
            self._settings = json.loads(json.dumps(settings))
            self._end = 0
            self.reread()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def reread(self) -> None:
        """Takes what is kept from the file: after an interrupt the file may know of one more."""
        self.kept.clear()
        self._end = self._load(self._settings)
        self._file.truncate(self._end)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._error(
                "that another process writes it",
                "one run at a time for one --out",
                "Wait for it, or choose another --out.",
            ) from None

    def _load(self, settings: dict[str, Any]) -> int:
        """Reads what is there; returns where the whole lines end."""
        offset = 0
        earlier: dict[str, Any] = settings
        self._file.seek(0)
        with os.fdopen(os.dup(self._file.fileno()), "rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    if number == 1 and not line.startswith(_BEGINNING[: len(line)]):
                        self._header(line)  # somebody else's file, which is refused
                    break  # torn: the run ended while it was written
                if number == 1:
                    earlier = self._header(line)
                else:
                    self._refuse_others(earlier, settings)
                    self._load_entry(line, number, offset)
                offset += len(line)
        if not self.kept:
            header = json.dumps({"format": _FORMAT, "settings": settings}).encode() + b"\n"
            self._file.truncate(0)
            self._write(header)
            offset = len(header)
        return offset

    def _header(self, line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        header = found if isinstance(found, dict) else {}
        settings = header.get("settings")
        if header.get("format") != _FORMAT or not isinstance(settings, dict):
            raise self._error(
                "no file of a replay",
                "what an earlier run of the same command left, or no file",
                "Remove it, or choose another --out.",
            )
        return settings

    def _refuse_others(self, earlier: dict[str, Any], settings: dict[str, Any]) -> None:
        for name, value in settings.items():
            if earlier.get(name) != value:
                raise self._error(
                    f"what a run with {name} {json.dumps(earlier.get(name))} left, and now it is "
                    f"{json.dumps(value)}",
                    "the same options, to go on with it",
                    "Give these, or remove the file to begin anew.",
                )

    def _load_entry(self, line: bytes, number: int, offset: int) -> None:
        try:
            entry = self._decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._error(
                f"a damaged line {number} ({printable(str(error))})",
                "lines that this command wrote",
                "Remove the file to begin anew.",
            ) from None
        self._keep(entry, offset)

    def _keep(self, entry: _Entry, offset: int) -> None:
        self.kept[entry.id] = Kept(entry.digest, entry.verdict, offset)

    def add(self, trace_id: str, digest: str, verdict: Verdict, trace: bytes) -> None:
        """Keeps a finished replay; one of the same id is forgotten.

        Args:
            trace_id: its id.
            digest: of what it was made from.
            verdict: how far it agrees.
            trace: its JSON.
        """
        entry = _Entry(trace_id, digest, verdict, msgspec.Raw(trace))
        line = self._encode(entry) + b"\n"
        self._write(line)
        self._keep(entry, self._end)
        self._end += len(line)

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[self._file.write(rest) :]

    def trace(self, trace_id: str) -> bytes:
        """A finished replay's trace, as JSON."""
        self._file.seek(self.kept[trace_id].offset)
        with os.fdopen(os.dup(self._file.fileno()), "rb") as lines:
            return bytes(self._decode(lines.readline()).trace)

    def remove(self) -> None:
        """Removes the file, once its traces are where they belong."""
        self.path.unlink(missing_ok=True)

    def _error(self, found: str, allowed: str, remedy: str) -> StoreError:
        return StoreError(
            f"{printable(str(self.path))}: found {found}. Allowed: {allowed}. {remedy}"
        )
