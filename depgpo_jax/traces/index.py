"""Files of traces in two passes: one validates and collects, one computes.

Nothing may be computed from a file that turns out to be bad at its end, and group statistics need
all rewards; but a file may be larger than memory. So `index_traces` reads everything once and keeps
a few numbers a trace; `TraceIndex.read` reads it again without the checks.
"""

import math
import os
import shutil
import stat
import tempfile
from array import array
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import BinaryIO, Self

import msgspec

from depgpo_jax.errors import TraceError
from depgpo_jax.traces.files import STANDARD, Progress, open_raw, read_lines, source_name
from depgpo_jax.traces.id_table import IdTable
from depgpo_jax.traces.parse import decode_trace, parse_trace
from depgpo_jax.traces.structs import Trace
from depgpo_jax.traces.trace_io import add_id, paused_gc


class BadLine(msgspec.Struct, frozen=True):
    """A line that `index_traces(…, skip_bad=True)` left out; one object of the report."""

    line: int
    """Its number, from 1."""
    trace_id: str | None
    """The trace's id, where it could be read."""
    message: str


class TraceIndex:
    """What is known of a file of traces after the first pass, and the way to the second.

    A context manager: leaving it deletes the copy of standard input, if there is one. Traces are
    numbered from 0 in the order of the file; bad lines that were skipped have no number. It takes
    about 60 bytes a trace besides the text of the ids.
    """

    source: str
    """The file's name for messages."""
    trace_ids: IdTable
    group_ids: IdTable
    """The distinct groups, in order of first appearance."""
    groups: "array[int]"
    """For each trace the index of its group in `group_ids`."""
    rewards: "array[float]"
    """For each trace its reward; NaN where it has none."""
    bad_lines: list[BadLine]
    """The lines that were left out, in order; empty without `skip_bad`."""

    def __init__(self, source: str | os.PathLike[str]) -> None:
        self.source = source_name(source)
        self.trace_ids = IdTable()
        self.group_ids = IdTable()
        self.groups = array("q")
        self.rewards = array("d")
        self.bad_lines = []
        self._invalid = bytearray()
        self._path = source
        self._spool: BinaryIO | None = None
        self._identity: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self._invalid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Deletes the copy of standard input; the numbers stay."""
        if self._spool is not None:
            self._spool.close()

    def reward(self, number: int) -> float | None:
        """The reward of a trace, None if it has none."""
        reward = self.rewards[number]
        return None if math.isnan(reward) else reward

    def is_invalid(self, number: int) -> bool:
        """Whether a trace is marked as not to be trained on."""
        return bool(self._invalid[number])

    def group_id(self, number: int) -> str:
        """The group of a trace."""
        return self.group_ids[self.groups[number]]

    def read(self, *, progress: Progress | None = None) -> Iterator[Trace]:
        """Reads the same traces again, without checking them again; as often as wanted.

        Args:
            progress: called with (bytes read, bytes in the file).

        Raises:
            TraceError: the file is not the one that was indexed any more.
        """
        bad = {line.line for line in self.bad_lines}
        with self._open() as raw:
            for number, line in read_lines(raw, self.source, progress):
                if number not in bad:
                    try:
                        with paused_gc():
                            trace = decode_trace(line)
                    except msgspec.DecodeError:
                        raise self._changed() from None
                    yield trace

    @contextmanager
    def _open(self) -> Generator[BinaryIO]:
        """The raw bytes of the file, or of its copy, checked for changes before and after."""
        if self._spool is not None:
            self._spool.seek(0)
            yield self._spool
            return
        with open_raw(self._path) as raw:
            if self._identity != _identity(raw):
                raise self._changed()
            yield raw
            if self._identity != _identity(raw):
                raise self._changed()

    def _changed(self) -> TraceError:
        return TraceError(
            "a file that changed while it was read",
            "a file that stays as it is, since it is read twice",
            "Wait until it is complete, or give a copy, and start again.",
            file=self.source,
        )

    def _scan(
        self,
        skip_bad: bool,
        need_reward: bool,
        max_commands: int | None,
        progress: Progress | None,
    ) -> None:
        self._prepare()
        with self._open() as raw:
            for number, line in read_lines(raw, self.source, progress):
                try:
                    with paused_gc():
                        trace = parse_trace(line, source=self.source, line_number=number)
                    if need_reward and trace.reward is msgspec.UNSET and not _is_invalid(trace):
                        raise _no_reward(trace, self.source, number)
                    if max_commands is not None:
                        _check_length(trace, max_commands, self.source, number)
                    add_id(self.trace_ids, trace, self.source, number)
                except TraceError as error:
                    if not skip_bad:
                        raise
                    self.bad_lines.append(BadLine(number, error.trace_id, str(error)))
                else:
                    self._add(trace)

    def _prepare(self) -> None:
        """Copies what can be read only once; notes what a file looks like now."""
        with open_raw(self._path) as raw:
            if self._path != STANDARD and stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
                self._identity = _identity(raw)
            else:
                self._spool = tempfile.TemporaryFile()  # noqa: SIM115
                shutil.copyfileobj(raw, self._spool, 1 << 20)

    def _add(self, trace: Trace) -> None:
        self.groups.append(self.group_ids.add(trace.group)[0])
        self.rewards.append(trace.reward if isinstance(trace.reward, float) else math.nan)
        self._invalid.append(_is_invalid(trace))


def index_traces(
    source: str | os.PathLike[str],
    *,
    skip_bad: bool = False,
    need_reward: bool = False,
    max_commands: int | None = None,
    progress: Progress | None = None,
) -> TraceIndex:
    """Validates a whole file of traces and collects ids, groups and rewards.

    Args:
        source: the file; `.gz` and `.zst` are unpacked; "-" is standard input, which is copied to a
            temporary file, as are pipes.
        skip_bad: leave out lines that break a rule and list them in `bad_lines`; else raise.
        need_reward: a trace without a reward that is not marked as invalid breaks a rule too.
        max_commands: a trace with more commands breaks a rule too; None: any number will do.
        progress: called with (bytes read, bytes in the file).

    Returns:
        The index; use it in a `with` block.

    Raises:
        TraceError: the file cannot be read or, without `skip_bad`, a line breaks a rule.
    """
    index = TraceIndex(source)
    try:
        index._scan(skip_bad, need_reward, max_commands, progress)
    except BaseException:
        index.close()
        raise
    return index


def _is_invalid(trace: Trace) -> bool:
    return trace.invalid is not msgspec.UNSET


def _no_reward(trace: Trace, file: str, line: int) -> TraceError:
    return TraceError(
        "no reward",
        "a finite number on every trace that is not `invalid`, since advantages are asked for",
        "Add the reward, mark the trace as `invalid`, or ask for credit only (--advantage none).",
        file=file,
        line=line,
        trace_id=trace.trace_id,
        field="reward",
    )


def _check_length(trace: Trace, most: int, file: str, line: int) -> None:
    commands = sum(len(step.commands) for step in trace.steps)
    if commands > most:
        raise TraceError(
            f"{commands} commands",
            f"at most {most} in one trace, since paths are searched among all pairs of them",
            "Leave the trace out, or join commands that belong together.",
            file=file,
            line=line,
            trace_id=trace.trace_id,
            field="steps",
        )


def _identity(raw: BinaryIO) -> tuple[int, ...]:
    status = os.fstat(raw.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
