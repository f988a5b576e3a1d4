"""Explained rollouts by hand and what is said of them, for the tests of the sentences."""

from __future__ import annotations

from typing import Any

from depgpo_jax.batch import BatchShape, batch_traces
from depgpo_jax.credit import CreditConfig, dependency_credit
from depgpo_jax.explain.why import RolloutExplanation, explain_rollout
from depgpo_jax.explain.words import reasons, spoken
from depgpo_jax.traces import Trace
from tests.helpers import Json, command, lines, step, trace

# One shape, so that each choice of rules is compiled once.
SHAPE = BatchShape(rollouts=1, commands=32, steps=32, segments=64, resources=64)

OUT = "/app/out"


def explained(rollout: Trace, **options: Any) -> RolloutExplanation:
    config = CreditConfig(**options)
    batch = batch_traces([rollout], shape=SHAPE)
    return explain_rollout(dependency_credit(batch, config), batch, rollout, config=config)


def rollout_of(*commands: Json, verifier: tuple[str, ...] = (OUT,)) -> Trace:
    """One command a step, one token each."""
    return trace(*(step(1, each) for each in commands), verifier=verifier)


def told(rollout: Trace, i: int, **options: Any) -> list[str]:
    facts = explained(rollout, **options)
    return [spoken(sentence) for sentence in reasons(facts, facts.why(i))]


PRINTED = rollout_of(
    command(writes=[lines("/tmp/x", (1, 1))]),
    command(reads=["/tmp/x"]),
    command(writes=[lines(OUT, (1, 1))], stdout_from=[1]),
)
