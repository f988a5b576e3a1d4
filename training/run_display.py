"""What a run shows while it works: a progress bar on a terminal, a line a validation anywhere."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from training.checkpoints import Progress as RunProgress
from training.run_config import RunConfig
from training.warm_start import WarmStart


class RunDisplay:
    """Tells a console about a run; without a console it is silent."""

    def __init__(self, console: Console | None, config: RunConfig) -> None:
        self._console = Console(quiet=True) if console is None else console
        self._config = config
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._say(
            f"{config.method}, regime {config.regime}, size {config.size}, seed {config.seed}: "
            f"{config.updates} updates of {config.update.rollouts} rollouts"
        )

    def warm_step(self, step: int, success: float) -> None:
        """A look at the success within a warm start; every fourth is shown."""
        if (step // self._config.warm_start.check_every) % 4 == 0:
            self._say(f"  warm start, step {step}: {success:.3f} of its rollouts succeed")

    def warm_started(self, start: WarmStart) -> None:
        """The warm start is there."""
        if start.cached:
            self._say("  warm start: from the cache")

    def resumed(self, progress: RunProgress) -> None:
        """The run goes on."""
        self._say(f"  resumed after update {progress.update}")

    @contextmanager
    def updates(self, done: int) -> Generator[None]:
        """Shows a bar for as long as updates are made."""
        columns = (
            TextColumn("  update"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.fields[last]}"),
            TimeRemainingColumn(),
        )
        shown = self._console.is_terminal
        with Progress(*columns, console=self._console, disable=not shown, transient=True) as bar:
            self._task = bar.add_task("", total=self._config.updates, completed=done, last="")
            self._bar = bar
            yield
        self._bar = None

    def updated(self, row: Mapping[str, Any]) -> None:
        """An update is done."""
        if self._bar is not None:
            last = f"reward {row['reward']:.3f}  entropy {row['entropy']:.2f}"
            self._bar.update(self._task, completed=row["update"], last=last)

    def validated(self, row: Mapping[str, Any]) -> None:
        """A validation is done."""
        self._say(
            f"  update {row['update']:4}: validation success {row['success']:.3f}, "
            f"{row['num_steps']:.1f} commands"
        )

    def finished(self, result: Mapping[str, Any]) -> None:
        """The run is tested."""
        one = result["test"]["pass_at_k"]["1"]
        self._say(
            f"  best: update {result['best_update']}, validation "
            f"{result['validation_success']:.3f}; held-out test {one['mean']:.3f} "
            f"[{one['low']:.3f}, {one['high']:.3f}]"
        )

    def _say(self, text: str) -> None:
        self._console.print(Text(text))
