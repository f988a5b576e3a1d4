"""Files of traces in one pass: `read_traces` and `write_traces`."""

import gc
import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager

from depgpo_jax.errors import TraceError, printable
from depgpo_jax.traces.encode import encode_trace
from depgpo_jax.traces.files import Progress, open_output, open_raw, read_lines, source_name
from depgpo_jax.traces.id_table import IdTable
from depgpo_jax.traces.parse import parse_trace
from depgpo_jax.traces.structs import Trace


def read_traces(
    source: str | os.PathLike[str], *, progress: Progress | None = None
) -> Iterator[Trace]:
    """Reads and validates the traces of a file one by one.

    Memory: one trace, and some 30 bytes and its id for each trace that was read. A tool that must
    not begin before the whole file is known to be good uses `index_traces` instead.

    Args:
        source: the file; `.gz` and `.zst` are unpacked, "-" is standard input.
        progress: called with (bytes read, bytes in the file or None).

    Returns:
        The traces in the order of the file.

    Raises:
        TraceError: the file cannot be read, or a line breaks a rule of the format.
    """
    name = source_name(source)
    seen = IdTable()
    with open_raw(source) as raw:
        for number, line in read_lines(raw, source, progress):
            with paused_gc():
                trace = parse_trace(line, source=name, line_number=number)
            add_id(seen, trace, name, number)
            yield trace


def write_traces(destination: str | os.PathLike[str], traces: Iterable[Trace]) -> int:
    """Writes traces to a file that appears only when all of them are good.

    Args:
        destination: the file; `.gz` and `.zst` are packed, "-" is standard output.
        traces: the traces; each is validated, and ids may not repeat.

    Returns:
        The number of traces written.

    Raises:
        TraceError: a trace breaks a rule of the format, or the file cannot be created.
    """
    seen = IdTable()
    with open_output(destination) as out:
        for trace in traces:
            line = encode_trace(trace)
            add_id(seen, trace, None, None)
            out.write(line + b"\n")
    return len(seen)


@contextmanager
def paused_gc() -> Generator[None]:
    """Pauses the cyclic garbage collector, unless it is paused already.

    Decoding allocates thousands of containers and no cycle; left on, the collector takes several
    times as long as the decoder. The readers pause it while they decode a trace; a tool that keeps
    many traces is faster if it holds this around its whole loop.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def add_id(seen: IdTable, trace: Trace, file: str | None, line: int | None) -> None:
    """Notes a trace's id and refuses one that was there before."""
    number, new = seen.add(trace.trace_id)
    if not new:
        raise TraceError(
            f'"{printable(trace.trace_id)}" again, the id of trace {number + 1} of the file',
            "an id that no other trace of the file has",
            "Rename one of the two, or remove the line if it is a copy.",
            file=file,
            line=line,
            trace_id=trace.trace_id,
            field="trace_id",
        )
