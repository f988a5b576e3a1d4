"""A run's folder, claimed for one process, and seen to be this run's or nobody's."""

from __future__ import annotations

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from depgpo_jax.errors import ConfigError
from training.checkpoints import (
    BEST,
    CONFIG,
    LAST,
    METRICS,
    RESULT,
    TENSORBOARD,
    read_config,
    read_result,
    write_json,
)
from training.run_config import RunConfig, differences

LOCK = ".lock"


@contextmanager
def claimed(config: RunConfig, run: Path, *, resume: bool) -> Generator[None]:
    """Makes the folder, or sees that the run in it is this one; keeps other processes out.

    Args:
        config: the run; written into the folder.
        run: the folder.
        resume: there may be a run already, with this config or fewer updates.

    Raises:
        ConfigError: another process is at work there, it holds another run, or this one and
            `resume` is False. Nothing is changed then.
    """
    if run.exists() and not run.is_dir():
        raise ConfigError(f"{run}: is no folder; give the path of a new or empty one")
    run.mkdir(parents=True, exist_ok=True)
    with (run / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"{run}: another process works on this run; wait for it, or give another folder"
            ) from None
        _check(config, run, resume)
        write_json(run / CONFIG, config)
        yield


def _check(config: RunConfig, run: Path, resume: bool) -> None:
    if not (run / CONFIG).exists():
        for name in (RESULT, METRICS, LAST, BEST, TENSORBOARD):
            if (run / name).exists():
                raise ConfigError(
                    f"{run}: holds {name} without a {CONFIG}; restore that, or give another folder"
                )
        return
    if not resume:
        raise ConfigError(
            f"{run}: holds a run already; go on with it (--resume), or give another folder"
        )
    changed = differences(read_config(run), config)
    grown = changed.pop("updates", (0, 0))
    if changed or grown[1] < grown[0]:
        changed = changed or {"updates": grown}
        told = ", ".join(f"{path} was {old!r}, is {new!r}" for path, (old, new) in changed.items())
        raise ConfigError(
            f"{run}: holds a run of another config ({told}); only updates may grow. "
            "Resume with the run's own config, or give another folder"
        )
    if grown != (0, 0) and read_result(run) is not None:
        raise ConfigError(
            f"{run}: this run is finished and its policy was tested, which is done once; "
            "for more updates start a run in another folder"
        )
