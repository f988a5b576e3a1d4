"""The report on a file of rollouts: an index of groups, a page a group, a page a rollout.

Rollouts come one after another, so that the file may be larger than memory; what stays of each is
one row of its group's table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from depgpo_jax.errors import printable
from depgpo_jax.explain.deeds import ReadOnlyCommands, read_only_commands
from depgpo_jax.explain.pages.render import render
from depgpo_jax.explain.pages.rollout import explain_page, shown_settings
from depgpo_jax.explain.pages.strips import Strip, credit_strip, weight_strip

if TYPE_CHECKING:
    from depgpo_jax.advantages import AdvantageKind
    from depgpo_jax.credit_config import CreditConfig
    from depgpo_jax.explain.why import RolloutExplanation


class RolloutRow(NamedTuple):
    """A rollout in its group's table."""

    name: str
    page: str  # address, from the group's page
    reward: float | None
    invalid: str | None
    advantage: float | None
    commands: int
    loss_tokens: int
    on_path: float
    relevant: float
    max_weight: float
    effective: float
    fallback: bool
    credit_strip: Strip
    weight_strip: Strip


class GroupRow(NamedTuple):
    """A group in the index; rewards are those of rollouts that have a valid one."""

    name: str
    page: str  # address, from the index
    rollouts: int
    mean_reward: float | None
    lowest: float | None
    highest: float | None
    commands: float
    on_path: float
    effective: float
    fallback: int
    invalid: int


class Totals(NamedTuple):
    """What the head of the index says about the whole file."""

    on_path: float
    effective: float
    fallback: int
    invalid: int


class Report:
    """Collects rollouts and renders the pages about them. Addresses are relative, with `/`."""

    def __init__(
        self, source: str, config: CreditConfig, *, advantage: AdvantageKind | None = None
    ) -> None:
        """A report without rollouts.

        Args:
            source: the name of the file, for headings.
            config: the settings of all credits.
            advantage: how rollouts were compared with their groups; None: not at all.
        """
        self._source = source
        self._about = [] if advantage is None else [f"advantage {advantage}"]
        self._settings = [*shown_settings(config), *self._about]
        self._groups: dict[str, list[RolloutRow]] = {}
        self._numbers: dict[str, int] = {}
        self._rollouts = 0
        self._reads = ReadOnlyCommands(0, 0)

    def add(self, rollout: RolloutExplanation, advantage: float | None) -> tuple[str, str]:
        """Takes a rollout in and renders its page.

        Args:
            rollout: the next rollout of the file.
            advantage: its group advantage; None: it has none.

        Returns:
            The page's address and its HTML.
        """
        trace, result = rollout.trace, rollout.result
        address = f"rollouts/{self._rollouts:06d}.html"
        number = self._numbers.setdefault(trace.group, len(self._numbers))
        page = explain_page(
            rollout,
            advantage,
            about=self._about,
            source=self._source,
            group_page=f"../{_group_page(number)}",
        )
        tokens = [step.loss_tokens for step in trace.steps]
        self._groups.setdefault(trace.group, []).append(
            RolloutRow(
                name=printable(trace.trace_id),
                page=f"../{address}",
                reward=None if trace.reward is UNSET else trace.reward,
                invalid=None if trace.invalid is UNSET else printable(trace.invalid),
                advantage=advantage,
                commands=rollout.num_commands,
                loss_tokens=sum(tokens),
                on_path=result.on_path_fraction,
                relevant=result.relevant_fraction,
                max_weight=result.max_weight_seen,
                effective=result.effective_fraction,
                fallback=result.fallback,
                credit_strip=credit_strip(result.command_credit.tolist()),
                weight_strip=weight_strip(result.token_weight.tolist(), tokens),
            )
        )
        reads = read_only_commands([trace])
        self._reads = ReadOnlyCommands(
            self._reads.total + reads.total,
            self._reads.with_stdout_edge + reads.with_stdout_edge,
        )
        self._rollouts += 1
        return address, page

    def overviews(self) -> Iterator[tuple[str, str]]:
        """The pages of the groups and then the index, when every rollout is in.

        Returns:
            Each page's address and HTML.
        """
        groups: list[GroupRow] = []
        for number, (name, rows) in enumerate(self._groups.items()):
            group = _summary(printable(name), _group_page(number), rows)
            groups.append(group)
            advantages = any(row.advantage is not None for row in rows)
            yield (
                group.page,
                render(
                    "group.html",
                    "table.js",
                    source=printable(self._source),
                    group=group,
                    rows=rows,
                    advantages=advantages,
                    settings=self._settings,
                ),
            )
        yield (
            "index.html",
            render(
                "index.html",
                "table.js",
                source=printable(self._source),
                rollouts=self._rollouts,
                groups=groups,
                totals=self._totals(),
                settings=self._settings,
                reads=self._reads,
            ),
        )

    def _totals(self) -> Totals:
        rows = [row for rows in self._groups.values() for row in rows]
        return Totals(
            on_path=_mean([row.on_path for row in rows]) or 0.0,
            effective=_mean([row.effective for row in rows]) or 0.0,
            fallback=sum(row.fallback for row in rows),
            invalid=sum(row.invalid is not None for row in rows),
        )


def _group_page(number: int) -> str:
    return f"groups/{number:06d}.html"


def _summary(name: str, page: str, rows: Sequence[RolloutRow]) -> GroupRow:
    rewards = [row.reward for row in rows if row.reward is not None and row.invalid is None]
    return GroupRow(
        name=name,
        page=page,
        rollouts=len(rows),
        mean_reward=_mean(rewards),
        lowest=min(rewards, default=None),
        highest=max(rewards, default=None),
        commands=fmean(row.commands for row in rows),
        on_path=fmean(row.on_path for row in rows),
        effective=fmean(row.effective for row in rows),
        fallback=sum(row.fallback for row in rows),
        invalid=sum(row.invalid is not None for row in rows),
    )


def _mean(values: Sequence[float]) -> float | None:
    # Shares first: the sum of two rewards may exceed float64.
    return fsum(value / len(values) for value in values) if values else None
