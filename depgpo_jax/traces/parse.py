"""One line of JSON to a validated `Trace`."""

from typing import Final

import msgspec

from depgpo_jax.errors import TraceError
from depgpo_jax.traces.diagnosis import explain, explain_duplicate
from depgpo_jax.traces.duplicates import has_duplicate_keys
from depgpo_jax.traces.rules import check_trace
from depgpo_jax.traces.structs import Trace

_DECODER: Final = msgspec.json.Decoder(Trace)

decode_trace: Final = _DECODER.decode
"""Decodes a line that was validated before: types are checked again, rules are not."""


def parse_trace(line: bytes, *, source: str = "<bytes>", line_number: int = 1) -> Trace:
    """Decodes and validates one trace.

    Checks every rule of the format but those that concern a whole file: that each `trace_id` is
    unique in it, and that no byte-order mark stands before it.

    Source: docs/trace.md.

    Args:
        line: the trace as one JSON object, in UTF-8.
        source: the file's name, for messages.
        line_number: the line's number in it, from 1, for messages.

    Returns:
        The trace.

    Raises:
        TraceError: the line breaks a rule; the message names the place, what was found, what is
            allowed and what to do.
    """
    trace_id = None
    try:
        trace = _DECODER.decode(line)
        trace_id = trace.trace_id
        if has_duplicate_keys(line, trace):
            raise explain_duplicate(line)
        check_trace(trace)
    except (msgspec.DecodeError, RecursionError) as error:
        raise explain(line, error).located(file=source, line=line_number) from None
    except TraceError as error:
        raise error.located(file=source, line=line_number, trace_id=trace_id) from None
    return trace
