"""`python -m training.evaluate`: how often trained policies and scripts succeed, as JSON.

Several players may be given. They meet the same tasks, so the first is compared with each other one
in pairs. A run brings its own world; scripts play in the world of the first run, or in the one that
`--regime` and `--size` name.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from depgpo_jax.errors import ConfigError, DepgpoError
from training.checkpoints import load_policy, write_json
from training.environments.presets import Preset
from training.environments.prompts import Split
from training.evaluation import Evaluation, Evaluator, paired_difference, summary
from training.exams import TEST_SEED, VALIDATION_SEED
from training.pass_at_k import check_k, check_level
from training.players import SCRIPTED_PLAYERS, Player, learned, scripted
from training.run_config import REGIMES, SIZES, preset_of

SPLITS = {"validation": Split.VALIDATION, "test": Split.TEST, "train": Split.TRAIN}
SEEDS = {"validation": VALIDATION_SEED, "test": TEST_SEED, "train": 0}


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, evaluate, and turn the package's errors into a message and code 1."""
    parser = argparse.ArgumentParser(prog="python -m training.evaluate", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--run", type=Path, action="append", default=[], help="a run's folder; may be repeated")
    add("--checkpoint", default="best", help="best, last or the number of an update")
    add(
        "--player",
        action="append",
        default=[],
        choices=[*SCRIPTED_PLAYERS],
        help="a player without a network; may be repeated",
    )
    add("--regime", choices=[*REGIMES], help="of scripts without a run (default: b)")
    add("--size", choices=[*SIZES], help="of scripts without a run (default: standard)")
    add("--split", choices=[*SPLITS], default="validation", help="which prompts")
    add("--prompts", type=int, default=256)
    add("--samples", type=int, default=4, help="rollouts of each prompt")
    add("--k", default="1", help="which pass@k, such as 1,4")
    add("--level", type=float, default=0.95, help="of the bootstrap intervals")
    add("--batch", type=int, default=1024, help="rollouts at a time")
    add("--seed", type=int, help="of the tasks (default: those that runs meet)")
    add("--out", type=Path, help="a JSON file")
    options = parser.parse_args(arguments)
    try:
        found = evaluate(options)
        _show(Console(), found)
        if options.out is not None:
            write_json(options.out, found)
    except (DepgpoError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def evaluate(options: argparse.Namespace) -> dict[str, Any]:
    """What the JSON file holds: `split`, `regime`, `size`, `seed`, `players`, `differences`."""
    ks = _numbers(options.k)
    preset, place, players = _players(options)
    seed = SEEDS[options.split] if options.seed is None else options.seed
    evaluator = Evaluator(
        preset.world,
        preset.params,
        seed=seed,
        prompts=options.prompts,
        samples=options.samples,
        batch=options.batch,
    )
    # Before anybody plays: that may take long.
    for k in ks:
        check_k(k, options.samples)
    check_level(options.level)
    evaluations = [evaluator(player) for player in players]
    return {
        "split": options.split,
        **place,
        "seed": seed,
        "players": [summary(found, ks, level=options.level) for found in evaluations],
        "differences": _differences(evaluations, ks, options.level),
    }


def _players(options: argparse.Namespace) -> tuple[Preset, dict[str, str], list[Player]]:
    if not options.run and not options.player:
        raise ConfigError("evaluate: there is nobody to play; give --run, --player or both")
    split = SPLITS[options.split]
    loaded = [load_policy(run, options.checkpoint) for run in options.run]
    if loaded and (options.regime or options.size):
        raise ConfigError("evaluate: a run brings its own world; leave out --regime and --size")
    places = [
        {"regime": policy.config.regime, "size": policy.config.size} for policy in loaded
    ] or [{"regime": options.regime or "b", "size": options.size or "standard"}]
    if any(place != places[0] for place in places):
        raise ConfigError(
            f"evaluate: the runs are of different worlds ({places[0]} and others); "
            "give runs of one regime and size"
        )
    preset = preset_of(**places[0], split=split)
    players = [
        learned(f"{run.name}@{policy.update}", preset.world, policy.model, policy.params)
        for run, policy in zip(options.run, loaded, strict=True)
    ]
    return preset, places[0], players + [scripted(name, preset) for name in options.player]


def _differences(
    found: Sequence[Evaluation], ks: Sequence[int], level: float
) -> list[dict[str, Any]]:
    return [
        {
            "of": found[0].player,
            "minus": other.player,
            "pass_at_k": {
                str(k): paired_difference(found[0], other, k, level=level)._asdict() for k in ks
            },
        }
        for other in found[1:]
    ]


def _numbers(text: str) -> list[int]:
    try:
        return sorted({int(number) for number in text.split(",")})
    except ValueError:
        raise ConfigError(
            f"--k {text!r}: it must be whole numbers with commas between, such as 1,4"
        ) from None


def _show(console: Console, found: dict[str, Any]) -> None:
    place = f"regime {found['regime']}, size {found['size']}, {found['split']} prompts"
    first = found["players"][0]
    table = Table(
        box=SIMPLE_HEAD,
        title=f"{place}: {first['prompts']} of them, {first['samples']} rollouts each",
        title_justify="left",
    )
    table.add_column("player")
    for k in first["pass_at_k"]:
        table.add_column(f"pass@{k}", justify="right", no_wrap=True)
    for family in first["family"]:
        table.add_column(family, justify="right")
    table.add_column("commands", justify="right")
    for player in found["players"]:
        table.add_row(
            player["player"],
            *(_interval(interval) for interval in player["pass_at_k"].values()),
            *(f"{part['success']:.3f}" for part in player["family"].values()),
            f"{player['num_steps']:.1f}",
        )
    console.print(table)
    for difference in found["differences"]:
        for k, interval in difference["pass_at_k"].items():
            console.print(
                f"{difference['of']} minus {difference['minus']}, pass@{k}: {_interval(interval)}",
                highlight=False,
            )


def _interval(interval: dict[str, float]) -> str:
    return f"{interval['mean']:.3f} \\[{interval['low']:.3f}, {interval['high']:.3f}]"


if __name__ == "__main__":
    sys.exit(main())
