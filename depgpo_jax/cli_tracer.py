"""The commands that trace: `depgpo trace`, `depgpo shell`, and `depgpo doctor` for what they need.

No JAX. The tracer itself is imported inside, because it exists on Linux only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from depgpo_jax.cli_commands import (
    MissingProgramError,
    chosen_commands,
    print_summary,
    require_tracer,
    steps_shown,
)
from depgpo_jax.cli_console import counted, print_table
from depgpo_jax.cli_files import refuse_same_file
from depgpo_jax.cli_options import Number
from depgpo_jax.errors import DepgpoError, printable
from depgpo_jax.traces import encode_trace, open_output
from depgpo_jax.traces.files import STANDARD, standard_output

if TYPE_CHECKING:
    from depgpo_jax.tracer.terminal import TerminalConfig
    from depgpo_jax.tracer.workplace import Workplace
    from depgpo_jax.traces import Trace

WEEK_S = 7 * 24 * 3600.0
MIN_WALL_S = 3600.0
SPARE_S = 600.0
"""Of a sandbox's time, beyond what its commands may take together."""

out_option = click.option(
    "--out",
    metavar="FILE",
    default=STANDARD,
    help="Where the trace goes; .gz and .zst are packed.  [default: stdout]",
)
commands_option = click.option(
    "--commands",
    metavar="FILE",
    help="Commands to run: one a line, or a JSON list of texts in a file that ends in .json; "
    "- is standard input.",
)
time_limit_option = click.option(
    "--time-limit",
    metavar="S",
    type=Number(0.0, WEEK_S, min_open=True),
    default=600.0,
    show_default=True,
    help="Seconds that one command may take; then it is ended and the next one runs.",
)
keep_option = click.option(
    "--keep",
    is_flag=True,
    help="At the end, write what changed back to the current directory, unless the run fails; "
    "a command that fails is no reason.",
)
inspect_option = click.option(
    "--inspect",
    metavar="RESOURCE",
    multiple=True,
    help="What a verifier would look at: a path, or a name such as tcp:8080. May be repeated.",
)
trace_id_option = click.option(
    "--trace-id",
    metavar="ID",
    default="trace",
    show_default=True,
    help="The trace's own name, unique in a file.",
)


@click.command()
@click.argument("argv", metavar="[-- ARGV...]", nargs=-1, type=click.UNPROCESSED)
@commands_option
@out_option
@keep_option
@inspect_option
@time_limit_option
@trace_id_option
def trace(
    argv: tuple[str, ...],
    commands: str | None,
    out: str,
    keep: bool,
    inspect: tuple[str, ...],
    time_limit: float,
    trace_id: str,
) -> None:
    """Run commands in a sandbox and write what each of them read and wrote, as one trace.

    They work on a view of the current directory: the files in it stay as they are, unless --keep is
    given. There is no network, and of the rest of this machine only its programs are there; memory
    ends at 2 GiB, new files at 1 GiB. Standard input is a terminal at which nobody types. A summary
    goes to standard error. The exit code is 0 also if
    a command fails: its own is in the trace.

    \b
    Examples:
      depgpo trace --out run.jsonl -- sort -o sorted.txt words.txt
      depgpo trace --commands commands.txt --inspect report.csv --out run.jsonl
      depgpo trace --commands commands.json --keep > run.jsonl
    """  # noqa: D301 - click looks for the character \b itself
    if (commands is None) == (not argv):
        raise click.UsageError("Give either --commands FILE, or one command behind -- .")
    refuse_same_file({"--commands": commands, "--out": out})
    texts = chosen_commands(commands, argv)
    require_tracer()
    from depgpo_jax.tracer.terminal import TerminalConfig

    wall = max(MIN_WALL_S, len(texts) * time_limit + SPARE_S)
    with (
        steps_shown("running", len(texts)) as step_done,
        _workplace(TerminalConfig(time_limit_s=time_limit), wall) as place,
    ):
        for number, text in enumerate(texts):
            _run(place, number, text)
            step_done()
        done = place.trace(trace_id=trace_id, inspect=inspect)
        recorded = any(command.recorded for command in done.commands)
        if place.terminal.tracer_was_lost and not recorded:
            raise DepgpoError(
                f"tracing: found no command that could be recorded "
                f"({done.commands[0].unrecorded_reason}). Allowed: at least one. Run "
                "`depgpo doctor`."
            )
        write_trace(done, out, place if keep else None)
    print_summary(done)


def _workplace(
    config: TerminalConfig, wall_s: float, environment: dict[str, str] | None = None
) -> Workplace:
    from depgpo_jax.tracer.workplace import Workplace

    here = str(Path.cwd().resolve())
    return Workplace(here, config, wall_s=wall_s, environment=environment)


def _run(place: Workplace, number: int, text: str) -> None:
    from depgpo_jax.tracer.terminal import SessionLost

    try:
        place.run(text)
    except SessionLost as error:
        raise SessionLost(f"command {number}: {error}. No trace was written.") from None


def write_trace(done: Trace, out: str, kept: Workplace | None = None) -> None:
    """Writes one trace, and the changes to the real directory if they shall be kept.

    Either both or neither, as far as a disk allows it: the file appears once the changes are there.

    Args:
        done: the trace.
        out: the file, or - for standard output.
        kept: whose changes to keep.
    """
    line = encode_trace(done) + b"\n"
    with open_output(out) as stream:
        stream.write(line)
        changes = [] if kept is None else kept.keep()
    for change in changes:
        if change.kind == "skipped":
            name = printable(os.fsdecode(change.path))
            click.echo(f"not kept, as it is a device, pipe or socket: {name}", err=True)


@click.command()
@out_option
@keep_option
@inspect_option
@trace_id_option
def shell(out: str, keep: bool, inspect: tuple[str, ...], trace_id: str) -> None:
    """Work in a traced shell over a view of the current directory.

    Type commands as in any shell; one that is not finished goes on in the next line. Ctrl-C
    interrupts the program that runs (a loop of the shell's own goes on with its next turn; three
    times ends the shell, and a new one begins), Ctrl-D or `exit` ends the shell. What was written
    by which command is listed then. The files of the directory stay as they are, unless --keep is
    given. What is typed goes to a program line by line, so those that want single keys, such as
    editors and pagers, are of little use here.

    \b
    Examples:
      depgpo shell --out session.jsonl
      depgpo shell --out session.jsonl --keep --inspect report.csv
      echo 'wc -l *.txt' | depgpo shell > session.jsonl
    """  # noqa: D301 - click looks for the character \b itself
    require_tracer()
    from depgpo_jax.cli_shell import Keyboard, run_shell
    from depgpo_jax.tracer.terminal import TerminalConfig

    # A trace is no sight for a person's terminal.
    dropped = out == STANDARD and standard_output().isatty()
    if dropped:
        click.echo("The trace will not be kept; give --out FILE for that.", err=True)
    stream = sys.stderr if out == STANDARD and not dropped else sys.stdout
    columns, rows = Console().size
    config = TerminalConfig(time_limit_s=WEEK_S, columns=columns, rows=rows)
    kind = {"TERM": os.environ.get("TERM", "dumb")}
    with _workplace(config, WEEK_S, kind) as place:
        run_shell(place, Keyboard(stream))
        done = place.trace(trace_id=trace_id, inspect=inspect)
        if not dropped:
            write_trace(done, out, place if keep else None)
        elif keep:
            place.keep()
    print_summary(done)
    if not keep and any(command.writes for command in done.commands):
        click.echo("The directory is as it was; --keep writes changes back.", err=True)


@click.command()
def doctor() -> None:
    """Say what this machine lacks for tracing, and how to get it.

    The exit code is 0 if all that tracing needs is there, else 1.

    \b
    Example:
      depgpo doctor
    """  # noqa: D301 - click looks for the character \b itself
    if sys.platform != "linux":
        raise MissingProgramError(
            f"doctor: found the system {sys.platform!r}. Allowed: Linux, which alone can trace. "
            "The other commands of depgpo work here."
        )
    from depgpo_jax.tracer.doctor import checks, ready

    done = checks()
    table = Table("", "what", "found", "for")
    for check in done:
        sign = "ok" if check.ok else ("MISSING" if check.required else "without")
        table.add_row(sign, check.name, escape(check.found), escape(check.purpose))
    print_table(table)
    console = Console()
    for check in done:
        if check.remedy:
            text = f"{check.name}: {check.remedy}"
            console.print(text, markup=False, highlight=False, soft_wrap=not console.is_terminal)
    if ready(done):
        click.echo("Everything that tracing needs is there.")
        return
    missing = sum(check.required and not check.ok for check in done)
    click.echo(f"{counted(missing, 'thing')} missing: see above for how to get it.", err=True)
    click.get_current_context().exit(1)
