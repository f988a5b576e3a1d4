"""`python -m training.train`: a run of training in the file world, from the command to the test.

Reads top to bottom:

    config → warm start → [ rollouts → credit → advantages → update → metrics ] × updates
           → validation and a checkpoint every few updates → the best checkpoint, tested once

A run lives in a folder (`training.checkpoints`). It may be interrupted at any time and goes on with
`--resume`: the resumed run is the uninterrupted one, bit for bit, on the same kind of machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jaxtyping import Array, PyTree
from rich.console import Console

from depgpo_jax.errors import ConfigError, DepgpoError
from training.checkpoints import (
    CONFIG,
    METRICS,
    RESULT,
    TENSORBOARD,
    Checkpoints,
    Progress,
    RunState,
    fresh_state,
    new_model,
    read_config,
    read_result,
    write_json,
)
from training.exams import Exams
from training.health import TrainingDivergedError, check_health, check_parameters
from training.interrupts import RunInterruptedError, until_interrupted
from training.methods import METHODS
from training.metric_log import MetricLog
from training.phases import phases_of
from training.run_config import PRESETS, RunConfig, run_config
from training.run_display import RunDisplay
from training.run_folder import claimed
from training.warm_start import warm_start

WARM_CACHE = Path("out/warm-starts")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, run, and turn the package's errors into a message and exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m training.train", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--preset", choices=[*PRESETS], help="(default: regime-b)")
    parser.add_argument("--method", choices=[*METHODS], help="(default: depgpo)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        dest="overrides",
        help="one field of the config, such as update.credit.max_weight=2; may be repeated",
    )
    parser.add_argument("--updates", type=int, help="the same as --set updates=N")
    parser.add_argument("--seed", type=int, help="the same as --set seed=N")
    parser.add_argument("--out", type=Path, required=True, help="the run's folder")
    parser.add_argument("--resume", action="store_true", help="go on with the run in that folder")
    parser.add_argument("--warm-starts", type=Path, default=WARM_CACHE, help="cached warm starts")
    parser.add_argument("--no-tensorboard", action="store_true", help="write no event files")
    options = parser.parse_args(arguments)
    console = Console()
    try:
        config = _config(options)
        train(
            config,
            options.out,
            resume=options.resume,
            console=console,
            warm_starts=options.warm_starts,
            tensorboard=not options.no_tensorboard,
        )
    except RunInterruptedError as interrupted:
        print(f"interrupted: {interrupted}", file=sys.stderr)
        return 130
    except KeyboardInterrupt:
        print("interrupted: what is saved stays; go on with --resume", file=sys.stderr)
        return 130
    except (DepgpoError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def train(
    config: RunConfig,
    out: Path,
    *,
    resume: bool = False,
    warm_starts: Path = WARM_CACHE,
    tensorboard: bool = True,
    console: Console | None = None,
) -> dict[str, Any]:
    """Runs a config to its end in a folder.

    Args:
        config: the run.
        out: its folder; it must hold no run, unless `resume`.
        resume: go on from the last checkpoint of the run there, if there is one. Its config must
            be this one; only `updates` may grow.
        warm_starts: folder of cached warm starts.
        tensorboard: write event files as well.
        console: where progress is shown; None: nowhere.

    Returns:
        What `result.json` holds: the chosen checkpoint, its validation and its test.

    Raises:
        ConfigError: the folder holds another run, or this one and `resume` is False.
        TrainingDivergedError: a number went wrong; the last checkpoint is the last good one.
        RunInterruptedError: Ctrl-C, or SIGTERM; the state is saved.
    """
    display = RunDisplay(console, config)
    with claimed(config, out, resume=resume):
        result = read_result(out)
        if result is None:
            result = _run(config, out, warm_starts, tensorboard, display)
            write_json(out / RESULT, result)
    display.finished(result)
    return result


def _run(
    config: RunConfig, out: Path, warm_starts: Path, tensorboard: bool, display: RunDisplay
) -> dict[str, Any]:
    """From the warm start, or the last checkpoint, to the test."""
    model = new_model(config.policy, config.seed)
    exams = Exams(config)
    near = config.update.objective.kl_coefficient > 0
    with Checkpoints(out) as checkpoints:
        begun = checkpoints.last_update is not None
        reference = None
        if near or not begun:
            start = warm_start(config, model, warm_starts, display.warm_step)
            display.warm_started(start)
            reference = start.params
        state = fresh_state(config, model, reference)
        if begun:
            state = checkpoints.restore(state)
            display.resumed(state.progress)
        _check_best(out, checkpoints, state.progress)
        board = out / TENSORBOARD if tensorboard else None
        resume_from = state.progress.update if begun else -1
        with MetricLog(out / METRICS, board, resume_from=resume_from) as log:
            if not begun:
                state = _validated(state, exams, log, display)
                checkpoints.save(state)
            anchor = reference if near else None
            state = _learn(config, state, anchor, exams, checkpoints, log, display)
        best = checkpoints.restore(state, state.progress.best_update)
    return _result(config, state.progress, exams.test(best.train.params))


def _check_best(out: Path, checkpoints: Checkpoints, progress: Progress) -> None:
    """A run that could not find its best checkpoint in the end is refused at once.

    A later one than the run's position is fine: the run died between its two checkpoints, and will
    come by there again.
    """
    kept = checkpoints.kept
    if kept and not any(step == progress.best_update or step > progress.update for step in kept):
        raise ConfigError(
            f"{out}: the best checkpoint, of update {progress.best_update}, is gone; it holds "
            f"{', '.join(map(str, kept))}. Restore it, or start a run in another folder"
        )


def _learn(
    config: RunConfig,
    state: RunState,
    reference: PyTree[Array] | None,
    exams: Exams,
    checkpoints: Checkpoints,
    log: MetricLog,
    display: RunDisplay,
) -> RunState:
    """The loop itself, with the checks and the files around every update."""
    phases = phases_of(config)
    with until_interrupted() as interrupted, display.updates(state.progress.update):
        while state.progress.update < config.updates:
            state, row = phases.update(state, reference)
            try:
                check_health(row, log.updates, config.health)
                check_parameters(state.train.params, state.progress.update)
            except TrainingDivergedError as error:
                raise TrainingDivergedError(
                    f"{error} The last good checkpoint is that of update "
                    f"{checkpoints.last_update}. A changed config needs another folder"
                ) from None
            log.write(row)
            display.updated(row)
            update = state.progress.update
            if update % config.exam.every == 0 or update == config.updates:
                state = _validated(state, exams, log, display)
                checkpoints.save(state)
            elif interrupted():
                checkpoints.save(state)
            if interrupted():
                raise RunInterruptedError(update)
    return state


def _validated(state: RunState, exams: Exams, log: MetricLog, display: RunDisplay) -> RunState:
    """Examines the policy on validation prompts; the earliest of the best is kept."""
    progress, started = state.progress, time.perf_counter()
    row = exams.validate(state.train.params)
    seconds = {"validate": time.perf_counter() - started}
    row = {"kind": "validation", "update": progress.update, **row, "seconds": seconds}
    log.write(row)
    display.validated(row)
    return state._replace(progress=progress.examined(row["success"]))


def _result(config: RunConfig, progress: Progress, test: dict[str, Any]) -> dict[str, Any]:
    return {
        "method": config.method,
        "regime": config.regime,
        "size": config.size,
        "seed": config.seed,
        "updates": progress.update,
        "rollouts": progress.rollouts,
        "tokens": progress.tokens,
        "best_update": progress.best_update,
        "validation_success": progress.best_success,
        "test": test,
    }


def _config(options: argparse.Namespace) -> RunConfig:
    """The config of the options, or of the run that is resumed where no option says anything."""
    shorthand = [
        f"{name}={value}"
        for name in ("updates", "seed")
        if (value := getattr(options, name)) is not None
    ]
    says_nothing = options.preset is None and options.method is None and not options.overrides
    if options.resume and says_nothing and (options.out / CONFIG).exists():
        stored = read_config(options.out)
        if options.updates is not None:
            stored = replace(stored, updates=options.updates)
        return stored if options.seed is None else replace(stored, seed=options.seed)
    return run_config(
        options.preset or "regime-b",
        method=options.method,
        overrides=[*options.overrides, *shorthand],
    )


if __name__ == "__main__":
    sys.exit(main())
