"""Other weights in the place of DepGPO's: uniform, shuffled, and by last write alone.

Each gives a `Credit`, so that everything behind it (`token_advantages`, the objective) stays as it
is and a comparison differs in the weights alone.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Key

from depgpo_jax.batch import TraceBatch, check_batch
from depgpo_jax.credit import DEFAULT_CONFIG, CreditConfig, steps_of_rollout
from depgpo_jax.errors import ShapeError
from depgpo_jax.padding import NO_OWNER
from depgpo_jax.peers.rows import check_arrays
from depgpo_jax.rollout import DenseRollout, check_rollout, dense_rollouts
from depgpo_jax.summary import CommandCredit, Credit, reweighted, summarise


def uniform_credit(credit: Credit, loss_tokens: Float32[Array, "B T"]) -> Credit:
    """The same credit with every weight 1: the plain group advantage, as in GRPO.

    Args:
        credit: of these rollouts; its command credits and fractions stay.
        loss_tokens: tokens of each step that enter the loss, as in the batch.

    Returns:
        The credit, a fallback everywhere.

    Raises:
        ShapeError: loss_tokens and the credit's steps differ in shape, or it is no such array.
    """
    _check_steps("uniform_credit", credit, loss_tokens=loss_tokens)
    return reweighted(credit, jnp.ones_like(credit.step_factor), loss_tokens)


def shuffled_credit(
    key: Key[Array, ""],
    credit: Credit,
    loss_tokens: Float32[Array, "B T"],
    is_step: Bool[Array, "B T"],
) -> Credit:
    """The same credit with each rollout's step factors in random order.

    The control for location: as many strong and weak steps as before, in the wrong places. If a
    method does as well with these, where it puts the weight does not matter.

    A step's draw depends on the key, the rollout's row and the step alone, so padding changes
    nothing. Take a new key for every batch.

    Args:
        key: a `jax.random.key`.
        credit: of these rollouts; its command credits and fractions stay.
        loss_tokens: tokens of each step that enter the loss, as in the batch.
        is_step: the steps whose factors change places, as `step_mask` gives them; others keep
            theirs.

    Returns:
        The credit; weights still have token-weighted mean one.

    Raises:
        ShapeError: loss_tokens or is_step and the credit's steps differ in shape, or one is no
            such array.
    """
    _check_steps("shuffled_credit", credit, loss_tokens=loss_tokens, is_step=is_step)
    rollouts, steps = is_step.shape

    def draw(row: Array) -> Float32[Array, " T"]:
        of_row = jax.random.fold_in(key, row)
        of_steps = jax.vmap(partial(jax.random.fold_in, of_row))(jnp.arange(steps))
        return jax.vmap(jax.random.uniform)(of_steps)

    drawn = jax.vmap(draw)(jnp.arange(rollouts))
    # The k-th step in order of time receives the factor of the k-th in order of draw.
    by_draw = jnp.argsort(jnp.where(is_step, drawn, 2.0), axis=1, stable=True)
    in_time = jnp.argsort(~is_step, axis=1, stable=True)
    rows = jnp.arange(rollouts)[:, None]
    moved = credit.step_factor.at[rows, in_time].set(
        jnp.take_along_axis(credit.step_factor, by_draw, axis=1)
    )
    return reweighted(credit, jnp.where(is_step, moved, credit.step_factor), loss_tokens)


def last_write_credit(batch: TraceBatch, config: CreditConfig = DEFAULT_CONFIG) -> Credit:
    """Credit 1 for the last command that wrote each inspected resource, 0 for all others.

    What one gets from looking at the final files without following dependencies. Step factors and
    token weights follow from it as in `dependency_credit`.

    Padding rows get no credit, weight 1 and `fallback`. Works wherever `dependency_credit` does.

    Source: decided here, as a control; sections 5 and 6 of the method page for what follows.

    Args:
        batch: padded traces, from `batch_traces`.
        config: only `inspect`, `subtract_min` and `max_weight` matter here.

    Returns:
        The credit, with the batch's padded shapes.

    Raises:
        ShapeError: the batch's fields do not fit together.
    """
    check_batch(batch)
    return _last_write_batch(batch, config)


def rollout_last_write_credit(
    rollout: DenseRollout, config: CreditConfig = DEFAULT_CONFIG
) -> Credit:
    """`last_write_credit` of one rollout from dense tensors; batch it with `jax.vmap`.

    Args:
        rollout: dense tensors of one rollout; `reads` and `stdout` are not used.
        config: as for `last_write_credit`.

    Returns:
        A `Credit` whose fields have no `B` axis.

    Raises:
        ShapeError: the rollout's fields do not fit together, or it is not a single rollout.
    """
    check_rollout(rollout)
    commands, resources = rollout.reads.shape
    written = rollout.segment_owner != NO_OWNER
    resource = jnp.where(written, rollout.segment_resource, resources)
    last = jnp.full(resources + 1, NO_OWNER, jnp.int32).at[resource].max(rollout.segment_owner)
    inspected = jnp.pad(
        jnp.ones_like(rollout.inspected) if config.inspect == "all" else rollout.inspected, (0, 1)
    )
    relevant = written & inspected[resource] & (rollout.segment_owner == last[resource])
    owner = jnp.where(written, rollout.segment_owner, commands)

    def by_owner(counts: Array) -> Array:
        return jnp.zeros(commands, jnp.int32).at[owner].add(counts, mode="drop")

    records = CommandCredit(
        credit=jnp.minimum(by_owner(relevant), 1).astype(jnp.float32),
        on_path=by_owner(relevant) > 0,
        relevant=by_owner(jnp.where(relevant, rollout.segment_count, 0)),
        records=by_owner(rollout.segment_count),
    )
    step_credit, step_recorded = steps_of_rollout(rollout, records.credit)
    max_weight = jnp.float32(jnp.inf if config.max_weight is None else config.max_weight)
    summary = summarise(
        records,
        rollout.recorded,
        step_credit,
        step_recorded,
        rollout.loss_tokens,
        max_weight,
        subtract_min=config.subtract_min,
    )
    return Credit(
        command_credit=records.credit,
        max_weight=max_weight,
        segment_relevant=relevant,
        **summary._asdict(),
    )


@partial(jax.jit, static_argnames="config")
def _last_write_batch(batch: TraceBatch, config: CreditConfig) -> Credit:
    # The dense reads and stdout are never used, so the compiler never makes them.
    return jax.vmap(partial(rollout_last_write_credit, config=config))(dense_rollouts(batch))


def _check_steps(where: str, credit: Credit, **steps: Array) -> None:
    check_arrays(where, steps)
    shape = credit.step_factor.shape
    if len(shape) != 2 or any(array.shape != shape for array in steps.values()):
        found = ", ".join(f"{name} {array.shape}" for name, array in steps.items())
        raise ShapeError(
            f"{where}: found {found} for a credit of step_factor {shape}; allowed: [B, T] for all, "
            "as dependency_credit and the batch have them"
        )
