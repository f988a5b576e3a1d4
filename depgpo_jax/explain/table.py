"""A rollout's credit as a table for the terminal: who did what, and what it is worth."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from depgpo_jax.errors import printable
from depgpo_jax.explain.deeds import (
    INSPECTED_MARK,
    first_reused_value,
    listed_reads,
    listed_writes,
    numbered,
    read_only_commands,
)
from depgpo_jax.explain.graph import stdout_users
from depgpo_jax.explain.rows import check_result
from depgpo_jax.explain.words import notes, reasons, spoken

if TYPE_CHECKING:
    from depgpo_jax.batch import TraceCredit
    from depgpo_jax.explain.why import RolloutExplanation
    from depgpo_jax.traces import Command, Trace, Write

MAX_TEXT = 80
"""Longer command texts lose their end."""

MIN_COMMAND_WIDTH = 16

LEGEND = (
    "credit: share of a command's records that matter for what the verifier inspected; for one "
    "that wrote nothing: the credits of the writes its output led to, summed, each decayed by half "
    "(beta) for each link of the path · weight: of each token of the step, mean 1 · on path: "
    "credit above 0 · effective tokens: the share that would vary as much at equal weights"
)
"""What the table's numbers mean."""


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
    check_result(trace, result)
    table = _empty_table(trace, result, advantage)
    if legend:
        table.caption = Text("\n").join([_caption(trace, result), Text(LEGEND, "dim")])
    inspected, reusers = frozenset(trace.verifier), stdout_users(trace.commands)
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
            described = _describe(command, reusers[number], inspected)
            lines.append([Text(str(number), "dim"), described, _number(credit)])
            number += 1
        for line in lines or [[Text(), Text("no command", "dim italic"), Text()]]:
            table.add_row(*first, *line, *last)
            first, last = [Text(), Text()], [Text() for _ in last]
    return table


def why_table(rollout: RolloutExplanation) -> Table:
    """One block a command: the reasons for its credit and for the weight of its step, in words.

    Args:
        rollout: the explained rollout, from `explain_rollout`.

    Returns:
        A table for any `rich.console.Console`.
    """
    table = Table(
        title=Text(f"{printable(rollout.trace.trace_id)} · why", "bold"),
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("credit", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for number, command in enumerate(rollout.trace.commands):
        facts = rollout.why(number)
        lines = [] if command.text is UNSET else [Text(printable(command.text, MAX_TEXT), "bold")]
        lines += [Text(spoken(reason)) for reason in reasons(rollout, facts)]
        lines += [Text(spoken(note), "dim") for note in notes(rollout, facts)]
        for place, line in enumerate(lines):
            first = [Text(), Text()] if place else [Text(str(number), "dim"), _number(facts.credit)]
            table.add_row(*first, line)
    return table


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
        value = first_reused_value(command)
        because = f" ({value})" if value else ""
        parts.append(Text(f"reuses {numbered(sorted(set(command.stdout_from)))}{because}", "cyan"))
    if reusers:
        parts.append(Text(f"reused by {numbered(reusers)}", "cyan"))
    if command.writes:
        parts.append(_writes(command.writes, inspected))
    if command.reads:
        parts.append(Text("reads " + listed_reads(command.reads), "dim"))
    if command.exit_code:
        parts.append(Text(f"exit {command.exit_code}", "red"))
    line = Text("  ").join(parts) if parts else Text("nothing read or written", "dim italic")
    line.no_wrap = True
    return line


def _writes(writes: Sequence[Write], inspected: Collection[str]) -> Text:
    hits = any(write.resource in inspected for write in writes)
    return Text("writes " + listed_writes(writes, inspected), "green" if hits else "")


def _number(value: float, style: str = "") -> Text:
    return Text(f"{value:.3f}", style) if value else Text("0", "dim")


def _signed(value: float) -> Text:
    if not value:
        return Text("0", "dim")
    return Text(f"{value:+.3f}", "green" if value > 0 else "red")
