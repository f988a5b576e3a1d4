"""A rollout in one line of colour: few SVG paths, so that a thousand of them open fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from depgpo_jax.explain.pages.render import LEVELS, level

LARGEST_WEIGHT = 5.0
"""The end of the scale of weights: larger ones have the same shade."""

LARGEST_WIDTH = 1_000_000
"""Units of a strip; more tokens share one."""


class Strip(NamedTuple):
    """Cells side by side in a box of width `width` and height 1.

    Attributes:
        width: of the box, at least 1.
        paths: for each shade that comes up, the outlines of its cells.
        label: what the strip says, for those who do not see it.
    """

    width: int
    paths: list[tuple[int, str]]
    label: str


def credit_strip(credit: Sequence[float]) -> Strip:
    """A cell a command, shaded by its credit on a scale from 0 to 1."""
    shades = [level(value, 1.0) for value in credit]
    on_path = sum(shade > 0 for shade in shades)
    label = f"credit of {len(shades):,} commands in time order, {on_path:,} above 0"
    return _strip(shades, [1] * len(shades), label)


def weight_strip(weights: Sequence[float], loss_tokens: Sequence[int]) -> Strip:
    """A cell a step, as wide as its loss tokens, shaded by their weight.

    The scale is the same for all rollouts, so that strips can be compared.
    """
    shown = [weight for weight, tokens in zip(weights, loss_tokens, strict=True) if tokens]
    shades = [level(weight, LARGEST_WEIGHT) for weight in weights]
    most = max(shown, default=1.0)
    label = f"weights of {sum(loss_tokens):,} loss tokens in time order, at most {most:.3g}"
    # Browsers draw in single precision.
    unit = max(1, sum(loss_tokens) // LARGEST_WIDTH)
    return _strip(shades, [tokens // unit for tokens in loss_tokens], label)


def _strip(shades: Sequence[int], widths: Sequence[int], label: str) -> Strip:
    paths: list[list[str]] = [[] for _ in range(LEVELS + 1)]
    left = start = 0
    for place, (shade, width) in enumerate(zip(shades, widths, strict=True)):
        left += width
        # Neighbours of one shade are one cell.
        if place + 1 == len(shades) or shades[place + 1] != shade:
            paths[shade].append(f"M{start} 0h{left - start}v1H{start}z")
            start = left
    drawn = [(shade, "".join(cells)) for shade, cells in enumerate(paths) if cells]
    return Strip(max(left, 1), drawn, label)
