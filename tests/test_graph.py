"""Ownership, live reads and edges of one rollout, by hand and against the oracle."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from depgpo_jax.batch import batch_traces
from depgpo_jax.graph import adjacency, owns, segment_readers
from depgpo_jax.rollout import NO_STEP, DenseRollout, dense_rollouts
from depgpo_jax.traces import Trace
from tests.helpers import command, lines, parse, step, trace, whole
from tests.oracle import analyse
from tests.random_traces import random_traces


def rollout_of(one: Trace) -> DenseRollout:
    return jax.tree.map(lambda field: field[0], dense_rollouts(batch_traces([one])))


def edges_of(one: Trace) -> set[tuple[int, int]]:
    return {(int(j), int(i)) for j, i in np.argwhere(adjacency(rollout_of(one)))}


def example() -> Trace:
    """0 writes a (two lines) and b; 1 reads a and overwrites one line; 2 reads a and b, moves b."""
    return trace(
        step(5, command(writes=[lines("/a", (1, 2)), whole("/b")])),
        step(0),
        step(
            6,
            command(reads=["/a"], writes=[lines("/a", (2, 2))]),
            command(reads=["/a"], writes=[whole("/c", moved_from="/b")], stdout_from=[0]),
        ),
        step(7, command(reads=["/b"], stdout_from=[1]), command(reads=["/c", "/a"])),
        verifier=["/a"],
    )


def test_dense_tensors_of_an_example():
    rollout = rollout_of(example())
    assert rollout.step_of_command[:6].tolist() == [0, 2, 2, 3, 3, NO_STEP]
    assert rollout.recorded.tolist() == [True] * 5 + [False] * 27
    reads = {(int(i), int(r)) for i, r in np.argwhere(rollout.reads)}
    a, b, c = 0, 1, 2
    assert reads == {(1, a), (2, a), (2, b), (3, b), (4, c), (4, a)}
    stdout = {(int(i), int(j)) for i, j in np.argwhere(rollout.stdout)}
    assert stdout == {(2, 0), (3, 1)}


def test_steps_of_commands_around_empty_steps():
    steps = [step(1), step(1, command(), command()), step(1), step(1), step(1, command()), step(1)]
    rollout = rollout_of(trace(*steps))
    assert rollout.step_of_command[:5].tolist() == [1, 1, 4, NO_STEP, NO_STEP]


def test_a_segment_is_owned_once_and_read_while_live():
    rollout = rollout_of(example())
    owner, killer = rollout.segment_owner.tolist(), rollout.segment_killer.tolist()
    ownership, readers = np.asarray(owns(rollout)), np.asarray(segment_readers(rollout))
    assert ownership.sum() == len([o for o in owner if o >= 0]) == 5
    resource = rollout.segment_resource.tolist()
    read_by = {
        (owner[s], resource[s], min(killer[s], 99)): np.flatnonzero(readers[:, s]).tolist()
        for s in range(5)
    }
    a, b, c = 0, 1, 2
    assert read_by == {
        (0, a, 99): [1, 2, 4],
        (0, a, 1): [1],  # its killer reads it before it writes
        (0, b, 2): [2],  # moved away by 2, which reads it; 3 comes too late
        (1, a, 99): [2, 4],
        (2, c, 99): [4],
    }
    assert not readers[:, 5:].any()


def test_edges_of_an_example():
    assert edges_of(example()) == {(0, 1), (0, 2), (0, 4), (1, 2), (1, 3), (1, 4), (2, 4)}


def test_no_edges():
    # Content from before the rollout, own writes, and writing over something make no edge.
    assert (
        edges_of(trace(step(1, command(reads=["/old"]), command(writes=[whole("/old")])))) == set()
    )
    assert edges_of(trace(step(1, command(reads=["/a"], writes=[whole("/a")])))) == set()
    over = trace(step(1, command(writes=[whole("/a")]), command(writes=[whole("/a")])))
    assert edges_of(over) == set()
    inside = trace(step(1, command(writes=[whole("/a/b")]), command(reads=["/a"])))
    assert edges_of(inside) == set()


def test_random_edges_against_the_oracle():
    cases = list(random_traces(21, 200, max_commands=64))
    batch = batch_traces([parse(case) for case in cases])
    edges = np.asarray(jax.jit(jax.vmap(adjacency))(dense_rollouts(batch)))
    for row, case in enumerate(cases):
        found = {(int(j), int(i)) for j, i in np.argwhere(edges[row])}
        assert found == analyse(case).edges, case["trace_id"]


def test_segments_may_stand_in_any_order():
    rollout = rollout_of(example())
    order = np.random.default_rng(0).permutation(rollout.segment_owner.shape[0])
    fields = {n: getattr(rollout, n)[order] for n in rollout._fields if n.startswith("segment_")}
    shuffled = rollout._replace(**fields)
    np.testing.assert_array_equal(adjacency(shuffled), adjacency(rollout))
    np.testing.assert_array_equal(segment_readers(shuffled), segment_readers(rollout)[:, order])
    assert jnp.array_equal(owns(shuffled), owns(rollout)[:, order])
