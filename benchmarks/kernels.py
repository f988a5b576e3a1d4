"""The kernel against plain Python and numba, after all of them gave the same answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.stages
import numpy as np

from benchmarks.inputs import Inputs, inputs
from benchmarks.numba_baseline import numba_credit
from benchmarks.plain_python import PlainCredit, plain_credit
from benchmarks.timing import Spread, alternate, ratio, spread
from depgpo_jax import CreditConfig, dependency_credit
from depgpo_jax.credit import rollout_credit
from depgpo_jax.relevance import RelevanceRule
from depgpo_jax.rollout import dense_rollouts

OURS, OWN_JIT, NUMBA, PYTHON, DENSE = "ours", "own_jit", "numba", "python", "dense"
PER_COMMAND = ("command_credit",)
PER_STEP = ("step_credit", "step_factor", "token_weight")
PER_ROLLOUT = (
    "fallback",
    "relevant_fraction",
    "on_path_fraction",
    "max_weight_seen",
    "effective_fraction",
)
RELATIVE, ABSOLUTE = 1e-4, 1e-5

Call = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """B traces of at most N commands under one relevance rule."""

    B: int
    N: int
    rule: RelevanceRule = "paper"
    own_jit: bool = False
    """Whether the same call inside a user's own `jit` takes part: one more compilation."""
    dense: bool = False
    """Whether the dense twin takes part."""

    @property
    def shape(self) -> str:
        return f"{self.B}x{self.N}"


FULL = (
    Case(1024, 16),
    Case(1024, 64),
    Case(1024, 128, own_jit=True),
    Case(1024, 128, "stdout"),
    Case(1024, 128, "slice"),
    Case(256, 128),
    Case(32, 128, dense=True),
    Case(256, 512, own_jit=True),
)
QUICK = (Case(6, 16, own_jit=True, dense=True), Case(6, 16, "slice"))


@dataclass(frozen=True)
class KernelResult:
    """Seconds a batch of every contestant, and the ratios that the tables show."""

    shape: str
    rule: str
    seconds: dict[str, Spread]
    times_faster_than_python: Spread
    time_against_numba: Spread
    own_jit_against_numba: Spread | None
    core_share: float


class DisagreementError(Exception):
    """Two contestants gave different answers, so that their times mean nothing."""


def measure(case: Case, *, rounds: int) -> KernelResult:
    given = inputs(case.B, case.N)
    calls = contestants(case, given)
    check_agreement(f"{case.shape} {case.rule}", given, {name: calls[name]() for name in calls})
    samples, core_share = alternate(calls, rounds=rounds)
    return KernelResult(
        shape=case.shape,
        rule=case.rule,
        seconds={name: spread(times) for name, times in samples.items()},
        times_faster_than_python=ratio(samples[PYTHON], samples[OURS]),
        time_against_numba=ratio(samples[OURS], samples[NUMBA]),
        own_jit_against_numba=ratio(samples[OWN_JIT], samples[NUMBA]) if case.own_jit else None,
        core_share=core_share,
    )


def contestants(case: Case, given: Inputs) -> dict[str, Call]:
    """Each computes all that a `Credit` holds, from its own form of the batch."""
    config = CreditConfig(relevance=case.rule)
    ours = partial(dependency_credit, config=config)
    calls: dict[str, Call] = {
        OURS: _finished(ours, given.batch),
        NUMBA: partial(numba_credit, given.arrays, relevance=case.rule),
        PYTHON: lambda: [plain_credit(trace, relevance=case.rule) for trace in given.plain],
    }
    if case.own_jit:
        calls[OWN_JIT] = _finished(own_jit(case.rule), given.batch)
    if case.dense:
        twin = jax.jit(jax.vmap(partial(rollout_credit, config=config)))
        calls[DENSE] = _finished(twin, dense_rollouts(given.batch))
    return calls


@cache
def own_jit(rule: RelevanceRule) -> jax.stages.Wrapped:
    """What a user writes; XLA then compiles the kernel as a part of the user's function."""
    return jax.jit(partial(dependency_credit, config=CreditConfig(relevance=rule)))


def _finished(credit: Callable[..., Any], batch: Any) -> Call:
    """JAX returns before it has computed."""
    return lambda: jax.block_until_ready(credit(batch))


def check_agreement(what: str, given: Inputs, answers: Mapping[str, Any]) -> None:
    """Compares every answer with that of plain Python, at the places that are no padding.

    Raises:
        DisagreementError: two answers differ; the message says where and by how much.
    """
    expect = _joined(answers[PYTHON])
    batch = given.batch
    rollouts = np.asarray(batch.is_rollout)
    commands = np.arange(batch.recorded.shape[1]) < np.asarray(batch.num_commands)[:, None]
    steps = np.arange(batch.loss_tokens.shape[1]) < np.asarray(batch.num_steps)[:, None]
    places = (
        dict.fromkeys(PER_COMMAND, commands)
        | dict.fromkeys(PER_STEP, steps)
        | dict.fromkeys(PER_ROLLOUT, rollouts)
    )
    for name, answer in answers.items():
        if name == PYTHON:
            continue
        for field, place in places.items():
            got = np.asarray(getattr(answer, field))[place]
            if not np.allclose(got, expect[field], rtol=RELATIVE, atol=ABSOLUTE):
                worst = np.max(np.abs(got.astype(np.float64) - expect[field]))
                raise DisagreementError(
                    f"{what}: {name} and plain Python differ by {worst:.2g} in {field}; allowed: "
                    f"{ABSOLUTE} + {RELATIVE} of the value. Run the tests before any benchmark."
                )
    _check_segments(what, given, answers)


def _check_segments(what: str, given: Inputs, answers: Mapping[str, Any]) -> None:
    """Plain Python does not return which segments are relevant; numba does."""
    place = np.asarray(given.batch.segment_count) > 0
    expect = answers[NUMBA].segment_relevant[place]
    for name in answers.keys() - {NUMBA, PYTHON}:
        wrong = np.count_nonzero(np.asarray(answers[name].segment_relevant)[place] != expect)
        if wrong:
            raise DisagreementError(
                f"{what}: {name} and numba differ in {wrong} of {len(expect)} relevant segments; "
                "allowed: none. Run the tests before any benchmark."
            )


def _joined(credits: list[PlainCredit]) -> dict[str, np.ndarray]:
    """Each field over all traces, one after another."""
    joined = {
        field: np.concatenate([getattr(credit, field) for credit in credits])
        for field in PER_COMMAND + PER_STEP
    }
    return joined | {
        field: np.array([getattr(credit, field) for credit in credits], np.float64)
        for field in PER_ROLLOUT
    }
