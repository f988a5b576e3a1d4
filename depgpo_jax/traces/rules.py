"""The rules that relate fields of a trace to each other, checked on decoded structs.

Types, ranges of single numbers, required and unknown fields are msgspec's work. The functions here
return nothing (or a count of records) for a good trace and raise a `TraceError` that knows the
field's path, but not the file; they run on every trace of every file, so a path is only put
together when something is wrong. Source: docs/trace.md.
"""

from collections.abc import Sequence
from typing import Any, Final, NoReturn

from msgspec import UNSET

from depgpo_jax.errors import TraceError
from depgpo_jax.traces.fields import MAX_INTEGER_TEXT, show
from depgpo_jax.traces.names import ACCEPTED, NAMES_ALLOWED, is_file, name_problem
from depgpo_jax.traces.structs import MAX_INTEGER, Command, Step, Trace, Write
from depgpo_jax.traces.write_rules import (
    count_records,
    hunks_fit,
    lines_fit,
    refuse_hunks,
    refuse_lines,
)

VERSIONS: Final = (1,)
"""The versions of the format that this build reads."""

MAX_RECORDS: Final = 2**24
"""Records that one command may write: float32 counts exactly up to here."""


def check_trace(trace: Trace) -> None:
    """Checks everything that a trace on its own can break.

    Raises:
        TraceError: with the field's path; file and line are the caller's to add.
    """
    check_version(trace.version)
    check_names(trace.verifier, "verifier")
    if trace.extra is not UNSET:
        check_extra(trace.extra, "extra")
    accepted = ACCEPTED.issuperset
    number = 0
    for t, step in enumerate(trace.steps):
        if step.token_ids is not UNSET or step.logprobs is not UNSET or step.extra is not UNSET:
            _check_step(step, t)
        for c, command in enumerate(step.commands):
            if not accepted(command.reads):
                check_names(command.reads, f"steps[{t}].commands[{c}].reads")
            writes = command.writes
            if writes:
                _check_writes(writes, t, c)
            sources = command.stdout_from
            if sources and max(sources) >= number:
                _refuse_stdout_from(command, number, t, c)
            if command.untraced is not UNSET:
                check_names(command.untraced, f"steps[{t}].commands[{c}].untraced")
            if command.extra is not UNSET:
                check_extra(command.extra, f"steps[{t}].commands[{c}].extra")
            number += 1


def check_version(version: int) -> None:
    """Refuses a version of the format that this build does not read."""
    if version not in VERSIONS:
        raise TraceError(
            f"version {version}",
            "version " + ", ".join(map(str, VERSIONS)) + ", the only one that this build reads",
            "Install a release that reads this version, or convert the file.",
            field="version",
        )


def check_names(names: Sequence[str], field: str) -> None:
    """Refuses the first name that no resource may have."""
    for k, name in enumerate(names):
        _check_name(name, f"{field}[{k}]")


def check_extra(value: Any, field: str) -> None:
    """Refuses integers beyond 2^53; all else that JSON can say may stand in `extra`."""
    if isinstance(value, dict):
        for key, item in value.items():
            check_extra(item, f"{field}.{key}")
    elif isinstance(value, list):
        for k, item in enumerate(value):
            check_extra(item, f"{field}[{k}]")
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise TraceError(
            show(value),
            f"an integer from -{MAX_INTEGER_TEXT} to {MAX_INTEGER_TEXT}",
            "Write larger integers as text.",
            field=field,
        )


def _check_step(step: Step, t: int) -> None:
    for name, values in (("token_ids", step.token_ids), ("logprobs", step.logprobs)):
        if values is not UNSET and len(values) != step.loss_tokens:
            raise TraceError(
                f"{len(values)} entries where loss_tokens is {step.loss_tokens}",
                "one entry for each of the step's tokens that enter the loss",
                "Write exactly these tokens, or leave the field out.",
                field=f"steps[{t}].{name}",
            )
    if step.extra is not UNSET:
        check_extra(step.extra, f"steps[{t}].extra")


def _refuse_stdout_from(command: Command, number: int, t: int, c: int) -> NoReturn:
    k = next(k for k, source in enumerate(command.stdout_from) if source >= number)
    raise TraceError(
        f"{command.stdout_from[k]} in command {number}",
        f"the number of a strictly earlier command, 0 to {number - 1}"
        if number
        else "nothing, for the trace's first command",
        "Count the commands from 0 over the whole trace.",
        field=f"steps[{t}].commands[{c}].stdout_from[{k}]",
    )


def _check_writes(writes: Sequence[Write], t: int, c: int) -> None:
    most = 0  # an upper bound of the records that the writes leave
    moves = False
    for write in writes:
        resource = write.resource
        if resource not in ACCEPTED and name_problem(resource):
            _check_name(resource, f"{_place(writes, write, t, c)}.resource")
        lines, hunks = write.lines, write.hunks
        if write.whole is not UNSET:
            moved = write.moved_from is not UNSET
            if moved or lines is not UNSET or hunks is not UNSET or write.whole is not True:
                _check_whole(write, _place(writes, write, t, c))
                moves = True
            most += 1
            continue
        if (
            write.deleted is not UNSET
            or write.moved_from is not UNSET
            or resource[0] != "/"
            or (lines is UNSET) is (hunks is UNSET)
        ):
            _refuse_parts(write, _place(writes, write, t, c))
        if hunks is not UNSET:
            if not hunks_fit(hunks):
                refuse_hunks(hunks, _place(writes, write, t, c))
            _, _, start, count = hunks[-1]
            most += start + count + len(hunks)
        elif lines is not UNSET:
            if not lines_fit(lines):
                refuse_lines(lines, _place(writes, write, t, c))
            most += lines[-1][1]
    if len(writes) > 1:
        if len({write.resource for write in writes}) < len(writes):
            _refuse_repeated(writes, "resource", f"steps[{t}].commands[{c}].writes")
        if moves:
            _check_moves(writes, f"steps[{t}].commands[{c}].writes")
    if most > MAX_RECORDS:
        _check_count(writes, f"steps[{t}].commands[{c}].writes")


def _place(writes: Sequence[Write], write: Write, t: int, c: int) -> str:
    k = next(k for k, other in enumerate(writes) if other is write)
    return f"steps[{t}].commands[{c}].writes[{k}]"


def _check_name(name: str, field: str) -> None:
    problem = name_problem(name)
    if problem:
        raise TraceError(problem[0], NAMES_ALLOWED, problem[1], field=field)


def _check_count(writes: Sequence[Write], field: str) -> None:
    records = sum(
        count_records(write.lines or (), write.hunks or ()) + (write.whole is True)
        for write in writes
    )
    if records <= MAX_RECORDS:
        return
    raise TraceError(
        f"{records} records",
        "at most 2^24 (16777216) records in one command (lines, removed places, whole files)",
        "Write its largest file as `whole`.",
        field=field,
    )


def _check_moves(writes: Sequence[Write], field: str) -> None:
    sources = [write.moved_from for write in writes if write.moved_from is not UNSET]
    if len(set(sources)) < len(sources):
        _refuse_repeated(writes, "moved_from", field)


def _check_forms(write: Write, field: str) -> None:
    forms = [name for name in ("lines", "hunks", "whole") if getattr(write, name) is not UNSET]
    if len(forms) != 1:
        raise TraceError(
            " and ".join(f"`{name}`" for name in forms) or "none of `lines`, `hunks` and `whole`",
            "exactly one of `lines`, `hunks` and `whole`",
            "Keep the one that describes the write."
            if forms
            else "Add one; `whole` fits where lines are not known.",
            field=field,
        )


def _check_whole(write: Write, field: str) -> None:
    _check_forms(write, field)
    if write.whole is not True:
        raise TraceError(
            "false",
            "true",
            "Leave `whole` out and give `lines` or `hunks`.",
            field=f"{field}.whole",
        )
    source = write.moved_from
    if source is UNSET:
        return
    problem = name_problem(source)
    if problem or not is_file(source) or not is_file(write.resource):
        found, remedy = problem or (
            f"{show(source)} beside the resource {show(write.resource)}",
            "Leave `moved_from` out.",
        )
        raise TraceError(
            found,
            "the absolute normalised path of a file, beside another file's",
            remedy,
            field=f"{field}.moved_from",
        )
    if source == write.resource:
        raise TraceError(
            f"{show(source)}, the resource itself",
            "another path than the resource",
            "Leave `moved_from` out: nothing moved.",
            field=f"{field}.moved_from",
        )
    if write.deleted is True:
        raise TraceError(
            "`deleted` and `moved_from`",
            "at most one of the two",
            "Keep `moved_from` if the file is there after the command, else `deleted`.",
            field=field,
        )


def _refuse_parts(write: Write, field: str) -> NoReturn:
    """Refuses a write without `whole` whose other parts do not fit together."""
    _check_forms(write, field)
    form = "lines" if write.lines is not UNSET else "hunks"
    for name in ("deleted", "moved_from"):
        if getattr(write, name) is not UNSET:
            raise TraceError(
                f"`{name}` beside `{form}`",
                f"`{name}` only beside `whole`",
                f"Write `whole`: true instead of `{form}`, or leave `{name}` out.",
                field=f"{field}.{name}",
            )
    raise TraceError(
        f"`{form}` for {show(write.resource)}, which is no file",
        "only `whole` for ports, sockets, processes and meta:",
        'Write "whole": true.',
        field=f"{field}.{form}",
    )


def _refuse_repeated(writes: Sequence[Write], name: str, field: str) -> NoReturn:
    values = [getattr(write, name) for write in writes]
    k = next(k for k, value in enumerate(values) if value is not UNSET and value in values[:k])
    again = f"{show(values[k])} again, as in writes[{values.index(values[k])}]"
    if name == "resource":
        allowed, remedy = "one entry for each resource of a command", "Merge the two entries."
    else:
        allowed, remedy = "one destination for each moved path", "Write the copies as `whole`."
    raise TraceError(again, allowed, remedy, field=f"{field}[{k}].{name}")
