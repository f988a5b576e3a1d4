"""The facts about a command in plain words.

A sentence is a tuple of parts: text, and command numbers as integers, so that a page can make links
of the latter. `spoken` joins the parts for a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import SupportsIndex

from msgspec import UNSET

from depgpo_jax.errors import printable
from depgpo_jax.explain.deeds import shortened
from depgpo_jax.explain.facts import (
    Edge,
    Reader,
    ReaderEffect,
    ReadPath,
    Why,
    WrittenRecords,
)
from depgpo_jax.explain.places import Places
from depgpo_jax.explain.why import RolloutExplanation

Sentence = tuple[str | int, ...]

RANGES_SHOWN = 4
"""Line ranges named for one resource; the others are counted."""

COMMANDS_SHOWN = 6
"""Commands named in one list; the others are counted."""

PARTS_SHOWN = 8
"""Groups of records, or paths, told one by one; the others are counted."""

NAME_SHOWN = 120
"""Characters of a resource's name."""

_WITHOUT_EFFECT: dict[ReaderEffect, tuple[str, str]] = {
    "irrelevant": ("owns no relevant record", "own no relevant record"),
    "in_place": ("read them to edit them in place", "read them to edit them in place"),
    "only_here": ("wrote in this resource only", "wrote in this resource only"),
}
"""Why a reader does not make records relevant, for one reader and for several."""


def why_text(rollout: RolloutExplanation, command: SupportsIndex) -> list[str]:
    """Why a command has its credit, in sentences: its records or paths, its step, dependencies.

    Args:
        rollout: the explained rollout, from `explain_rollout`.
        command: the command's number, 0 … N-1.

    Returns:
        The sentences, commands as `#4`. Long lists are cut, and say so.

    Raises:
        ShapeError: there is no such command.
    """
    why = rollout.why(command)
    return [spoken(sentence) for sentence in [*reasons(rollout, why), *notes(rollout, why)]]


def spoken(sentence: Sentence) -> str:
    """The sentence as one text, commands as #4."""
    return "".join(part if isinstance(part, str) else f"#{part}" for part in sentence)


def number(value: float) -> str:
    """A credit or weight in three significant digits, without the noise of float32."""
    if 0.9995 <= value < 1.0 - 1e-6:
        return ">0.999"  # all but everything is not everything
    text = f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"
    return f"{text}.0" if text.isdecimal() and 0.0 < value < 10.0 else text


def placed(resource: str, places: Places) -> str:
    """A resource's name with lines, as in `/app/a:1–2, 5`."""
    name = shortened(resource, NAME_SHOWN)
    parts: list[str] = []
    if places.whole:
        parts.append("whole")
    if places.gaps:
        spots = [f"below {gap}" if gap else "at the top" for gap in dict.fromkeys(places.gaps)]
        parts.append("lines removed " + _listed(spots))
    if places.lines:
        ranges = [str(a) if a == b else f"{a}–{b}" for a, b in places.lines]
        name += ":" + _listed(ranges)
    return name + (f" ({', '.join(parts)})" if parts else "")


def reasons(rollout: RolloutExplanation, why: Why) -> list[Sentence]:
    """Why the command has its credit, the sum first, then what it is made of.

    Args:
        rollout: the explained rollout.
        why: its facts about the command.

    Returns:
        One sentence a reason; at most `PARTS_SHOWN` parts are told, the others are counted.
    """
    if why.records:
        return _write_reasons(rollout, why)
    return _read_reasons(rollout, why)


def notes(rollout: RolloutExplanation, why: Why) -> list[Sentence]:
    """What else there is to know: recording, the step's weight, dependencies."""
    found = [
        recording_reason(rollout, why),
        weight_reason(rollout, why),
        dependencies(why.inputs, inputs=True),
        dependencies(why.outputs, inputs=False),
    ]
    return [sentence for sentence in found if sentence is not None]


def weight_reason(rollout: RolloutExplanation, why: Why) -> Sentence:
    """What the command's step is worth, and why (method, sections 5 and 6)."""
    step = rollout.trace.steps[why.step]
    count, tokens = len(step.commands), step.loss_tokens
    begin = f"Step {why.step}"
    if count > 1:
        begin += f", {count} commands with credit {number(why.step_credit)} together"
    each = f"each of its {tokens:,} tokens weighs" if tokens > 1 else "its token weighs"
    end = f"{each if tokens else 'no token enters the loss, weight'} {number(why.token_weight)}"
    if why.fallback:
        return (f"{begin}: {end}, because nothing tells the steps of this rollout apart.",)
    end += _capped(rollout, why)
    if not all(command.recorded for command in step.commands):
        return (f"{begin}: factor 1, since it was not recorded; scaled, {end}.",)
    if why.step_factor == 0.0:
        least = "no recorded step has noticeably less credit, and the least counts as 0"
        return (f"{begin}: {least if why.step_credit else 'no credit'}; {end}.",)
    above = " above the least" if rollout.config.subtract_min else ""
    times = f"{number(why.step_factor)} times the mean step credit{above}"
    return (f"{begin}: {times}; scaled to a mean of 1, {end}.",)


def _capped(rollout: RolloutExplanation, why: Why) -> str:
    cap = rollout.config.max_weight
    if cap is None:
        return ""
    if why.token_weight >= cap * (1.0 - 1e-6):
        return ", the cap"
    if why.step_factor == 0.0 and why.token_weight > 0.0:
        return ", its share of what the cap leaves over"
    return ""


def recording_reason(rollout: RolloutExplanation, why: Why) -> Sentence | None:
    """That the command could not be followed, if so; None if it could."""
    command = rollout.trace.commands[why.command]
    if command.recorded:
        return None
    reason = command.unrecorded_reason
    known = "" if reason is UNSET else f": {printable(reason, NAME_SHOWN)}"
    return (f"Not recorded{known}. What is known of it may be incomplete.",)


def dependencies(edges: Sequence[Edge], *, inputs: bool) -> Sentence | None:
    """Whom the command depends on, or who depends on it; None for nobody."""
    if not edges:
        return None
    sentence: list[str | int] = ["Depends on " if inputs else "Used by "]
    for place, edge in enumerate(edges[:COMMANDS_SHOWN]):
        names = [shortened(name, NAME_SHOWN) for name in edge.resources[:2]]
        if len(edge.resources) > 2:
            names.append(f"{len(edge.resources) - 2:,} more")
        names += ["stdout"] if edge.stdout else []
        sentence += [", "] if place else []
        sentence += [edge.producer if inputs else edge.consumer, f" ({', '.join(names)})"]
    return (*sentence, f"{_more(len(edges) - COMMANDS_SHOWN)}.")


def _write_reasons(rollout: RolloutExplanation, why: Why) -> list[Sentence]:
    counted = f"{why.relevant:,} of {_counted(why.records, 'record')} relevant"
    if rollout.config.write_credit == "binary":
        counted += " (one is enough)"
    sentences: list[Sentence] = [(f"{counted}: credit {number(why.credit)}.",)]
    sentences += [_fate(rollout, part) for part in why.written[:PARTS_SHOWN]]
    left = why.written[PARTS_SHOWN:]
    if left:
        relevant = sum(part.records for part in left if part.relevant)
        total = sum(part.records for part in left)
        more = f"{relevant:,} of {_counted(total, 'more record')} relevant"
        sentences.append((f"{more}, in other places or of another fate.",))
    return sentences


def _fate(rollout: RolloutExplanation, part: WrittenRecords) -> Sentence:
    name = placed(part.resource, part.places)
    if not part.relevant:
        return (f"{name}: not relevant, ", *_end(part), ".")
    why: list[Sentence] = []
    if part.inspected:
        everything = rollout.config.inspect == "all"
        why.append(("live at the end" if everything else "inspected by the verifier",))
    consumers = [reader.command for reader in part.readers if reader.effect == "carries"]
    if consumers:
        owns = "owns" if len(consumers) == 1 else "own"
        why.append(("read by ", *_numbers(consumers), f", which {owns} relevant records"))
    printers = [reader.command for reader in part.readers if reader.effect == "prints"]
    if printers:
        reused = "whose output was reused by commands that count"
        why.append(("read by ", *_numbers(printers), f", {reused}"))
    sentence: list[str | int] = []
    for place, reason in enumerate(why):
        sentence += [*("; and " if place else "",), *reason]
    return (f"{name}: ", *sentence, ".")


def _end(part: WrittenRecords) -> Sentence:
    """How records ended that stay irrelevant, and why those who read them do not help."""
    others = [reader for reader in part.readers if reader.command != part.killer]
    bystanders = _bystanders(others)
    if part.killer is None:
        return ("there at the end, but the verifier did not inspect it", *bystanders)
    ended: Sentence = ("overwritten by " if part.in_place else "moved away by ", part.killer)
    readers = [reader for reader in part.readers if reader.command == part.killer]
    if readers:
        ended = (*ended, ", which ", _WITHOUT_EFFECT[readers[0].effect][0])
    return (*ended, *bystanders)


def _bystanders(readers: Iterable[Reader]) -> Sentence:
    by_effect: dict[ReaderEffect, list[int]] = {}
    for reader in readers:
        by_effect.setdefault(reader.effect, []).append(reader.command)
    sentence: list[str | int] = []
    for effect, those in by_effect.items():
        ending = _WITHOUT_EFFECT[effect][len(those) > 1]
        sentence += ["; read by ", *_numbers(those), f", which {ending}"]
    return tuple(sentence)


def _read_reasons(rollout: RolloutExplanation, why: Why) -> list[Sentence]:
    if not rollout.config.read_credit:
        return [("Wrote nothing, and read credit is switched off.",)]
    if not why.paths:
        if not why.outputs:
            return [("Wrote nothing, and no later command reuses what it printed.",)]
        users = _numbers([edge.consumer for edge in why.outputs])
        return [("Wrote nothing. Its output went to ", *users, ", but to no relevant record.")]
    writers = "one writer" if len(why.paths) == 1 else f"{len(why.paths):,} writers"
    sentences: list[Sentence] = [
        (f"Wrote nothing; credit {number(why.credit)} from {writers} that its output led to:",)
    ]
    sentences += [_share(rollout, path) for path in why.paths[:PARTS_SHOWN]]
    left = why.paths[PARTS_SHOWN:]
    if left:
        rest = number(sum(path.value for path in left))
        sentences.append((f"{_counted(len(left), 'more writer')}: {rest}.",))
    return sentences


def _share(rollout: RolloutExplanation, path: ReadPath) -> Sentence:
    """As in `0.25 = 0.5² × 1.0 via #4 → #7`."""
    power = "" if path.distance == 1 else str(path.distance).translate(_SUPERSCRIPT)
    beta = number(rollout.config.beta)
    via: list[str | int] = [path.path[0]]
    inner = path.path[1:-1]
    for command in inner if len(inner) <= COMMANDS_SHOWN else inner[:COMMANDS_SHOWN]:
        via += [" → ", command]
    if len(inner) > COMMANDS_SHOWN:
        via += [" → …"]
    if path.distance > 1:
        via += [" → ", path.writer]
    return (f"{number(path.value)} = {beta}{power} × {number(path.credit)} via ", *via)


_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _numbers(commands: Sequence[int]) -> Sentence:
    sentence: list[str | int] = []
    for place, command in enumerate(commands[:COMMANDS_SHOWN]):
        sentence += [", ", command] if place else [command]
    return (*sentence, _more(len(commands) - COMMANDS_SHOWN))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:RANGES_SHOWN]) + _more(len(names) - RANGES_SHOWN)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _more(count: int) -> str:
    return f" and {count:,} more" if count > 0 else ""
