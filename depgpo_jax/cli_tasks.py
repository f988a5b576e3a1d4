"""`depgpo run`: a task's commands in its sandbox, its verifier, and the trace of both. No JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from depgpo_jax.cli_commands import print_summary, read_commands, require_tracer, steps_shown
from depgpo_jax.cli_console import counted
from depgpo_jax.cli_files import refuse_same_file
from depgpo_jax.cli_tracer import commands_option, out_option, write_trace
from depgpo_jax.errors import printable

if TYPE_CHECKING:
    from depgpo_jax.tasks import Task
    from depgpo_jax.tasks.run import TaskSession
    from depgpo_jax.traces import Trace


@click.command()
@click.argument("task", metavar="TASK")
@commands_option
@click.option("--solution", is_flag=True, help="Run the task's own solution/.")
@click.option("--nothing", is_flag=True, help="Run no command at all, only the verifier.")
@out_option
@click.option(
    "--trace-id",
    metavar="ID",
    help="The trace's own name, unique in a file.  [default: the task's name and what ran]",
)
def run(
    task: str,
    commands: str | None,
    solution: bool,
    nothing: bool,
    out: str,
    trace_id: str | None,
) -> None:
    """Run commands on TASK, a task directory in the Harbor format, and then its verifier.

    Needs no container: the Dockerfile's files are made in a sandbox, in which the commands and the
    verifier run. One trace is written, with the reward, or with the reason why there is none; both
    also go to standard error.

    A solution is solution/commands.json, a JSON list of texts, or else solution/solve.sh.

    \b
    Examples:
      depgpo run tasks/sum-csv --solution --out good.jsonl
      depgpo run tasks/sum-csv --commands attempt.txt > attempt.jsonl
      depgpo run tasks/sum-csv --nothing
    """  # noqa: D301 - click looks for the character \b itself
    if [commands is not None, solution, nothing].count(True) != 1:
        raise click.UsageError("Give one of --commands FILE, --solution and --nothing.")
    refuse_same_file({"--commands": commands, "--out": out})
    texts = [] if commands is None else read_commands(commands)
    require_tracer()
    from depgpo_jax.tasks import read_task

    found = read_task(task)
    for warning in found.warnings:
        click.echo(f"Warning: {printable(warning, 1000)}", err=True)
    texts = _solution(found) if solution else texts
    kind = "solution" if solution else "nothing" if nothing else "commands"
    done = _rollout(found, texts, solution, trace_id or f"{found.name}/{kind}")
    write_trace(done, out)
    print_summary(done)
    _print_verdict(done)


def _solution(task: Task) -> list[str]:
    """The texts of the task's own solution.

    Raises:
        TaskError: it has none.
        TraceError: its commands.json is no list of texts.
    """
    from depgpo_jax.tasks import TaskError
    from depgpo_jax.tasks.run import SOLUTION

    listed = task.solution / "commands.json"
    if listed.is_file():
        return read_commands(str(listed))
    if not task.has_solution:
        raise TaskError(
            "no solution",
            "solution/commands.json or solution/solve.sh",
            "Write one of them, or give --commands FILE.",
            file=str(task.directory),
        )
    return [f"bash {SOLUTION}/solve.sh"]


def _rollout(task: Task, texts: list[str], with_solution: bool, trace_id: str) -> Trace:
    from depgpo_jax.tasks.run import TaskSession
    from depgpo_jax.tracer.terminal import SessionLost

    with (
        steps_shown("running", len(texts) + 2) as step_done,
        TaskSession(task, with_solution=with_solution) as session,
    ):
        step_done()
        for number, text in enumerate(texts):
            try:
                ran = session.step([text])
            except SessionLost as error:
                click.echo(f"Warning: command {number} was the last one: {error}", err=True)
                break
            if not ran:
                _warn_about_time(session, len(texts) - number)
                break
            step_done()
        if not texts:
            session.step([])  # the agent's turn in which it did nothing
        done = session.finish(trace_id=trace_id)
        step_done()
    return done


def _warn_about_time(session: TaskSession, left: int) -> None:
    seconds = session.task.settings.agent_timeout
    what = f"the agent's {seconds:g} s are over; {counted(left, 'command')} did not run"
    click.echo(f"Warning: {what}", err=True)


def _print_verdict(done: Trace) -> None:
    """The reward and the single tests, on standard error."""
    from msgspec import UNSET

    for test in () if done.tests is UNSET else done.tests:
        click.echo(f"{'passed' if test.passed else 'FAILED'}  {printable(test.name)}", err=True)
    if done.reward is UNSET:
        click.echo(f"no reward: {printable(str(done.invalid))}", err=True)
    else:
        click.echo(f"reward {done.reward:g}", err=True)
