"""What section 6 of the method promises for every valid input, on random traces."""

from __future__ import annotations

import random
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from depgpo_jax.batch import BatchShape, TraceBatch, batch_traces
from depgpo_jax.credit import Credit, CreditConfig
from depgpo_jax.relevance import RelevanceRule
from depgpo_jax.tokens import token_advantages
from depgpo_jax.traces import Trace
from tests.helpers import (
    FAMILIES,
    LARGE,
    SMALL,
    all_ones,
    assert_bit_identical,
    assert_same_results,
    command,
    config_id,
    credit_of,
    f64,
    parse,
    random_parsed,
    results,
    step,
    trace,
    whole,
)
from tests.random_traces import random_trace, random_traces
from training.objectives import clipped_objective

CONFIGS = (
    CreditConfig(),
    CreditConfig(relevance="stdout", max_weight=2.0),
    CreditConfig(relevance="slice", beta=0.9, max_weight=1.25),
    CreditConfig(subtract_min=False, max_weight=3.5),
)

RULES: tuple[RelevanceRule, ...] = ("paper", "stdout", "slice")

by_config = pytest.mark.parametrize("config", CONFIGS, ids=config_id)
by_family = pytest.mark.parametrize("family", FAMILIES)


@cache
def short_traces() -> list[Trace]:
    return random_parsed(1001, SMALL.rollouts)


@cache
def batch_of(size: str) -> TraceBatch:
    if size == "short":
        return batch_traces(short_traces(), shape=SMALL)
    rng = random.Random(7)
    lengths = [rng.randint(33, 140) for _ in range(LARGE.rollouts - 3)]
    longer = [parse(random_trace(rng, num_commands=length)) for length in lengths]
    return batch_traces(longer, shape=LARGE)


# Mean, sign, cap.


@by_family
@by_config
@pytest.mark.parametrize("size", ["short", "long"])
def test_weights_are_finite_and_keep_the_token_mean(config: CreditConfig, family: str, size: str):
    batch = batch_of(size)
    credit = jax.device_get(FAMILIES[family](batch, config))
    weight = f64(credit.token_weight)
    tokens = f64(batch.loss_tokens)
    assert np.isfinite(weight).all()
    assert (weight >= 0).all()
    np.testing.assert_allclose((weight * tokens).sum(1), tokens.sum(1), rtol=1e-6)
    if config.max_weight is not None:
        assert (weight[tokens > 0] <= config.max_weight).all()
    assert (weight[credit.fallback] == 1.0).all()
    has_tokens = tokens.sum(1) > 0
    assert (credit.fallback | has_tokens).all()
    squares = (weight**2 * tokens).sum(1)[has_tokens]
    np.testing.assert_allclose(
        credit.effective_fraction[has_tokens], tokens.sum(1)[has_tokens] / squares, rtol=1e-5
    )
    assert (credit.effective_fraction <= 1 + 1e-6).all()
    assert (credit.effective_fraction > 0).all()
    # The tests above would also pass on weights that are all 1.
    assert ((weight == 0) & (tokens > 0)).any(1).sum() > 10
    assert (~credit.fallback).sum() > 20


@by_config
def test_token_advantages_keep_mean_and_sign(config: CreditConfig):
    batch = batch_of("short")
    credit = FAMILIES["packed"](batch, config)
    step_of_token, mask = tokens_of(batch)
    advantage = np.random.default_rng(0).normal(size=SMALL.rollouts).astype(np.float32)
    aimed = f64(token_advantages(credit, jnp.asarray(advantage), step_of_token, jnp.asarray(mask)))
    np.testing.assert_allclose(aimed.sum(1), advantage * f64(mask.sum(1)), rtol=2e-6)
    assert (aimed * advantage[:, None] >= 0).all()


def tokens_of(batch: TraceBatch, most: int = 40) -> tuple[jax.Array, np.ndarray]:
    """Tokens of each step as a trainer would lay them out, at most `most` a step."""
    counts = np.minimum(np.asarray(batch.loss_tokens, np.int64), most)
    length = int(counts.sum(1).max())
    step_of_token = np.full((counts.shape[0], length), -1, np.int32)
    for row, row_counts in enumerate(counts):
        step_of_token[row, : row_counts.sum()] = np.repeat(np.arange(len(row_counts)), row_counts)
    return jnp.asarray(step_of_token), step_of_token >= 0


def test_weights_do_not_depend_on_advantage_or_reward():
    batch = batch_of("short")
    credit = FAMILIES["packed"](batch, CONFIGS[0])
    other = batch._replace(
        reward=-7.0 * batch.reward + 1.0,
        trainable=~batch.trainable,
        group=jnp.zeros_like(batch.group),
    )
    assert_bit_identical(FAMILIES["packed"](other, CONFIGS[0]), credit)
    step_of_token, mask = tokens_of(batch, most=3)
    ones = jnp.ones(SMALL.rollouts)
    weight = token_advantages(credit, ones, step_of_token, jnp.asarray(mask))
    for scale in (-1.0, 0.0, 2.0, -1024.0):
        aimed = token_advantages(credit, scale * ones, step_of_token, jnp.asarray(mask))
        np.testing.assert_array_equal(aimed, scale * weight)


def test_zero_weight_tokens_stay_in_the_denominator():
    batch = batch_of("short")
    credit = FAMILIES["packed"](batch, CONFIGS[0])
    step_of_token, mask = tokens_of(batch)
    rng = np.random.default_rng(1)
    advantage = jnp.asarray(rng.normal(size=SMALL.rollouts), jnp.float32)
    aimed = token_advantages(credit, advantage, step_of_token, jnp.asarray(mask))
    plain = jnp.where(mask, advantage[:, None], 0.0)
    assert (np.asarray(aimed)[mask] == 0).mean() > 0.05
    log_probs = jnp.zeros(mask.shape)
    for kind in ("token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum"):
        losses = [
            clipped_objective(log_probs, log_probs, values, jnp.asarray(mask), aggregation=kind)
            for values in (aimed, plain)
        ]
        np.testing.assert_allclose(losses[0].loss, losses[1].loss, rtol=1e-5, atol=1e-6)


@by_family
def test_a_cap_out_of_reach_shares_the_rest_equally(family: str):
    answer = command(writes=[whole("/answer")])
    waste = command(writes=[whole("/waste")])
    case = trace(step(1, answer), step(6, waste), step(3, waste), verifier=["/answer"])
    found = credit_of(case, CreditConfig(max_weight=2.0), family)
    np.testing.assert_allclose(found["token_weight"], [2.0, 8 / 9, 8 / 9], rtol=1e-6)
    found = credit_of(case, CreditConfig(max_weight=1.0), family)
    np.testing.assert_allclose(found["token_weight"], [1.0, 1.0, 1.0], rtol=1e-6)
    found = credit_of(case, CreditConfig(), family)
    np.testing.assert_allclose(found["token_weight"], [10.0, 0.0, 0.0], rtol=1e-6)


# Padding, order and neighbours.

PADDINGS = {
    "buckets": None,
    "all axes wider": BatchShape(rollouts=100, commands=96, steps=100, segments=300, resources=24),
    "no padding row": BatchShape(rollouts=90, commands=32, steps=64, segments=128, resources=16),
}


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(
    ("family", "config"), [("packed", CONFIGS[0]), ("packed", CONFIGS[1]), ("dense", CONFIGS[0])]
)
def test_padding_changes_nothing(family: str, config: CreditConfig, padding: str):
    batch = batch_of("short")
    expected = results(batch, FAMILIES[family](batch, config))[:90]
    padded = batch_traces(short_traces()[:90], shape=PADDINGS[padding])
    found = results(padded, FAMILIES[family](padded, config))
    assert len(found) == 90
    for row, (left, right) in enumerate(zip(found, expected, strict=True)):
        assert_same_results(left, right, f"{family}, {padding}, trace {row}")


@pytest.mark.parametrize("rollouts", [1, 7, 32])
def test_a_batch_of_one_tile_gives_the_same(rollouts: int):
    batch = batch_of("short")
    expected = results(batch, FAMILIES["packed"](batch, CONFIGS[1]))
    shape = BatchShape(rollouts=rollouts, commands=32, steps=64, segments=128, resources=16)
    for first in range(0, 64, rollouts if rollouts > 1 else 16):
        few = batch_traces(short_traces()[first : first + rollouts], shape=shape)
        found = results(few, FAMILIES["packed"](few, CONFIGS[1]))
        for left, right in zip(found, expected[first : first + rollouts], strict=True):
            assert_same_results(left, right, f"rows from {first}")


@by_family
@by_config
def test_order_and_neighbours_change_nothing(config: CreditConfig, family: str):
    traces = short_traces()
    batch = batch_of("short")
    expected = results(batch, FAMILIES[family](batch, config))
    order = random.Random(3).sample(range(len(traces)), len(traces))
    shuffled = batch_traces([traces[row] for row in order], shape=SMALL)
    for row, found in zip(
        order, results(shuffled, FAMILIES[family](shuffled, config)), strict=True
    ):
        assert_same_results(found, expected[row], f"trace {row}, shuffled")
    mixed = batch_traces([*random_parsed(1002, 200), *traces[:200]], shape=SMALL)
    for row, found in enumerate(results(mixed, FAMILIES[family](mixed, config))[200:]):
        assert_same_results(found, expected[row], f"trace {row}, other neighbours")


@by_family
def test_padding_rows_hold_what_is_documented(family: str):
    credit: Credit = FAMILIES[family](batch_traces(short_traces()[:5], shape=SMALL), CONFIGS[2])
    padding = jax.tree.map(lambda field: field[5:], credit)
    for name in ("command_credit", "step_credit", "relevant_fraction", "on_path_fraction"):
        np.testing.assert_array_equal(getattr(padding, name), 0.0)
    for name in ("step_factor", "token_weight", "max_weight_seen", "effective_fraction"):
        assert all_ones(getattr(padding, name)), name
    assert padding.fallback.all()
    assert not padding.segment_relevant.any()
    np.testing.assert_array_equal(credit.max_weight, np.float32(1.25))
    rollout = jax.tree.map(lambda field: field[:5], credit)
    batch = batch_traces(short_traces()[:5], shape=SMALL)
    past_end = np.arange(SMALL.commands)[None] >= np.asarray(batch.num_commands)[:5, None]
    assert (np.asarray(rollout.command_credit)[past_end] == 0).all()
    past_end = np.arange(SMALL.steps)[None] >= np.asarray(batch.num_steps)[:5, None]
    assert (np.asarray(rollout.step_factor)[past_end] == 1).all()
    assert (np.asarray(rollout.step_credit)[past_end] == 0).all()
    unowned = np.asarray(batch.segment_owner)[:5] < 0
    assert not np.asarray(rollout.segment_relevant)[unowned].any()


# Rules and reductions.


@by_family
@pytest.mark.parametrize("size", ["short", "long"])
def test_rules_are_nested(family: str, size: str):
    batch = batch_of(size)
    paper, stdout, sliced = (
        np.asarray(FAMILIES[family](batch, CreditConfig(relevance=rule)).segment_relevant)
        for rule in RULES
    )
    assert (paper <= stdout).all()
    assert (stdout <= sliced).all()
    assert paper.sum() < stdout.sum() < sliced.sum()


@by_family
def test_the_examples_of_the_rules(family: str):
    printed = trace(
        step(1, command(writes=[whole("/x")])),
        step(1, command(reads=["/x"])),
        step(1, command(writes=[whole("/answer")], stdout_from=[1])),
        verifier=["/answer"],
    )
    in_place = trace(
        step(1, command(reads=["/a"], writes=[whole("/z")])),
        step(1, command(reads=["/z"], writes=[whole("/z")])),
        verifier=["/z"],
    )
    first_credits = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))
    for rule, (first_of_printed, first_of_edit) in zip(RULES, first_credits, strict=True):
        config = CreditConfig(relevance=rule)
        assert credit_of(printed, config, family)["command_credit"] == [first_of_printed, 0.5, 1.0]
        assert credit_of(in_place, config, family)["command_credit"] == [first_of_edit, 1.0]


@by_family
@by_config
@pytest.mark.parametrize("known", ["nothing", "reads", "no verifier"])
def test_without_dependencies_it_is_plain_grpo(config: CreditConfig, family: str, known: str):
    plain = []
    for case in random_traces(1001, 64, max_commands=32):
        for one in (
            [c for s in case["steps"] for c in s["commands"]] if known != "no verifier" else []
        ):
            one.pop("writes", None)
            if known == "nothing":
                one.pop("reads", None)
                one.pop("stdout_from", None)
        if known == "no verifier":
            case["verifier"] = []
        plain.append(parse(case))
    batch = batch_traces(plain, shape=SMALL)
    credit = FAMILIES[family](batch, config)
    assert all_ones(credit.token_weight)
    assert all_ones(credit.step_factor)
    assert credit.fallback.all()
    step_of_token, mask = tokens_of(batch, most=2)
    advantage = jnp.arange(-5.0, SMALL.rollouts - 5.0)
    np.testing.assert_array_equal(
        token_advantages(credit, advantage, step_of_token, jnp.asarray(mask)),
        jnp.where(mask, advantage[:, None], 0.0),
    )
