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
    from depgpo_jax.explain import (
        explain_table,
        read_only_commands,
    )
    from depgpo_jax.ownership import (
        SURVIVES,
        Segments,
        replay,
    )
    from depgpo_jax.rollout import (
        NO_STEP,
        DenseRollout,
        dense_rollouts,
    )
    from depgpo_jax.schema import json_schema
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
    "NO_STEP",
    "SURVIVES",
    "BatchShape",
    "Command",
    "ConfigError",
    "Credit",
    "CreditConfig",
    "DenseRollout",
    "DepgpoError",
    "MissingExtraError",
    "Segments",
    "ShapeError",
    "Step",
    "TestResult",
    "Trace",
    "TraceBatch",
    "TraceCredit",
    "TraceError",
    "TraceIndex",
    "Write",
    "__version__",
    "batch_traces",
    "dense_rollouts",
    "dependency_credit",
    "explain_table",
    "group_advantages",
    "index_traces",
    "json_schema",
    "parse_trace",
    "read_only_commands",
    "read_traces",
    "replay",
    "rollout_credit",
    "token_advantages",
    "unpad",
    "validate_trace",
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
    "explain": (
        "explain_table",
        "read_only_commands",
    ),
    "ownership": (
        "SURVIVES",
        "Segments",
        "replay",
    ),
    "rollout": (
        "NO_STEP",
        "DenseRollout",
        "dense_rollouts",
    ),
    "schema": ("json_schema",),
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
