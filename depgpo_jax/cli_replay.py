"""`depgpo replay`: recorded commands, executed again on their task, under the tracer. No JAX."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from depgpo_jax.cli_commands import require_tracer, steps_shown
from depgpo_jax.cli_console import counted
from depgpo_jax.cli_files import refuse_same_file
from depgpo_jax.cli_options import Number
from depgpo_jax.cli_tracer import WEEK_S
from depgpo_jax.errors import TraceError, printable
from depgpo_jax.traces import open_output
from depgpo_jax.traces.files import STANDARD
from depgpo_jax.trajectories import ToolNames, find_files
from depgpo_jax.version import __version__

if TYPE_CHECKING:
    from depgpo_jax.tasks.agreement import Verdict
    from depgpo_jax.tasks.replay_many import Item
    from depgpo_jax.tasks.replay_store import ReplayStore

MAX_MESSAGES = 20
ORDER = ("exact", "spaces", "cut", "numbers", "equal", "differs", "not recorded")
"""In which agreement is counted, from most to none."""


@click.command()
@click.argument("trajectories", metavar="TRAJECTORY...", nargs=-1, required=True)
@click.option(
    "--task",
    metavar="TASK",
    required=True,
    help="The task directory; or a folder of some, when each TRAJECTORY names its task.",
)
@click.option(
    "--out",
    metavar="FILE",
    required=True,
    help="Where the traces go; .gz and .zst are packed.",
)
@click.option(
    "--report",
    metavar="FILE",
    help="List here what failed and what diverged, one JSON object each.",
)
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1, max=1024),
    default=1,
    show_default=True,
    help="How many run at a time, each in a process and a sandbox of its own.",
)
@click.option(
    "--time-limit",
    metavar="S",
    type=Number(0.0, WEEK_S, min_open=True),
    help="Seconds that a command had when it was recorded.  [default: the task's for all of them]",
)
@click.option(
    "--stretch",
    metavar="X",
    type=Number(1.0, 1000.0),
    default=3.0,
    show_default=True,
    help="How many times as long all may take as it might untraced; tracing costs time.",
)
@click.option(
    "--tool", "shells", metavar="NAME", multiple=True, help="A tool whose calls run texts."
)
@click.option(
    "--ignore-tool", "ignored", metavar="NAME", multiple=True, help="A tool whose calls are left."
)
@click.option(
    "--argument",
    metavar="NAME",
    help="The argument of tool calls that holds the text.  [default: command, cmd, ...]",
)
def replay(
    trajectories: tuple[str, ...],
    task: str,
    out: str,
    report: str | None,
    jobs: int,
    time_limit: float | None,
    stretch: float,
    shells: tuple[str, ...],
    ignored: tuple[str, ...],
    argument: str | None,
) -> None:
    """Run the commands of recorded runs again on their task, traced, and then its verifier.

    A TRAJECTORY is a file, or a folder of them: a list of texts, OpenAI messages with tool calls,
    an object with commands and what came of them, or traces of depgpo itself. Each gives one trace.
    It says where outputs, exit codes and reward agree with the recording; its reward is the one
    that was measured now.

    What is finished is kept in FILE.part until all is: the same command goes on where it was
    interrupted. A bad TRAJECTORY is reported, the others go on, and the exit code is 1.

    \b
    Examples:
      depgpo replay attempt.json --task tasks/sum-csv --out attempt.jsonl
      depgpo replay recorded/ --task tasks/ --jobs 8 --out traces.jsonl.zst --report report.jsonl
      depgpo replay chat.json --tool sh --argument input --task tasks/sum-csv --out chat.jsonl
    """  # noqa: D301 - click looks for the character \b itself
    if out in ("", STANDARD):
        raise click.BadParameter(
            "the traces need a file; what is finished is kept beside it.", param_hint="--out"
        )
    if report == STANDARD:
        raise click.BadParameter("the report needs a file of its own.", param_hint="--report")
    refuse_same_file({"--out": out, "--report": report})
    _refuse_inputs_as_outputs(trajectories, out, report)
    for name, path in (("--out", out), ("--report", report)):
        _must_be_writable(name, path)
    tools = ToolNames(shells, ignored, argument)
    require_tracer()
    from depgpo_jax.tasks import read_task
    from depgpo_jax.tasks.catalogue import Catalogue
    from depgpo_jax.tasks.replay import ReplayConfig
    from depgpo_jax.tasks.replay_many import Batch
    from depgpo_jax.tasks.replay_store import ENDING, ReplayStore

    refuse_same_file({f"the store of --out, {out}{ENDING}": out + ENDING, "--report": report})
    config = ReplayConfig(stretch=stretch, time_limit_s=time_limit)
    files, other = find_files(trajectories)
    if other:
        click.echo(f"{counted(other, 'file')} with another ending left out", err=True)
    catalogue = Catalogue(task)
    if catalogue.only is not None:
        for warning in read_task(catalogue.only).warnings:
            click.echo(f"Warning: {printable(warning, 1000)}", err=True)
    batch = Batch(files, tools, catalogue)
    settings = {"version": __version__, **asdict(config), **asdict(tools)}
    with ReplayStore(out, settings) as store:
        total = sum(item.trace_id is not None for item in batch.items)
        try:
            with steps_shown("replaying", total) as step_done:
                failed = batch.run(config, jobs, store, step_done)
        except BaseException:
            store.reread()
            if store.kept:
                click.echo(_kept(store), err=True)
            else:
                store.remove()
            raise
        good = [item for item in batch.items if item.is_done(store)]
        if good:
            with open_output(out) as stream:
                for item in good:
                    stream.write(store.trace(str(item.trace_id)) + b"\n")
        _tell(batch.items, failed, store, report)
        if not (good and failed):
            store.remove()
        elif failed:
            click.echo(f"The same command tries those again that failed. {_kept(store)}", err=True)
    if failed:
        click.get_current_context().exit(1)


def _must_be_writable(name: str, path: str | None) -> None:
    """Refuses before anything runs what could not be written when all has run."""
    if path is None:
        return
    folder = Path(path).resolve().parent
    if Path(path).is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise TraceError(
            f"a place where no file can be written ({name})",
            "a path in an existing, writable directory",
            "Create the directory, or choose another path.",
            file=path,
        )


def _kept(store: ReplayStore) -> str:
    return f"{counted(len(store.kept), 'replay')} kept in {printable(str(store.path))}"


def _refuse_inputs_as_outputs(paths: tuple[str, ...], out: str, report: str | None) -> None:
    for path in paths:
        refuse_same_file({"TRAJECTORY": path, "--out": out, "--report": report})
        for name, other in (("--out", out), ("--report", report)):
            folder = Path(path).resolve()
            if other is not None and folder.is_dir() and folder in Path(other).resolve().parents:
                raise click.UsageError(
                    f"{name} lies in {printable(path)}, among the trajectories. Give it another "
                    "place.",
                    click.get_current_context(silent=True),
                )


def _tell(
    items: Sequence[Item], failed: dict[int, str], store: ReplayStore, report: str | None
) -> None:
    """What failed and what diverged, on standard error and in the report."""
    lines: list[tuple[str, Item, str]] = []
    verdicts: list[Verdict] = []
    for number, item in enumerate(items):
        if number in failed:
            lines.append(("failed", item, failed[number]))
            continue
        verdict = store.kept[str(item.trace_id)].verdict
        verdicts.append(verdict)
        if verdict.diverged:
            lines.append(("diverged", item, verdict.diverged))
    for status, item, message in lines[:MAX_MESSAGES]:
        diverged = f"{printable(str(item.trace_id))} diverged: {printable(message, 400)}"
        click.echo(f"Error: {message}" if status == "failed" else diverged, err=True)
    if len(lines) > MAX_MESSAGES:
        click.echo(f"... and {len(lines) - MAX_MESSAGES} more", err=True)
    if report is not None:
        with open_output(report) as stream:
            for status, item, message in lines:
                fields = {"status": status, "source": item.source, "trace_id": item.trace_id}
                stream.write(json.dumps({**fields, "message": message}).encode() + b"\n")
    _sum_up(verdicts, len(failed))


def _sum_up(verdicts: Sequence[Verdict], failed: int) -> None:
    """How many replays, outputs, exit codes and rewards agree."""
    outputs: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    for verdict in verdicts:
        outputs.update(verdict.outputs)
        codes.update(verdict.exit_codes)
    rewards = Counter(verdict.reward for verdict in verdicts)
    for what, found in (("outputs", outputs), ("exit codes", codes), ("rewards", rewards)):
        if found:
            counts = ", ".join(f"{found[name]} {name}" for name in ORDER if found[name])
            click.echo(f"{what}: {counts}", err=True)
    diverged = sum(bool(verdict.diverged) for verdict in verdicts)
    click.echo(f"{len(verdicts)} replayed, {diverged} of them diverged, {failed} failed", err=True)
