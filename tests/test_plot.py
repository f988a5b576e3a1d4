"""The pictures: what their artists hold, what they refuse, and that nothing of padding shows."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.container import BarContainer

from depgpo_jax import plot, plot_parts
from depgpo_jax.batch import BatchShape, TraceBatch, batch_traces, unpad
from depgpo_jax.credit import dependency_credit
from depgpo_jax.errors import ConfigError, MissingExtraError, ShapeError
from depgpo_jax.plot_parts import edges_of
from depgpo_jax.summary import Credit
from depgpo_jax.traces import read_traces
from tests.helpers import Json, command, lines, parse, step, trace, whole
from tests.oracle import analyse, oracle
from tests.random_traces import random_trace, random_traces

REAL = Path(__file__).resolve().parent / "real" / "log-summary-group.jsonl"
OF_ONE = (plot.credit_along_rollout, plot.token_strip, plot.dependency_graph)
OF_BATCH = (plot.weight_histogram, plot.on_path_by_length)


@pytest.fixture(autouse=True)
def agg() -> Iterator[None]:
    """Without a display, and no figure outlives its test."""
    mpl.use("Agg")
    before = dict(mpl.rcParams)
    assert not plt.get_fignums()
    yield
    assert dict(mpl.rcParams) == before
    plt.close("all")


Pair = tuple[Credit, TraceBatch]


def scored(*traces: Any, shape: BatchShape | None = None) -> Pair:
    batch = batch_traces(traces, shape=shape)
    return dependency_credit(batch), batch


# Drawn once, since most tests only look.
RAW = [*random_traces(11, 24), *(random_trace(random.Random(3), num_commands=300) for _ in "1")]


@pytest.fixture(scope="module")
def drawn() -> Pair:
    return scored(*(parse(raw) for raw in RAW))


def bars_by_place(ax: Axes) -> list[float]:
    bars = [bar for bars in ax.containers if isinstance(bars, BarContainer) for bar in bars]
    places = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in bars}
    assert len(places) == len(bars)
    return [places[place] for place in sorted(places)]


def strip(ax: Axes) -> tuple[np.ndarray, np.ndarray]:
    """Widths and values of the cells of a token strip."""
    (mesh,) = (part for part in ax.collections if isinstance(part, QuadMesh))
    edges = np.asarray(mesh.get_coordinates())[0, :, 0]
    return np.diff(edges), np.asarray(mesh.get_array()).ravel()


def along(lines: LineCollection) -> list[list[float]]:
    """The x values of each line."""
    return [np.asarray(path.vertices)[:, 0].tolist() for path in lines.get_paths()]


def arcs(ax: Axes, style: str | None = None) -> list[tuple[int, int]]:
    """Both ends of every arc, of those with a solid or a dashed line if a style is given."""
    found: list[tuple[int, int]] = []
    for part in ax.collections:
        if isinstance(part, LineCollection):
            lines: Any = part
            dashed = lines.get_linestyle()[0][1] is not None
            if style is None or dashed == (style == "dashed"):
                found += [(round(places[0]), round(places[-1])) for places in along(part)]
    return sorted(found)


def dots(ax: Axes, index: int = 0) -> np.ndarray:
    parts = [part for part in ax.collections if isinstance(part, PathCollection)]
    return np.asarray(parts[index].get_offsets())


def legend(ax: Axes) -> list[str]:
    found = ax.get_legend()
    return [] if found is None else [text.get_text() for text in found.get_texts()]


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


# What the artists hold.


def test_the_bars_are_the_commands_credit(drawn: Pair):
    credit, batch = drawn
    for row, result in enumerate(unpad(batch, credit)):
        ax = plot.credit_along_rollout(credit, batch, row)
        assert bars_by_place(ax) == result.command_credit.tolist()
        recorded = sum(c.recorded for c in analyse(RAW[row]).commands)
        title = ax.get_title(loc="left")
        assert title.startswith(f"Rollout {row}: {result.on_path_fraction:.0%} of {recorded} rec")
        plt.close("all")


def test_kinds_of_commands_differ_and_steps_are_parted():
    rollout = trace(
        step(1, command(reads=["/in"]), command(writes=[whole("/out")], stdout_from=[0])),
        step(1),
        step(1, command(recorded=False)),
        verifier=["/out"],
    )
    ax = plot.credit_along_rollout(*scored(rollout))
    assert legend(ax) == ["wrote records", "read-only", "not recorded"]
    colors = {bars.get_label(): bars[0].get_facecolor() for bars in ax.containers}
    assert len(set(colors.values())) == 2
    (hatched,) = (part for part in ax.collections if part.get_hatch())
    assert isinstance(hatched, PolyCollection)
    assert tuple(hatched.get_paths()[0].get_extents().intervalx) == (1.5, 2.5)
    (borders,) = (part for part in ax.collections if isinstance(part, LineCollection))
    assert [places[0] for places in along(borders)] == [1.5]
    assert list(ax.get_xticks()) == [0, 1, 2]


def test_the_strip_is_as_wide_as_the_loss_tokens(drawn: Pair):
    credit, batch = drawn
    for row, result in enumerate(unpad(batch, credit)):
        tokens = np.array([s["loss_tokens"] for s in RAW[row]["steps"]])
        ax = plot.token_strip(credit, batch, row)
        scaled = plot.token_strip(credit, batch, row, advantage=-0.5)
        if tokens.any():
            widths, weights = strip(ax)
            assert widths.tolist() == tokens[tokens > 0].tolist()
            np.testing.assert_array_equal(weights, result.token_weight[tokens > 0])
            np.testing.assert_array_equal(strip(scaled)[1], -0.5 * weights)
            assert ax.get_xlim() == (0, tokens.sum())
            # Only steps that are there are numbered, and at most once.
            numbers = [int(number) for number in texts(ax)]
            assert numbers == sorted({*numbers} & {*np.flatnonzero(tokens).tolist()})
        else:
            assert texts(ax) == ["no loss tokens"]
        plt.close("all")


def test_the_colours_of_an_advantage_lie_around_zero():
    rollout = trace(
        step(30, command(writes=[whole("/out")])),
        step(0, command()),
        step(10, command()),
        verifier=["/out"],
    )
    for advantage, extend in ((2.0, "neither"), (-2.0, "neither"), (0.0, "neither")):
        ax = plot.token_strip(*scored(rollout), advantage=advantage)
        (mesh,) = (part for part in ax.collections if isinstance(part, QuadMesh))
        low, high = mesh.get_clim()
        assert low == -high < 0
        assert mesh.colorbar is not None
        assert mesh.colorbar.extend == extend
        assert mesh.colorbar.ax.get_ylabel() == "weight × advantage"
        assert texts(ax) == ["0", "2"]
        assert f"40 loss tokens in 2 steps, advantage {advantage:+.3g}" in ax.get_title(loc="left")


@pytest.mark.parametrize(
    ("advantage", "extend"), [(None, "max"), (1.0, "max"), (-1.0, "min"), (0.0, "neither")]
)
def test_one_heavy_step_does_not_bleach_the_others(advantage: Any, extend: str):
    rollout = trace(
        step(1, command(writes=[whole("/out")])), step(99, command()), verifier=["/out"]
    )
    ax = plot.token_strip(*scored(rollout), advantage=advantage)
    (mesh,) = (part for part in ax.collections if isinstance(part, QuadMesh))
    assert strip(ax)[1].tolist() == [100.0 * (1.0 if advantage is None else advantage), 0.0]
    assert mesh.get_clim()[1] == (1.0 if advantage == 0.0 else plot.LARGEST_IN_STRIP)
    assert mesh.colorbar is not None
    assert mesh.colorbar.extend == extend


def test_the_arcs_are_the_edges(drawn: Pair):
    credit, batch = drawn
    for row, result in enumerate(unpad(batch, credit)):
        analysis = analyse(RAW[row])
        ax = plot.dependency_graph(credit, batch, row)
        assert arcs(ax) == sorted(analysis.edges)
        by_record = {(r.owner, reader) for r in analysis.records for reader in r.readers}
        assert arcs(ax, "solid") == sorted(by_record)
        assert arcs(ax, "dashed") == sorted(analysis.edges - by_record)
        strong = sum((result.command_credit[list(edge)] > 0).all() for edge in analysis.edges)
        assert f"{strong:,} between commands with credit" in ax.get_title(loc="left")
        if analysis.commands:
            np.testing.assert_array_equal(dots(ax)[:, 0], np.arange(len(analysis.commands)))
        owners = {
            record.owner
            for record in analysis.records
            if record.killer is None and record.resource in analysis.verifier
        }
        assert edges_of(batch, row).owners.tolist() == sorted(owners)
        assert ("owner of an inspected record" in legend(ax)) == bool(owners)
        if owners:
            assert dots(ax, 1)[:, 0].tolist() == sorted(owners)
        plt.close("all")


def test_arcs_into_commands_with_credit_are_stronger():
    rollout = trace(
        step(1, command(writes=[whole("/a")])),
        step(1, command(reads=["/a"], writes=[whole("/out")])),
        step(1, command(reads=["/a"])),
        verifier=["/out"],
    )
    ax = plot.dependency_graph(*scored(rollout))
    widths = {
        round(places[-1]): np.ravel(part.get_linewidth())[0]
        for part in ax.collections
        if isinstance(part, LineCollection)
        for places in along(part)
    }
    assert widths[1] > widths[2]
    (nodes, _) = (part for part in ax.collections if isinstance(part, PathCollection))
    assert np.asarray(nodes.get_array()).tolist() == [1.0, 1.0, 0.0]
    assert nodes.get_sizes()[0] > nodes.get_sizes()[2]


def test_many_arcs_become_pixels(monkeypatch: pytest.MonkeyPatch, drawn: Pair):
    monkeypatch.setattr(plot, "ARCS_AS_VECTORS", 10)
    ax = plot.dependency_graph(*drawn, row=len(RAW) - 1)
    parts = [part for part in ax.collections if isinstance(part, LineCollection)]
    assert parts
    assert all(part.get_rasterized() for part in parts)


def test_the_histogram_holds_every_loss_token(drawn: Pair):
    credit, batch = drawn
    ax = plot.weight_histogram(credit, batch)
    zero, above = ax.containers
    expected = [oracle(raw) for raw in RAW]
    pairs = [
        (weight, s["loss_tokens"])
        for raw, result in zip(RAW, expected, strict=True)
        for weight, s in zip(result["token_weight"], raw["steps"], strict=True)
        if s["loss_tokens"]
    ]
    assert {bar.get_hatch() for bar in zero} == {"////"}
    assert np.mean(above[0].get_facecolor()) < np.mean(zero[0].get_facecolor())
    none = sum(tokens for weight, tokens in pairs if weight == 0)
    total = sum(tokens for _, tokens in pairs)
    assert sum(bar.get_height() for bar in zero) == none
    assert sum(bar.get_height() for bar in above) == total - none
    heavy = sum(tokens for weight, tokens in pairs if weight >= plot.LARGEST_IN_HISTOGRAM)
    assert above[-1].get_height() == heavy
    title = f"{len(RAW)} rollouts, {total:,} loss tokens, {none / total:.0%} of them with weight 0"
    assert ax.get_title(loc="left") == title
    assert legend(ax) == ["weight 0", "weight above 0", "1: mean of each rollout"]
    assert [tick.get_text() for tick in ax.get_xticklabels()][-1] == "≥ 10"


def test_weights_of_one_share_a_bar_that_begins_at_the_line():
    even = trace(step(7, command()), step(5, command()))
    ax = plot.weight_histogram(*scored(even))
    (bar,) = (bar for bars in ax.containers for bar in bars if bar.get_height() > 0)
    assert bar.get_height() == 12
    assert bar.get_x() == pytest.approx(1.0, abs=1e-3)
    assert bar.get_x() < 1.0
    assert legend(ax) == ["weight above 0", "1: mean of each rollout"]


def test_a_dot_for_each_rollout(drawn: Pair):
    credit, batch = drawn
    ax = plot.on_path_by_length(credit, batch)
    expected = [(len(analyse(raw).commands), oracle(raw)["on_path_fraction"]) for raw in RAW]
    found = np.concatenate([dots(ax, 0), dots(ax, 1)])
    np.testing.assert_allclose(sorted(found.tolist()), sorted(expected), atol=1e-6)
    without = [raw for raw in RAW if "reward" not in raw or "invalid" in raw]
    assert len(dots(ax, 1)) == len(without) > 0
    assert legend(ax) == ["without a valid reward", "median by length"]
    (line,) = ax.lines
    assert np.all(np.diff(line.get_xdata()) > 0)
    assert ax.collections[0].colorbar is not None


def test_few_rollouts_or_one_length_have_no_line_of_medians():
    one = trace(step(5, command(writes=[whole("/a")])), verifier=["/a"], reward=1.0)
    for count in (3, 40):
        ax = plot.on_path_by_length(*scored(*[one] * count))
        assert len(dots(ax)) == count
        assert not ax.lines
        assert legend(ax) == []
        assert ax.collections[0].colorbar is None  # equal rewards have no scale


# Corner cases.

EMPTY = trace()
ODD: dict[str, Any] = {
    "empty": EMPTY,
    "no command": trace(step(3), step(0)),
    "one command": trace(step(4, command(writes=[lines("/a", (1, 3))])), verifier=["/a"]),
    "all zero": trace(step(4, command(writes=[whole("/a")])), step(2, command(stdout_from=[0]))),
    "no tokens": trace(step(0, command(writes=[whole("/a")])), verifier=["/a"]),
    "beyond int32": trace(step(2**40, command()), step(2**40, command())),
}


@pytest.mark.parametrize("name", ODD)
def test_corner_cases_are_drawn(name: str):
    credit, batch = scored(ODD[name])
    for picture in (*OF_ONE, *OF_BATCH):
        assert pixels(picture(credit, batch)).min() < 255
    for advantage in (0.0, 1e38):
        assert pixels(plot.token_strip(credit, batch, advantage=advantage)).min() < 255


def test_empty_pictures_say_so():
    credit, batch = scored(EMPTY)
    assert texts(plot.credit_along_rollout(credit, batch)) == ["no commands"]
    assert texts(plot.token_strip(credit, batch)) == ["no loss tokens"]
    assert texts(plot.dependency_graph(credit, batch)) == ["no commands"]
    assert texts(plot.weight_histogram(credit, batch)) == ["no loss tokens"]
    credit, batch = scored()
    assert texts(plot.weight_histogram(credit, batch)) == ["no loss tokens"]
    assert texts(plot.on_path_by_length(credit, batch)) == ["no rollouts"]


def test_the_real_group_is_drawn_and_padding_never_shows():
    rollouts = list(read_traces(REAL))
    wide = BatchShape(rollouts=16, commands=96, steps=64, segments=256, resources=96)
    tight, padded = scored(*rollouts), scored(*rollouts, shape=wide)
    for row in range(len(rollouts)):
        for picture in OF_ONE:
            assert_same_picture(picture(*tight, row), picture(*padded, row))
            plt.close("all")
    for picture in OF_BATCH:
        assert_same_picture(picture(*tight), picture(*padded))


def assert_same_picture(left: Axes, right: Axes) -> None:
    np.testing.assert_array_equal(pixels(left), pixels(right))


def pixels(ax: Axes) -> np.ndarray:
    canvas = ax.figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def test_padding_rows_count_for_nothing(drawn: Pair):
    credit, batch = drawn
    rows = batch.is_rollout.shape[0]
    assert rows > len(RAW)
    for picture in OF_ONE:
        with pytest.raises(ShapeError, match=rf"found {len(RAW)}; allowed.* from 0 to 24"):
            picture(credit, batch, len(RAW))


# Axes and figures.


@pytest.mark.parametrize("picture", [*OF_ONE, *OF_BATCH])
def test_it_draws_into_given_axes_and_else_opens_one_figure(picture: Any, drawn: Pair):
    figure, (left, right) = plt.subplots(1, 2)
    assert picture(*drawn, ax=left) is left
    assert left.get_title(loc="left")
    assert not right.has_data()
    assert plt.get_fignums() == [figure.number]
    ax = picture(*drawn)
    assert ax.figure is not figure
    assert len(plt.get_fignums()) == 2


def test_a_narrow_picture_folds_its_legend(drawn: Pair):
    figure = plt.figure(figsize=(2.0, 3.0))
    narrow: Any = plot.dependency_graph(*drawn, row=len(RAW) - 1, ax=figure.subplots())
    wide: Any = plot.dependency_graph(*drawn, row=len(RAW) - 1)
    assert narrow.get_legend()._ncols < wide.get_legend()._ncols


@pytest.mark.usefixtures("unchecked")
def test_arrays_on_the_host_and_numbers_of_any_kind_will_do(drawn: Pair):
    host = jax.device_get(drawn)
    for picture in (*OF_ONE, *OF_BATCH):
        assert_same_picture(picture(*host), picture(*drawn))
        plt.close("all")
    strip_of: Any = plot.token_strip
    strip_of(*drawn, row=np.int32(1), advantage=jnp.float32(0.5))


# Refusals.


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("row", [-1, 2, 1.5, None])
@pytest.mark.parametrize("picture", OF_ONE)
def test_a_wrong_row(picture: Any, row: Any):
    message = (
        f"^{picture.__name__}: row: found {row}; allowed in this batch: an integer from 0 to 1; "
        "give the place of a rollout among the traces that the batch was built from$"
    )
    with pytest.raises(ShapeError, match=message):
        picture(*scored(EMPTY, EMPTY), row)


def test_a_row_of_no_rollouts():
    with pytest.raises(ShapeError, match="row: found 0; allowed in this batch: none, it has no"):
        plot.token_strip(*scored())


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("picture", [*OF_ONE, *OF_BATCH])
def test_credit_and_batch_that_do_not_fit(picture: Any):
    name = picture.__name__
    credit, batch = scored(EMPTY, EMPTY)
    remedy = "give what dependency_credit returned for this batch$"
    one: Json = {field: value[0] for field, value in credit._asdict().items()}
    with pytest.raises(
        ShapeError,
        match=rf"^{name}: credit: found a Credit with command_credit \(32,\); allowed: a Credit "
        rf"with a leading axis of rollouts, command_credit \[B, N\]; {remedy}",
    ):
        picture(Credit(**one), batch)
    with pytest.raises(ShapeError, match=r"credit: found a list with command_credit of no shape"):
        picture(unpad(batch, credit), batch)
    longer = scored(EMPTY)[0]
    with pytest.raises(
        ShapeError,
        match=rf"^{name}: Credit.command_credit: found shape \(1, 32\); allowed: \(2, 32\), "
        f"as in the batch; {remedy}",
    ):
        picture(longer, batch)
    with pytest.raises(ShapeError, match=r"Credit.fallback: found shape \(1,\); allowed: \(2,\)"):
        picture(credit._replace(fallback=longer.fallback), batch)
    with pytest.raises(ShapeError, match="found a Credit with recorded of no shape; allowed"):
        picture(credit, credit)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("advantage", [float("nan"), 1e39, np.zeros(2), "x"])
def test_an_advantage_that_is_no_number(advantage: Any):
    message = (
        r"^token_strip: advantage: found .*; allowed: one finite float32 number; of a "
        "batch's advantages give the one of this row$"
    )
    with pytest.raises(ConfigError, match=message):
        plot.token_strip(*scored(EMPTY), advantage=advantage)


@pytest.mark.parametrize("picture", [*OF_ONE, *OF_BATCH])
def test_without_matplotlib_the_message_names_the_extra(
    picture: Any, monkeypatch: pytest.MonkeyPatch
):
    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        MissingExtraError,
        match=r"^Drawing a picture needs the optional extra 'plot'.*pip install 'depgpo-jax\[plot",
    ):
        picture(*scored(EMPTY))


def test_of_too_many_arcs_the_strong_ones_are_drawn(monkeypatch: pytest.MonkeyPatch):
    pair = scored(*read_traces(REAL))
    strong = len(arcs(plot.dependency_graph(*pair, 3)))
    monkeypatch.setattr(plot_parts, "MOST_ARCS", 3)
    ax = plot.dependency_graph(*pair, 3)
    assert len(arcs(ax)) == 3 < strong
    assert f"{strong} dependencies (3 drawn), " in ax.get_title(loc="left")
    values = unpad(pair[1], pair[0])[3].command_credit
    assert all(values[start] > 0 and values[end] > 0 for start, end in arcs(ax))
