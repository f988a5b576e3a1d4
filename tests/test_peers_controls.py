"""Controls of the weights, what peers take from traces, and step advantages of tokens."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import depgpo_jax as dg
from depgpo_jax.errors import ShapeError, TraceError
from depgpo_jax.summary import reweighted
from tests.helpers import (
    SMALL,
    command,
    f64,
    lines,
    random_batch,
    random_parsed,
    results,
    step,
    trace,
    whole,
)
from tests.slow_peers import last_write

COUNT = 500


@pytest.fixture(scope="module")
def batch() -> dg.TraceBatch:
    return random_batch(23, COUNT, shape=SMALL)


@pytest.fixture(scope="module")
def credit(batch: dg.TraceBatch) -> dg.Credit:
    return dg.dependency_credit(batch)


def keeps_the_mean(credit: dg.Credit, batch: dg.TraceBatch) -> None:
    weight, tokens = f64(credit.token_weight), f64(batch.loss_tokens)
    assert (weight >= 0).all()
    np.testing.assert_allclose((weight * tokens).sum(1), tokens.sum(1), rtol=2e-6)


# Uniform.


def test_uniform_is_the_plain_group_advantage(batch: dg.TraceBatch, credit: dg.Credit):
    uniform = dg.uniform_credit(credit, batch.loss_tokens)
    np.testing.assert_array_equal(uniform.token_weight, 1.0)
    np.testing.assert_array_equal(uniform.max_weight_seen, 1.0)
    np.testing.assert_allclose(uniform.effective_fraction, 1.0, rtol=1e-6)
    assert np.asarray(uniform.fallback).all()
    np.testing.assert_array_equal(uniform.command_credit, credit.command_credit)
    step_of_token = jnp.broadcast_to(jnp.arange(32) // 4, (len(batch.reward), 32))
    mask = jnp.ones(step_of_token.shape, bool)
    advantage = jnp.linspace(-2.0, 2.0, len(batch.reward))
    found = dg.token_advantages(uniform, advantage, step_of_token, mask)
    np.testing.assert_array_equal(found, np.repeat(np.asarray(advantage)[:, None], 32, axis=1))


def test_the_credits_own_factors_give_its_own_weights(batch: dg.TraceBatch, credit: dg.Credit):
    capped = dg.dependency_credit(batch, dg.CreditConfig(max_weight=2.0))
    for own in (credit, capped):
        again = reweighted(own, own.step_factor, batch.loss_tokens)
        for name in ("token_weight", "fallback", "max_weight_seen", "effective_fraction"):
            np.testing.assert_allclose(
                getattr(again, name), getattr(own, name), rtol=1e-6, err_msg=name
            )


# Shuffled.


def test_shuffled_keeps_the_factors_of_each_rollout(batch: dg.TraceBatch, credit: dg.Credit):
    is_step = dg.step_mask(batch)
    shuffled = dg.shuffled_credit(jax.random.key(1), credit, batch.loss_tokens, is_step)
    before, after = np.asarray(credit.step_factor), np.asarray(shuffled.step_factor)
    moved = 0
    for row, steps in enumerate(np.asarray(batch.num_steps)):
        np.testing.assert_array_equal(np.sort(before[row, :steps]), np.sort(after[row, :steps]))
        moved += int((before[row, :steps] != after[row, :steps]).any())
        np.testing.assert_array_equal(after[row, steps:], 1.0)
    assert moved > 0.6 * (~np.asarray(credit.fallback)).sum()
    keeps_the_mean(shuffled, batch)


def test_shuffled_leaves_other_steps_where_they_are(batch: dg.TraceBatch, credit: dg.Credit):
    is_step = dg.step_mask(batch) & (jnp.arange(batch.loss_tokens.shape[1]) % 3 > 0)[None]
    shuffled = dg.shuffled_credit(jax.random.key(2), credit, batch.loss_tokens, is_step)
    fixed = ~np.asarray(is_step)
    np.testing.assert_array_equal(
        np.asarray(shuffled.step_factor)[fixed], np.asarray(credit.step_factor)[fixed]
    )
    keeps_the_mean(shuffled, batch)


def test_every_order_comes_equally_often(batch: dg.TraceBatch, credit: dg.Credit):
    rows, steps = credit.step_factor.shape
    factor = jnp.ones((rows, steps)).at[:, :3].set(jnp.array([[0.0, 1.0, 2.0]]))
    is_step = jnp.broadcast_to(jnp.arange(steps)[None] < 3, (rows, steps))
    given = credit._replace(step_factor=factor)
    draws = 4
    orders = np.concatenate(
        [
            dg.shuffled_credit(jax.random.key(k), given, batch.loss_tokens, is_step).step_factor
            for k in range(draws)
        ]
    )[:, :3]
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 6
    # Five standard deviations of a binomial with p = 1/6.
    total = rows * draws
    assert np.abs(counts - total / 6).max() < 5 * (total * 5 / 36) ** 0.5


def test_shuffled_does_not_depend_on_padding(batch: dg.TraceBatch, credit: dg.Credit):
    """The first rows and steps alone, as a smaller batch would hold them."""
    rows, steps = 5, int(batch.num_steps[:5].max())
    cut = credit._replace(
        step_factor=credit.step_factor[:rows, :steps], max_weight=credit.max_weight[:rows]
    )
    tokens, is_step = batch.loss_tokens[:rows, :steps], dg.step_mask(batch)[:rows, :steps]
    key = jax.random.key(4)
    small = dg.shuffled_credit(key, cut, tokens, is_step)
    large = dg.shuffled_credit(key, credit, batch.loss_tokens, dg.step_mask(batch))
    np.testing.assert_array_equal(small.step_factor, large.step_factor[:rows, :steps])
    np.testing.assert_allclose(small.token_weight, large.token_weight[:rows, :steps], rtol=1e-6)
    assert (small.step_factor != cut.step_factor).any()


def test_another_key_gives_another_order(batch: dg.TraceBatch, credit: dg.Credit):
    one, other = (
        dg.shuffled_credit(jax.random.key(k), credit, batch.loss_tokens, dg.step_mask(batch))
        for k in (5, 6)
    )
    assert (one.step_factor != other.step_factor).any()


# Last write.


def test_last_write_by_hand():
    case = trace(
        step(4, command(writes=[whole("/out")])),  # overwritten
        step(2, command(reads=["/in"])),
        step(3, command(writes=[whole("/out"), whole("/log")])),  # the last in /out
        step(1, command(writes=[lines("/map", (1, 2))])),  # the last in /map
        step(2, command(writes=[whole("/log")])),  # not inspected
        verifier=["/out", "/map", "/nothing"],
    )
    batch = dg.batch_traces([case])
    found = results(batch, dg.last_write_credit(batch))[0]
    assert found["command_credit"] == [0, 0, 1, 1, 0]
    assert found["step_factor"] == [0, 0, 2.5, 2.5, 0]
    np.testing.assert_allclose(found["token_weight"], [0, 0, 3, 3, 0], rtol=1e-6)
    assert found["relevant_fraction"] == pytest.approx(3 / 6)
    assert found["on_path_fraction"] == pytest.approx(2 / 5)
    every = results(batch, dg.last_write_credit(batch, dg.CreditConfig(inspect="all")))[0]
    assert every["command_credit"] == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("inspect", ["verifier", "all"])
def test_last_write_slow_oracle_agrees(batch: dg.TraceBatch, inspect: Any):
    config = dg.CreditConfig(inspect=inspect)
    credit = dg.last_write_credit(batch, config)
    found = results(batch, credit)
    uneven = 0
    for case, got in zip(random_parsed(23, COUNT), found, strict=True):
        expected = last_write(case, inspect_all=inspect == "all")
        assert got["fallback"] == expected["fallback"], case.trace_id
        for name in ("command_credit", "step_credit", "step_factor", "token_weight"):
            np.testing.assert_allclose(
                got[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=f"{case.trace_id} {name}"
            )
        uneven += not expected["fallback"]
    assert uneven > COUNT / 4
    keeps_the_mean(credit, batch)


def test_last_write_of_one_dense_rollout_is_that_of_the_batch(batch: dg.TraceBatch):
    dense = dg.dense_rollouts(batch)
    one = jax.tree.map(lambda array: array[3], dense)
    config = dg.CreditConfig(max_weight=2.0)
    found = dg.rollout_last_write_credit(one, config)
    expected = jax.tree.map(lambda array: array[3], dg.last_write_credit(batch, config))
    for name in dg.Credit._fields:
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=1e-6, err_msg=name
        )


# From traces.


def stateful(*states: str | None, trace_id: str = "t", rewards: bool = False) -> dg.Trace:
    steps = []
    for number, state in enumerate(states):
        more: dict[str, Any] = {} if state is None else {"state": state}
        if rewards:
            more["reward"] = number / 2
        steps.append({**step(1, command()), **more})
    return trace(*steps, trace_id=trace_id)


def test_states_are_numbered_by_first_appearance():
    traces = [stateful("a", "b", "a"), stateful(trace_id="u"), stateful("c", "b", trace_id="v")]
    batch = dg.batch_traces(traces)
    found = dg.step_states(traces, batch)
    assert found.dtype == jnp.int32
    np.testing.assert_array_equal(found[:3, :3], [[0, 1, 0], [-1, -1, -1], [2, 1, -1]])
    assert (found[:, 3:] == dg.NO_STATE).all()
    np.testing.assert_array_equal(dg.step_mask(batch), np.asarray(found) >= 0)


def test_rewards_of_steps():
    huge = trace({**step(1, command()), "reward": -1e300}, trace_id="u")
    traces = [stateful("a", "b", "a", rewards=True), huge]
    found = dg.step_rewards(traces, dg.batch_traces(traces))
    np.testing.assert_array_equal(found[0, :4], [0, 0.5, 1, 0])
    assert found[1, 0] == np.finfo(np.float32).min


def test_a_missing_state_is_named():
    traces = [stateful("a"), stateful("a", None, "b", trace_id="the second")]
    message = (
        r'trace "the second", steps\[1\]\.state: found no state\. Allowed: a string that names '
        r"the environment's state before the step, in every step\. Have the environment record the "
        r"state, or take a method that needs no state of steps, such as dependency_credit"
    )
    with pytest.raises(TraceError, match=message):
        dg.step_states(traces, dg.batch_traces(traces))


def test_a_missing_reward_is_named():
    traces = [stateful("a")]
    message = r'trace "t", steps\[0\]\.reward: found no reward\. Allowed: a finite number, in every'
    with pytest.raises(TraceError, match=message):
        dg.step_rewards(traces, dg.batch_traces(traces))


def test_traces_and_batch_must_belong_together():
    traces = [stateful("a", "b", rewards=True), stateful("a", trace_id="u", rewards=True)]
    batch = dg.batch_traces(traces)
    with pytest.raises(ShapeError, match="step_states: found 1 traces for a batch of 2; allowed"):
        dg.step_states(traces[:1], batch)
    with pytest.raises(
        ShapeError, match="step_rewards: found 1 steps in trace 'u' where the batch has 2; allowed"
    ):
        dg.step_rewards(traces[::-1], batch)


def test_from_traces_to_tokens():
    """The known numbers, all the way."""
    traces = [stateful("A", "B", "C"), stateful("A", "B", "D", trace_id="u")]
    batch = dg.batch_traces(traces, shape=dg.BatchShape(3, 32, 5, 1, 1))
    advantage = dg.gigpo_advantages(
        jnp.array([1.0, 0.0, jnp.inf]),
        jnp.array([0, 0, -1]),
        dg.step_states(traces, batch),
        dg.step_mask(batch),
        gamma=0.5,
    )
    step_of_token = jnp.array([[-1, 0, 0, 1, 2, 5, 7]] * 3)
    found = dg.step_token_advantages(advantage, step_of_token, step_of_token != 1)
    expected = np.array([0, 0.625, 0.625, 0, 0.5, 0, 0])
    np.testing.assert_array_equal(found, [expected, -expected, np.zeros(7)])


# Tokens.


def test_step_advantages_of_tokens_without_steps():
    nothing = dg.step_token_advantages(
        jnp.zeros((2, 0)), jnp.zeros((2, 3), jnp.int32), jnp.ones((2, 3), bool)
    )
    np.testing.assert_array_equal(nothing, np.zeros((2, 3)))


def test_step_advantages_off_the_steps_do_not_matter():
    with jax.debug_nans(False):  # the NaN here is padding
        found = dg.step_token_advantages(
            jnp.array([[2.0, jnp.nan]]), jnp.array([[0, 1, -1]]), jnp.array([[1, 0, 1]])
        )
    np.testing.assert_array_equal(found, [[2.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("advantage", "steps", "mask"),
    [
        ((2,), (2, 8), (2, 8)),
        ((3, 4), (2, 8), (2, 8)),
        ((2, 4), (8,), (8,)),
        ((2, 4), (2, 8), (8,)),
    ],
)
def test_refused_shapes_of_tokens(
    advantage: tuple[int, ...], steps: tuple[int, ...], mask: tuple[int, ...], unchecked: None
):
    with pytest.raises(ShapeError, match=r"step_token_advantages: found step_advantage .*; allow"):
        dg.step_token_advantages(
            jnp.zeros(advantage), jnp.zeros(steps, jnp.int32), jnp.zeros(mask, bool)
        )


def test_refused_shapes_of_controls(batch: dg.TraceBatch, credit: dg.Credit, unchecked: None):
    tokens = batch.loss_tokens
    with pytest.raises(ShapeError, match=r"uniform_credit: found loss_tokens \(512, 63\) for a"):
        dg.uniform_credit(credit, tokens[:, 1:])
    with pytest.raises(ShapeError, match=r"shuffled_credit: .*is_step \(511, 64\) for a credit of"):
        dg.shuffled_credit(jax.random.key(0), credit, tokens, dg.step_mask(batch)[1:])


def test_refused_arrays_of_controls(batch: dg.TraceBatch, credit: dg.Credit, unchecked: None):
    tokens = batch.loss_tokens
    listed: Any = [tokens]
    with pytest.raises(
        ShapeError, match=r"uniform_credit: found a value of type list for loss_tokens; allowed"
    ):
        dg.uniform_credit(credit, listed)
    with pytest.raises(
        ShapeError, match=r"shuffled_credit: found an array of int32 for is_step; allowed: an arra"
    ):
        dg.shuffled_credit(jax.random.key(0), credit, tokens, dg.step_mask(batch).astype(jnp.int32))
