"""DepGPO-JAX: dependency-aware credit for terminal-agent rollouts.

Records in, token weights out, on the device: a trace file is read (`read_traces`), its writes and
reads are replayed into record segments (`replay`), padded into one batch of arrays
(`batch_traces`), and one jitted function gives every step its credit and every token its weight
(`dependency_credit`), which `token_advantages` multiplies with a rollout's group advantage.

Axis vocabulary, the only letters that shapes in this package use:

=====  ==========================================================
``B``  rollouts of a batch
``N``  commands of a rollout
``S``  record segments of a rollout
``R``  resources of a rollout
``T``  steps (agent turns) of a rollout
``L``  tokens of a rollout
``G``  rollouts of one group
``W``  words of 32 bits over the commands, ``W = N / 32``
=====  ==========================================================

The names below are imported when they are first used, so that the trace side starts without JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from depgpo_jax.version import __version__

if TYPE_CHECKING:
    from depgpo_jax.advantages import group_advantages, token_advantages
    from depgpo_jax.batch import (
        NO_GROUP,
        NO_OWNER,
        BatchShape,
        TraceBatch,
        TraceCredit,
        batch_traces,
        unpad,
    )
    from depgpo_jax.credit import (
        Credit,
        CreditConfig,
        dependency_credit,
        rollout_credit,
    )
    from depgpo_jax.errors import (
        ConfigError,
        DepgpoError,
        MissingExtraError,
        ShapeError,
        TraceError,
    )
    from depgpo_jax.explain.deeds import read_only_commands
    from depgpo_jax.explain.facts import Edge, Reader, ReadPath, Why, WrittenRecords
    from depgpo_jax.explain.pages.rollout import explain_page
    from depgpo_jax.explain.places import Places
    from depgpo_jax.explain.table import explain_table, why_table
    from depgpo_jax.explain.why import RolloutExplanation, explain_rollout, why
    from depgpo_jax.explain.words import why_text
    from depgpo_jax.ownership import (
        SURVIVES,
        Segments,
        replay,
    )
    from depgpo_jax.peers.controls import (
        last_write_credit,
        rollout_last_write_credit,
        shuffled_credit,
        uniform_credit,
    )
    from depgpo_jax.peers.gigpo import gigpo_advantages
    from depgpo_jax.peers.graph import graph_gpo_advantages
    from depgpo_jax.peers.states import NO_STATE, step_mask, step_rewards, step_states
    from depgpo_jax.peers.turns import mt_grpo_advantages
    from depgpo_jax.rollout import (
        NO_STEP,
        DenseRollout,
        dense_rollouts,
    )
    from depgpo_jax.schema import json_schema
    from depgpo_jax.tokens import step_token_advantages
    from depgpo_jax.traces import (
        Command,
        Step,
        TestResult,
        Trace,
        TraceIndex,
        Write,
        index_traces,
        parse_trace,
        read_traces,
        validate_trace,
        write_traces,
    )

__all__ = [
    "NO_GROUP",
    "NO_OWNER",
    "NO_STATE",
    "NO_STEP",
    "SURVIVES",
    "BatchShape",
    "Command",
    "ConfigError",
    "Credit",
    "CreditConfig",
    "DenseRollout",
    "DepgpoError",
    "Edge",
    "MissingExtraError",
    "Places",
    "ReadPath",
    "Reader",
    "RolloutExplanation",
    "Segments",
    "ShapeError",
    "Step",
    "TestResult",
    "Trace",
    "TraceBatch",
    "TraceCredit",
    "TraceError",
    "TraceIndex",
    "Why",
    "Write",
    "WrittenRecords",
    "__version__",
    "batch_traces",
    "dense_rollouts",
    "dependency_credit",
    "explain_page",
    "explain_rollout",
    "explain_table",
    "gigpo_advantages",
    "graph_gpo_advantages",
    "group_advantages",
    "index_traces",
    "json_schema",
    "last_write_credit",
    "mt_grpo_advantages",
    "parse_trace",
    "read_only_commands",
    "read_traces",
    "replay",
    "rollout_credit",
    "rollout_last_write_credit",
    "shuffled_credit",
    "step_mask",
    "step_rewards",
    "step_states",
    "step_token_advantages",
    "token_advantages",
    "uniform_credit",
    "unpad",
    "validate_trace",
    "why",
    "why_table",
    "why_text",
    "write_traces",
]

_MODULE_OF = {
    "advantages": ("group_advantages", "token_advantages"),
    "batch": (
        "NO_GROUP",
        "NO_OWNER",
        "BatchShape",
        "TraceBatch",
        "TraceCredit",
        "batch_traces",
        "unpad",
    ),
    "credit": (
        "Credit",
        "CreditConfig",
        "dependency_credit",
        "rollout_credit",
    ),
    "errors": (
        "ConfigError",
        "DepgpoError",
        "MissingExtraError",
        "ShapeError",
        "TraceError",
    ),
    "explain.deeds": ("read_only_commands",),
    "explain.pages.rollout": ("explain_page",),
    "explain.table": ("explain_table", "why_table"),
    "explain.facts": ("Edge", "ReadPath", "Reader", "Why", "WrittenRecords"),
    "explain.places": ("Places",),
    "explain.why": ("RolloutExplanation", "explain_rollout", "why"),
    "explain.words": ("why_text",),
    "ownership": (
        "SURVIVES",
        "Segments",
        "replay",
    ),
    "peers.controls": (
        "last_write_credit",
        "rollout_last_write_credit",
        "shuffled_credit",
        "uniform_credit",
    ),
    "peers.gigpo": ("gigpo_advantages",),
    "peers.graph": ("graph_gpo_advantages",),
    "peers.states": ("NO_STATE", "step_mask", "step_rewards", "step_states"),
    "peers.turns": ("mt_grpo_advantages",),
    "rollout": (
        "NO_STEP",
        "DenseRollout",
        "dense_rollouts",
    ),
    "schema": ("json_schema",),
    "tokens": ("step_token_advantages",),
    "traces": (
        "Command",
        "Step",
        "TestResult",
        "Trace",
        "TraceIndex",
        "Write",
        "index_traces",
        "parse_trace",
        "read_traces",
        "validate_trace",
        "write_traces",
    ),
}
_HOME = {name: module for module, names in _MODULE_OF.items() for name in names}


def __getattr__(name: str) -> object:
    """Imports a public name on first use (PEP 562) and keeps it for the next."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
