"""Scripted rollouts of every family in the traced sandbox, and the credit of their commands."""

from pathlib import Path

import pytest
from msgspec import UNSET

from depgpo_jax.batch import BatchShape, batch_traces, unpad
from depgpo_jax.credit import dependency_credit
from depgpo_jax.traces import Trace
from training.scripted import scripted_rollouts
from training.tasks import FAMILIES, Difficulty

SHAPE = BatchShape(rollouts=4, commands=32, steps=32, segments=512, resources=512)
"""Of all families, so that one compilation does."""


def dependent(trace: Trace) -> int:
    """How many commands use what an earlier one wrote or printed."""
    written: set[str] = set()
    count = 0
    for command in trace.commands:
        count += bool(command.stdout_from) or not written.isdisjoint(command.reads)
        written.update(write.resource for write in command.writes)
    return count


def last_writers(trace: Trace) -> set[int]:
    """The commands that were the last to write something that the verifier looked at."""
    last: dict[str, int] = {}
    for number, command in enumerate(trace.commands):
        last |= {write.resource: number for write in command.writes}
    return {number for resource, number in last.items() if resource in trace.verifier}


@pytest.mark.parametrize("family", FAMILIES)
def test_scripts_in_the_traced_sandbox(family: str, tmp_path: Path) -> None:
    traces = list(scripted_rollouts(family, 0, tmp_path / "task"))
    assert [trace.reward for trace in traces] == [1.0, 1.0, 0.0]
    assert all(trace.invalid is UNSET for trace in traces)
    assert all(command.recorded for trace in traces for command in trace.commands)

    batch = batch_traces(traces, shape=SHAPE)
    good, wasteful, _ = unpad(batch, dependency_credit(batch))
    assert not good.fallback
    writers = last_writers(traces[0])
    assert len(writers) >= 2
    assert all(good.command_credit[number] > 0 for number in writers)
    # What was printed and then used in something that counts has a share of it.
    reused = {
        source
        for number, command in enumerate(traces[0].commands)
        if command.writes and good.command_credit[number] > 0
        for source in command.stdout_from
        if not traces[0].commands[source].writes
    }
    assert reused
    assert all(good.command_credit[number] > 0 for number in reused)
    # Dead ends get less than the way.
    assert wasteful.on_path_fraction < good.on_path_fraction


@pytest.mark.parametrize("family", FAMILIES)
def test_depth_makes_the_chain_of_dependent_commands_longer(family: str, tmp_path: Path) -> None:
    counts = []
    for depth in (1, 3):
        rollouts = scripted_rollouts(family, 1, tmp_path / str(depth), Difficulty(depth, 5))
        trace = next(rollouts)
        rollouts.close()
        assert trace.reward == 1.0
        counts.append(dependent(trace))
    assert counts[1] >= counts[0] + 2
