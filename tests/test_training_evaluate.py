"""pass@k, bootstrap intervals, players, and the command that evaluates them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from depgpo_jax.errors import ConfigError
from training.checkpoints import Checkpoints, fresh_state, new_model, write_json
from training.environments.commands import Family
from training.environments.presets import SMALL, regime_a
from training.environments.prompts import Split
from training.evaluate import main
from training.evaluation import Evaluation, Evaluator, paired_difference, summary
from training.pass_at_k import Interval, bootstrap, pass_at_k
from training.players import scripted
from training.run_config import run_config

# pass@k.


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_pass_at_k_is_the_mean_over_all_choices(k: int):
    for successes in range(6):
        outcomes = [True] * successes + [False] * (5 - successes)
        chosen = [any(outcomes[i] for i in choice) for choice in combinations(range(5), k)]
        found = pass_at_k(np.array([successes]), 5, k)
        assert found[0] == pytest.approx(np.mean(chosen), abs=1e-12)


def test_pass_at_k_of_many_rollouts():
    found = pass_at_k(np.array([0, 1, 5000, 10_000]), 10_000, 100)
    np.testing.assert_allclose(found, [0, 0.01, 1, 1], atol=1e-9)


@pytest.mark.parametrize(
    ("successes", "k", "message"),
    [
        ([1], 5, r"pass_at_k: k is 5 with 4 rollouts of each prompt; it must be a whole number f"),
        ([1], 0, r"k is 0 .* from 1 to 4. Take more samples"),
        ([5], 1, r"successes range from 5 to 5; with 4 rollouts of each prompt they must be from"),
        ([-1], 1, r"successes range from -1 to -1"),
    ],
)
def test_refused_counts(successes: list[int], k: int, message: str):
    with pytest.raises(ConfigError, match=message):
        pass_at_k(np.array(successes), 4, k)


@pytest.mark.parametrize("k", [2.5, 1.0, True])
def test_a_k_that_is_no_whole_number_is_refused(unchecked: None, k: float):
    with pytest.raises(ConfigError, match=rf"pass_at_k: k is {k} with 4 rollouts .* whole number"):
        pass_at_k(np.array([1]), 4, k)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("successes", "message"),
    [
        (np.array([], np.int32), r"found 0 successes of dtype int32; it takes at least one, as wh"),
        (np.array([1, np.nan]), r"found 2 successes of dtype float64; .* Give counts, not shares"),
        (np.array([0.5]), r"found 1 successes of dtype float64"),
    ],
)
def test_successes_that_are_no_counts_are_refused(
    unchecked: None, successes: np.ndarray, message: str
):
    with pytest.raises(ConfigError, match=message):
        pass_at_k(successes, 4, 2)


# Intervals.


def test_intervals_cover_the_truth_as_often_as_they_say():
    random = np.random.default_rng(0)
    covered = 0
    for trial in range(300):
        values = (random.random(100) < 0.3).astype(np.float64)
        interval = bootstrap(values, level=0.9, resamples=500, seed=trial)
        assert interval.low <= interval.mean <= interval.high
        covered += interval.low <= 0.3 <= interval.high
    assert 0.84 < covered / 300 < 0.95


def test_chunks_change_the_memory_only(monkeypatch: pytest.MonkeyPatch):
    values = np.linspace(0, 1, 7)
    whole = bootstrap(values, resamples=1000)
    monkeypatch.setattr("training.pass_at_k.CHUNK", 50)
    assert bootstrap(values, resamples=1000) == whole
    assert whole == bootstrap(values, resamples=1000)
    assert whole != bootstrap(values, resamples=1000, seed=1)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([], {}, r"bootstrap: found 0 values, 0 of them finite; it takes at least one, all finite"),
        ([1.0, np.nan], {}, r"found 2 values, 1 of them finite"),
        ([1.0], {"level": 1.0}, r"bootstrap: level is 1.0; it must be in \(0, 1\), such as 0.95"),
        ([1.0], {"resamples": 0}, r"bootstrap: resamples is 0; it must be at least 1"),
    ],
)
def test_refused_samples(values: list[float], options: dict[str, float], message: str):
    with pytest.raises(ConfigError, match=message):
        bootstrap(np.array(values), **options)  # pyright: ignore[reportArgumentType]


# Players.

PRESET = regime_a(SMALL, Split.VALIDATION)


def evaluator(**changes: int) -> Evaluator:
    sizes = {"seed": 1, "prompts": 10, "samples": 3, "batch": 12, **changes}
    return Evaluator(PRESET.world, PRESET.params, **sizes)


@pytest.fixture(scope="module")
def noisy() -> Evaluation:
    return evaluator()(scripted("noisy-script", PRESET))


def test_the_script_knows_the_answer_and_chance_does_not(noisy: Evaluation):
    script = evaluator()(scripted("script", PRESET))
    np.testing.assert_array_equal(script.successes, 3)
    np.testing.assert_array_equal(script.num_steps, 3)  # two commands and submit
    assert set(script.family.tolist()) == {Family.CHAIN, Family.POINTER}
    chance = evaluator()(scripted("random", PRESET))
    assert chance.successes.sum() <= 1
    assert 15 < noisy.successes.sum() < 30
    np.testing.assert_array_equal(chance.family, noisy.family)
    np.testing.assert_array_equal(chance.files, noisy.files)
    assert len(set(noisy.files.tolist())) == 10
    difference = paired_difference(script, noisy)
    assert difference.mean == pytest.approx(1 - noisy.successes.mean() / 3)
    assert difference.low >= 0


def test_the_batch_changes_nothing(noisy: Evaluation):
    for batch in (1, 1000):
        other = evaluator(batch=batch)(scripted("noisy-script", PRESET))
        for one, two in zip(noisy, other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_more_prompts_are_the_same_ones_and_more(noisy: Evaluation):
    more = evaluator(prompts=15)(scripted("noisy-script", PRESET))
    np.testing.assert_array_equal(more.successes[:10], noisy.successes)
    other = evaluator(seed=2)(scripted("noisy-script", PRESET))
    assert (other.files != noisy.files).all()


def test_a_summary_is_plain_json(noisy: Evaluation):
    found = json.loads(json.dumps(summary(noisy, [1, 3])))
    assert found["prompts"] == 10
    assert found["samples"] == 3
    assert found["success"] == pytest.approx(found["pass_at_k"]["1"]["mean"])
    assert found["pass_at_k"]["3"]["mean"] == pytest.approx(np.mean(noisy.successes > 0))
    assert sum(part["prompts"] for part in found["family"].values()) == 10
    chain = noisy.family == Family.CHAIN
    assert found["family"]["chain"]["success"] == pytest.approx(noisy.successes[chain].mean() / 3)
    assert found["num_steps"] == pytest.approx(noisy.num_steps.mean())


def test_refused_evaluations(noisy: Evaluation):
    with pytest.raises(ConfigError, match=r"Evaluator.prompts is 0; it must be a whole number"):
        evaluator(prompts=0)
    with pytest.raises(ConfigError, match=r"player is 'expert'; it must be one of script, noisy-"):
        scripted("expert", PRESET)
    for seed in (-1, 2**32):
        with pytest.raises(ConfigError, match=rf"Evaluator.seed is {seed}; it must be .* 0 to 42"):
            evaluator(seed=seed)
    fewer = noisy._replace(player="x", successes=noisy.successes[1:], family=noisy.family[1:])
    with pytest.raises(ConfigError, match=r"noisy-script met 10 prompts, x 9; they must be the sa"):
        paired_difference(noisy, fewer)
    moved = noisy._replace(player="x", files=np.where(np.arange(10) < 3, -1, noisy.files))
    moved = moved._replace(files=moved.files.astype(np.int32))
    with pytest.raises(ConfigError, match=r"3 of the 10 tasks that noisy-script and x met are not"):
        paired_difference(noisy, moved)


def test_other_prompts_and_another_seed_are_the_same_program():
    """Split and seed are traced, so that JAX's cache has the program already."""
    test = regime_a(SMALL, Split.TEST)
    player, texts = scripted("random", PRESET), set[str]()
    for preset, seed in ((PRESET, 1), (test, 1), (PRESET, 2)):
        sizes = {"seed": seed, "prompts": 2, "samples": 2, "batch": 4}
        some_of = Evaluator(preset.world, preset.params, **sizes)._some_of(player.play)
        arguments = (None, preset.params, jax.random.key(seed), jnp.arange(2, dtype=jnp.int32))
        texts.add(jax.jit(some_of).lower(*arguments).as_text())
    assert len(texts) == 1


# The command.


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder, as far as evaluation looks at it."""
    run = tmp_path_factory.mktemp("runs") / "untrained"
    config = run_config("tiny")
    run.mkdir()
    write_json(run / "config.json", config)
    state = fresh_state(config, new_model(config.policy))
    with Checkpoints(run) as checkpoints:
        checkpoints.save(state._replace(progress=state.progress.examined(0.1)))
    return run


def test_the_command(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "found.json"
    arguments = ["--run", str(run), "--player", "script", "--player", "random", "--k", "1,2"]
    sizes = ["--prompts", "8", "--samples", "2", "--split", "test", "--out", str(out)]
    assert main([*arguments, *sizes]) == 0
    found = json.loads(out.read_text())
    assert (found["regime"], found["size"], found["split"], found["seed"]) == (
        "a",
        "small",
        "test",
        2,
    )
    names = [player["player"] for player in found["players"]]
    assert names == ["untrained@0", "script", "random"]
    assert found["players"][1]["pass_at_k"]["2"] == Interval(1.0, 1.0, 1.0)._asdict()
    assert found["differences"][0]["of"] == "untrained@0"
    assert found["differences"][0]["minus"] == "script"
    assert found["differences"][0]["pass_at_k"]["1"]["mean"] < 0
    shown = capsys.readouterr().out
    assert "1.000 [1.000, 1.000]" in shown
    assert (
        "untrained@0 minus script, pass@1: -1.000" in shown or "minus script, pass@1: -0." in shown
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is nobody to play; give --run, --player or both"),
        (["--player", "script", "--k", "1,x"], "--k '1,x': it must be whole numbers with commas"),
        (["--player", "script", "--samples", "0"], "Evaluator.samples is 0; it must be a whole"),
        (["--player", "script", "--k", "1,9"], "k is 9 with 4 rollouts of each prompt; it must be"),
        (["--player", "script", "--k", "0"], "k is 0 with 4 rollouts of each prompt; it must be"),
        (["--player", "script", "--level", "2"], "level is 2.0; it must be in (0, 1), such as"),
        (["--player", "script", "--seed", str(2**70)], f"Evaluator.seed is {2**70}; it must be a"),
        (["--run", "RUN", "--regime", "a"], "a run brings its own world; leave out --regime and"),
        (["--run", "RUN", "--checkpoint", "7"], "checkpoint 7: this run does not hold it; it hol"),
        (["--run", "RUN", "--run", "OTHER"], "the runs are of different worlds ({'regime': 'a'"),
    ],
)
def test_refused_arguments(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
):
    other = tmp_path / "other"
    other.mkdir()
    config = replace(run_config("tiny"), regime="b")
    write_json(other / "config.json", config)
    state = fresh_state(config, new_model(config.policy))
    with Checkpoints(other) as checkpoints:
        checkpoints.save(state._replace(progress=state.progress.examined(0.1)))
    monkeypatch.setattr(Evaluator, "__call__", lambda *_: pytest.fail("somebody played already"))
    places = {"RUN": str(run), "OTHER": str(other)}
    out = tmp_path / "found.json"
    given = [places.get(word, word) for word in arguments]
    assert main([*given, "--out", str(out), "--prompts", "2"]) == 1
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_scripts_need_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["--player", "random", "--regime", "c", "--size", "small", "--prompts", "4"]
    assert main([*arguments, "--out", str(tmp_path / "none" / "found.json")]) == 1
    captured = capsys.readouterr()
    assert "regime c, size small, validation prompts: 4 of them" in captured.out
    assert "a place where no file can be written" in captured.err
