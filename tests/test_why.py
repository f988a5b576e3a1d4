"""Why a command has its credit, against the exact oracle on random traces."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import depgpo_jax as dg
from depgpo_jax.batch import TraceBatch, batch_traces, unpad
from depgpo_jax.credit import Credit, CreditConfig, dependency_credit
from depgpo_jax.errors import ConfigError
from depgpo_jax.explain.facts import MAKES_RELEVANT, Edge, ReadPath, Why
from depgpo_jax.explain.why import TOLERANCE, RolloutExplanation, explain_rollout
from tests.helpers import SMALL, Json, command, lines, step, trace, whole
from tests.oracle import (
    CREDIT_TOLERANCE,
    Analysis,
    Record,
    _live_through_stdout,
    analyse,
    oracle,
    relevant_records,
)
from tests.slow_places import by_fate, numbers, placed_records
from tests.why_by_hand import EMPTY, PRINTED, SPLIT, alone, batch_of

# Each choice of rules is compiled once; other tests use the same.
CONFIGS = (
    CreditConfig(relevance="paper"),
    CreditConfig(relevance="stdout", beta=1.0),
    CreditConfig(relevance="slice", beta=0.25),
    CreditConfig(
        relevance="stdout", write_credit="binary", inspect="all", subtract_min=False, beta=0.25
    ),
    CreditConfig(relevance="paper", read_credit=False),
    CreditConfig(relevance="paper", write_credit="binary", beta=1.0),
    CreditConfig(relevance="paper", inspect="all"),
)
TRACES = 160

# Naive enumeration of all paths is for traces of so many commands.
FEW_COMMANDS = 12


def settings(config: CreditConfig) -> dict[str, Any]:
    return dataclasses.asdict(config)


class Expected:
    """One trace as the oracle and the replay of single records see it."""

    def __init__(self, plain: Json, config: CreditConfig) -> None:
        self.config = config
        self.places = placed_records(plain)
        analysis = analyse(plain)
        assert [(r.owner, r.resource) for r in analysis.records] == [
            (r.owner, r.resource) for r in self.places
        ]
        # The same records, but those whose places are known.
        self.analysis: Analysis = dataclasses.replace(analysis, records=list(self.places))
        self.relevant = relevant_records(self.analysis, config.relevance, config.inspect)
        self.relevant_numbers = [n for n, r in enumerate(self.places) if r in self.relevant]
        self.owners = {record.owner for record in self.relevant}
        self.wrote: list[set[str]] = [set() for _ in analysis.commands]
        for record in self.places:
            self.wrote[record.owner].add(record.resource)
        self.printing = (
            set()
            if config.relevance == "paper"
            else _live_through_stdout(analysis.commands, self.owners)
        )
        self.result = oracle(self.analysis, **settings(config))
        order = [w["resource"] for command in analysis.commands for w in command.writes]
        self.rank = {name: place for place, name in enumerate(dict.fromkeys(order))}
        self.successors: list[list[int]] = [[] for _ in analysis.commands]
        for source, target in sorted(analysis.edges):
            self.successors[source].append(target)

    def is_inspected(self, record: Record) -> bool:
        everything = self.config.inspect == "all"
        return record.killer is None and (everything or record.resource in self.analysis.verifier)

    def consumers(self, record: Record) -> list[int]:
        """Section 3, rule by rule: the readers that make a record relevant."""
        found: list[int] = []
        for k in sorted(set(record.readers)):
            conditions = [
                k in self.owners,
                bool(self.wrote[k] - {record.resource}),
                not (record.killer == k and record.in_place),
            ]
            if (
                all(conditions)
                or (self.config.relevance != "paper" and k in self.printing)
                or (self.config.relevance == "slice" and k in self.owners)
            ):
                found.append(k)
        return found

    def effect(self, record: Record, k: int) -> str:
        """The table of `ReaderEffect`, read from top to bottom."""
        strict = self.config.relevance != "slice"
        overwrote = strict and record.killer == k and record.in_place
        only_here = strict and not self.wrote[k] - {record.resource}
        if k in self.owners and not overwrote and not only_here:
            return "carries"
        if k in self.printing:
            return "prints"
        if k not in self.owners:
            return "irrelevant"
        return "in_place" if overwrote else "only_here"

    def edge(self, producer: int, consumer: int) -> Edge:
        through = {r.resource for r in self.places if r.owner == producer and consumer in r.readers}
        stdout = producer in self.analysis.commands[consumer].stdout_from
        return Edge(producer, consumer, tuple(sorted(through, key=self.rank.__getitem__)), stdout)

    def all_shortest(self, source: int, writer: int) -> list[tuple[int, ...]]:
        """Every shortest path, by walking on wherever the distance shrinks."""
        if source == writer:
            return [()]
        left = self.analysis.distances[source][writer]
        return [
            (at, *rest)
            for at in self.successors[source]
            if self.analysis.distances[at].get(writer) == left - 1
            for rest in self.all_shortest(at, writer)
        ]

    def least_path(self, source: int, writer: int) -> tuple[int, ...]:
        """The smallest number at every step is the smallest path of all."""
        path: list[int] = []
        while source != writer:
            left = self.analysis.distances[source][writer]
            source = min(
                at
                for at in self.successors[source]
                if self.analysis.distances[at].get(writer) == left - 1
            )
            path.append(source)
        return tuple(path)


def assert_written(found: Why, expected: Expected, what: str) -> None:
    mine = {r: place for r, place in expected.places.items() if r.owner == found.command}
    assert found.records == len(mine), what
    assert found.relevant == sum(r in expected.relevant for r in mine), what
    groups = by_fate(mine)
    fates = [(found.command, p.resource, p.killer, p.in_place) for p in found.written]
    assert sorted(fates, key=str) == sorted(groups, key=str), what
    order = [(not p.relevant, -p.records, p.resource) for p in found.written]
    assert order == sorted(order), what
    for part in found.written:
        records = groups[found.command, part.resource, part.killer, part.in_place]
        where = f"{what}, {part}"
        assert part.records == part.places.records == len(records), where
        on_lines = [line for a, b in part.places.lines for line in range(a, b + 1)]
        assert on_lines == numbers(records, expected.places, "line"), where
        assert list(part.places.gaps) == numbers(records, expected.places, "gap"), where
        assert part.places.whole == any(r.kind == "whole" for r in records), where
        for record in records:
            assert part.relevant == (record in expected.relevant), where
            assert part.inspected == expected.is_inspected(record), where
            assert list(part.consumers) == expected.consumers(record), where
            assert part.relevant == bool(part.inspected or part.consumers), where
            readers = sorted(set(record.readers))
            assert list(part.readers) == [(k, expected.effect(record, k)) for k in readers], where
            assert [k for k, effect in part.readers if effect in MAKES_RELEVANT] == list(
                part.consumers
            ), where


def assert_paths(found: Why, expected: Expected, what: str) -> None:
    if found.records or not expected.config.read_credit:
        assert found.paths == (), what
        return
    distances = expected.analysis.distances[found.command]
    assert {path.writer for path in found.paths} == expected.owners & set(distances), what
    assert len({path.writer for path in found.paths}) == len(found.paths), what
    for path in found.paths:
        where = f"{what}, {path}"
        assert path.distance == distances[path.writer] >= 1, where
        assert set(pairwise((found.command, *path.path))) <= expected.analysis.edges, where
        assert path.path == expected.least_path(found.command, path.writer), where
        if len(expected.successors) <= FEW_COMMANDS:
            assert path.path == min(expected.all_shortest(found.command, path.writer)), where
        credit = expected.result["command_credit"][path.writer]
        assert path.credit == pytest.approx(credit, rel=1e-12), where
        value = credit * expected.config.beta**path.distance
        assert path.value == pytest.approx(value, rel=1e-12), where
    values = [path.value for path in found.paths]
    assert values == sorted(values, reverse=True), what
    exact = expected.result["command_credit"][found.command]
    assert sum(values) == pytest.approx(exact, rel=1e-9, abs=1e-12), what


def assert_explained(found: Why, expected: Expected, result: Any, what: str) -> None:
    i = found.command
    facts = expected.analysis.commands[i]
    assert (found.step, found.recorded) == (facts.step, facts.recorded), what
    exact = expected.result["command_credit"][i]
    assert abs(found.credit - exact) <= CREDIT_TOLERANCE * max(1.0, exact), what
    assert found.credit == result.command_credit[i], what
    assert found.step_credit == result.step_credit[found.step], what
    assert found.step_factor == result.step_factor[found.step], what
    assert found.token_weight == result.token_weight[found.step], what
    assert found.fallback == result.fallback, what
    assert_written(found, expected, what)
    assert_paths(found, expected, what)
    edges = sorted(expected.analysis.edges)
    assert list(found.inputs) == [expected.edge(j, k) for j, k in edges if k == i], what
    assert list(found.outputs) == [expected.edge(j, k) for j, k in edges if j == i], what


@pytest.mark.parametrize("number", range(len(CONFIGS)))
def test_every_command_of_random_traces(number: int):
    config = CONFIGS[number]
    plain, parsed, batch = batch_of(8000 + number, TRACES)
    credit = jax.device_get(dependency_credit(batch, config))
    batch = jax.device_get(batch)
    results = unpad(batch, credit)
    commands = 0
    for row, (each, rollout) in enumerate(zip(plain, parsed, strict=True)):
        expected = Expected(each, config)
        explained = explain_rollout(credit, batch, rollout, config=config, row=row)
        assert explained.num_commands == len(expected.analysis.commands)
        for i in range(explained.num_commands):
            what = f"{each['trace_id']}, command {i}, {config}"
            assert_explained(explained.why(i), expected, results[row], what)
            commands += 1
    assert commands > 1_000


# Other settings than those of the credit.


def differs(left: Expected, right: Expected) -> bool | None:
    """Whether two settings differ for a trace; None: by less than rounding might."""
    if left.relevant_numbers != right.relevant_numbers:
        return True
    gaps = [
        abs(a - b) / max(1.0, b)
        for a, b in zip(left.result["command_credit"], right.result["command_credit"], strict=True)
    ]
    largest = max(gaps, default=0.0)
    return None if 0.0 < largest <= 2 * TOLERANCE else largest > 0.0


def test_credit_of_other_settings_is_refused_where_it_changes_anything():
    plain, parsed, batch = batch_of(8100, 40)
    host = jax.device_get(batch)
    expected = {config: [Expected(each, config) for each in plain] for config in CONFIGS}
    refused = passed = 0
    for true in CONFIGS:
        credit = jax.device_get(dependency_credit(batch, true))
        for claimed in CONFIGS:
            for row, rollout in enumerate(parsed):
                change = differs(expected[true][row], expected[claimed][row])
                if change:
                    with pytest.raises(ConfigError, match="the settings that the credit was com"):
                        explain_rollout(credit, host, rollout, config=claimed, row=row)
                    refused += 1
                elif change is False:
                    explain_rollout(credit, host, rollout, config=claimed, row=row)
                    passed += 1
    assert refused > 200
    assert passed > 200


# Which row of which batch.


def test_the_same_rollout_twice_is_found_first_and_equal():
    batch = batch_traces([SPLIT, PRINTED, EMPTY, PRINTED], shape=SMALL)
    credit = dependency_credit(batch)
    found = [
        [explain_rollout(credit, batch, PRINTED, row=row).why(i) for i in range(3)]
        for row in (None, 1, 3)
    ]
    assert found[0] == found[1] == found[2]


def test_every_row_is_found_without_being_named():
    _, parsed, batch = batch_of(8200, 100)
    credit = dependency_credit(batch)
    host_batch, host = jax.device_get((batch, credit))
    for row, rollout in enumerate(parsed):
        searched = explain_rollout(host, host_batch, rollout)
        np.testing.assert_array_equal(
            searched.result.command_credit,
            host.command_credit[row, : searched.num_commands],
        )


def test_batches_on_the_device_on_the_host_and_over_four_devices_agree():
    _, parsed, batch = batch_of(8200, 100)
    sharding = NamedSharding(
        Mesh(np.array(jax.devices()), ("rollouts",)), PartitionSpec("rollouts")
    )
    spread = jax.device_put(batch, sharding)
    kinds: list[tuple[TraceBatch, Credit]] = [
        (batch, dependency_credit(batch)),
        jax.device_get((batch, dependency_credit(batch))),
        (spread, jax.jit(dependency_credit, out_shardings=sharding)(spread)),
    ]
    assert len(kinds[2][1].segment_relevant.sharding.device_set) == 4
    for row in (0, 41, 99):  # the first, one of another device's rows, the last before padding
        rollout = parsed[row]
        found = [explain_rollout(credit, each, rollout) for each, credit in kinds]
        for i in range(found[0].num_commands):
            assert found[0].why(i) == found[1].why(i) == found[2].why(i)


# The public face.


def test_one_call_is_the_rollouts_answer():
    batch, credit = alone()
    rollout = dg.explain_rollout(credit, batch, PRINTED)
    assert isinstance(rollout, RolloutExplanation)
    assert [dg.why(credit, batch, PRINTED, i) for i in range(3)] == [
        rollout.why(i) for i in range(3)
    ]
    assert rollout.why(1) == Why(
        command=1,
        step=1,
        recorded=True,
        credit=0.25,
        relevant=0,
        records=0,
        written=(),
        paths=(ReadPath((2,), 0.5, 0.25),),
        inputs=(Edge(0, 1, ("/tmp/x",), stdout=False),),
        outputs=(Edge(1, 2, (), stdout=True),),
        step_credit=0.25,
        step_factor=1.0,
        token_weight=1.0,
        fallback=False,
    )
    assert rollout.why(1).paths[0].writer == 2
    assert rollout.why(1).paths[0].distance == 1


def test_a_move_over_the_answer_from_the_method_page():
    moved = trace(
        step(1, command(writes=[whole("/app/answer")])),
        step(1, command(writes=[lines("/tmp/draft", (1, 3))])),
        step(1, command(writes=[whole("/app/answer", moved_from="/tmp/draft")])),
        verifier=["/app/answer"],
    )
    batch = batch_traces([moved])
    rollout = explain_rollout(dependency_credit(batch), batch, moved)
    draft = rollout.why(1).written[0]
    assert (draft.killer, draft.in_place, draft.consumers) == (2, False, (2,))
    old = rollout.why(0).written[0]
    assert (old.killer, old.in_place, old.readers, old.relevant) == (2, True, (), False)
