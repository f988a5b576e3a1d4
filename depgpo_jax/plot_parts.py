"""What the pictures of `depgpo_jax.plot` share: checked host arrays, axes, titles and legends."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float32, Float64, Int

from depgpo_jax.batch import TraceBatch, check_batch
from depgpo_jax.errors import ConfigError, MissingExtraError, ShapeError
from depgpo_jax.graph import adjacency
from depgpo_jax.ownership import SURVIVES
from depgpo_jax.padding import LARGEST
from depgpo_jax.rollout import dense_rollouts
from depgpo_jax.summary import Credit

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.container import Container

ARCS_AS_VECTORS = 2000
"""More arcs than this are drawn as pixels, so that a PDF of them stays small."""

MOST_ARCS = 20_000
"""More arcs are no picture any more, and take minutes."""

GREY = "0.45"

ROLLOUTS_FOR_MEDIANS = 20
"""Fewer rollouts than this get no line of medians: it would follow single dots."""


class Row(NamedTuple):
    """What the pictures show of one rollout, on the host and without padding.

    Attributes:
        command_credit: as in `Credit`.
        recorded: the tracer could follow the command.
        wrote: the command has records; False: it is read-only.
        past_commands: number of commands up to the end of the step.
        loss_tokens: of the step.
        token_weight: as in `Credit`.
        fallback: as in `Credit`.
        on_path_fraction: as in `Credit`.
    """

    command_credit: Float32[np.ndarray, " N"]
    recorded: Bool[np.ndarray, " N"]
    wrote: Bool[np.ndarray, " N"]
    past_commands: Int[np.ndarray, " T"]
    loss_tokens: Float64[np.ndarray, " T"]
    token_weight: Float32[np.ndarray, " T"]
    fallback: bool
    on_path_fraction: float


class Edges(NamedTuple):
    """The dependency graph of one rollout, as lists.

    Attributes:
        ends: an edge's producer and its consumer, which is later.
        through_record: the consumer reads a record of the producer; False: it only reuses stdout.
        owners: commands that own, at the end, a record in an inspected resource.
    """

    ends: Int[np.ndarray, "_ 2"]
    through_record: Bool[np.ndarray, " _"]
    owners: Int[np.ndarray, " _"]


def checked_row(where: str, credit: Credit, batch: TraceBatch, row: int) -> Row:
    """One rollout on the host, without padding.

    Args:
        where: the function that the user called, for messages.
        credit: the batch's credit, [B, ...].
        batch: the batch.
        row: the rollout.

    Returns:
        Its arrays.

    Raises:
        ShapeError: credit and batch do not fit together, or the row is no rollout.
    """
    check_pair(where, credit, batch)
    rollouts = int(np.sum(np.asarray(batch.is_rollout)))
    try:
        found = operator.index(row)
    except TypeError:
        found = -1
    if not 0 <= found < rollouts:
        allowed = f"an integer from 0 to {rollouts - 1}" if rollouts else "none, it has no rollouts"
        raise ShapeError(
            f"{where}: row: found {row!r}; allowed in this batch: {allowed}; "
            "give the place of a rollout among the traces that the batch was built from"
        )
    own, of_batch = jax.device_get(jax.tree.map(lambda leaf: leaf[found], (credit, batch)))
    commands, steps = int(of_batch.num_commands), int(of_batch.num_steps)
    return Row(
        command_credit=own.command_credit[:commands],
        recorded=of_batch.recorded[:commands],
        wrote=of_batch.records_per_command[:commands] > 0,
        past_commands=np.cumsum(of_batch.commands_per_step[:steps]),
        loss_tokens=of_batch.loss_tokens[:steps].astype(np.float64),
        token_weight=own.token_weight[:steps],
        fallback=bool(own.fallback),
        on_path_fraction=float(own.on_path_fraction),
    )


def check_pair(where: str, credit: Credit, batch: TraceBatch) -> None:
    """Checks that a credit is batched and has the batch's shapes.

    Raises:
        ShapeError: it does not; the message names the field.
    """
    check_batch(batch)
    remedy = "give what dependency_credit returned for this batch"
    if not isinstance(credit, Credit) or np.ndim(credit.command_credit) != 2:
        shape = getattr(getattr(credit, "command_credit", None), "shape", "of no shape")
        raise ShapeError(
            f"{where}: credit: found a {type(credit).__name__} with command_credit {shape}; "
            f"allowed: a Credit with a leading axis of rollouts, command_credit [B, N]; {remedy}"
        )
    longer = {
        "command_credit": batch.recorded,
        "step_credit": batch.loss_tokens,
        "step_factor": batch.loss_tokens,
        "token_weight": batch.loss_tokens,
        "segment_relevant": batch.segment_owner,
    }
    for name, field in credit._asdict().items():
        allowed = longer.get(name, batch.is_rollout).shape
        if field.shape != allowed:
            raise ShapeError(
                f"{where}: Credit.{name}: found shape {field.shape}; allowed: {allowed}, "
                f"as in the batch; {remedy}"
            )


def finite_number(where: str, number: float, remedy: str) -> float:
    """A Python float from whatever holds one number.

    Raises:
        ConfigError: it holds none, several, or one that float32 cannot hold.
    """
    try:
        found = float(number)
    except (TypeError, ValueError):
        found = float("nan")
    if not abs(found) <= LARGEST:  # written so that NaN fails
        raise ConfigError(
            f"{where}: found {number!r}; allowed: one finite float32 number; {remedy}"
        )
    return found


def edges_of(batch: TraceBatch, row: int) -> Edges:
    """The dependency edges of one rollout; no other row is unpacked (method, section 2)."""
    one = jax.tree.map(lambda leaf: leaf[row : row + 1], batch)
    rollout = jax.tree.map(lambda leaf: leaf[0], dense_rollouts(one))
    by_record = adjacency(rollout._replace(stdout=jnp.zeros_like(rollout.stdout)))
    ends = np.argwhere(np.asarray(adjacency(rollout)))
    inspected = np.asarray(rollout.inspected)[np.asarray(rollout.segment_resource)]
    alive = np.asarray(rollout.segment_killer) == SURVIVES
    owner = np.asarray(rollout.segment_owner)
    return Edges(
        ends=ends,
        through_record=np.asarray(by_record)[ends[:, 0], ends[:, 1]],
        owners=np.unique(owner[inspected & alive & (owner >= 0)]),
    )


def drawable(edges: Edges, strong: Bool[np.ndarray, " _"]) -> tuple[Edges, Bool[np.ndarray, " _"]]:
    """At most `MOST_ARCS` of the edges, strong ones before others, in their order."""
    if len(strong) <= MOST_ARCS:
        return edges, strong
    chosen = np.sort(np.argsort(~strong, kind="stable")[:MOST_ARCS])
    fewer = edges._replace(ends=edges.ends[chosen], through_record=edges.through_record[chosen])
    return fewer, strong[chosen]


def axes_or_new(ax: Axes | None, height: float) -> Axes:
    """The axes given, or those of a new figure; `height` in inches.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("plot", "Drawing a picture") from error
    if ax is not None:
        return ax
    return plt.subplots(figsize=(8.0, height), layout="constrained")[1]


def points_wide(ax: Axes) -> float:
    """Width of the axes in points, before a layout may change it a little."""
    return 72.0 * ax.bbox.width / ax.figure.dpi


def command_axis(ax: Axes, count: int) -> None:
    """An x axis of commands: ticks at some that exist; if there are few, they stay narrow."""
    room = max(0.0, 8.0 - count) / 2.0
    ax.set_xlim(-0.5 - room, count - 0.5 + room)
    apart = next(
        times * ten
        for ten in (1, 10, 100, 1000, 10_000)
        for times in (1, 2, 5)
        if count <= 12 * times * ten
    )
    ax.set_xticks(range(0, count, apart))
    ax.set_xlabel("command, in time order")
    if not count:
        note(ax, "no commands")


def head(ax: Axes, title: str, handles: Sequence[Artist | Container] = ()) -> None:
    """A title, and between it and the picture the legend, where it hides nothing."""
    lines = 0
    if handles:
        # A guess at the width, in points; the layout would shrink the picture for a long line.
        needed = sum(40.0 + 4.5 * len(str(handle.get_label())) for handle in handles)
        columns = -(-len(handles) // int(np.ceil(needed / points_wide(ax))))
        lines = -(-len(handles) // columns)
        legend = ax.legend(
            handles=list(handles),
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            borderaxespad=0.2,
            borderpad=0.2,
            ncols=columns,
            fontsize="small",
            frameon=False,
        )
        legend.set_in_layout(False)
    ax.set_title(title, loc="left", fontsize="medium", pad=7.0 + 15.0 * lines)


def mark_steps(
    ax: Axes,
    mesh: ScalarMappable,
    steps: Int[np.ndarray, " T"],
    edges: Float64[np.ndarray, " _"],
) -> None:
    """Parts the steps of a token strip by lines, and numbers those that are wide enough.

    Args:
        ax: the axes of the strip.
        mesh: the strip, one cell a step.
        steps: number of each step.
        edges: where they begin, and where the last one ends.
    """
    size, scale = 8.0, points_wide(ax) / edges[-1]
    colors = mesh.to_rgba(np.asarray(mesh.get_array()).ravel())
    borders: list[float] = []
    for index, step in enumerate(steps):
        start, stop = edges[index], edges[index + 1]
        # Of borders that lie close one is drawn: the lines would cover the colours.
        if (start - (borders[-1] if borders else 0.0)) * scale > 3.0:
            borders.append(start)
        points = (stop - start) * scale
        upright = points < 0.65 * size * len(str(step)) + 3.0
        if points > size - 0.5 or not upright:
            ax.text(
                (start + stop) / 2.0,
                0.5,
                str(step),
                color="white" if colors[index, :3] @ [0.3, 0.6, 0.1] < 0.5 else "black",
                size=size,
                ha="center",
                va="center",
                rotation=90.0 if upright and step > 9 else 0.0,
            )
    ax.vlines(borders, 0.0, 1.0, GREY, linewidth=0.5)


def medians_by_length(
    length: Int[np.ndarray, " B"], fraction: Float32[np.ndarray, " B"]
) -> Float64[np.ndarray, "_ 2"]:
    """Median length and fraction of classes of similar length and size; none of few rollouts."""
    if len(length) < ROLLOUTS_FOR_MEDIANS:
        return np.empty((0, 2))
    classes = min(len(length) // 10, 8)
    borders = np.unique(np.quantile(length, np.linspace(0.0, 1.0, classes + 1)[1:-1]))
    # Rollouts of one length stay together.
    kind = np.searchsorted(borders, length, side="left")
    parts = [kind == k for k in np.unique(kind)]
    return np.array([(np.median(length[part]), np.median(fraction[part])) for part in parts])


def note(ax: Axes, text: str) -> Axes:
    """Says in the middle of an empty picture why it is empty."""
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=GREY)
    return ax


def counted(number: int | float | np.number[Any], one: str, many: str = "") -> str:
    """A number and what it counts, such as `1,200 loss tokens`."""
    return f"{number:,.0f} {one if number == 1 else many or one + 's'}"
