# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   language_info:
#     name: python
# ---

# %% [markdown]
# # Credit in five minutes
#
# GRPO gives every token of a rollout the same advantage: the command that wrote the answer and the
# tenth `ls` alike. DepGPO-JAX looks at what each command read and wrote, and moves the advantage to
# the steps that led to what the verifier looked at.
#
# This notebook does that for five real rollouts of one terminal task (summarise log files into a
# CSV). It needs no accelerator and no download besides the packages, and runs in about a minute
# once they are installed.

# %% [markdown]
# ## 1. Make things ready
#
# The notebook finds the checkout that it lies in or, as in Colab, one in a folder `depgpo-jax` next
# to it. What is missing gets installed from there, which can take a minute or two.

# %%
import importlib.util
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path


def is_checkout(folder: Path) -> bool:
    project = folder / "pyproject.toml"
    return project.is_file() and 'name = "depgpo-jax"' in project.read_text("utf-8")


here = Path.cwd()
folders = [here, *here.parents, *sorted(here.glob("*/")), *sorted(here.glob("*/*/"))]
found = list(filter(is_checkout, folders))
if not found:
    raise SystemExit(
        "Found no checkout of DepGPO-JAX. Put one next to this notebook, then run this cell "
        "again. In Colab, run one of these in a cell of its own:\n"
        "    !git clone ADDRESS_OF_THE_REPOSITORY depgpo-jax\n"
        "    !unzip -q UPLOADED_FILE.zip -d depgpo-jax"
    )
checkout = found[0]
needed = ("depgpo_jax", "jax", "msgspec", "flax", "optax", "matplotlib")
if not all(map(importlib.util.find_spec, needed)):
    pip = [sys.executable, "-m", "pip", "install", "-q"]
    subprocess.run([*pip, f"{checkout}[train,plot]"], check=True)
    importlib.invalidate_caches()
    old = [name for name in ("numpy", "jax") if name in sys.modules]
    if any(sys.modules[name].__version__ != version(name) for name in old):
        raise SystemExit("Installed. Restart the runtime (Runtime > Restart), then run all cells.")
# At the end, so that an installed package wins; `training` lies in the checkout only.
sys.path.append(str(checkout))
print("Ready.")

# %% [markdown]
# ## 2. What a trace holds
#
# A file of traces is JSON Lines, one rollout a line. Three of these five rollouts passed the
# verifier, two failed.

# %%
import depgpo_jax as dg

traces = list(dg.read_traces(checkout / "tests" / "real" / "log-summary-group.jsonl"))
for trace in traces:
    tokens = sum(step.loss_tokens for step in trace.steps)
    print(
        f"{trace.trace_id}: reward {trace.reward}, {len(trace.commands)} commands "
        f"in {len(trace.steps)} steps, {tokens:,} loss tokens"
    )

# %% [markdown]
# A trace says what the verifier looked at and, for each command, what it read, what it wrote, and
# whose output it reuses. It can hold the commands' texts as well, but this public recording comes
# without them. We follow `log-summary/3`, which failed: command 5 rewrote a script, with values
# that commands 0 and 4 had printed, and command 6 read it and wrote the CSV.

# %%
trace = traces[3]
print("the verifier looked at", *trace.verifier)
for number in (4, 5, 6):
    command = trace.commands[number]
    reads = list(command.reads[:2])
    if len(command.reads) > 2:
        reads.append(f"and {len(command.reads) - 2} more")
    print(f"\n#{number} reads        {', '.join(reads) or '-'}")
    print(f"   writes       {', '.join(write.resource for write in command.writes) or '-'}")
    print(f"   stdout_from  {', '.join(f'#{earlier}' for earlier in command.stdout_from) or '-'}")

# %% [markdown]
# ## 3. Credit, weights, advantages
#
# Traces become padded arrays, one jitted call computes the credit of the whole batch on the device,
# and the group advantages are GRPO's.

# %%
batch = dg.batch_traces(traces)
credit = dg.dependency_credit(batch)
advantage = dg.group_advantages(batch.reward, batch.group, batch.trainable)
results = dg.unpad(batch, credit)  # numpy, without padding, one result a trace

# A batch may be padded with more rows than there are traces: hence strict=False.
for trace, result, value in zip(traces, results, advantage.tolist(), strict=False):
    on_path, heaviest = result.on_path_fraction, result.max_weight_seen
    print(
        f"{trace.trace_id}: advantage {value:+.2f}, {on_path:4.0%} of commands on path, "
        f"largest weight {heaviest:.2f}"
    )

# %% [markdown]
# *On path* are the commands with credit: of the others nothing reached, as far as the trace shows,
# what the verifier looked at. Below is each command of `log-summary/3`. Its advantage is negative,
# so the steps that made the wrong file get more of the blame, and the checks afterwards none.
#
# *Credit* is the share of a command's records that count; a record is a line that it wrote, or in
# this recording a whole file. A command that wrote nothing is paid for what its output led to.
# *Weight* belongs to each token of the step, with a mean of 1 over the rollout; *advantage* is
# weight times the rollout's advantage.

# %%
from rich.console import Console

table = dg.explain_table(traces[3], results[3], float(advantage[3]), legend=False)
Console(width=100).print(table)

# %% [markdown]
# ## 4. Why?
#
# Every credit has reasons, and the library can tell them in sentences. Four commands of the table:
# a writer (5); a read-only command that is paid through the writers its output led to (4); a writer
# whose work was thrown away (2); and a look around that led to nothing (8).

# %%
rollout = dg.explain_rollout(credit, batch, traces[3])
for number in (5, 4, 2, 8):
    print(f"Command {number}", *dg.why_text(rollout, number), sep="\n    ")

# %% [markdown]
# `0.25 = 0.5² × 1.0 via #5 → #6` reads: the writer #6 has credit 1.0 and is two links away, and
# each link halves what is passed on.

# %% [markdown]
# ## 5. Five pictures
#
# Where along the rollout the credit lies. The stripe below the bars shows the commands without
# credit, too.

# %%
from depgpo_jax import plot

axes = plot.credit_along_rollout(credit, batch, 3)

# %% [markdown]
# What the loss sees: every step as wide as its tokens, coloured by weight times advantage. Without
# weights the whole strip would have one colour.

# %%
axes = plot.token_strip(credit, batch, 3, advantage=float(advantage[3]))

# %% [markdown]
# Who depended on whom. Five commands reuse what 8 printed, but none of them wrote anything, so 8
# earns nothing.

# %%
axes = plot.dependency_graph(credit, batch, 3)

# %% [markdown]
# The whole batch: how many tokens are raised above GRPO's 1, and how many carry no gradient any
# more.

# %%
axes = plot.weight_histogram(credit, batch)

# %% [markdown]
# One dot a rollout: how much of it led to the answer. With a batch of your own, this tells whether
# long rollouts are long because of their detours.

# %%
axes = plot.on_path_by_length(credit, batch)

# %% [markdown]
# ## 6. One rollout as a page
#
# The same facts as one self-contained HTML file, for a closer look or to send to somebody: point at
# a command, and it shows its reasons and its dependencies. Colab shows it below; elsewhere, open
# the file in a browser.

# %%
from html import escape

from IPython.display import HTML, display

page = dg.explain_page(rollout, advantage=float(advantage[3]))
file = checkout / "out" / "log-summary-3.html"
file.parent.mkdir(exist_ok=True)
file.write_text(page, "utf-8")
print("Written:", file.relative_to(checkout), "in the checkout")
if "google.colab" in sys.modules:
    display(HTML(f'<iframe srcdoc="{escape(page)}" width="100%" height="700"></iframe>'))

# %% [markdown]
# ## 7. One update
#
# Into your own trainer goes one array: an advantage for every token. Here a small Flax policy takes
# one step with GRPO's advantages and one with DepGPO's, from the same parameters. Token ids were
# not recorded, so random ids stand in: this shows that the parts fit together, not that anything is
# learned.

# %%
import jax.numpy as jnp
from flax import nnx

from training.config import ObjectiveConfig, OptimizerConfig, PolicyConfig
from training.policy.transformer import Transformer
from training.rows import token_rows
from training.update import init_state, make_update, on_policy_batch

policy, optimizer = PolicyConfig(), OptimizerConfig()
model = Transformer(policy, rngs=nnx.Rngs(0))
rows = token_rows(
    traces, vocab_size=policy.vocab_size, max_loss_tokens=250, num_rows=len(advantage)
)
step_of_token, loss_mask = jnp.asarray(rows.step_of_token), jnp.asarray(rows.loss_mask)

grpo = on_policy_batch(model, rows, advantage)
weighted = dg.token_advantages(credit, advantage, step_of_token, loss_mask)  # [B, L]
depgpo = grpo._replace(advantages=weighted)

update = make_update(model, optimizer, ObjectiveConfig())
for name, tokens in (("GRPO", grpo), ("DepGPO", depgpo)):
    _, metrics = update(init_state(model, optimizer), tokens)
    print(f"{name:8} loss {metrics.loss:.3f}   gradient norm {metrics.grad_norm:.2f}")

# %% [markdown]
# The same loss, another gradient: the weights move credit between the steps of a rollout, never
# between rollouts. In every row the mean advantage of the loss tokens is still GRPO's.

# %%
mean = jnp.where(loss_mask, weighted, 0).sum(axis=1) / jnp.maximum(1, loss_mask.sum(axis=1))
for trace, before, after in zip(traces, advantage.tolist(), mean.tolist(), strict=False):
    print(f"{trace.trace_id}: GRPO {before:+.3f}   mean of DepGPO {after:+.3f}")

# %% [markdown]
# ## 8. Where to go next
#
# **Other rules.** Command 2 above wrote a first script, command 4 read it, and command 5 reused
# what 4 printed. The rule `paper` does not pay for such a detour over printed output; `stdout`
# does, and of these five rollouts it changes this one. Every option is a field of `CreditConfig`.

# %%
print("weights   #0     #2     #4     #5     #6")
for rule in ("paper", "stdout"):
    other = dg.dependency_credit(batch, dg.CreditConfig(relevance=rule))
    weight = dg.unpad(batch, other)[3].token_weight  # by step; here every step is one command
    print(f"{rule:7}", *(f"{weight[number]:6.2f}" for number in (0, 2, 4, 5, 6)))

# %% [markdown]
# **In the checkout:**
#
# - README, *Ten lines* and *In your own loop*: the calls above inside your own `jit`, `scan` or
#   `shard_map`.
# - README, *On the command line*: `depgpo validate`, `credit`, `explain` and `report` for files of
#   traces, without writing Python.
# - `docs/explain.md`: how to read reasons, pages and plots.
# - `docs/method.md`: every rule with worked examples, and what of the paper could not be checked.
# - `docs/trace.md`: the format, for a tracer of your own. Nothing here records a terminal.
