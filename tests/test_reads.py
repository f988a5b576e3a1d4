"""Decayed shortest distances, by hand and against a breadth-first search in Python."""

from __future__ import annotations

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from depgpo_jax.credit import CreditConfig
from depgpo_jax.reads import support_credit
from tests.helpers import FAMILIES, command, credit_of, step, trace, whole


def adjacency_of(size: int, *edges: tuple[int, int]) -> jax.Array:
    matrix = np.zeros((size, size), bool)
    for j, i in edges:
        matrix[j, i] = True
    return jnp.asarray(matrix)


def slow_support(
    edges: np.ndarray, credit: np.ndarray, beta: float
) -> tuple[np.ndarray, np.ndarray]:
    """Support and whether a credited writer is reached, one breadth-first search a command."""
    size = len(credit)
    support, reaches = np.zeros(size), np.zeros(size, bool)
    for source in range(size):
        distance = {source: 0}
        queue = deque([source])
        while queue:
            at = queue.popleft()
            for target in np.flatnonzero(edges[at]):
                if target not in distance:
                    distance[int(target)] = distance[at] + 1
                    queue.append(int(target))
        found = [(d, credit[w]) for w, d in distance.items() if d > 0 and credit[w] > 0]
        support[source] = sum(c * beta**d for d, c in found)
        reaches[source] = bool(found)
    return support, reaches


def random_edges(rng: np.random.Generator, size: int, density: float) -> np.ndarray:
    return np.triu(rng.random((size, size)) < density, 1)


def test_shortest_paths_and_not_all_paths():
    # 0 -> 1 -> 3 and 0 -> 3: one edge counts; 0 -> 2 leads to no writer.
    edges = adjacency_of(5, (0, 1), (1, 3), (0, 3), (0, 2))
    credit = jnp.array([0.0, 0.0, 0.0, 0.8, 1.0])
    found = support_credit(edges, credit, jnp.float32(0.5))
    np.testing.assert_allclose(found.credit, [0.4, 0.4, 0.0, 0.0, 0.0])
    assert found.reaches.tolist() == [True, True, False, False, False]


def test_writers_lie_on_paths_and_do_not_count_for_themselves():
    edges = adjacency_of(4, (0, 1), (1, 2), (2, 3))
    credit = jnp.array([0.0, 1.0, 0.0, 0.5])
    found = support_credit(edges, credit, jnp.float32(0.5))
    np.testing.assert_allclose(found.credit, [0.5 + 0.5 / 8, 0.5 / 4, 0.5 / 2, 0.0])
    assert found.reaches.tolist() == [True, True, True, False]


@pytest.mark.parametrize("beta", [0.5, 1.0, 0.05])
@pytest.mark.parametrize("density", [0.02, 0.1, 0.5])
def test_breadth_first_search_agrees(density: float, beta: float):
    rng = np.random.default_rng(5)
    for _ in range(5):
        edges = random_edges(rng, 48, density)
        credit = np.where(rng.random(48) < 0.4, rng.random(48), 0.0).astype(np.float32)
        expected, reaches = slow_support(edges, credit, beta)
        found = support_credit(jnp.asarray(edges), jnp.asarray(credit), jnp.float32(beta))
        np.testing.assert_allclose(found.credit, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found.reaches, reaches)


def test_nothing_to_support():
    found = support_credit(adjacency_of(3, (0, 1), (1, 2)), jnp.zeros(3), jnp.float32(0.5))
    np.testing.assert_array_equal(found.credit, 0.0)
    assert not found.reaches.any()


@pytest.mark.parametrize("family", FAMILIES)
def test_read_credit_of_a_trace(family: str):
    # look -> look -> write, both looks read only; the second write is not inspected.
    case = trace(
        step(1, command()),
        step(1, command(stdout_from=[0])),
        step(1, command(writes=[whole("/out")], stdout_from=[1])),
        step(1, command(writes=[whole("/waste")], stdout_from=[0, 1])),
        step(1, command(reads=["/out"])),
        verifier=["/out"],
    )
    found = credit_of(case, CreditConfig(), family)
    assert found["command_credit"] == [0.25, 0.5, 1.0, 0.0, 0.0]
    assert found["on_path_fraction"] == pytest.approx(3 / 5)
    found = credit_of(case, CreditConfig(beta=1), family)
    assert found["command_credit"] == [1.0, 1.0, 1.0, 0.0, 0.0]
    found = credit_of(case, CreditConfig(read_credit=False), family)
    assert found["command_credit"] == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert found["on_path_fraction"] == pytest.approx(1 / 5)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_writer_without_relevant_records_gets_no_read_credit(family: str):
    case = trace(
        step(1, command(writes=[whole("/log")])),
        step(1, command(writes=[whole("/out")], stdout_from=[0])),
        verifier=["/out"],
    )
    assert credit_of(case, family=family)["command_credit"] == [0.0, 1.0]


@pytest.mark.parametrize("family", FAMILIES)
def test_on_path_is_exact_where_the_credit_underflows(family: str):
    length = 60
    chain = [step(1, command(stdout_from=[i - 1] if i else [])) for i in range(length)]
    last = step(1, command(writes=[whole("/out")], stdout_from=[length - 1]))
    found = credit_of(trace(*chain, last, verifier=["/out"]), CreditConfig(beta=0.05), family)
    assert found["command_credit"][0] < 1e-37
    assert found["on_path_fraction"] == 1.0
