"""Building blocks of the packed family against plain Python, and its uncommon paths."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from depgpo_jax.batch import batch_traces
from depgpo_jax.credit import CreditConfig
from depgpo_jax.graph import segment_readers
from depgpo_jax.packed.bits import (
    any_common,
    rows_below,
    rows_of_one,
    take_rows,
    unpack_bits,
    unpack_rows,
)
from depgpo_jax.packed.reads import LANES, support_credit
from depgpo_jax.packed.rows import SLOTS, _join_by_owner, segment_rows
from depgpo_jax.packed.sweep import sweep, sweep_stdout
from depgpo_jax.relevance import RelevanceRule, direct_segments, qualifying_readers
from depgpo_jax.rollout import dense_rollouts
from tests.helpers import FAMILIES, Json, command, parse, random_batch, results, step, whole
from tests.oracle import assert_close, oracle
from tests.test_reads import random_edges, slow_support


def packed(flags: np.ndarray) -> np.ndarray:
    """Flags [..., N] to words [..., W], lowest bit first."""
    places = np.uint64(1) << np.arange(32, dtype=np.uint64)
    grouped = flags.reshape(*flags.shape[:-1], -1, 32)
    return (grouped * places).sum(-1).astype(np.uint32)


def lanes(flags: np.ndarray) -> jax.Array:
    """Flags [B, rows, N] to the lane layout [rows, W, B]."""
    return jnp.asarray(packed(flags).transpose(1, 2, 0))


def random_flags(seed: int, *shape: int, density: float = 0.3) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) < density


# Bits.


@pytest.mark.parametrize("shape", [(96,), (5, 64), (2, 3, 32)])
def test_unpack_bits(shape: tuple[int, ...]):
    flags = random_flags(0, *shape)
    np.testing.assert_array_equal(unpack_bits(jnp.asarray(packed(flags))), flags)


def test_unpack_rows():
    flags = random_flags(1, 7, 96)
    np.testing.assert_array_equal(unpack_rows(jnp.asarray(packed(flags).T)), flags.T)


@pytest.mark.parametrize("size", [32, 96, 160])
def test_tables_of_rows(size: int):
    below, one = rows_below(size), rows_of_one(size)
    assert below.shape == one.shape == (size + 1, size // 32)
    for row in range(size + 1):
        np.testing.assert_array_equal(below[row], packed(np.arange(size) < row))
        np.testing.assert_array_equal(one[row], packed(np.arange(size) == row))


@pytest.mark.parametrize("dtype", [np.uint32, np.bool_])
def test_take_rows(dtype: type):
    rng = np.random.default_rng(2)
    table = rng.integers(0, 2, (4, 5, 3)).astype(dtype)
    index = rng.integers(0, 5, (4, 9)).astype(np.int32)
    found = take_rows(jnp.asarray(table), jnp.asarray(index))
    expected = np.stack([table[b][index[b]] for b in range(4)])
    np.testing.assert_array_equal(found, expected)


def test_any_common():
    rows, row = random_flags(3, 6, 10, 96, density=0.05), random_flags(4, 6, 96, density=0.1)
    found = any_common(lanes(rows), jnp.asarray(packed(row).T))
    np.testing.assert_array_equal(found, (rows & row[:, None]).any(2).T)


# Sweeps.


def forward_rows(seed: int, rollouts: int, size: int, density: float) -> np.ndarray:
    """Rows that point to the command itself or to later ones."""
    return np.triu(random_flags(seed, rollouts, size, size, density=density))


@pytest.mark.parametrize("size", [32, 96, 160])
@pytest.mark.parametrize("density", [0.01, 0.05])
def test_sweep_against_a_loop(size: int, density: float):
    rows = forward_rows(size, 9, size, density)
    expected = np.zeros((9, size), bool)
    for b in range(9):
        for i in reversed(range(size)):
            expected[b, i] = rows[b, i, i] or (rows[b, i] & expected[b]).any()
    found = unpack_rows(sweep(lanes(rows)))
    np.testing.assert_array_equal(found, expected.T)
    assert 0 < expected.mean() < 1


@pytest.mark.parametrize("size", [32, 96])
def test_sweep_stdout_against_a_loop(size: int):
    demand = forward_rows(5, 9, size, 0.02)
    readers = np.triu(random_flags(6, 9, size, size, density=0.04), 1)
    stdout = np.triu(random_flags(7, 9, size, size, density=0.04), 1)
    owning, printing = np.zeros((9, size), bool), np.zeros((9, size), bool)
    for b in range(9):
        for i in reversed(range(size)):
            owning[b, i] = (
                demand[b, i, i]
                or (demand[b, i] & owning[b]).any()
                or (readers[b, i] & printing[b]).any()
            )
            printing[b, i] = (stdout[b, i] & (owning[b] | printing[b])).any()
    found = sweep_stdout(lanes(demand), lanes(readers), lanes(stdout))
    np.testing.assert_array_equal(unpack_rows(found[0]), owning.T)
    np.testing.assert_array_equal(unpack_rows(found[1]), printing.T)


# Distances.


@pytest.mark.parametrize("size", [32, 96, 288])
@pytest.mark.parametrize("kind", ["sparse", "dense", "chain"])
def test_support_against_breadth_first_search(size: int, kind: str):
    """Many more sources than lanes; at 288 commands paths are longer than a byte counts."""
    rng = np.random.default_rng(size)
    rollouts, beta = 5, 0.97
    edges = np.stack([random_edges(rng, size, 0.3 if kind == "dense" else 2 / size)] * rollouts)
    if kind == "chain":
        edges[:] = np.eye(size, k=1, dtype=bool)
    writer = rng.random((rollouts, size)) < 0.3
    if kind == "chain":
        writer[:, : size - 3] = False
        writer[:, -1] = True
    sources = ~writer & (rng.random((rollouts, size)) < 0.9)
    assert sources.sum(1).max() > LANES
    credit = np.where(writer, rng.random((rollouts, size)), 0).astype(np.float32)
    found = support_credit(
        lanes(edges), jnp.asarray(sources.T), jnp.asarray(credit.T), jnp.float32(beta)
    )
    for b in range(rollouts):
        expected, _ = slow_support(edges[b], credit[b], beta)
        expected = np.where(sources[b], expected, 0.0)
        np.testing.assert_allclose(found[:, b], expected, rtol=1e-5, atol=1e-6)
        assert expected.max() > 0
    assert found.shape == (size, rollouts)


def test_no_source():
    credit = jnp.ones((32, 3))
    edges = lanes(forward_rows(1, 3, 32, 0.5))
    found = support_credit(edges, jnp.zeros((32, 3), bool), credit, jnp.float32(0.5))
    np.testing.assert_array_equal(found, 0.0)


# Rows of segments.


@pytest.mark.parametrize("rule", ["paper", "stdout", "slice"])
def test_rows_of_segments_are_those_of_the_dense_family(rule: RelevanceRule):
    batch = random_batch(51, 60, max_commands=64)
    rows = segment_rows(batch, rule=rule, inspect="verifier")
    rollouts = dense_rollouts(batch)
    readers = np.asarray(jax.vmap(segment_readers)(rollouts)).swapaxes(1, 2)
    demand = readers
    if rule != "slice":
        demand = np.asarray(jax.vmap(qualifying_readers)(rollouts)).swapaxes(1, 2)
    direct = np.asarray(jax.vmap(lambda rollout: direct_segments(rollout, "verifier"))(rollouts))
    owner = np.asarray(batch.segment_owner)
    own_bit = direct[..., None] & (owner[..., None] == np.arange(readers.shape[2]))
    np.testing.assert_array_equal(unpack_bits(rows.readers), readers)
    np.testing.assert_array_equal(unpack_bits(rows.demand), demand | own_bit)
    for joined, parts in ((rows.readers_of, readers), (rows.demand_of, demand | own_bit)):
        by_owner = (owner[:, None] == np.arange(readers.shape[2])[:, None])[..., None]
        expected = (by_owner & parts[:, None]).any(2)
        np.testing.assert_array_equal(unpack_bits(joined), expected)


@pytest.mark.parametrize("most", [1, SLOTS, SLOTS + 1, 100, 1000])
def test_joining_by_owner(most: int):
    rng = np.random.default_rng(most)
    rollouts, commands = 3, 32
    sizes = rng.choice([0, 0, 1, 2, 3, SLOTS, most], (rollouts, commands)).clip(max=most)
    sizes[0, 5], sizes[1, 0], sizes[2, -1] = most, most, most
    width = int(sizes.sum(1).max()) + 3
    owner = np.full((rollouts, width), -1, np.int32)
    for b in range(rollouts):
        owner[b, : sizes[b].sum()] = np.repeat(np.arange(commands), sizes[b])
    rows = rng.integers(0, 2**32, (rollouts, width, 2), dtype=np.uint32)
    rows &= rng.integers(0, 2**32, rows.shape, dtype=np.uint32)
    rows[owner < 0] = 2**32 - 1  # must reach nobody
    found = _join_by_owner(
        jnp.asarray(rows), jnp.asarray(owner), jnp.asarray(sizes.astype(np.int32))
    )
    for b in range(rollouts):
        for i in range(commands):
            mine = rows[b, owner[b] == i]
            np.testing.assert_array_equal(found[b, i], np.bitwise_or.reduce(mine, 0, initial=0))


# Uncommon traces, in both families.


def raw_trace(*commands: Json, verifier: list[str]) -> Json:
    steps = [step(1 + number % 3, one) for number, one in enumerate(commands)]
    return {"version": 1, "trace_id": "t", "verifier": verifier, "steps": steps}


def many_segments() -> Json:
    """One command writes a thousand files, and later ones read, overwrite or pass on some."""
    files = [f"/{number}" for number in range(1000)]
    return raw_trace(
        command(),
        command(writes=[whole(name) for name in files], stdout_from=[0]),
        command(reads=files[900:]),
        command(reads=["/998"], writes=[whole("/998"), whole("/out")], stdout_from=[2]),
        command(writes=[whole(name) for name in files[:500]]),
        command(reads=["/7", "/700"], writes=[whole("/passed")]),
        command(reads=["/passed"], writes=[whole("/out2")]),
        verifier=["/out", "/out2", "/3", "/600"],
    )


def long_chain() -> Json:
    """Longer than a byte counts: the first command sees the only write 299 edges away."""
    chain = [command(stdout_from=[i - 1] if i else []) for i in range(299)]
    return raw_trace(*chain, command(writes=[whole("/out")], stdout_from=[298]), verifier=["/out"])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("case", "rule"),
    [(many_segments, "paper"), (many_segments, "stdout"), (long_chain, "paper")],
)
def test_uncommon_traces(case: Callable[[], Json], rule: RelevanceRule, family: str):
    one = case()
    batch = batch_traces([parse(one)])
    found = results(batch, FAMILIES[family](batch, CreditConfig(beta=0.99, relevance=rule)))[0]
    expect = oracle(one, beta=0.99, relevance=rule)
    assert_close(expect, found, conditioning=expect["conditioning"])
    assert not found["fallback"]
