"""The command `depgpo`: check trace files, give credit, show why, print the schema.

Exit codes: 0 fine; 1 bad input (the message on stderr, no output file); 2 wrong usage; 130
interrupted. JAX is imported inside the commands that compute, so that `validate` starts at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import click

from depgpo_jax.cli_console import (
    counted,
    flush_streams,
    keep_interrupts,
    prepare_streams,
    print_table,
    progress_bars,
)
from depgpo_jax.cli_files import INDEX, open_report, refuse_same_file
from depgpo_jax.cli_options import as_options, batch_size_option, credit_options
from depgpo_jax.cli_replay import replay
from depgpo_jax.cli_tasks import run
from depgpo_jax.cli_tracer import doctor, shell, trace
from depgpo_jax.errors import DepgpoError, TraceError, printable
from depgpo_jax.traces import TraceIndex, index_traces, open_output
from depgpo_jax.traces.files import STANDARD, standard_output
from depgpo_jax.version import __version__

EXIT_BAD_INPUT = 1
EXIT_INTERRUPTED = 130

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".csv", ".parquet")
MAX_MESSAGES = 20


class BadInput(click.ClickException):
    """What was read is wrong: the message goes to stderr and the command ends with 1."""

    exit_code = EXIT_BAD_INPUT


class Commands(click.Group):
    """Turns the package's errors, an interrupt and a closed pipe into messages and exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command that was asked for."""
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(EXIT_INTERRUPTED)
        except BrokenPipeError:
            # Whoever read us has seen enough. Without this, Python complains again at exit.
            if sys.stdout is not None:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)
        except (DepgpoError, OSError) as error:
            raise BadInput(str(error)) from error
        return result


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="depgpo")
def cli() -> None:
    """Dependency-aware credit for the recorded rollouts of terminal agents.

    A FILE holds one rollout a line as JSON; .gz and .zst are unpacked, - is standard input.

    \b
    Examples:
      depgpo validate rollouts.jsonl
      depgpo credit rollouts.jsonl --out credit.parquet
      depgpo explain rollouts.jsonl --trace sum-csv/3
      depgpo report rollouts.jsonl --out report
      zcat rollouts.jsonl.gz | depgpo credit - --relevance stdout | head -1

    \b
    Exit codes: 0 fine, 1 bad input, 2 wrong usage, 130 interrupted.
    """


@cli.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
def validate(files: tuple[str, ...]) -> None:
    """Check that every line of each FILE is a valid trace.

    Every bad line is named on standard error; one is enough for exit code 1.

    \b
    Examples:
      depgpo validate rollouts.jsonl more.jsonl.zst
      cat rollouts.jsonl | depgpo validate -
    """
    if files.count(STANDARD) > 1:
        raise click.BadParameter("- stands there twice; it can be read once.", param_hint="FILE")
    good = [_validate_file(file) for file in files]
    if not all(good):
        click.get_current_context().exit(EXIT_BAD_INPUT)


def _validate_file(file: str) -> bool:
    try:
        with (
            progress_bars() as bar,
            index_traces(file, skip_bad=True, progress=bar("checking")) as index,
        ):
            _echo_bad_lines(index)
    except TraceError as error:
        click.echo(f"Error: {error}", err=True)
        return False
    name, good = printable(index.source), len(index)
    if index.bad_lines:
        click.echo(f"{name}: {counted(len(index.bad_lines), 'bad line')}, {good} good", err=True)
        return False
    groups = len(index.group_ids)
    no_reward = sum(index.reward(number) is None for number in range(good))
    invalid = sum(index.is_invalid(number) for number in range(good))
    click.echo(
        f"{name}: fine, {counted(good, 'trace')} in {counted(groups, 'group')}, "
        f"{no_reward} without a reward, {invalid} invalid"
    )
    return True


def _echo_bad_lines(index: TraceIndex) -> None:
    for bad in index.bad_lines[:MAX_MESSAGES]:
        click.echo(f"Error: {bad.message}", err=True)
    more = len(index.bad_lines) - MAX_MESSAGES
    if more > 0:
        click.echo(
            f"... and {counted(more, 'more bad line')} in {printable(index.source)}", err=True
        )


@cli.command()
@click.argument("file", metavar="FILE")
@credit_options
@click.option(
    "--out",
    metavar="FILE",
    default=STANDARD,
    help=f"Where to; the ending is one of {', '.join(ENDINGS)}.  [default: JSON Lines on stdout]",
)
@click.option(
    "--skip-bad",
    metavar="REPORT",
    help="Leave bad lines out and list them in this file, one JSON object each.",
)
@batch_size_option
def credit(file: str, out: str, skip_bad: str | None, batch_size: int, **settings: Any) -> None:
    """Give every command, step and token of each trace in FILE its credit.

    Writes one JSON object a trace, in the order of FILE. CSV and Parquet hold one row a step
    instead, without the credit of single commands. An --out file appears only when all went well.

    Rewards are compared within a group over the whole FILE. A trace without a reward is bad input,
    unless it is marked as invalid (its advantage is null then) or with --advantage none.

    \b
    Examples:
      depgpo credit rollouts.jsonl
      depgpo credit rollouts.jsonl --out credit.csv --max-weight 4
      depgpo credit rollouts.jsonl --relevance slice --advantage rloo --out credit.parquet
      depgpo credit rollouts.jsonl --advantage none --skip-bad bad.jsonl --out credit.jsonl.zst
    """
    ending = _ending(out)
    refuse_same_file({"FILE": file, "--out": out, "--skip-bad": skip_bad})
    if skip_bad == STANDARD:
        raise click.BadParameter("the report needs a file of its own.", param_hint="--skip-bad")
    options = as_options(settings)
    from depgpo_jax.batch import MAX_COMMANDS
    from depgpo_jax.cli_credit import credit_traces, file_advantages
    from depgpo_jax.cli_output import open_sink, scored

    with (
        progress_bars(hidden=out == STANDARD and standard_output().isatty()) as bar,
        index_traces(
            file,
            skip_bad=skip_bad is not None,
            need_reward=options.advantage is not None,
            max_commands=MAX_COMMANDS,
            progress=bar("checking"),
        ) as index,
    ):
        if skip_bad is not None:
            _write_report(index, skip_bad)
        advantages = file_advantages(index, options.advantage)
        with open_output(out) as stream, open_sink(stream, ending) as sink:
            traces = index.read(progress=bar("computing"))
            for batch in credit_traces(traces, advantages, options.config, batch_size):
                sink.write([scored(*result) for result in batch])
    if index.bad_lines:
        bad = len(index.bad_lines)
        total = counted(len(index) + bad, "line")
        click.echo(
            f"{bad} of {total} {'was' if bad == 1 else 'were'} bad and left out, "
            f"see {printable(str(skip_bad))}",
            err=True,
        )


def _ending(out: str) -> str:
    if out == STANDARD:
        return ENDINGS[0]
    for ending in ENDINGS:
        if out.endswith(ending):
            return ending
    allowed = f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
    raise click.BadParameter(f"found {out!r}; it must end in {allowed}.", param_hint="--out")


def _write_report(index: TraceIndex, path: str) -> None:
    with open_output(path) as report:
        for bad in index.bad_lines:
            fields = {"line": bad.line, "trace_id": bad.trace_id, "message": bad.message}
            report.write(json.dumps(fields).encode() + b"\n")


@cli.command()
@click.argument("file", metavar="FILE")
@click.option("--trace", "trace_id", metavar="ID", required=True, help="The trace_id to show.")
@click.option("--why", is_flag=True, help="Print the reasons for each command's credit instead.")
@click.option(
    "--html",
    metavar="OUT",
    help="Write a page for a browser to this file instead; - is standard output.",
)
@credit_options
def explain(file: str, trace_id: str, why: bool, html: str | None, **settings: Any) -> None:
    """Show one trace of FILE: each command's credit and why, each step's weight.

    Prints a table of commands, or with --why one of reasons. With --html it writes one page that
    opens from disk and needs no network: the commands with the dependencies between them, and the
    reasons for each one's credit.

    \b
    Examples:
      depgpo explain rollouts.jsonl --trace sum-csv/3
      depgpo explain rollouts.jsonl --trace sum-csv/3 --relevance stdout --max-weight 4
      depgpo explain rollouts.jsonl --trace sum-csv/3 --why
      depgpo explain rollouts.jsonl --trace sum-csv/3 --html sum-csv-3.html
    """
    if why and html is not None:
        raise click.UsageError("--why and --html are two ways to see the same; give one.")
    if html == "":
        raise click.BadParameter("found no path. Give a file, or - .", param_hint="--html")
    refuse_same_file({"FILE": file, "--html": html})
    options = as_options(settings)
    from depgpo_jax.batch import MAX_COMMANDS
    from depgpo_jax.cli_credit import credit_traces, file_advantages

    with (
        progress_bars(hidden=html in (None, STANDARD) and standard_output().isatty()) as bar,
        index_traces(file, max_commands=MAX_COMMANDS, progress=bar("checking")) as index,
    ):
        number = _number(index, trace_id)
        if number is None:
            _refuse_trace(index, trace_id)
        advantages = file_advantages(index, options.advantage)
        if advantages is not None:
            advantages = advantages[number : number + 1]
        wanted = islice(index.read(), number, number + 1)
        [[result]] = credit_traces(wanted, advantages, options.config, batch_size=1)
    from depgpo_jax.explain.table import explain_table, why_table
    from depgpo_jax.explain.why import RolloutExplanation

    if html is None and not why:
        print_table(explain_table(*result))
        return
    trace, credit, advantage = result
    rollout = RolloutExplanation(trace, options.config, credit)
    if html is None:
        print_table(why_table(rollout))
        return
    from depgpo_jax.explain.pages.rollout import explain_page

    with open_output(html) as stream:
        about = [] if options.advantage is None else [f"advantage {options.advantage}"]
        page = explain_page(rollout, advantage, about=about, source=index.source)
        stream.write(page.encode())


@cli.command()
@click.argument("file", metavar="FILE")
@click.option("--out", metavar="DIR", required=True, help="The folder to make.")
@batch_size_option
@credit_options
def report(file: str, out: str, batch_size: int, **settings: Any) -> None:
    """Write pages about all rollouts of FILE: groups, rollouts side by side, each with its reasons.

    Open DIR/index.html in a browser; nothing needs a network. The pages appear only when all went
    well. Those of an earlier report are replaced; a DIR that holds anything else is refused.

    \b
    Examples:
      depgpo report rollouts.jsonl --out report
      depgpo report rollouts.jsonl.zst --out report --relevance slice --advantage none
    """
    refuse_same_file({"FILE": file, "--out": out})
    options = as_options(settings)
    from depgpo_jax.batch import MAX_COMMANDS
    from depgpo_jax.cli_pages import write_pages

    with (
        open_report(out, file) as folder,
        progress_bars() as bar,
        index_traces(file, max_commands=MAX_COMMANDS, progress=bar("checking")) as index,
    ):
        pages = write_pages(index, folder, options, batch_size, bar("writing pages"))
    shown = printable(str(Path(out, INDEX)))
    click.echo(f"{counted(pages, 'page')}, to be opened at {shown}")


def _number(index: TraceIndex, trace_id: str) -> int | None:
    try:
        return index.trace_ids.number(trace_id)
    except UnicodeEncodeError:  # bytes of the command line that are no text; every id is
        return None


def _refuse_trace(index: TraceIndex, trace_id: str) -> NoReturn:
    from difflib import get_close_matches

    known = "nothing, the file holds no trace"
    near = get_close_matches(trace_id, index.trace_ids[:1000], n=3) or index.trace_ids[:3]
    if near:
        names = ", ".join(printable(name) for name in near)
        known = f"one of its {counted(len(index), 'id')}, such as: {names}"
    raise BadInput(
        f"{printable(index.source)}: no trace has the id '{printable(trace_id)}'. Allowed: {known}."
    )


@cli.command()
def schema() -> None:
    """Print the JSON Schema of a trace.

    The schema holds every rule that JSON Schema can say; `depgpo validate` checks the others too.

    \b
    Example:
      depgpo schema > trace.schema.json
    """
    from depgpo_jax.schema import json_schema

    with open_output(STANDARD) as stream:
        stream.write(json.dumps(json_schema(), indent=2, ensure_ascii=False).encode() + b"\n")


for _command in (trace, shell, run, replay, doctor):
    cli.add_command(_command)


def main() -> None:
    """The entry of the console script."""
    prepare_streams()
    keep_interrupts()
    _catch_signals()
    code: object = None
    try:
        cli()
    except SystemExit as end:
        code = end.code
    except OSError as error:  # help or version, on a disk that is full
        click.echo(f"Error: {error}", err=True)
        code = EXIT_BAD_INPUT
    if not flush_streams():
        code = code or EXIT_BAD_INPUT
    # When a run is cut short, JAX may still compute in the background, and an interpreter that is
    # taken down under it crashes. Every file is closed by now: nothing is lost by leaving at once.
    os._exit(code if isinstance(code, int) else 0)


def _catch_signals() -> None:
    signal.signal(signal.SIGTERM, _terminate)
    # Windows has no SIGHUP, and nohup has it ignored.
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        signal.signal(hangup, _terminate)


def _terminate(number: int, _frame: object) -> NoReturn:
    # An exception instead of sudden death, so that a half-written output file is removed.
    raise SystemExit(128 + number)
