"""Traces by hand, size classes and both kernel families, as the tests of the kernels use them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest
from jaxtyping import Array, Float32

import depgpo_jax.credit
from depgpo_jax.batch import BatchShape, TraceBatch, batch_traces, unpad
from depgpo_jax.credit import Credit, CreditConfig, dependency_credit, rollout_credit
from depgpo_jax.rollout import dense_rollouts
from depgpo_jax.traces import Trace, parse_trace
from tests.random_traces import random_traces

Json = dict[str, Any]

# Few shapes, shared by all tests, so that a compilation serves many of them.
SMALL = BatchShape(rollouts=512, commands=32, steps=64, segments=128, resources=16)
LARGE = BatchShape(rollouts=64, commands=160, steps=192, segments=512, resources=16)


# Traces by hand.


def whole(resource: str, **more: Any) -> Json:
    return {"resource": resource, "whole": True, **more}


def lines(resource: str, *ranges: tuple[int, int]) -> Json:
    return {"resource": resource, "lines": [list(pair) for pair in ranges]}


def command(
    *,
    reads: Sequence[str] = (),
    writes: Sequence[Json] = (),
    stdout_from: Sequence[int] = (),
    **more: Any,
) -> Json:
    return {
        "reads": list(reads),
        "writes": list(writes),
        "stdout_from": list(stdout_from),
        **more,
    }


def step(loss_tokens: int, *commands: Json) -> Json:
    return {"loss_tokens": loss_tokens, "commands": list(commands)}


def trace(*steps: Json, verifier: Sequence[str] = (), trace_id: str = "t", **more: Any) -> Trace:
    return parse(
        {
            "version": 1,
            "trace_id": trace_id,
            "verifier": list(verifier),
            "steps": list(steps),
            **more,
        }
    )


def parse(trace: Mapping[str, Any]) -> Trace:
    return parse_trace(msgspec.json.encode(trace))


# Random traces in batches.


def random_parsed(seed: int, count: int, *, max_commands: int = 32) -> list[Trace]:
    return [parse(trace) for trace in random_traces(seed, count, max_commands=max_commands)]


def chunks(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]


def random_batch(
    seed: int, count: int, *, max_commands: int = 32, shape: BatchShape | None = None
) -> TraceBatch:
    return batch_traces(random_parsed(seed, count, max_commands=max_commands), shape=shape)


# The two kernel families behind one signature.

Family = Callable[[TraceBatch, CreditConfig], Credit]


def dense_credit(batch: TraceBatch, config: CreditConfig) -> Credit:
    """The dense family on a batch, compiled once for all beta and caps, as the packed one is."""
    beta, max_weight = depgpo_jax.credit._traced_options(config)
    return _dense(batch, beta, max_weight, depgpo_jax.credit._static_options(config))


@partial(jax.jit, static_argnames="rules")
def _dense(
    batch: TraceBatch, beta: Float32[Array, ""], max_weight: Float32[Array, ""], rules: CreditConfig
) -> Credit:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(depgpo_jax.credit, "_traced_options", lambda _: (beta, max_weight))
        return jax.vmap(lambda rollout: rollout_credit(rollout, rules))(dense_rollouts(batch))


FAMILIES: dict[str, Family] = {"packed": dependency_credit, "dense": dense_credit}


def results(batch: TraceBatch, credit: Credit) -> list[Json]:
    """Results by trace under the keys of the oracle, as plain lists."""
    return [
        {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in row._asdict().items()
        }
        for row in unpad(batch, credit)
    ]


def credit_of(trace: Trace, config: CreditConfig | None = None, family: str = "packed") -> Json:
    """The results of one trace."""
    batch = batch_traces([trace])
    return results(batch, FAMILIES[family](batch, config or CreditConfig()))[0]


def config_id(config: CreditConfig) -> str:
    """What a config changes, as a test's id."""
    changed = {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if getattr(config, field.name) != field.default
    }
    return " ".join(f"{name}={value}" for name, value in changed.items()) or "default"


# Comparisons.


def assert_bit_identical(found: Credit, expected: Credit, what: str = "") -> None:
    """Two results agree in every bit."""
    for name in Credit._fields:
        left, right = np.asarray(getattr(found, name)), np.asarray(getattr(expected, name))
        np.testing.assert_array_equal(left, right, err_msg=f"{what} {name}", strict=True)
        assert left.tobytes() == right.tobytes(), f"{what} {name}: signs of zeros differ"


def assert_same_results(found: Json, expected: Json, what: str) -> None:
    """What section 6 promises over paddings and neighbours: 1e-6, same zeros, same fallback."""
    assert found["fallback"] == expected["fallback"], what
    for name, value in expected.items():
        left, right = f64(found[name]), f64(value)
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6, err_msg=f"{what} {name}")
        np.testing.assert_array_equal(left == 0, right == 0, err_msg=f"zeros of {what} {name}")


def f64(values: Any) -> np.ndarray:
    """In double precision, so that a check adds no rounding of its own."""
    return np.asarray(values, np.float64)


def all_ones(values: Any) -> bool:
    return bool(jnp.all(jnp.asarray(values) == 1.0))
