"""The one call: from a batch of traces to the credit of every command, step and token."""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import jax
import jax.export
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

from depgpo_jax.batch import TraceBatch, check_batch
from depgpo_jax.credit_config import CreditConfig
from depgpo_jax.graph import adjacency
from depgpo_jax.packed.kernel import packed_credit
from depgpo_jax.reads import support_credit
from depgpo_jax.relevance import relevant_records, write_credit
from depgpo_jax.rollout import DenseRollout, check_rollout
from depgpo_jax.summary import CommandCredit, Credit, summarise

__all__ = ["Credit", "CreditConfig", "dependency_credit", "rollout_credit"]


DEFAULT_CONFIG = CreditConfig()


def dependency_credit(batch: TraceBatch, config: CreditConfig = DEFAULT_CONFIG) -> Credit:
    """Credit, step factors and token weights of every rollout of a batch.

    A command that wrote records gets the fraction of them that matters for what the verifier
    inspected; one that did not gets `sum of credit(w) * beta**d` over the relevant writes it led
    to; a step the sum of its commands; its tokens a weight with token-weighted mean one.

    Compiled once for each shape of batch and choice of rules; `beta` and the number in
    `max_weight` are traced. Works inside `jit`, `vmap`, `lax.scan`, `shard_map` and under
    `jax.export`, and calls nothing on the host. Weights are finite and >= 0, and
    `sum(w * n) = sum(n)`; they are bit-identical over device counts and agree to 1e-6 over
    padding and batch neighbours.

    Padding rows get no credit, weight 1 and `fallback`.

    Source: DepGPO (arXiv 2610.03634); method page, sections 2 to 8.

    Args:
        batch: padded traces, from `batch_traces`.
        config: rules and options.

    Returns:
        The credit, with the batch's padded shapes; `unpad` cuts it into traces.

    Raises:
        ShapeError: the batch's fields do not fit together.
    """
    check_batch(batch)
    beta, max_weight = _traced_options(config)
    return _packed(batch, beta, max_weight, _static_options(config))


def rollout_credit(rollout: DenseRollout, config: CreditConfig = DEFAULT_CONFIG) -> Credit:
    """The readable twin: credit of one rollout from dense tensors, the same numbers.

    The entry for environments on the device, whose own tensors it takes; batch it with
    `jax.vmap`. On a CPU `dependency_credit` is many times faster on recorded traces.

    Padding commands, steps and segments change nothing; see `DenseRollout`.

    Source: DepGPO (arXiv 2610.03634); method page, sections 2 to 8.

    Args:
        rollout: dense tensors of one rollout.
        config: rules and options.

    Returns:
        A `Credit` whose fields have no `B` axis.

    Raises:
        ShapeError: the rollout's fields do not fit together, or it is not a single rollout.
    """
    check_rollout(rollout)
    beta, max_weight = _traced_options(config)
    writes = relevant_records(rollout, rule=config.relevance, inspect=config.inspect)
    written = write_credit(writes.relevant, writes.records, config.write_credit)
    credit, on_path = written, writes.relevant > 0
    if config.read_credit:
        read_only = writes.records == 0
        support = support_credit(adjacency(rollout), written, beta)
        credit = written + jnp.where(read_only, support.credit, 0.0)
        on_path = on_path | (read_only & support.reaches)
    step_credit, step_recorded = steps_of_rollout(rollout, credit)
    commands = CommandCredit(credit, on_path, writes.relevant, writes.records)
    summary = summarise(
        commands,
        rollout.recorded,
        step_credit,
        step_recorded,
        rollout.loss_tokens,
        max_weight,
        subtract_min=config.subtract_min,
    )
    return Credit(
        command_credit=credit,
        max_weight=max_weight,
        segment_relevant=writes.segment,
        **summary._asdict(),
    )


def steps_of_rollout(
    rollout: DenseRollout, credit: Float32[Array, " N"]
) -> tuple[Float32[Array, " T"], Bool[Array, " T"]]:
    """Credit summed over each step's commands, and which steps are recorded."""
    steps = jnp.arange(rollout.loss_tokens.shape[0], dtype=jnp.int32)
    in_step = rollout.step_of_command[None, :] == steps[:, None]
    step_credit = jnp.sum(jnp.where(in_step, credit[None, :], 0.0), axis=1)
    all_recorded = jnp.all(~in_step | rollout.recorded[None, :], axis=1)
    return step_credit, all_recorded & jnp.any(in_step, axis=1)


@partial(jax.jit, static_argnames="rules")
def _packed(
    batch: TraceBatch, beta: Float32[Array, ""], max_weight: Float32[Array, ""], rules: CreditConfig
) -> Credit:
    return packed_credit(batch, beta, max_weight, rules)


def _traced_options(config: CreditConfig) -> tuple[Float32[Array, ""], Float32[Array, ""]]:
    max_weight = math.inf if config.max_weight is None else config.max_weight
    return jnp.float32(config.beta), jnp.float32(max_weight)


def _static_options(config: CreditConfig) -> CreditConfig:
    """The options that choose code; the traced ones are fixed so that they compile nothing."""
    return dataclasses.replace(config, beta=1.0, max_weight=None)


jax.export.register_namedtuple_serialization(TraceBatch, serialized_name="depgpo_jax.TraceBatch")
jax.export.register_namedtuple_serialization(Credit, serialized_name="depgpo_jax.Credit")
