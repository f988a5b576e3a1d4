"""`python -m training.demo_world`: DepGPO beside GRPO in the file world, in a few minutes.

Both start from the same warm start and see the same number of rollouts; each one's checkpoint is
chosen on validation prompts and tested once on held-out ones. Ends in scores and a picture. One
seed says how a run goes, not which method is better.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
from rich.console import Console

from depgpo_jax.errors import DepgpoError
from training.interrupts import RunInterruptedError
from training.run_config import RunConfig, run_config
from training.run_plot import plot_runs, read_curve, save
from training.train import train

UPDATES: Final = 100
SHOWN: Final = ("exam.every=10", f"updates={UPDATES}")

RUNS: Final = MappingProxyType(
    {
        "GRPO": run_config("regime-b", method="grpo", overrides=SHOWN),
        "DepGPO": run_config(
            "regime-b", method="depgpo", overrides=[*SHOWN, "update.credit.max_weight=2"]
        ),
    }
)
"""The runs of the demo. Without the cap on weights, the family `join` is hardly learnt."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, run, and turn the package's errors into a message and exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m training.demo_world", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--out", type=Path, required=True, help="folder for runs and picture")
    options = parser.parse_args(arguments)
    try:
        demo(Console(), options.out, RUNS)
    except RunInterruptedError as interrupted:
        print(
            f"interrupted: update {interrupted.update} is saved; the same command goes on",
            file=sys.stderr,
        )
        return 130
    except (DepgpoError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def demo(console: Console, out: Path, runs: Mapping[str, RunConfig]) -> None:
    """Trains every run that is not finished yet, then draws all of them."""
    started = time.perf_counter()
    results = {}
    for name, config in runs.items():
        results[name] = train(
            config,
            folder_of(out, name, config),
            resume=True,
            warm_starts=out / "warm-starts",
            console=console,
        )
    curves = [read_curve(folder_of(out, name, config), name) for name, config in runs.items()]
    picture = out / "training.png"
    first = next(iter(runs.values()))
    title = f"File world, regime {first.regime.upper()}, {first.update.rollouts} rollouts an update"
    save(plot_runs(curves, f"{title}, one seed"), picture)
    console.print()
    for name, result in results.items():
        one = result["test"]["pass_at_k"]["1"]
        console.print(
            f"{name}: {one['mean']:.3f} of the held-out test rollouts succeed "
            f"[{one['low']:.3f}, {one['high']:.3f}]",
            markup=False,
            highlight=False,
        )
    console.print(f"{picture} shows both runs. {time.perf_counter() - started:.0f} s in all.")


def folder_of(out: Path, name: str, config: RunConfig) -> Path:
    """A run's folder; other versions of this demo, with other configs, have others."""
    digest = hashlib.sha256(msgspec.json.encode(config)).hexdigest()[:8]
    return out / f"{name.lower()}-{digest}"


if __name__ == "__main__":
    sys.exit(main())
