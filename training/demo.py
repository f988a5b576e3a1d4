"""`python -m training.demo`: rollouts in a terminal, their credit, pages, one policy update.

Reads top to bottom: three scripted rollouts of a task, traced in a sandbox and verified -> credit
on the device -> a table a rollout -> the same tokens as rows -> one jitted update with plain group
advantages (GRPO) and one with dependency weights on top.

Scripts stand in for a policy and random ids for its tokens, with each step's share of its rollout
kept (see `training.rows`). What it shows is the machinery: same loss, another gradient. It learns
nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from msgspec import UNSET
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from depgpo_jax.advantages import group_advantages, token_advantages
from depgpo_jax.batch import TraceBatch, TraceCredit, batch_traces, unpad
from depgpo_jax.credit import Credit, dependency_credit
from depgpo_jax.errors import DepgpoError, printable
from depgpo_jax.explain.deeds import read_only_commands
from depgpo_jax.explain.table import LEGEND, explain_table
from depgpo_jax.traces import Trace, read_traces, write_traces
from training.config import ObjectiveConfig, OptimizerConfig, PolicyConfig
from training.policy.transformer import Transformer
from training.rows import token_rows
from training.scripted import scripted_rollouts
from training.update import Metrics, init_state, make_update, on_policy_batch

FAMILY, SEED = "text_to_csv", 0
"""The task that the demo runs: log files are to be summed up in a table."""

LOSS_TOKENS = 250
"""Of the longest rollout; enough for each step to keep its share, small enough for two cores."""

PIPED_WIDTH = 140
"""Columns when the output is no terminal: there is no window to fit, and lines may be searched."""

Result = TypeVar("Result")


class Timed(NamedTuple):
    """Seconds of the first call, which compiles, and of a second one."""

    first: float
    second: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, run, and turn the package's errors into a message and exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m training.demo", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--traces", type=Path, help="a file of traces instead of new rollouts")
    parser.add_argument(
        "--out", type=Path, help="folder that gets the output as demo.txt, and new rollouts"
    )
    options = parser.parse_args(arguments)
    console = Console(
        width=None if sys.stdout.isatty() else PIPED_WIDTH, record=options.out is not None
    )
    try:
        if options.traces is None:
            traces, name = roll_out(console), f"{FAMILY}-{SEED}"
        else:
            traces, name = list(read_traces(options.traces)), options.traces.name
        demo(console, traces, name)
        if options.out is not None:
            options.out.mkdir(parents=True, exist_ok=True)
            console.save_text(str(options.out / "demo.txt"))
            if options.traces is None:
                write_traces(options.out / "rollouts.jsonl", traces)
    except (DepgpoError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def roll_out(console: Console) -> list[Trace]:
    """Runs the scripts of the task and says how each ended."""
    console.print(f"[bold]Rollouts[/] of the task {FAMILY}, seed {SEED}, each in a sandbox:")
    traces: list[Trace] = []
    with TemporaryDirectory(prefix="depgpo-") as folder:
        started = time.perf_counter()
        for trace in scripted_rollouts(FAMILY, SEED, Path(folder) / "task"):
            took, started = time.perf_counter() - started, time.perf_counter()
            passed = [] if trace.tests is UNSET else [test.passed for test in trace.tests]
            console.print(
                Text(
                    f"  {trace.trace_id}: {len(trace.commands)} commands, "
                    f"{sum(passed)} of {len(passed)} tests passed, reward {trace.reward}, "
                    f"{took:.1f} s"
                )
            )
            traces.append(trace)
    console.print()
    return traces


def demo(console: Console, traces: Sequence[Trace], name: str) -> None:
    """Credit, tables, one update of each kind, timings."""
    started = time.perf_counter()
    if not traces:
        console.print("No traces in", Text(printable(name)))
        return
    batch = batch_traces(traces)
    credit, credit_time = timed(lambda: dependency_credit(batch))
    advantage = group_advantages(batch.reward, batch.group, batch.trainable)

    console.print(f"[bold]Credit[/] of {len(traces)} rollouts of", Text(printable(name)), "\n")
    show_credit(
        console, traces, unpad(batch, credit), np.asarray(advantage)[: len(traces)].tolist()
    )
    show_updates(console, traces, batch, credit, advantage, credit_time)
    console.print(f"{time.perf_counter() - started:.1f} s in all, on {jax.devices()[0].platform}")


def show_credit(
    console: Console,
    traces: Sequence[Trace],
    results: Sequence[TraceCredit],
    advantages: Sequence[float],
) -> None:
    """What the numbers mean, a table a rollout, then what they have in common."""
    if all(command.text is UNSET for trace in traces for command in trace.commands):
        console.print(
            "These rollouts were recorded without command texts; "
            "the tables show what each command read and wrote."
        )
    console.print(Text(f"{LEGEND}\n", "dim"))
    for trace, result, advantage in zip(traces, results, advantages, strict=True):
        shown = advantage if trace.trainable else None
        console.print(explain_table(trace, result, shown, legend=False), "")
    on_path = sum(result.on_path_fraction for result in results) / max(len(results), 1)
    reads = read_only_commands(traces)
    console.print(
        f"In all: {on_path:.0%} of a rollout's commands are on the path to what the verifier "
        f"inspected;\n{reads.with_stdout_edge} of {reads.total} read-only commands have an "
        "outgoing stdout edge.\n"
    )


def show_updates(
    console: Console,
    traces: Sequence[Trace],
    batch: TraceBatch,
    credit: Credit,
    advantage: jax.Array,
    credit_time: Timed,
) -> None:
    """One update with plain advantages and one with weighted ones, from the same parameters."""
    policy, optimizer = PolicyConfig(), OptimizerConfig()
    model = Transformer(policy, rngs=nnx.Rngs(0))
    rows = token_rows(
        traces,
        vocab_size=policy.vocab_size,
        max_loss_tokens=LOSS_TOKENS,
        num_rows=batch.is_rollout.shape[0],
    )
    plain = on_policy_batch(model, rows, advantage)
    weighted = plain._replace(
        advantages=token_advantages(
            credit, advantage, jnp.asarray(rows.step_of_token), jnp.asarray(rows.loss_mask)
        )
    )
    update = make_update(model, optimizer, ObjectiveConfig())

    # One state a call, made before the clock runs: an update uses its state up.
    states = [init_state(model, optimizer) for _ in range(3)]
    depgpo, update_time = timed(lambda: update(states.pop(), weighted)[1])
    grpo = update(states.pop(), plain)[1]

    parameters = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model)))
    console.print(
        f"[bold]One update[/] of a Flax policy ({parameters:,} parameters) on "
        f"{rows.loss_mask.sum():,} loss tokens in rows of {rows.tokens.shape[1]}.\n"
        + ("Token ids were not recorded, so random ids stand in. " if rows.stand_in.any() else "")
        + f"A rollout is cut to about {LOSS_TOKENS} tokens at most, with each step's share kept.\n"
    )
    console.print(metrics_table({"GRPO": grpo, "DepGPO": depgpo}), "")
    console.print(
        "At ratio 1 the weights keep the loss and change the gradient: they move credit between "
        "steps, not between rollouts.\n"
    )
    console.print(times_table({"credit kernels": credit_time, "policy update": update_time}), "")


def metrics_table(metrics: dict[str, Metrics]) -> Table:
    """One line an update."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("advantages")
    for name in Metrics._fields:
        table.add_column(name.replace("_", " "), justify="right")
    for name, values in metrics.items():
        table.add_row(name, *(f"{float(value) + 0.0:.6f}" for value in values))
    return table


def times_table(times: dict[str, Timed]) -> Table:
    """Compiling call against the next one, in milliseconds."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("milliseconds")
    table.add_column("first call, compiles", justify="right")
    table.add_column("second call", justify="right")
    for name, time_ in times.items():
        table.add_row(name, f"{1e3 * time_.first:.1f}", f"{1e3 * time_.second:.2f}")
    return table


def timed(call: Callable[[], Result]) -> tuple[Result, Timed]:
    """The result of a call on the device, made twice."""

    def once() -> tuple[Result, float]:
        started = time.perf_counter()
        result = jax.block_until_ready(call())
        return result, time.perf_counter() - started

    result, first = once()
    return result, Timed(first, once()[1])


if __name__ == "__main__":
    sys.exit(main())
