"""What the kernels' entries say to arguments of the wrong kind or shape."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from depgpo_jax import (
    BatchShape,
    CreditConfig,
    DenseRollout,
    batch_traces,
    dense_rollouts,
    dependency_credit,
    rollout_credit,
    token_advantages,
)
from depgpo_jax.batch import MAX_COMMANDS
from depgpo_jax.errors import ShapeError
from tests.helpers import command, step, trace, whole

pytestmark = pytest.mark.usefixtures("unchecked")

ONE = trace(step(3, command(writes=[whole("/a")])), verifier=["/a"])


@pytest.fixture(scope="module")
def rollout() -> DenseRollout:
    return jax.tree.map(lambda field: field[0], dense_rollouts(batch_traces([ONE])))


@pytest.mark.parametrize("name", [name for name in DenseRollout._fields if name != "reads"])
def test_a_dense_field_of_another_size(rollout: DenseRollout, name: str):
    field = getattr(rollout, name)
    wrong = rollout._replace(**{name: jnp.concatenate([field, field])})
    if name in ("segment_owner", "loss_tokens"):  # the others are measured against these
        wrong = wrong._replace(**{name: field[None]})
    with pytest.raises(ShapeError, match=r"DenseRollout\.\w+: found shape .*; allowed: \("):
        rollout_credit(wrong)


def test_dense_rollouts_without_vmap():
    with pytest.raises(ShapeError, match=r"batch it with jax\.vmap"):
        rollout_credit(dense_rollouts(batch_traces([ONE])))


def test_something_else_than_a_rollout():
    other: Any = batch_traces([ONE])
    with pytest.raises(ShapeError, match="TraceBatch'>; allowed: a DenseRollout"):
        rollout_credit(other)


def test_something_else_than_a_batch():
    other: Any = [ONE]
    with pytest.raises(ShapeError, match=r"found a list .* of no shape; allowed: a Trace"):
        dependency_credit(other)


def test_a_batch_without_b():
    one = jax.tree.map(lambda field: field[0], batch_traces([ONE]))
    with pytest.raises(ShapeError, match=r"TraceBatch with recorded \(32,\); allowed: .*vmap"):
        dependency_credit(one)


def test_sizes_that_are_no_integers():
    size: Any = 8.0
    with pytest.raises(ShapeError, match=r"BatchShape.rollouts: found 8.0; allowed: an integer"):
        BatchShape(size, commands=32, steps=1, segments=1, resources=1)


def test_a_shape_beyond_the_longest_rollout():
    found = MAX_COMMANDS + 32
    with pytest.raises(ShapeError, match=f"found {found}; .* at most {MAX_COMMANDS}"):
        BatchShape(1, commands=found, steps=1, segments=1, resources=1)


def test_a_trace_beyond_the_longest_rollout():
    long = trace(step(1, *(command() for _ in range(MAX_COMMANDS + 1))))
    with pytest.raises(ShapeError, match=f"found {MAX_COMMANDS + 1} commands; allowed: at most"):
        batch_traces([long])


def test_token_advantages_of_one_rollout():
    batch = batch_traces([ONE])
    credit = jax.tree.map(lambda field: field[0], dependency_credit(batch))
    with pytest.raises(ShapeError, match=r"step_factor \(8,\); allowed: \[B, T\]"):
        token_advantages(credit, jnp.ones(1), jnp.zeros((1, 2), jnp.int32), jnp.ones((1, 2)))


def test_steps_of_tokens_that_are_no_integers():
    steps: Any = jnp.zeros((1, 2))
    credit = dependency_credit(batch_traces([ONE]))
    with pytest.raises(ShapeError, match=r"step_of_token float32 \(1, 2\)"):
        token_advantages(credit, jnp.ones(1), steps, jnp.ones((1, 2)))


def test_traces_may_come_one_by_one():
    batch = batch_traces(trace for trace in [ONE, ONE])
    np.testing.assert_array_equal(batch.num_commands, [1, 1])


def test_numbers_of_numpy_are_numbers():
    quarter: Any = np.float32(0.25)
    assert CreditConfig(beta=quarter, max_weight=np.float64(2)).beta == 0.25
