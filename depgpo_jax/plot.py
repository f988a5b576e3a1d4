"""Pictures of a batch's credit with matplotlib: one rollout's commands and tokens, or the batch.

Each function takes what `dependency_credit` returned, the batch it was computed from and, for a
figure of yours, its axes, which it returns to be changed or saved. Needs the extra `plot`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Bool

from depgpo_jax.batch import TraceBatch
from depgpo_jax.plot_parts import (
    ARCS_AS_VECTORS,
    GREY,
    Edges,
    axes_or_new,
    check_pair,
    checked_row,
    command_axis,
    counted,
    drawable,
    edges_of,
    finite_number,
    head,
    mark_steps,
    medians_by_length,
    note,
    points_wide,
)
from depgpo_jax.summary import Credit

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import Container

# From the palette of Okabe and Ito, which colour-blind readers tell apart; they differ in
# lightness too, for print in grey.
BLUE, ORANGE, VERMILION = "#0072B2", "#E69F00", "#D55E00"
FAINT = "0.85"

LARGEST_IN_STRIP = 5.0
"""Larger weights have the darkest colour, so that one such step does not bleach all others."""

LARGEST_IN_HISTOGRAM = 10.0
"""Larger weights share the last bar: as the mean is 1, at most a tenth of the tokens has one."""


def credit_along_rollout(
    credit: Credit, batch: TraceBatch, row: int = 0, *, ax: Axes | None = None
) -> Axes:
    """Bars: the credit of each command of a rollout, in time order.

    Shows where a rollout earned its credit. Commands that wrote records and read-only commands
    differ in colour, also in the stripe below the bars, where those without credit show up.
    Hatching marks commands that the tracer could not follow, light lines part the steps.

    Source: method page, section 4; the on-path fraction in the title, section 8.

    Args:
        credit: the batch's credit, [B, ...], from `dependency_credit`.
        batch: the batch it was computed from.
        row: the rollout, its place in the batch.
        ax: axes to draw into; None: those of a new figure.

    Returns:
        The axes.

    Raises:
        ShapeError: credit and batch do not fit together, or the row is no rollout.
        MissingExtraError: matplotlib is not installed.
    """
    rollout = checked_row("credit_along_rollout", credit, batch, row)
    ax = axes_or_new(ax, 3.2)
    count, values = len(rollout.command_credit), rollout.command_credit
    top = max(1.0, float(values.max(initial=0.0)))
    bottom, above = -0.07 * top, 1.05 * top
    width = 0.8 if count <= 100 else 1.0
    handles: list[Artist | Container] = []
    for wrote, color, label in ((True, BLUE, "wrote records"), (False, ORANGE, "read-only")):
        (places,) = np.nonzero(rollout.wrote == wrote)
        if len(places):
            bars = ax.bar(places, values[places], width, color=color, label=label, zorder=2)
            handles.append(bars)
            stripe = [(place - width / 2, width) for place in places]
            ax.broken_barh(stripe, (-0.05 * top, 0.03 * top), color=color, linewidth=0)
    lost = [(place - 0.5, 1.0) for place in np.flatnonzero(~rollout.recorded)]
    if lost:
        hatched = ax.broken_barh(lost, (bottom, above - bottom), label="not recorded")
        hatched.set(facecolor="none", edgecolor=GREY, hatch="////", linewidth=0, zorder=3)
        handles.append(hatched)
    # Steps without commands end where the step before them ends.
    ends = np.unique(rollout.past_commands)
    borders = ends[(ends > 0) & (ends < count)] - 0.5
    line = min(0.8, 40.0 / max(1, len(borders)))
    ax.vlines(borders, bottom, above, FAINT, linewidth=line, zorder=1)
    command_axis(ax, count)
    ax.set_ylim(bottom, above)
    ax.set_ylabel("credit of the command")
    commands = counted(rollout.recorded.sum(), "recorded command")
    head(ax, f"Rollout {row}: {rollout.on_path_fraction:.0%} of {commands} on path", handles)
    return ax


def token_strip(
    credit: Credit,
    batch: TraceBatch,
    row: int = 0,
    *,
    advantage: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A strip along the loss tokens of a rollout, coloured by the weight of each token.

    Shows which part of the loss the weights raise and lower. Each step is as wide as it has loss
    tokens; its number stands in it where it fits. Steps without loss tokens have no width. The
    line in the colour bar is where every token would be without weights. Beyond a weight of
    `LARGEST_IN_STRIP` the colour stays the same, which the bar shows by a pointed end.

    Source: method page, section 6.

    Args:
        credit: the batch's credit, [B, ...], from `dependency_credit`.
        batch: the batch it was computed from.
        row: the rollout, its place in the batch.
        advantage: the rollout's group advantage: colours show weight times advantage, on a scale
            around 0; None: they show the weight.
        ax: axes to draw into; None: those of a new figure.

    Returns:
        The axes; the colour bar stands in axes of its own beside them.

    Raises:
        ShapeError: credit and batch do not fit together, or the row is no rollout.
        ConfigError: the advantage is no finite number.
        MissingExtraError: matplotlib is not installed.
    """
    rollout = checked_row("token_strip", credit, batch, row)
    factor = 1.0
    if advantage is not None:
        remedy = "of a batch's advantages give the one of this row"
        factor = finite_number("token_strip: advantage", advantage, remedy)
    ax = axes_or_new(ax, 1.9)
    (steps,) = np.nonzero(rollout.loss_tokens)
    tokens, weights = rollout.loss_tokens[steps], rollout.token_weight[steps].astype(np.float64)
    edges = np.concatenate([[0.0], np.cumsum(tokens)])
    ax.set_xlim(0.0, edges[-1] or 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_yticks([])
    ax.locator_params(axis="x", integer=True)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_xlabel("loss tokens of the rollout, in time order")
    title = f"Rollout {row}: {counted(edges[-1], 'loss token')} in {counted(len(steps), 'step')}"
    title += ", every weight 1 (fallback)" if rollout.fallback else ""
    head(ax, title if advantage is None else f"{title}, advantage {factor:+.3g}")
    if not len(steps):
        ax.set_xticks([])
        return note(ax, "no loss tokens")
    heaviest = float(weights.max())
    # At least 2, so that a weight of 1 is never the darkest.
    shown = float(np.clip(heaviest, 2.0, LARGEST_IN_STRIP))
    reach = shown * abs(factor) or 1.0
    mesh = ax.pcolormesh(
        edges,
        [0.0, 1.0],
        (weights * factor)[None],
        cmap="Blues" if advantage is None else "RdBu",
        vmin=0.0 if advantage is None else -reach,
        vmax=reach,
    )
    mark_steps(ax, mesh, steps, edges)
    bar = ax.figure.colorbar(
        mesh,
        ax=ax,
        label="token weight" if advantage is None else "weight × advantage",
        extend="neither" if heaviest * abs(factor) <= reach else "max" if factor > 0 else "min",
        pad=0.02,
        aspect=8,
    )
    bar.ax.axhline(factor, color="black", linewidth=1.0)
    return ax


def dependency_graph(
    credit: Credit, batch: TraceBatch, row: int = 0, *, ax: Axes | None = None
) -> Axes:
    """Commands on a line in time order, an arc for each dependency edge between them.

    Shows how credit hangs together. An arc leads from the producer on the left to the
    consumer on the right: solid where it reads a record, dashed where it only reuses printed text;
    strong between two commands with credit. Dots grow and darken with credit, those without are
    hollow. Triangles mark owners of records that the verifier inspected. Of more than 20,000 arcs
    the strong ones are drawn first, and the title says how many.

    Source: method page, sections 2 to 4.

    Args:
        credit: the batch's credit, [B, ...], from `dependency_credit`.
        batch: the batch it was computed from.
        row: the rollout, its place in the batch. Only this row is unpacked into dense tensors.
        ax: axes to draw into; None: those of a new figure.

    Returns:
        The axes; the colour bar stands in axes of its own beside them.

    Raises:
        ShapeError: credit and batch do not fit together, or the row is no rollout.
        MissingExtraError: matplotlib is not installed.
    """
    values = checked_row("dependency_graph", credit, batch, row).command_credit
    ax = axes_or_new(ax, 3.6)
    edges, count = edges_of(batch, row), len(values)
    paid = values > 0.0
    strong = paid[edges.ends[:, 0]] & paid[edges.ends[:, 1]]
    shown, shown_strong = drawable(edges, strong)
    handles = _draw_arcs(ax, shown, shown_strong)
    ax.set_ylim(-0.2, 1.05)
    ax.set_yticks([])
    ax.spines[["left", "right", "top"]].set_visible(False)
    command_axis(ax, count)
    if count:
        apart = points_wide(ax) / count
        area = float(np.clip(apart, 3.0, 12.0)) ** 2  # in square points, as scatter takes it
        top = max(1.0, float(values.max()))
        dots = ax.scatter(
            np.arange(count),
            np.zeros(count),
            area * (0.35 + 0.65 * values / top),
            c=values,
            cmap="Blues",
            vmin=0.0,
            vmax=top,
            edgecolors=np.where(values > 0.0, "black", "0.6").tolist(),
            linewidths=0.7 if apart > 4.0 else 0.3,
            zorder=3,
        )
        ax.figure.colorbar(dots, ax=ax, label="credit of the command", pad=0.02, aspect=18)
        if len(edges.owners):
            below, size = np.full(len(edges.owners), -0.12), max(12.0, area / 2.0)
            marks = ax.scatter(edges.owners, below, size, VERMILION, marker="^")
            marks.set_label("owner of an inspected record")
            handles.append(marks)
    arcs = counted(len(strong), "dependency", "dependencies")
    arcs += f" ({len(shown_strong):,} drawn)" if len(shown_strong) < len(strong) else ""
    head(ax, f"Rollout {row}: {arcs}, {strong.sum():,} between commands with credit", handles)
    return ax


def weight_histogram(credit: Credit, batch: TraceBatch, *, ax: Axes | None = None) -> Axes:
    """How many loss tokens of the whole batch have which weight.

    Shows how far the weights move away from 1, which every rollout's weights have as their mean.
    Tokens of weight 0, which carry no gradient, are hatched. Weights above
    `LARGEST_IN_HISTOGRAM` are counted in the last bar.

    Source: method page, section 6.

    Args:
        credit: the batch's credit, [B, ...], from `dependency_credit`.
        batch: the batch it was computed from.
        ax: axes to draw into; None: those of a new figure.

    Returns:
        The axes.

    Raises:
        ShapeError: credit and batch do not fit together.
        MissingExtraError: matplotlib is not installed.
    """
    check_pair("weight_histogram", credit, batch)
    ax = axes_or_new(ax, 3.2)
    loss_tokens, token_weight, is_rollout = jax.device_get(
        (batch.loss_tokens, credit.token_weight, batch.is_rollout)
    )
    counts = loss_tokens > 0.0  # which no padding does
    tokens, weights = loss_tokens[counts].astype(np.float64), token_weight[counts]
    total, none = tokens.sum(), weights == 0.0
    ax.set_xlabel("weight of the token")
    ax.set_ylabel("loss tokens")
    ax.locator_params(axis="y", integer=True)
    ax.yaxis.set_major_formatter("{x:,.0f}")
    title = f"{counted(is_rollout.sum(), 'rollout')}, {counted(total, 'loss token')}"
    if not len(tokens):
        head(ax, title)
        return note(ax, "no loss tokens")
    largest = float(weights.max())
    top = min(max(largest, 1.5), LARGEST_IN_HISTOGRAM)
    width = next(width for width in (0.05, 0.1, 0.2, 0.25) if top <= 41.0 * width)
    # Edges a hair below round numbers, so that a 1 that was rounded down stays with the others.
    edges = (np.arange(np.floor(top / width) + 2.0) - 1e-3) * width
    shown = np.minimum(weights, LARGEST_IN_HISTOGRAM)
    handles: list[Artist | Container] = []
    height = np.zeros(len(edges) - 1)
    zero = none, "weight 0", {"facecolor": FAINT, "edgecolor": GREY, "hatch": "////"}
    above = ~none, "weight above 0", {"facecolor": BLUE, "edgecolor": "white"}
    for part, label, look in (zero, above):
        added, _ = np.histogram(shown[part], edges, weights=tokens[part])
        bars = ax.bar(edges[:-1], added, width, height, align="edge", label=label)
        for bar in bars:
            bar.set(linewidth=0.4, **look)
        height += added
        if part.any():
            handles.append(bars)
    mean = "1: mean of each rollout"
    handles.append(ax.axvline(1.0, color="black", linestyle="--", linewidth=1.0, label=mean))
    ax.set_ylim(0.0, 1.05 * height.max())
    ax.set_xlim(0.0, edges[-1])
    if largest > LARGEST_IN_HISTOGRAM:
        ax.set_xticks(range(0, 11, 2), [*"02468", "≥ 10"])
    head(ax, f"{title}, {tokens[none].sum() / total:.0%} of them with weight 0", handles)
    return ax


def on_path_by_length(credit: Credit, batch: TraceBatch, *, ax: Axes | None = None) -> Axes:
    """A dot for each rollout: the share of its commands with credit, against their number.

    Shows how much of long and of short rollouts went into what the verifier inspected. Colours
    show the reward, hollow dots are rollouts without a valid one. With twenty
    rollouts or more, a line joins the medians of classes of similar length.

    Source: method page, section 8 (`on_path_fraction`).

    Args:
        credit: the batch's credit, [B, ...], from `dependency_credit`.
        batch: the batch it was computed from.
        ax: axes to draw into; None: those of a new figure.

    Returns:
        The axes; the colour bar, where rewards differ, stands in axes of its own beside them.

    Raises:
        ShapeError: credit and batch do not fit together.
        MissingExtraError: matplotlib is not installed.
    """
    check_pair("on_path_by_length", credit, batch)
    ax = axes_or_new(ax, 3.6)
    fields = (batch.num_commands, credit.on_path_fraction, batch.reward, batch.trainable)
    is_rollout, *host = (np.asarray(field) for field in (batch.is_rollout, *fields))
    length, fraction, reward, trainable = (field[is_rollout] for field in host)
    look = {"s": 26.0, "linewidths": 0.7, "alpha": 0.8, "zorder": 2}
    handles: list[Artist | Container] = []
    if trainable.any():
        x, y, color = length[trainable], fraction[trainable], reward[trainable]
        dots = ax.scatter(x, y, c=color, cmap="viridis", edgecolors="black", **look)
        if color.min() < color.max():
            ax.figure.colorbar(dots, ax=ax, label="reward", pad=0.02, aspect=18)
    if not trainable.all():
        x, y, label = length[~trainable], fraction[~trainable], "without a valid reward"
        handles.append(ax.scatter(x, y, c="none", edgecolors=GREY, label=label, **look))
    medians = medians_by_length(length, fraction)
    if len(medians) > 1:
        x, y = medians.T
        look = {"color": VERMILION, "markersize": 5, "label": "median by length"}
        handles += ax.plot(x, y, "s-", zorder=3, **look)
    longest = max(1.0, float(length.max(initial=0)))
    ax.set_xlim(-0.03 * longest, 1.03 * longest)
    ax.set_ylim(-0.04, 1.04)
    ax.locator_params(axis="x", integer=True)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.set_xlabel("commands of the rollout")
    ax.set_ylabel("recorded commands on path")
    head(ax, counted(len(length), "rollout"), handles)
    return ax if len(length) else note(ax, "no rollouts")


def _draw_arcs(ax: Axes, edges: Edges, strong: Bool[np.ndarray, " _"]) -> list[Artist | Container]:
    """Draws an arc for each edge, and returns what the legend shows of them."""
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

    start, end = edges.ends[:, :1], edges.ends[:, 1:]
    angle = np.linspace(0.0, np.pi, 41)[None]
    # The power lifts short arcs, which a few long ones would else press onto the line.
    height = ((end - start) / max(1, (end - start).max(initial=1))) ** 0.7
    along = (start + end) / 2.0 - (end - start) / 2.0 * np.cos(angle)
    arcs = np.stack([along, height * np.sin(angle)], axis=2)
    crowd = float(np.clip(12.0 / np.sqrt(max(1, len(arcs))), 0.15, 1.0))
    handles: list[Artist | Container] = []
    solid, dashed = (True, "solid", "reads a record"), (False, "dashed", "reuses its output")
    for record, dash, label in (solid, dashed):
        for loud, color, width in ((False, GREY, 0.6), (True, BLUE, 1.3)):
            chosen = arcs[(edges.through_record == record) & (strong == loud)]
            if len(chosen):
                line = LineCollection(list(chosen), colors=color, linestyles=dash)
                line.set(linewidth=width * max(0.5, crowd), zorder=1.5 + 0.5 * loud)
                line.set(alpha=(0.9 if loud else 0.6) * crowd)
                line.set_rasterized(len(arcs) > ARCS_AS_VECTORS)
                ax.add_collection(line)
        if (edges.through_record == record).any():
            look = {"color": "black", "linestyle": dash, "linewidth": 1, "label": label}
            handles.append(Line2D([], [], **look))
    if strong.any():
        handles.append(
            Line2D([], [], color=BLUE, linewidth=2, label="between commands with credit")
        )
    return handles
