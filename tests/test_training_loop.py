"""A whole run: its folder, resuming bit for bit, stopping, what is refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

from depgpo_jax.errors import ConfigError
from training.checkpoints import (
    Checkpoints,
    Progress,
    RunState,
    fresh_state,
    load_policy,
    new_model,
    read_config,
)
from training.config import OptimizerConfig, RecurrentConfig
from training.health import TrainingDivergedError
from training.interrupts import RunInterruptedError, until_interrupted
from training.metric_log import read_rows
from training.run_config import RunConfig, WarmStartConfig, run_config
from training.run_display import RunDisplay
from training.run_folder import claimed
from training.train import main, train
from training.update import init_state
from training.warm_start import warm_start

CONFIG = run_config("tiny", method="shuffled", overrides=["seed=5"])
"""`shuffled` draws from every stream of chance that an update has."""


class Place:
    """A folder for runs with one cache of warm starts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def train(self, name: str, config: RunConfig = CONFIG, **options: Any) -> dict[str, Any]:
        options = {"warm_starts": self.folder / "warm", "tensorboard": False, **options}
        return train(config, self.folder / name, **options)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The log without its times."""
        rows = read_rows(self.folder / name / "metrics.jsonl")
        for row in rows:
            assert all(seconds >= 0 for seconds in row.pop("seconds").values())
        return rows

    def state(self, name: str, which: str = "last") -> RunState:
        with Checkpoints(self.folder / name) as checkpoints:
            return checkpoints.restore(fresh_state(CONFIG, new_model(CONFIG.policy)), which)

    def same(self, one: str, other: str) -> None:
        """Two runs are the same, bit for bit."""
        assert self.rows(one) == self.rows(other)
        for which in ("last", "best"):
            states = [self.state(name, which) for name in (one, other)]
            assert states[0].progress == states[1].progress
            arrays = [(state.train, jax.random.key_data(state.key)) for state in states]
            jax.tree.map(np.testing.assert_array_equal, *arrays)
        results = [self.folder / name / "result.json" for name in (one, other)]
        assert results[0].read_bytes() == results[1].read_bytes()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """With an uninterrupted run called "whole"."""
    place = Place(tmp_path_factory.mktemp("runs"))
    place.train("whole", tensorboard=True)
    return place


def test_what_a_run_leaves(place: Place):
    run = place.folder / "whole"
    assert read_config(run) == CONFIG
    rows = place.rows("whole")
    assert [(row["kind"], row["update"]) for row in rows] == [
        ("validation", 0),
        ("update", 1),
        ("update", 2),
        ("validation", 2),
        ("update", 3),
        ("update", 4),
        ("validation", 4),
    ]
    assert rows[1]["grad_norm"] > 0  # the run learns: what follows is not about nothing
    wanted = {
        "reward", "success", "entropy", "grad_norm", "clip_fraction", "max_weight",
        "effective_fraction", "fallback", "on_path_fraction", "flat_groups", "num_steps",
        "total_rollouts", "total_tokens",
    }  # fmt: skip
    assert wanted <= set(rows[1])
    assert rows[-2]["total_rollouts"] == 4 * 16
    times = read_rows(run / "metrics.jsonl")[1]["seconds"]
    assert set(times) == {"rollout", "credit", "improve"}
    (events,) = (run / "tensorboard").iterdir()
    assert b"validation/success" in events.read_bytes()
    result = json.loads((run / "result.json").read_text())
    assert (result["method"], result["updates"], result["rollouts"]) == ("shuffled", 4, 64)
    scores = {row["update"]: row["success"] for row in rows if row["kind"] == "validation"}
    assert result["validation_success"] == max(scores.values()) == scores[result["best_update"]]
    assert result["test"]["prompts"] == 8
    assert set(result["test"]["pass_at_k"]) == {"1", "2"}


def test_the_earliest_of_the_best_is_chosen():
    progress = Progress().examined(0.5).after(16, 100).examined(0.5)
    assert (progress.best_update, progress.update) == (0, 1)
    assert progress.examined(0.6).best_update == 1


def stopping(monkeypatch: pytest.MonkeyPatch, update: int, act: Callable[[], None]) -> None:
    """Does something at the end of an update."""
    shown = RunDisplay.updated

    def updated(display: RunDisplay, row: Any) -> None:
        shown(display, row)
        if row["update"] == update:
            act()

    monkeypatch.setattr(RunDisplay, "updated", updated)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_goes_on_bit_for_bit(
    place: Place, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
):
    name = f"interrupted-{number.name}"
    with monkeypatch.context() as patch:
        stopping(patch, 3, lambda: os.kill(os.getpid(), number))
        with pytest.raises(RunInterruptedError, match=r"update 3 is saved; go on with --resume"):
            place.train(name)
    assert place.state(name).progress.update == 3
    assert not (place.folder / name / "result.json").exists()
    place.train(name, resume=True)
    place.same("whole", name)


def test_a_run_that_died_goes_on_bit_for_bit(place: Place, monkeypatch: pytest.MonkeyPatch):
    """Without a moment to save anything: updates since the last checkpoint are done again."""

    def die() -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        stopping(patch, 3, die)
        with pytest.raises(MemoryError):
            place.train("died")
    assert place.state("died").progress.update == 2
    place.train("died", resume=True)
    place.same("whole", "died")


def test_a_run_that_died_between_its_two_checkpoints(place: Place, monkeypatch: pytest.MonkeyPatch):
    """The best one was written, the last one was not."""
    with monkeypatch.context() as patch:
        import training.checkpoints as module

        save = module._save

        def torn(manager: Any, state: RunState) -> None:
            save(manager, state)
            if state.progress.update == 2:
                raise MemoryError

        patch.setattr(module, "_save", torn)
        patch.setattr(Progress, "examined", lambda self, success: _best_now(self, success))
        with pytest.raises(MemoryError):
            place.train("torn")
        patch.setattr(module, "_save", save)
        place.train("torn", resume=True)
        place.train("torn-whole")
    place.same("torn-whole", "torn")


def _best_now(progress: Progress, success: float) -> Progress:
    """Every validation is the best so far, so that both checkpoints are written."""
    del success
    return Progress(
        progress.update, progress.rollouts, progress.tokens, progress.update, progress.update / 10
    )


def test_a_finished_run_is_not_tested_again(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("training.train.Exams", None)  # nobody could be examined
    result = place.train("whole", resume=True)
    assert result == json.loads((place.folder / "whole" / "result.json").read_text())
    with pytest.raises(ConfigError, match=r"this run is finished and its policy was tested, whi"):
        place.train("whole", replace(CONFIG, updates=9), resume=True)


def test_a_sick_run_stops_and_names_its_last_good_checkpoint(place: Place):
    sick = replace(CONFIG, health=replace(CONFIG.health, grad_norm=1e-9))
    message = r"update \d: grad_norm is .* may be at most 1e-09 .*The last good checkpoint is that "
    with pytest.raises(TrainingDivergedError, match=message) as caught:
        place.train("sick", sick)
    last = place.state("sick").progress.update
    assert f"is that of update {last}. A changed config needs another folder" in str(caught.value)


@pytest.mark.parametrize(
    ("config", "resume", "message"),
    [
        (CONFIG, False, r"whole: holds a run already; go on with it \(--resume\), or give"),
        (replace(CONFIG, seed=6), True, r"of another config \(seed was 5, is 6\); only updates"),
        (replace(CONFIG, updates=3), True, r"\(updates was 4, is 3\); only updates may grow"),
    ],
)
def test_a_folder_of_another_run(place: Place, config: RunConfig, resume: bool, message: str):
    with pytest.raises(ConfigError, match=message):
        place.train("whole", config, resume=resume)


def test_no_folder(place: Place):
    (place.folder / "file").touch()
    with pytest.raises(ConfigError, match=r"file: is no folder; give the path of a new or empty"):
        place.train("file")
    for name in ("checkpoints", "result.json", "metrics.jsonl"):
        (place.folder / f"headless-{name}" / name).mkdir(parents=True)
        message = rf"holds {name} without a config.json; restore that, or give another folder"
        with pytest.raises(ConfigError, match=message):
            place.train(f"headless-{name}")


def test_damaged_files(place: Place, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"found no config.json there; give the folder that tra"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config.json: found damaged JSON"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text((place.folder / "whole" / "config.json").read_text())
    for damaged, message in (
        ("[", r"found damaged JSON .*; move"),
        ("{}", r"found no result of a r"),
    ):
        (tmp_path / "result.json").write_text(damaged)
        with pytest.raises(ConfigError, match=rf"result.json: {message}"):
            place.train(str(tmp_path), resume=True)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"config.json: field 'method' is missing; a config has "):
        read_config(tmp_path)


def test_one_process_a_run(place: Place):
    folder = place.folder / "busy"
    with (
        claimed(CONFIG, folder, resume=False),
        pytest.raises(ConfigError, match=r"busy: another process works on this run; wait for it"),
    ):
        place.train("busy", replace(CONFIG, updates=9), resume=True)
    assert read_config(folder) == CONFIG


def test_a_resumed_run_needs_all_of_its_checkpoints(place: Place, monkeypatch: pytest.MonkeyPatch):
    run = place.folder / "incomplete"
    shutil.copytree(place.folder / "whole", run)
    (run / "result.json").unlink()
    for file in filter(Path.is_file, (run / "checkpoints" / "4" / "state").rglob("*")):
        file.write_bytes(b"")
    with pytest.raises(ConfigError, match=r"checkpoints/4: found a damaged checkpoint \(.*remove"):
        place.train("incomplete", resume=True)
    shutil.rmtree(run / "checkpoints" / "4")
    place.train("incomplete", resume=True)
    place.same("whole", "incomplete")
    (run / "result.json").unlink()
    monkeypatch.setattr(Checkpoints, "kept", [1, 3])
    message = r"incomplete: the best checkpoint, of update \d, is gone; it holds 1, 3. Restore it"
    with pytest.raises(ConfigError, match=message):
        place.train("incomplete", resume=True)


def test_a_run_that_died_in_its_first_save_begins_anew(place: Place):
    run = place.folder / "early"
    shutil.copytree(place.folder / "whole", run)
    (run / "result.json").unlink()
    shutil.rmtree(run / "checkpoints")
    if load_policy(place.folder / "whole").update > 0:
        shutil.rmtree(run / "best")
    place.train("early", resume=True)
    place.same("whole", "early")


def test_policies_of_a_run(place: Place):
    run = place.folder / "whole"
    best = load_policy(run)
    assert best.update == json.loads((run / "result.json").read_text())["best_update"]
    assert load_policy(run, "last").update == load_policy(run, "4").update == 4
    with pytest.raises(ConfigError, match=r"checkpoint 3: this run does not hold it; it holds "):
        load_policy(run, "3")
    with pytest.raises(ConfigError, match=r"checkpoint 'first': it must be 'best', 'last' or the"):
        load_policy(run, "first")


# Warm starts.


def test_a_warm_start_is_made_once(tmp_path: Path):
    config = replace(CONFIG, warm_start=WarmStartConfig(success=0.01, check_every=5, rollouts=64))
    looks: list[tuple[int, float]] = []
    model = new_model(config.policy, config.seed)
    made = warm_start(config, model, tmp_path, lambda step, success: looks.append((step, success)))
    assert looks[-1][1] >= 0.01
    read = warm_start(config, model, tmp_path)
    assert (made.cached, read.cached) == (False, True)
    (damaged,) = tmp_path.iterdir()
    for file in filter(Path.is_file, damaged.rglob("*")):
        file.write_bytes(b"")
    with pytest.raises(ConfigError, match=r"found a damaged checkpoint"):
        warm_start(config, model, tmp_path)
    jax.tree.map(np.testing.assert_array_equal, made.params, read.params)
    warm = WarmStartConfig(success=0.99, max_steps=5, check_every=5, rollouts=64)
    hopeless = replace(config, warm_start=warm)
    with pytest.raises(
        ConfigError,
        match=r"WarmStartConfig.max_steps is 5, after which .* success asks for 0.990. Allow more",
    ):
        warm_start(hopeless, model, tmp_path)
    cold = replace(config, warm_start=WarmStartConfig(success=0))
    params = init_state(model, OptimizerConfig()).params
    jax.tree.map(np.testing.assert_array_equal, warm_start(cold, model, tmp_path).params, params)
    assert len(list(tmp_path.iterdir())) == 1


# The command.


def test_the_command(place: Place, capsys: pytest.CaptureFixture[str]):
    arguments = ["--warm-starts", str(place.folder / "warm"), "--no-tensorboard"]
    out = str(place.folder / "command")
    fresh = ["--preset", "tiny", "--method", "shuffled", "--seed", "5", "--updates", "2"]
    assert main(["--out", out, *arguments, *fresh]) == 0
    shown = capsys.readouterr().out
    assert "shuffled, regime a, size small, seed 5: 2 updates of 16 rollouts" in shown
    assert "warm start: from the cache" in shown
    assert "held-out test" in shown
    assert place.rows("command") == place.rows("whole")[:4]
    assert main(["--out", out, *arguments, "--preset", "tiny"]) == 1
    assert "command: holds a run already" in capsys.readouterr().err
    assert main(["--out", out, *arguments, "--resume"]) == 0
    assert main(["--out", out, *arguments, "--resume", "--updates", "9"]) == 1
    assert "is done once" in capsys.readouterr().err
    assert main(["--out", out, *arguments, "--resume", "--seed", "6"]) == 1
    assert "seed was 5, is 6" in capsys.readouterr().err


def test_the_command_is_interrupted(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def interrupted(*_: object, **__: object) -> None:
        raise RunInterruptedError(3)

    monkeypatch.setattr("training.train.train", interrupted)
    assert main(["--out", str(place.folder / "none")]) == 130
    assert capsys.readouterr().err == "interrupted: update 3 is saved; go on with --resume\n"

    def at_once(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("training.train.train", at_once)
    assert main(["--out", str(place.folder / "none")]) == 130
    assert "interrupted: what is saved stays; go on with --resume" in capsys.readouterr().err


def test_a_second_signal_acts_as_ever():
    with until_interrupted() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_terminal_shows_a_bar():
    console = Console(force_terminal=True, record=True, width=120)
    display = RunDisplay(console, CONFIG)
    with display.updates(1):
        display.updated({"update": 2, "reward": 0.25, "entropy": 1.5})
    assert "5: 4 updates of 16 rollouts" in console.export_text()


def test_sizes_are_checked():
    with pytest.raises(ConfigError, match=r"RecurrentConfig.width is 0"):
        replace(CONFIG, policy=RecurrentConfig(width=0))
