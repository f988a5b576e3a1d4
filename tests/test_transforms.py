"""The one call inside whatever a user wraps around it, and what it compiles."""

from __future__ import annotations

import re
from functools import cache, partial

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, shard_map
from jax.sharding import Mesh, PartitionSpec

from depgpo_jax.batch import BatchShape, TraceBatch, batch_traces
from depgpo_jax.credit import Credit, CreditConfig, _packed, rollout_credit
from depgpo_jax.rollout import dense_rollouts
from depgpo_jax.tokens import token_advantages
from tests.helpers import (
    FAMILIES,
    assert_bit_identical,
    config_id,
    f64,
    random_batch,
    random_parsed,
)

SHAPE = BatchShape(rollouts=8, commands=32, steps=32, segments=64, resources=16)
CONFIG = CreditConfig(max_weight=2.0)

by_family = pytest.mark.parametrize("family", FAMILIES)
by_rule = pytest.mark.parametrize("relevance", ["paper", "stdout", "slice"])


@cache
def batch_of(seed: int) -> TraceBatch:
    return batch_traces(random_parsed(3000 + seed, 7, max_commands=20), shape=SHAPE)


@cache
def stacked() -> TraceBatch:
    batches = [batch_of(seed) for seed in range(3)]
    return jax.tree.map(lambda *fields: jnp.stack(fields), *batches)


@cache
def expected(family: str, seed: int) -> Credit:
    return jax.device_get(FAMILIES[family](batch_of(seed), CONFIG))


def assert_close(found: Credit, wanted: Credit) -> None:
    """To rounding: other fusions may round otherwise, zeros and flags must stay."""
    for name in Credit._fields:
        left, right = np.asarray(getattr(found, name)), np.asarray(getattr(wanted, name))
        assert left.dtype == right.dtype
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6, err_msg=name)
        np.testing.assert_array_equal(left == 0, right == 0, err_msg=name)


@by_family
def test_eager(family: str, unchecked: None):
    # Unchecked, because JAX's loops then count in Python integers.
    with jax.disable_jit():
        found = FAMILIES[family](batch_of(0), CONFIG)
    assert_close(found, expected(family, 0))


@by_family
def test_inside_a_users_jit(family: str):
    @jax.jit
    def sum_and_credit(batch: TraceBatch) -> tuple[jax.Array, Credit]:
        credit = FAMILIES[family](batch, CONFIG)
        return (credit.token_weight * batch.loss_tokens).sum(), credit

    total, found = sum_and_credit(batch_of(1))
    assert_close(found, expected(family, 1))
    np.testing.assert_allclose(total, f64(batch_of(1).loss_tokens).sum(), rtol=1e-6)


@by_family
def test_vmap_over_stacked_batches(family: str):
    found = jax.vmap(lambda batch: FAMILIES[family](batch, CONFIG))(stacked())
    for seed in range(3):
        assert_close(jax.tree.map(lambda field: field[seed], found), expected(family, seed))  # noqa: B023


@by_family
def test_scan_over_stacked_batches(family: str):
    def visit(count: jax.Array, batch: TraceBatch) -> tuple[jax.Array, Credit]:
        return count + 1, FAMILIES[family](batch, CONFIG)

    count, found = jax.jit(partial(lax.scan, visit))(jnp.int32(0), stacked())
    assert count == 3
    for seed in range(3):
        assert_close(jax.tree.map(lambda field: field[seed], found), expected(family, seed))  # noqa: B023


@by_family
def test_shard_map_with_a_sum_over_devices(family: str):
    mesh = Mesh(np.array(jax.devices()[:4]), ("rollouts",))
    spec = PartitionSpec("rollouts")

    def local(batch: TraceBatch) -> tuple[Credit, jax.Array]:
        credit = FAMILIES[family](batch, CONFIG)
        return credit, lax.psum(jnp.sum(~credit.fallback), "rollouts")

    mapped = shard_map(local, mesh=mesh, in_specs=spec, out_specs=(spec, PartitionSpec()))
    found, count = jax.jit(mapped)(batch_of(0))
    assert_close(found, expected(family, 0))
    assert count == (~expected(family, 0).fallback).sum()


def test_the_dense_family_on_one_rollout():
    rollouts = dense_rollouts(batch_of(0))
    for row in range(3):
        one = jax.tree.map(lambda field: field[row], rollouts)  # noqa: B023
        wanted = jax.tree.map(lambda field: field[row], expected("packed", 0))  # noqa: B023
        assert_close(jax.jit(rollout_credit, static_argnums=1)(one, CONFIG), wanted)


@by_family
def test_export_round_trip(family: str):
    def credit(batch: TraceBatch) -> Credit:
        return FAMILIES[family](batch, CONFIG)

    exported = jax.export.export(jax.jit(credit), platforms=["cpu", "cuda", "tpu"])(batch_of(0))
    loaded = jax.export.deserialize(exported.serialize())
    found = loaded.call(batch_of(2))
    assert isinstance(found, Credit)
    assert_close(found, expected(family, 2))


@by_family
def test_a_loss_around_it_has_a_gradient(family: str):
    batch = batch_of(0)
    step_of_token = jnp.tile(jnp.arange(SHAPE.steps, dtype=jnp.int32), (SHAPE.rollouts, 1))
    mask = batch.loss_tokens > 0

    def loss(log_probs: jax.Array, advantage: jax.Array) -> jax.Array:
        credit = FAMILIES[family](batch, CONFIG)
        return -jnp.sum(log_probs * token_advantages(credit, advantage, step_of_token, mask))

    advantage = jnp.linspace(-1.0, 1.0, SHAPE.rollouts)
    log_probs = jnp.full((SHAPE.rollouts, SHAPE.steps), -0.5)
    by_log_probs, by_advantage = jax.jit(jax.grad(loss, argnums=(0, 1)))(log_probs, advantage)
    aimed = token_advantages(FAMILIES[family](batch, CONFIG), advantage, step_of_token, mask)
    np.testing.assert_allclose(by_log_probs, -aimed, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(by_advantage, 0.5 * mask.sum(1), rtol=1e-5)


# What is compiled.


def compilations() -> int:
    return _packed._cache_size()  # pyright: ignore[reportAttributeAccessIssue]


@by_rule
@by_family
def test_nothing_runs_on_the_host(family: str, relevance: str):
    config = CreditConfig(relevance=relevance)  # pyright: ignore[reportArgumentType]

    def credit(batch: TraceBatch) -> Credit:
        return FAMILIES[family](batch, config)

    host = re.compile(r"callback|infeed|outfeed|host_local|pure_call|debug_print", re.IGNORECASE)
    traced = jax.jit(credit).trace(batch_of(0))
    assert not host.search(str(traced.jaxpr))
    assert not host.search(traced.lower().as_text())


def test_numbers_and_batches_of_one_bucket_compile_nothing_new():
    jax.block_until_ready(FAMILIES["packed"](batch_of(0), CONFIG))
    size = compilations()
    for seed, beta, cap in ((0, 0.25, None), (1, 1.0, 3.0), (2, 1, 1), (1, 0.5, 7.25)):
        config = CreditConfig(beta=beta, max_weight=cap)
        jax.block_until_ready(FAMILIES["packed"](batch_of(seed), config))
    assert compilations() == size
    assert_bit_identical(FAMILIES["packed"](batch_of(0), CONFIG), expected("packed", 0))


def test_bucketed_batches_share_a_compilation():
    batches = [random_batch(seed, 12 + seed, max_commands=9) for seed in range(5)]
    shapes = {batch.segment_owner.shape + batch.loss_tokens.shape for batch in batches}
    FAMILIES["packed"](batches[0], CONFIG)
    before = compilations()
    for batch in batches:
        FAMILIES["packed"](batch, CONFIG)
    assert compilations() - before == len(shapes) - 1


@pytest.mark.parametrize(
    "rules",
    [
        CreditConfig(relevance="slice"),
        CreditConfig(read_credit=False),
        CreditConfig(write_credit="binary"),
        CreditConfig(inspect="all"),
        CreditConfig(subtract_min=False),
    ],
    ids=config_id,
)
def test_a_rule_is_code(rules: CreditConfig):
    shape = BatchShape(rollouts=1, commands=32, steps=1, segments=1, resources=1)
    batch = batch_traces([], shape=shape)
    FAMILIES["packed"](batch, CreditConfig())
    before = compilations()
    FAMILIES["packed"](batch, rules)
    assert compilations() == before + 1
