"""Pictures of runs, and the demo that ends in one."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from depgpo_jax.errors import ConfigError, MissingExtraError
from training import demo_world
from training.checkpoints import read_result, write_json
from training.metric_log import MetricLog
from training.run_config import run_config
from training.run_display import RunDisplay
from training.run_plot import Curve, main, plot_runs, read_curve

RUNS = {
    "GRPO": run_config("tiny", method="grpo", overrides=["updates=2"]),
    "DepGPO": run_config("tiny", method="depgpo", overrides=["updates=2"]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """After the demo, which was interrupted once."""
    folder = tmp_path_factory.mktemp("demo")
    console = Console(record=True, width=100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_world, "RUNS", RUNS)
        patch.setattr(demo_world, "Console", lambda: console)
        updated = RunDisplay.updated

        def interrupt(display: RunDisplay, row: Any) -> None:
            updated(display, row)
            os.kill(os.getpid(), signal.SIGINT)

        patch.setattr(RunDisplay, "updated", interrupt)
        assert demo_world.main(["--out", str(folder)]) == 130
        patch.setattr(RunDisplay, "updated", updated)
        assert demo_world.main(["--out", str(folder)]) == 0
    (folder / "said.txt").write_text(console.export_text())
    return folder


def run_of(folder: Path, name: str) -> Path:
    return demo_world.folder_of(folder, name, RUNS[name])


def test_the_demo_ends_in_scores_and_a_picture(folder: Path):
    said = (folder / "said.txt").read_text()
    for name in RUNS:
        result = read_result(run_of(folder, name))
        assert result is not None
        assert (
            f"{name}: {result['test']['success']:.3f} of the held-out test rollouts succeed ["
            in said
        )
    assert "resumed after update 1" in said
    assert "training.png shows both runs." in " ".join(said.split())
    assert (folder / "training.png").read_bytes().startswith(b"\x89PNG")


def test_another_version_of_the_demo_has_other_folders(tmp_path: Path):
    other = replace(RUNS["GRPO"], seed=7)
    assert demo_world.folder_of(tmp_path, "GRPO", other) != run_of(tmp_path, "GRPO")


def test_a_curve_is_what_the_log_says(folder: Path):
    curve = read_curve(run_of(folder, "GRPO"), "GRPO")
    assert curve.rollouts == [0, 32]
    assert curve.success[curve.best] == max(curve.success)
    figure = plot_runs([curve, curve._replace(name="other", test=None)], "two")
    left, right = figure.axes
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["GRPO", "other"]  # pyright: ignore[reportOptionalMemberAccess]
    assert left.lines[0].get_ydata().tolist() == curve.success  # pyright: ignore[reportAttributeAccessIssue]
    assert "all" in [label.get_text() for label in right.get_yticklabels()]


def test_runs_that_are_not_finished(folder: Path):
    curve = read_curve(run_of(folder, "GRPO"))._replace(test=None)
    assert curve.name.startswith("grpo-")
    right = plot_runs([curve]).axes[1]
    assert right.texts[0].get_text() == "no run is finished"


def test_of_equals_the_earliest_is_marked(tmp_path: Path):
    write_json(tmp_path / "config.json", RUNS["GRPO"])
    with pytest.raises(ConfigError, match=r"found no validation in its metrics.jsonl; wait for"):
        read_curve(tmp_path)
    with MetricLog(tmp_path / "metrics.jsonl", None) as log:
        for update, success in enumerate([0.1, 0.5, 0.5]):
            log.write({"kind": "validation", "update": update, "success": success})
    assert read_curve(tmp_path).best == 1


@pytest.mark.parametrize("count", [0, 7])
def test_too_many_runs_are_no_picture(count: int):
    curve = Curve("one", [0], [0.5], 0, None)
    with pytest.raises(ConfigError, match=rf"plot_runs: found {count} runs; it draws 1 to 6"):
        plot_runs([curve] * count)


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    runs = [str(run_of(folder, name)) for name in RUNS]
    assert main([*runs, "--out", str(tmp_path / "new" / "runs.svg")]) == 0
    assert "<svg" in (tmp_path / "new" / "runs.svg").read_text("utf-8")
    assert main([*runs, "--out", str(tmp_path / "runs.txt")]) == 1
    assert "runs.txt: ends in '.txt'; it must be .png, .svg or .pdf" in capsys.readouterr().err
    assert main([str(tmp_path), "--out", str(tmp_path / "runs.png")]) == 1
    assert "found no config.json there" in capsys.readouterr().err


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"A picture of runs needs the optional extra 'pl"):
        plot_runs([Curve("one", [0], [0.5], 0, None)])


def test_the_demo_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file").touch()
    monkeypatch.setattr(demo_world, "RUNS", RUNS)
    assert demo_world.main(["--out", str(tmp_path / "file")]) == 1
    assert "error: " in capsys.readouterr().err
