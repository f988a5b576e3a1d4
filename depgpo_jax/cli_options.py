"""The options of `depgpo` that say which credit is meant; JAX is imported when they are used."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from depgpo_jax.cli_credit import CreditOptions

RELEVANCE = ("paper", "stdout", "slice")
ADVANTAGE = ("grpo", "dr_grpo", "rloo", "none")


class Number(click.FloatRange):
    """A finite number in a range; click itself lets nan pass."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number that was given."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


batch_size_option = click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="Most traces computed together.",
)
"""How much is computed at once, for the commands that read a whole file."""


def credit_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which credit is meant; `credit`, `explain` and `report` share them."""
    options = (
        click.option(
            "--beta",
            type=Number(0.0, 1.0, min_open=True),
            default=0.5,
            show_default=True,
            help="Decay of read credit for each edge of the shortest path.",
        ),
        click.option(
            "--relevance",
            type=click.Choice(RELEVANCE),
            default="paper",
            show_default=True,
            help="Which records count as relevant; each rule contains the one before it.",
        ),
        click.option(
            "--max-weight",
            type=Number(min=1.0),
            help="Cap on a token's weight; the mean is kept.  [default: off]",
        ),
        click.option("--no-read-credit", is_flag=True, help="Read-only commands get 0."),
        click.option(
            "--write-credit",
            type=click.Choice(("fraction", "binary")),
            default="fraction",
            show_default=True,
            help="A command's share of relevant records, or 1 if it has any.",
        ),
        click.option(
            "--inspect",
            type=click.Choice(("verifier", "all")),
            default="verifier",
            show_default=True,
            help="Start from what the verifier looked at, or from every resource.",
        ),
        click.option(
            "--no-subtract-min",
            is_flag=True,
            help="Keep the smallest step credit instead of taking it off every step.",
        ),
        click.option(
            "--advantage",
            type=click.Choice(ADVANTAGE),
            default="grpo",
            show_default=True,
            help="How a rollout is compared with its group; none: credit only, rewards not needed.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def as_options(settings: dict[str, Any]) -> CreditOptions:
    """What the options mean; this imports JAX.

    Args:
        settings: the value of each option of `credit_options`.

    Returns:
        What the run computes.
    """
    from depgpo_jax.cli_credit import CreditOptions
    from depgpo_jax.credit import CreditConfig

    config = CreditConfig(
        beta=settings["beta"],
        relevance=settings["relevance"],
        max_weight=settings["max_weight"],
        read_credit=not settings["no_read_credit"],
        write_credit=settings["write_credit"],
        inspect=settings["inspect"],
        subtract_min=not settings["no_subtract_min"],
    )
    kind = settings["advantage"]
    return CreditOptions(config=config, advantage=None if kind == "none" else kind)
