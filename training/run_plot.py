"""`python -m training.run_plot RUN ... --out FILE.png`: runs beside each other, as a picture.

Left, validation success as rollouts are drawn, with the chosen checkpoint marked; right, success on
held-out test prompts with bootstrap intervals, in all and by family. Needs the extra `plot`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from depgpo_jax.errors import ConfigError, DepgpoError, MissingExtraError
from training.checkpoints import METRICS, read_config, read_result
from training.metric_log import read_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Of Okabe and Ito, which colour-blind readers tell apart."""

MARKERS: Final = "osD^vP"


class Curve(NamedTuple):
    """What is drawn of a run.

    Attributes:
        name: in the legend.
        rollouts: drawn before each validation.
        success: at each validation.
        best: which validation chose the checkpoint.
        test: as in `result.json`; None: the run is not finished.
    """

    name: str
    rollouts: list[int]
    success: list[float]
    best: int
    test: dict[str, Any] | None


def read_curve(run: Path, name: str | None = None) -> Curve:
    """A run's curve.

    Args:
        run: the run's folder.
        name: in the legend; None: the folder's.

    Raises:
        ConfigError: there is no run, or it has no validation yet.
        TraceError: its log is damaged.
    """
    read_config(run)
    rollouts, drawn, success = 0, [], []
    for row in read_rows(run / METRICS):
        if row["kind"] == "update":
            rollouts = row["total_rollouts"]
        else:
            drawn.append(rollouts)
            success.append(row["success"])
    if not success:
        raise ConfigError(f"{run}: found no validation in its {METRICS}; wait for the first one")
    result = read_result(run)
    best = max(range(len(success)), key=lambda place: (success[place], -place))
    return Curve(name or run.name, drawn, success, best, None if result is None else result["test"])


def plot_runs(curves: Sequence[Curve], title: str = "") -> Figure:
    """Draws runs beside each other.

    Args:
        curves: from `read_curve`; at least one, at most six, so that they can be told apart.
        title: above the picture.

    Returns:
        The figure, to be changed or saved; it belongs to no window.

    Raises:
        ConfigError: no curve, or more than six.
        MissingExtraError: matplotlib is not installed.
    """
    if not 1 <= len(curves) <= len(COLOURS):
        raise ConfigError(
            f"plot_runs: found {len(curves)} runs; it draws 1 to {len(COLOURS)}. "
            "Draw more in several pictures"
        )
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("plot", "A picture of runs") from None
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _draw_validation(left, curves)
    _draw_test(right, curves)
    figure.suptitle(title)
    return figure


def _draw_validation(ax: Axes, curves: Sequence[Curve]) -> None:
    for curve, colour, marker in zip(curves, COLOURS, MARKERS, strict=False):
        ax.plot(
            curve.rollouts,
            curve.success,
            marker=marker,
            markevery=[curve.best],
            markersize=8,
            color=colour,
            label=curve.name,
        )
    ax.set_ylim(0, 1)
    ax.set_xlabel("rollouts drawn")
    ax.set_ylabel("success on validation prompts")
    ax.set_title("Learning; marked: the chosen checkpoint", loc="left", fontsize=10)
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)


def _draw_test(ax: Axes, curves: Sequence[Curve]) -> None:
    tested = [curve.test for curve in curves if curve.test is not None]
    families = list(dict.fromkeys(name for test in tested for name in test["family"]))
    places = ["all", *families]
    for number, curve in enumerate(curves):
        if curve.test is None:
            continue
        parts = {"all": curve.test, **curve.test["family"]}
        shift = (number - (len(curves) - 1) / 2) * 0.7 / len(curves)
        for place, name in enumerate(places):
            if name not in parts:
                continue
            one = parts[name]["pass_at_k"]["1"]
            ends = [[max(one["mean"] - one["low"], 0)], [max(one["high"] - one["mean"], 0)]]
            ax.errorbar(
                one["mean"],
                place + shift,
                xerr=ends,
                color=COLOURS[number],
                fmt=MARKERS[number],
                capsize=2,
            )
    ax.set_yticks(range(len(places)), places)
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.set_xlabel("pass@1 on held-out test prompts, 95 % intervals")
    ax.set_title("Tested once", loc="left", fontsize=10)
    ax.grid(alpha=0.3, axis="x")
    if not tested:
        ax.text(0.5, 0.5, "no run is finished", transform=ax.transAxes, ha="center")


def save(figure: Figure, path: Path) -> None:
    """Writes a picture; its folder is made.

    Raises:
        ConfigError: the name's ending is no picture's.
    """
    endings = figure.canvas.get_supported_filetypes()
    if path.suffix[1:] not in endings:
        raise ConfigError(f"{path}: ends in {path.suffix!r}; it must be .png, .svg or .pdf")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, draw, and turn the package's errors into a message and exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m training.run_plot", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folders of runs")
    parser.add_argument("--out", type=Path, required=True, help="a .png, .svg or .pdf file")
    options = parser.parse_args(arguments)
    try:
        save(plot_runs([read_curve(run) for run in options.runs]), options.out)
    except (DepgpoError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
