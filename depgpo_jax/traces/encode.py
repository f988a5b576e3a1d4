"""A `Trace` built in Python to one validated line of JSON."""

from typing import Any, Final

import msgspec

from depgpo_jax.errors import TraceError
from depgpo_jax.traces.diagnosis import first_json_problem, too_deep
from depgpo_jax.traces.fields import MAX_INTEGER_TEXT, show
from depgpo_jax.traces.parse import parse_trace
from depgpo_jax.traces.structs import MAX_INTEGER, Trace

_ENCODER: Final = msgspec.json.Encoder()


def encode_trace(trace: Trace) -> bytes:
    """One validated line of JSON, without the line end.

    Args:
        trace: the trace.

    Returns:
        The line. Fields at their defaults are left out.

    Raises:
        TraceError: the trace breaks a rule of the format or holds what JSON cannot say.
    """
    try:
        line = _ENCODER.encode(trace)
        # JSON tells neither tuple from list nor bytes from text: a difference is looked into.
        if parse_trace(line) != trace:
            _refuse_python_values(trace)
    except TraceError as error:
        # NaN was written as null, so what Python holds says more than the line.
        _refuse_python_values(trace)
        raise TraceError(
            error.found,
            error.allowed,
            error.remedy,
            trace_id=error.trace_id,
            field=error.field,
        ) from None
    except (TypeError, ValueError, OverflowError, RecursionError):
        _refuse_python_values(trace)
        raise
    return line


def validate_trace(trace: Trace) -> None:
    """Checks a trace that was built in Python against every rule of the format.

    Args:
        trace: the trace.

    Raises:
        TraceError: the trace breaks a rule; the message names the field.
    """
    encode_trace(trace)


def _refuse_python_values(trace: Trace) -> None:
    """Raises for the first value in a trace that JSON cannot carry unchanged, if there is one."""
    try:
        problem = _first_problem(trace, "")
    except RecursionError:
        problem = too_deep("extra")
    if problem is not None:
        known = isinstance(getattr(trace, "trace_id", None), str)
        raise problem.located(trace_id=trace.trace_id if known else None) from None


def _first_problem(value: Any, field: str) -> TraceError | None:
    in_extra = field.startswith("extra") or ".extra" in field
    if isinstance(value, msgspec.Struct) and not in_extra:
        members = [(f".{name}", getattr(value, name)) for name in value.__struct_fields__]
    elif isinstance(value, list | tuple):
        members = [(f"[{k}]", item) for k, item in enumerate(value)]
    elif isinstance(value, dict) and in_extra and all(isinstance(key, str) for key in value):
        members = [(f".{key}", item) for key, item in value.items()]
    else:
        return _leaf_problem(value, field)
    for name, item in members:
        problem = _first_problem(item, (field + name).removeprefix("."))
        if problem is not None:
            return problem
    return None


def _leaf_problem(value: Any, field: str) -> TraceError | None:
    if type(value) is int and abs(value) > MAX_INTEGER:
        return TraceError(
            show(value),
            f"an integer from -{MAX_INTEGER_TEXT} to {MAX_INTEGER_TEXT}",
            "Correct the value; larger integers can stand in `extra` as text.",
            field=field,
        )
    if value is None or value is msgspec.UNSET or type(value) in (bool, int, float, str):
        return first_json_problem(value, field)
    kind = type(value)
    return TraceError(
        f"a value of the Python type {kind.__module__}.{kind.__qualname__}",
        "the field's own type: str, int, float, bool, list or a struct of depgpo_jax.traces "
        "(in `extra` also dict with str keys)",
        "Convert it, for example with int(), str() or list().",
        field=field,
    )
