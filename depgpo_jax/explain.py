"""A rollout's credit as a table for the terminal: who did what, and what it is worth.

Everything that comes from a trace (names, command texts) is shown as text: control characters
become escapes and rich markup stays what it is, so a strange file name cannot paint the screen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from depgpo_jax.errors import ShapeError, printable

if TYPE_CHECKING:
    from depgpo_jax.batch import TraceCredit
    from depgpo_jax.traces import Command, Trace, Write

MAX_NAME = 40
"""Longer resource names lose their beginning: the end tells files apart."""

MAX_TEXT = 80
"""Longer command texts lose their end."""

NAMES_SHOWN = 2
"""Resources named for one command; the others are counted."""

COMMANDS_SHOWN = 4
"""Commands whose numbers are named for one command; the others are counted."""

MIN_COMMAND_WIDTH = 16

INSPECTED_MARK = "*"

LEGEND = (
    "credit: share of a command's records that matter for what the verifier inspected; for one "
    "that wrote nothing: the credits of the writes its output led to, summed, each decayed by half "
    "(beta) for each link of the path · weight: of each token of the step, mean 1 · on path: "
    "credit above 0 · effective tokens: the share that would vary as much at equal weights"
)
"""What the table's numbers mean."""


class ReadOnlyCommands(NamedTuple):
    """How far read credit can reach: a read-only command is paid through its stdout alone."""

    total: int  # recorded commands that wrote nothing
    with_stdout_edge: int  # of these: a later command reuses what they printed


def read_only_commands(traces: Iterable[Trace]) -> ReadOnlyCommands:
    """Counts read-only commands and those of them with an outgoing stdout edge."""
    total = with_edge = 0
    for trace in traces:
        commands = trace.commands
        reused = {producer for command in commands for producer in command.stdout_from}
        for number, command in enumerate(commands):
            if command.recorded and not command.writes:
                total += 1
                with_edge += number in reused
    return ReadOnlyCommands(total, with_edge)


def explain_table(
    trace: Trace, result: TraceCredit, advantage: float | None, *, legend: bool = True
) -> Table:
    """One line a command: what it read and wrote, its credit, its step's weight and advantage.

    A step's tokens, weight and advantage (weight times the rollout's advantage) stand on the line
    of its first command; a step without commands has a line of its own.

    Args:
        trace: the rollout.
        result: its credit, from `unpad`.
        advantage: the rollout's group advantage; None leaves the column out.
        legend: `LEGEND` below the table; for many tables, show it once instead.

    Returns:
        A table for any `rich.console.Console`.

    Raises:
        ShapeError: the result is that of another trace: it counts other steps or commands.
    """
    _check_sizes(trace, result)
    table = _empty_table(trace, result, advantage)
    if legend:
        table.caption = Text("\n").join([_caption(trace, result), Text(LEGEND, "dim")])
    inspected, reusers = frozenset(trace.verifier), _reusers(trace)
    number = 0
    for index, step in enumerate(trace.steps):
        weight = float(result.token_weight[index])
        first = [Text(str(index)), Text(str(step.loss_tokens))]
        last = [_number(weight, style="bold green" if weight > 1 else "")]
        if advantage is not None:
            last.append(_signed(weight * advantage))
        lines: list[list[Text]] = []
        for command in step.commands:
            credit = float(result.command_credit[number])
            described = _describe(command, reusers.get(number, []), inspected)
            lines.append([Text(str(number), "dim"), described, _number(credit)])
            number += 1
        for line in lines or [[Text(), Text("no command", "dim italic"), Text()]]:
            table.add_row(*first, *line, *last)
            first, last = [Text(), Text()], [Text() for _ in last]
    return table


def _check_sizes(trace: Trace, result: TraceCredit) -> None:
    found = (len(result.step_credit), len(result.command_credit))
    wanted = (len(trace.steps), len(trace.commands))
    if found != wanted:
        raise ShapeError(
            f"trace {printable(trace.trace_id)!r}: found a credit of {found[0]} steps and "
            f"{found[1]} commands for a trace of {wanted[0]} and {wanted[1]}; "
            "give the credit of this trace"
        )


def _empty_table(trace: Trace, result: TraceCredit, advantage: float | None) -> Table:
    title = [printable(trace.trace_id)]
    title += [] if trace.reward is UNSET else [f"reward {trace.reward:g}"]
    title += [] if trace.invalid is UNSET else [f"invalid: {printable(trace.invalid)}"]
    title += [] if advantage is None else [f"advantage {advantage:+.3f}"]
    table = Table(
        title=Text(" · ".join(title), "bold"),
        caption=_caption(trace, result),
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    table.add_column("step", justify="right", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("#", justify="right", no_wrap=True)
    # The one column that gives way to a narrow terminal; its cells are cut, never wrapped.
    table.add_column("command", overflow="ellipsis", min_width=MIN_COMMAND_WIDTH)
    table.add_column("credit", justify="right", no_wrap=True)
    table.add_column("weight", justify="right", no_wrap=True)
    if advantage is not None:
        table.add_column("advantage", justify="right", no_wrap=True)
    return table


def _caption(trace: Trace, result: TraceCredit) -> Text:
    total, with_edge = read_only_commands([trace])
    lines = [
        f"on path {result.on_path_fraction:.0%} of commands · "
        f"relevant {result.relevant_fraction:.0%} of records · "
        f"largest weight {result.max_weight_seen:.3g} · "
        f"effective tokens {result.effective_fraction:.0%}",
        f"{with_edge} of {total} read-only commands have an outgoing stdout edge",
    ]
    inspected = frozenset(trace.verifier)
    if any(write.resource in inspected for command in trace.commands for write in command.writes):
        lines[1] += f" · {INSPECTED_MARK} inspected by the verifier"
    if result.fallback:
        lines.append("fallback: nothing tells the steps apart, so every weight is 1")
    return Text("\n".join(lines), "dim")


def _reusers(trace: Trace) -> dict[int, list[int]]:
    """For each command whose output is reused, the commands that reuse it, ascending."""
    reusers: dict[int, list[int]] = {}
    for number, command in enumerate(trace.commands):
        for producer in set(command.stdout_from):
            reusers.setdefault(producer, []).append(number)
    return reusers


def _describe(command: Command, reusers: Sequence[int], inspected: Collection[str]) -> Text:
    """The command's text if it is known, then reuse, writes, reads and how it ended.

    Reuse is short and comes first: names of files are what a narrow terminal may cut.
    """
    parts: list[Text] = []
    if command.text is not UNSET:
        parts.append(Text(printable(command.text, MAX_TEXT), "bold"))
    if not command.recorded:
        reason = "" if command.unrecorded_reason is UNSET else f": {command.unrecorded_reason}"
        parts.append(Text(printable(f"not recorded{reason}", MAX_TEXT), "yellow"))
    if command.stdout_from:
        parts.append(Text(f"reuses {_numbers(sorted(set(command.stdout_from)))}", "cyan"))
    if reusers:
        parts.append(Text(f"reused by {_numbers(reusers)}", "cyan"))
    if command.writes:
        parts.append(_writes(command.writes, inspected))
    if command.reads:
        parts.append(Text("reads " + _listed([_name(read) for read in command.reads]), "dim"))
    if command.exit_code:
        parts.append(Text(f"exit {command.exit_code}", "red"))
    line = Text("  ").join(parts) if parts else Text("nothing read or written", "dim italic")
    line.no_wrap = True
    return line


def _writes(writes: Sequence[Write], inspected: Collection[str]) -> Text:
    described = [_write(write, inspected) for write in writes]
    hits = any(write.resource in inspected for write in writes)
    # Inspected resources first: they must not be among the ones that are only counted.
    described.sort(key=lambda text: not text.endswith(INSPECTED_MARK))
    return Text("writes " + _listed(described), "green" if hits else "")


def _write(write: Write, inspected: Collection[str]) -> str:
    name = _name(write.resource)
    if write.deleted is True:
        name += " (deleted)"
    elif write.moved_from is not UNSET:
        name += f" (from {_name(write.moved_from)})"
    elif write.lines is not UNSET:
        name += f" ({sum(last - first + 1 for first, last in write.lines)} lines)"
    elif write.hunks is not UNSET:
        added, removed = sum(hunk[3] for hunk in write.hunks), sum(hunk[1] for hunk in write.hunks)
        name += f" (+{added} -{removed})"
    return name + (INSPECTED_MARK if write.resource in inspected else "")


def _name(resource: str) -> str:
    if len(resource) > MAX_NAME:
        resource = "…" + resource[1 - MAX_NAME :]
    return printable(resource)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMES_SHOWN]) + _more(len(names) - NAMES_SHOWN)


def _numbers(commands: Sequence[int]) -> str:
    shown = ", ".join(f"#{number}" for number in commands[:COMMANDS_SHOWN])
    return shown + _more(len(commands) - COMMANDS_SHOWN)


def _more(count: int) -> str:
    return f" +{count}" if count > 0 else ""


def _number(value: float, style: str = "") -> Text:
    return Text(f"{value:.3f}", style) if value else Text("0", "dim")


def _signed(value: float) -> Text:
    if not value:
        return Text("0", "dim")
    return Text(f"{value:+.3f}", "green" if value > 0 else "red")
