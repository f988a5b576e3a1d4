"""Numbers of a run, a line each, for people (JSON Lines) and for TensorBoard."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from depgpo_jax.errors import MissingExtraError, TraceError

Row = Mapping[str, Any]
KINDS = ("update", "validation")


class MetricLog:
    """Appends rows; a context manager.

    A resumed run gives the update it goes on from: rows of later updates, which the interrupted run
    still wrote, are dropped, so that the file is that of an uninterrupted run. A torn last line is
    dropped too.

    Args:
        path: of the JSON Lines file.
        tensorboard: folder for event files; None: none are written.
        resume_from: the last update whose rows are kept; -1: none is.

    Attributes:
        updates: the rows of updates, oldest first.

    Raises:
        MissingExtraError: TensorBoard files are wanted and tensorboardX is not installed.
        TraceError: the file holds a line that is no row.
    """

    def __init__(self, path: Path, tensorboard: Path | None, *, resume_from: int = -1) -> None:
        rows = [row for row in read_rows(path) if row["update"] <= resume_from]
        self.updates = [row for row in rows if row["kind"] == "update"]
        self._board = None if tensorboard is None else _board(tensorboard, resume_from)
        kept = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
        aside = path.with_name(path.name + ".part")
        aside.write_bytes(kept)
        aside.replace(path)
        self._file = path.open("ab")

    def __enter__(self) -> MetricLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()

    def write(self, row: Row) -> None:
        """Appends a row.

        Args:
            row: `update` (whole number), `kind` (`"update"` or `"validation"`) and numbers, also
                in nested dictionaries. What is not finite is written as null.
        """
        row = _finite(row)
        if row["kind"] == "update":
            self.updates.append(dict(row))
        self._file.write(msgspec.json.encode(row) + b"\n")
        self._file.flush()
        if self._board is not None:
            for name, value in _flat(row):
                self._board.add_scalar(f"{row['kind']}/{name}", value, row["update"])


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a log; none if there is no file. A torn last line is left out.

    Raises:
        TraceError: another line is no row.
    """
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    torn = lines.pop()
    del torn  # what follows the last line's end: nothing, or a row that was being written
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            row = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise TraceError(
                f"a line that is no JSON object ({error})",
                "a row of metrics a line",
                "Restore the file, or move it away.",
                file=str(path),
                line=number,
            ) from None
        if not isinstance(row.get("update"), int) or row.get("kind") not in KINDS:
            raise TraceError(
                "a line without `update` and `kind`",
                f"whole updates, and kinds {', '.join(KINDS)}",
                "Restore the file, or move it away.",
                file=str(path),
                line=number,
            )
        rows.append(row)
    return rows


def _board(folder: Path, resume_from: int) -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise MissingExtraError("tensorboard", "TensorBoard output") from None
    # Events of updates that will be repeated are hidden by TensorBoard itself.
    purge = resume_from + 1 if resume_from >= 0 else None
    return SummaryWriter(str(folder), purge_step=purge, flush_secs=10)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flat(row: Row, before: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in row.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{before}{name}/")
        elif isinstance(value, int | float) and name != "update":
            found.append((before + name, float(value)))
    return found
