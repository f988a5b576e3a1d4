"""Relevant records under the three rules: the method's own examples, by hand."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from depgpo_jax.batch import batch_traces
from depgpo_jax.credit import CreditConfig
from depgpo_jax.ownership import SURVIVES
from depgpo_jax.relevance import (
    RelevanceRule,
    direct_segments,
    qualifying_readers,
    relevant_records,
    write_credit,
)
from depgpo_jax.traces import Trace
from tests.helpers import FAMILIES, Json, command, lines, step, trace, whole
from tests.test_graph import example, rollout_of

RULES: tuple[RelevanceRule, ...] = ("paper", "stdout", "slice")


def commands(*listed: Json, verifier: tuple[str, ...] = ("/out",)) -> Trace:
    return trace(step(1, *listed), verifier=verifier)


def hunks(resource: str, *numbers: tuple[int, int, int, int]) -> Json:
    return {"resource": resource, "hunks": [list(hunk) for hunk in numbers]}


def by_all(counts: list[int]) -> dict[str, list[int]]:
    return dict.fromkeys(RULES, counts)


# name -> (trace, relevant records of each command by rule)
EXAMPLES: dict[str, tuple[Trace, dict[str, list[int]]]] = {
    "a direct write": (
        commands(command(writes=[lines("/out", (1, 3))])),
        by_all([3]),
    ),
    "a chain through files": (
        commands(
            command(writes=[lines("/a", (1, 2))]),
            command(reads=["/a"], writes=[whole("/b")]),
            command(reads=["/b"], writes=[whole("/out")]),
        ),
        by_all([2, 1, 1]),
    ),
    "a read without a write leads nowhere": (
        commands(command(writes=[whole("/a")]), command(reads=["/a"])),
        by_all([0, 0]),
    ),
    "printed, then written": (
        commands(
            command(writes=[whole("/x")]),
            command(reads=["/x"]),
            command(writes=[whole("/out")], stdout_from=[1]),
        ),
        {"paper": [0, 0, 1], "stdout": [1, 0, 1], "slice": [1, 0, 1]},
    ),
    "printed through two commands": (
        commands(
            command(writes=[whole("/x")]),
            command(reads=["/x"], writes=[whole("/x")]),
            command(stdout_from=[1]),
            command(writes=[whole("/out")], stdout_from=[2]),
        ),
        {"paper": [0, 0, 0, 1], "stdout": [1, 0, 0, 1], "slice": [1, 0, 0, 1]},
    ),
    "edited in place": (
        commands(
            command(writes=[lines("/out", (1, 4))]),
            command(reads=["/out"], writes=[lines("/out", (2, 2))]),
        ),
        {"paper": [3, 1], "stdout": [3, 1], "slice": [4, 1]},
    ),
    # It also writes elsewhere, yet what it overwrote itself stays irrelevant.
    "edited in place beside another write": (
        commands(
            command(writes=[lines("/a", (1, 4))]),
            command(reads=["/a"], writes=[lines("/a", (2, 2)), whole("/out")]),
        ),
        {"paper": [3, 1], "stdout": [3, 1], "slice": [4, 1]},
    ),
    "killed gaps are overwritten in place": (
        commands(
            command(writes=[hunks("/a", (2, 1, 1, 0))]),
            command(reads=["/a"], writes=[hunks("/a", (1, 2, 1, 2)), whole("/out")]),
        ),
        {"paper": [0, 1], "stdout": [0, 1], "slice": [1, 1]},
    ),
    "moved away is not in place": (
        commands(
            command(writes=[lines("/a", (1, 4))]),
            command(writes=[whole("/out", moved_from="/a")]),
        ),
        by_all([4, 1]),
    ),
    "moved away and written again": (
        commands(
            command(writes=[lines("/a", (1, 4))]),
            command(writes=[whole("/out", moved_from="/a"), lines("/a", (1, 1))]),
        ),
        by_all([4, 1]),
    ),
    # 1 owns a relevant line in /out itself; /log matters to nobody, but it is another resource.
    "the other resource need not be relevant": (
        commands(
            command(writes=[lines("/out", (1, 1))]),
            command(reads=["/out"], writes=[lines("/out", (2, 2)), whole("/log")]),
            command(writes=[lines("/out", (1, 1))]),
        ),
        by_all([1, 1, 1]),
    ),
    "without another resource": (
        commands(
            command(writes=[lines("/out", (1, 1))]),
            command(reads=["/out"], writes=[lines("/out", (2, 2))]),
            command(writes=[lines("/out", (1, 1))]),
        ),
        {"paper": [0, 1, 1], "stdout": [0, 1, 1], "slice": [1, 1, 1]},
    ),
    "only written in the resource it reads": (
        commands(
            command(writes=[whole("/a")]),
            command(reads=["/a"], writes=[lines("/a", (1, 1))]),
            command(reads=["/a"], writes=[whole("/a")]),
            command(reads=["/a"], writes=[whole("/out")]),
        ),
        {"paper": [0, 0, 1, 1], "stdout": [0, 0, 1, 1], "slice": [1, 1, 1, 1]},
    ),
    "a port that is inspected": (
        commands(
            command(writes=[lines("/app.py", (1, 9))]),
            command(reads=["/app.py"], writes=[whole("tcp:80")]),
            verifier=("tcp:80",),
        ),
        by_all([9, 1]),
    ),
    "overwritten before anybody read it": (
        commands(command(writes=[whole("/out")]), command(writes=[whole("/out")])),
        by_all([0, 1]),
    ),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_in_the_dense_family(name: str, rule: RelevanceRule):
    case, expected = EXAMPLES[name]
    found = relevant_records(rollout_of(case), rule=rule)
    wanted = expected[rule]
    assert found.relevant[: len(wanted)].tolist() == wanted
    assert not found.relevant[len(wanted) :].any()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("family", FAMILIES)
def test_examples_as_one_batch(family: str, rule: RelevanceRule):
    batch = batch_traces([case for case, _ in EXAMPLES.values()])
    credit = FAMILIES[family](batch, CreditConfig(relevance=rule))
    counts = np.where(credit.segment_relevant, batch.segment_count, 0)
    for row, (name, (_, expected)) in enumerate(EXAMPLES.items()):
        for number, wanted in enumerate(expected[rule]):
            found = counts[row][np.asarray(batch.segment_owner[row]) == number].sum()
            assert found == wanted, (name, number)


def test_direct_segments():
    rollout = rollout_of(example())
    rows = {
        (owner, resource, killer)
        for owner, resource, killer, direct in zip(
            rollout.segment_owner.tolist(),
            rollout.segment_resource.tolist(),
            rollout.segment_killer.tolist(),
            direct_segments(rollout, "verifier").tolist(),
            strict=True,
        )
        if direct
    }
    assert rows == {(0, 0, SURVIVES), (1, 0, SURVIVES)}
    everything = direct_segments(rollout, "all")
    assert everything.sum() == 3  # also /c; nothing that was overwritten or moved away
    assert not everything[5:].any()


def test_qualifying_readers():
    rollout = rollout_of(example())
    qualifying = np.asarray(qualifying_readers(rollout))
    # Command 1 writes in /a only, 3 and 4 write nothing: command 2 alone, on what it reads in time.
    assert np.flatnonzero(qualifying.any(1)).tolist() == [2]
    read = {
        (int(rollout.segment_owner[s]), int(rollout.segment_resource[s]))
        for s in np.flatnonzero(qualifying[2])
    }
    assert read == {(0, 0), (1, 0), (0, 1)}


@pytest.mark.parametrize("family", FAMILIES)
def test_inspect_all(family: str):
    case = commands(command(writes=[whole("/x")]), command(writes=[lines("/out", (1, 3))]))
    batch = batch_traces([case])
    for inspect, relevant in (("verifier", 3 / 4), ("all", 1.0)):
        credit = FAMILIES[family](batch, CreditConfig(inspect=inspect))  # pyright: ignore[reportArgumentType]
        assert credit.relevant_fraction == relevant


def test_write_credit():
    relevant, records = jnp.array([0, 1, 2, 5, 0]), jnp.array([0, 3, 2, 2**24, 4])
    np.testing.assert_array_equal(
        write_credit(relevant, records, "fraction"),
        np.asarray([0, 1 / 3, 1, 5 / 2**24, 0], np.float32),
    )
    np.testing.assert_array_equal(write_credit(relevant, records, "binary"), [0, 1, 1, 1, 0])
    both = jnp.stack([relevant, records]), jnp.stack([records, records])
    assert write_credit(*both, "fraction").shape == (2, 5)
