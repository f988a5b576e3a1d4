"""Traces: the record of a rollout, its rules, and files of them. No JAX.

=============  ==================================================================
`structs`      Trace, Step, Command, Write, TestResult
`names`        which names a resource may have
`rules`        what relates fields to each other; `write_rules`: inside one write
`fields`       what each field may hold, in words
`duplicates`   keys that occur twice in an object
`diagnosis`    messages for lines that cannot be decoded
`parse`        one line to a validated Trace; `encode`: and back
`files`        compressed files, standard streams, output in one piece
`trace_io`     files in one pass; `index`: in two; `id_table`: ids in little memory
=============  ==================================================================
"""

from depgpo_jax.traces.encode import encode_trace, validate_trace
from depgpo_jax.traces.files import Progress, open_output
from depgpo_jax.traces.index import BadLine, TraceIndex, index_traces
from depgpo_jax.traces.parse import parse_trace
from depgpo_jax.traces.rules import VERSIONS
from depgpo_jax.traces.structs import Command, Step, TestResult, Trace, Write
from depgpo_jax.traces.trace_io import paused_gc, read_traces, write_traces

__all__ = [
    "VERSIONS",
    "BadLine",
    "Command",
    "Progress",
    "Step",
    "TestResult",
    "Trace",
    "TraceIndex",
    "Write",
    "encode_trace",
    "index_traces",
    "open_output",
    "parse_trace",
    "paused_gc",
    "read_traces",
    "validate_trace",
    "write_traces",
]
