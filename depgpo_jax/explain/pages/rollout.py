"""The page of one rollout: commands in time order, dependencies, and why each has its credit."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup
from msgspec import UNSET

from depgpo_jax.credit_config import CreditConfig
from depgpo_jax.errors import ConfigError, printable
from depgpo_jax.explain.deeds import (
    NAMES_SHOWN,
    listed_reads,
    listed_writes,
    numbered,
    read_only_commands,
)
from depgpo_jax.explain.pages.render import level, render, shown_text
from depgpo_jax.explain.pages.strips import credit_strip, weight_strip
from depgpo_jax.explain.words import NAME_SHOWN, Sentence, notes, reasons

if TYPE_CHECKING:
    from depgpo_jax.explain.facts import Edge, Why
    from depgpo_jax.explain.why import RolloutExplanation
    from depgpo_jax.traces import Command

MAX_TEXT = 4000
"""Characters of a command's text; heredocs of whole files would hide the rest."""

ALL_SHOWN = 20
"""Resources named among a command's reasons; the others are counted."""

MAX_ARCS = 20_000
"""Arcs in the gutter; a browser draws no more of them in reasonable time."""

MAX_TITLE = 200
"""Characters of a command's first line; narrower windows show less of it."""


class Line(NamedTuple):
    """What the page shows of one command."""

    number: int
    step: int
    loss_tokens: int | None  # on the first command of its step
    title: str
    has_text: bool
    text: str  # empty where it is not known
    did: str
    kind: str  # wrote, read or unrecorded
    inspected: bool
    on_path: bool
    credit: float
    level: int
    share: float  # of the longest bar, in percent
    weight: float
    advantage: float | None
    exit_code: int | None
    reasons: list[Sentence]
    notes: list[Sentence]


class Inspected(NamedTuple):
    """A resource that the verifier looked at, and who owns what is left in it."""

    name: str
    owners: list[int]
    written: bool


def explain_page(
    rollout: RolloutExplanation,
    advantage: float | None = None,
    *,
    about: Sequence[str] = (),
    source: str = "",
    group_page: str | None = None,
) -> str:
    """One self-contained HTML page about a rollout.

    Commands stand in time order with arcs for the dependencies between them. Pointing at one,
    tapping it or moving the keyboard's focus there shows why it has its credit. Without a
    script, and on paper, every command's reasons stand below it.

    Args:
        rollout: the explained rollout, from `explain_rollout`.
        advantage: its group advantage; None leaves the column out.
        about: what else to say of the credit's origin, as "advantage grpo".
        source: the name of the file that the rollout is from, for the foot of the page.
        group_page: address of the page of its group, for a link back.

    Returns:
        The HTML, to be written as UTF-8.

    Raises:
        ConfigError: the advantage is not finite.
    """
    if advantage is not None and not isfinite(advantage):
        raise ConfigError(
            f"explain_page: found advantage {advantage!r}; allowed: a finite number or None"
        )
    trace, result = rollout.trace, rollout.result
    whys = [rollout.why(number) for number in range(rollout.num_commands)]
    most = max([1.0, *(why.credit for why in whys)])
    edges = [edge for why in whys for edge in why.outputs]
    drawn = _drawn(edges, whys)
    reads = read_only_commands([trace])
    recorded = sum(why.recorded for why in whys)
    return render(
        "rollout.html",
        "rollout.js",
        trace=trace,
        name=printable(trace.trace_id),
        group=printable(trace.group),
        source=printable(source),
        group_page=group_page,
        reward=None if trace.reward is UNSET else trace.reward,
        invalid=None if trace.invalid is UNSET else printable(trace.invalid),
        tests=[] if trace.tests is UNSET else trace.tests,
        advantage=advantage,
        result=result,
        settings=[*shown_settings(rollout.config), *about],
        on_path=(round(result.on_path_fraction * recorded), recorded),
        inspected=_inspected(rollout, whys),
        everything=rollout.config.inspect == "all",
        reads=reads,
        credit_strip=credit_strip(result.command_credit.tolist()),
        weight_strip=weight_strip(
            result.token_weight.tolist(), [step.loss_tokens for step in trace.steps]
        ),
        lines=_lines(rollout, whys, advantage, most),
        best=max(range(len(whys)), key=lambda number: whys[number].credit, default=0),
        idle_steps=[t for t, step in enumerate(trace.steps) if not step.commands],
        # Numbers only, and `<` cannot come up in them.
        edges=Markup(json.dumps(drawn, separators=(",", ":"))),
        hidden_edges=len(edges) - len(drawn),
    )


def _drawn(edges: Sequence[Edge], whys: Sequence[Why]) -> list[tuple[int, int]]:
    """The ends of the arcs: all, or where these are too many those between commands with credit."""
    if len(edges) > MAX_ARCS:
        edges = [e for e in edges if _on_path(whys[e.producer]) and _on_path(whys[e.consumer])]
    return [(edge.producer, edge.consumer) for edge in edges[:MAX_ARCS]]


def _on_path(why: Why) -> bool:
    """Whether the credit is above 0, also where its float is not."""
    return why.relevant > 0 or bool(why.paths)


def _lines(
    rollout: RolloutExplanation, whys: Sequence[Why], advantage: float | None, most: float
) -> list[Line]:
    inspected = frozenset(rollout.trace.verifier)
    commands = rollout.trace.commands
    lines: list[Line] = []
    step = -1
    for why, command in zip(whys, commands, strict=True):
        first = why.step != step
        step = why.step
        lines.append(
            Line(
                number=why.command,
                step=step,
                loss_tokens=rollout.trace.steps[step].loss_tokens if first else None,
                title=_title(command, why, inspected),
                has_text=command.text is not UNSET and bool(command.text.strip()),
                text=_text(command),
                did=_did(command, why, inspected, ALL_SHOWN),
                kind=_kind(command),
                inspected=any(part.inspected for part in why.written),
                on_path=_on_path(why),
                credit=why.credit,
                level=level(why.credit, most),
                share=round(100.0 * why.credit / most, 2),
                weight=why.token_weight,
                advantage=None if advantage is None else advantage * why.token_weight,
                exit_code=command.exit_code or None,
                reasons=reasons(rollout, why),
                notes=notes(rollout, why),
            )
        )
    return lines


def _title(command: Command, why: Why, inspected: Collection[str]) -> str:
    if command.text is UNSET or not command.text.strip():
        return _did(command, why, inspected, NAMES_SHOWN)
    lines = command.text.strip().split("\n")
    more = f" … {len(lines)} lines" if len(lines) > 1 else ""
    return printable(lines[0], MAX_TITLE) + more


def _text(command: Command) -> str:
    if command.text is UNSET:
        return ""
    return shown_text(command.text, MAX_TEXT)


def _did(command: Command, why: Why, inspected: Collection[str], most: int) -> str:
    parts: list[str] = []
    if command.writes:
        parts.append("writes " + listed_writes(command.writes, inspected, most))
    if command.reads:
        parts.append("reads " + listed_reads(command.reads, most))
    reused = [edge.producer for edge in why.inputs if edge.stdout]
    if reused:
        parts.append(f"reuses what {numbered(reused)} printed")
    users = [edge.consumer for edge in why.outputs if edge.stdout]
    if users:
        parts.append(f"prints what {numbered(users)} reuse{'s' if len(users) == 1 else ''}")
    return "; ".join(parts) or "nothing read or written"


def _kind(command: Command) -> str:
    if not command.recorded:
        return "unrecorded"
    return "wrote" if command.writes else "read"


def _inspected(rollout: RolloutExplanation, whys: Sequence[Why]) -> list[Inspected]:
    """What the verifier looked at, with the owners of what is left in it."""
    owners: dict[str, list[int]] = {}
    for why in whys:
        for part in why.written:
            if part.inspected:
                owners.setdefault(part.resource, []).append(why.command)
    names = list(dict.fromkeys(rollout.trace.verifier))
    if rollout.config.inspect == "all":
        names += [name for name in owners if name not in frozenset(names)]
    written = {write.resource for command in rollout.trace.commands for write in command.writes}
    found = [
        Inspected(printable(name, NAME_SHOWN), sorted(set(owners.get(name, []))), name in written)
        for name in names
    ]
    return sorted(found, key=lambda resource: (not resource.owners, not resource.written))


def shown_settings(config: CreditConfig) -> list[str]:
    """The settings of a credit in words; of most only where they are not the usual ones."""
    shown = [f"relevance rule {config.relevance}", f"beta {config.beta:g}"]
    shown += [] if config.max_weight is None else [f"largest weight {config.max_weight:g}"]
    shown += [] if config.read_credit else ["no read credit"]
    shown += ["binary write credit"] if config.write_credit == "binary" else []
    shown += ["every resource inspected"] if config.inspect == "all" else []
    shown += [] if config.subtract_min else ["minimum not subtracted"]
    return shown
