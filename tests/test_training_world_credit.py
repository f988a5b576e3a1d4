"""Credit in the file world: on the device as on the host, from the same rollouts as trace files."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import numpy as np
import pytest

from depgpo_jax.advantages import group_advantages, token_advantages
from depgpo_jax.batch import BatchShape, TraceBatch, batch_traces
from depgpo_jax.credit import Credit, CreditConfig, dependency_credit
from depgpo_jax.traces import read_traces, validate_trace, write_traces
from tests.test_training_file_world import GROUP_SIZE, GROUPS, played
from training.environments.commands import COMMAND_LENGTH
from training.environments.export import command_text, traces_of
from training.environments.rollouts import Rollout, credit_of_rollouts
from training.rows import token_rows

PLAYED = [(number, expert) for number in (0, 1, 2, 4) for expert in (True, False)]
"""Regimes A, B, C and the hard size, by the script and by chance: 8 x 256 rollouts."""

CONFIGS = (
    CreditConfig(),
    CreditConfig(relevance="stdout", max_weight=2.0),
    CreditConfig(relevance="slice", beta=0.8),
    CreditConfig(relevance="paper", write_credit="binary", inspect="all", subtract_min=False),
    CreditConfig(relevance="slice", read_credit=False, max_weight=1.5),
)


@cache
def all_rollouts() -> Rollout:
    """2,048 rollouts as one batch on the host, their groups numbered through."""

    def joined(*leaves: np.ndarray) -> np.ndarray:
        return np.concatenate(leaves)

    parts: list[Rollout] = []
    for place, (number, expert) in enumerate(PLAYED):
        _, rollouts = played(number, expert=expert)
        starts = rollouts.starts._replace(group=rollouts.starts.group + place * GROUPS)
        parts.append(rollouts._replace(starts=starts))
    return jax.tree.map(joined, *parts)


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> TraceBatch:
    """The same through a trace file."""
    file = tmp_path_factory.mktemp("world") / "rollouts.jsonl"
    write_traces(file, traces_of(all_rollouts()))
    shape = BatchShape(len(PLAYED) * GROUPS * GROUP_SIZE, 32, 16, segments=64, resources=8)
    return batch_traces(read_traces(file), shape=shape)


@partial(jax.jit, static_argnames="config")
def on_device(rollouts: Rollout, config: CreditConfig) -> tuple[Credit, jax.Array, jax.Array]:
    credit = credit_of_rollouts(rollouts, config)
    advantage = group_advantages(rollouts.reward, rollouts.group)
    mask = rollouts.tokens(rollouts.loss_mask)
    return credit, advantage, token_advantages(credit, advantage, rollouts.step_of_token(), mask)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.relevance} {c.inspect} {c.beta}")
def test_device_and_host_agree_on_2048_rollouts(config: CreditConfig, batch: TraceBatch):
    """Credits, weights, reported numbers and advantages: to 1e-6, with the same zeros."""
    rollouts = all_rollouts()
    assert batch.is_rollout.sum() == len(rollouts.reward) == 2048
    credit, advantage, tokens = jax.device_get(on_device(rollouts, config))
    host = dependency_credit(batch, config)
    record = rollouts.record
    np.testing.assert_array_equal(batch.loss_tokens, record.loss_tokens)
    np.testing.assert_array_equal(batch.recorded[:, :16], record.is_command)
    agree("command_credit", credit.command_credit, host.command_credit[:, :16])
    for name in ("step_credit", "step_factor", "token_weight"):
        found, wanted = getattr(credit, name), np.asarray(getattr(host, name))
        agree(name, found[record.is_step], wanted[record.is_step])
    for name in ("relevant_fraction", "on_path_fraction", "max_weight_seen", "effective_fraction"):
        agree(name, getattr(credit, name), getattr(host, name))
    np.testing.assert_array_equal(credit.fallback, host.fallback)

    np.testing.assert_array_equal(batch.group, rollouts.starts.group)
    np.testing.assert_array_equal(batch.reward, rollouts.reward)
    host_advantage = group_advantages(batch.reward, batch.group, batch.trainable)
    agree("advantage", advantage, host_advantage)
    step = np.broadcast_to(np.arange(48, dtype=np.int32) // COMMAND_LENGTH, tokens.shape)
    mask = rollouts.loss_mask.reshape(tokens.shape)
    expected = jax.jit(token_advantages)(host, host_advantage, step, mask)
    agree("token advantages", tokens, expected, rtol=1e-5)


def agree(name: str, found: Any, wanted: Any, rtol: float = 1e-6) -> None:
    found, wanted = np.asarray(found), np.asarray(wanted)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=1e-6, err_msg=name)
    np.testing.assert_array_equal(found == 0, wanted == 0, err_msg=f"zeros of {name}")


def test_every_rule_says_something_of_its_own():
    """Otherwise agreement would mean little: rules differ, some rollouts fall back, not all do."""
    found = {
        config.relevance: jax.device_get(on_device(all_rollouts(), config)[0])
        for config in CONFIGS[:3]
    }
    credits = [credit.command_credit for credit in found.values()]
    assert (credits[0] <= credits[2] + 1e-6).mean() > 0.99
    assert all((a != b).any() for a, b in zip(credits, [*credits[1:], credits[0]], strict=True))
    assert 0.0 < found["paper"].fallback.mean() < 0.5
    assert found["slice"].max_weight_seen.mean() > 1.0


def test_weights_keep_the_mean_of_the_advantage():
    rollouts = all_rollouts()
    for config in CONFIGS:
        _, advantage, tokens = on_device(rollouts, config)
        count = rollouts.record.loss_tokens.sum(axis=1)
        np.testing.assert_allclose(tokens.sum(axis=1), advantage * count, rtol=1e-5, atol=1e-4)


def test_traces_are_valid_and_hold_tokens_and_log_probs():
    _, rollouts = played(0, expert=False)
    traces = list(traces_of(rollouts))
    for trace in traces:
        validate_trace(trace)
    rows = token_rows(traces[:8], vocab_size=64)
    assert rows.has_log_probs.all()
    assert not rows.stand_in.any()
    for row in range(8):
        mask = np.asarray(rollouts.loss_mask[row]).reshape(-1)
        expected = np.asarray(rollouts.log_probs[row]).reshape(-1)[mask]
        found = rows.sampling_log_probs[row][rows.loss_mask[row]]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert traces[row].reward == rollouts.reward[row]
    states = {step.state for trace in traces for step in trace.steps}
    assert len(states) > 100


def test_commands_in_words():
    commands = [
        (0, 1, 2),
        (1, 1, 2),
        (4, 3, 5),
        (7, 3, 5),
        (8, 7, 2),
        (9, 0, 4),
        (10, 0, 0),
        (11, 1, 1),
    ]
    assert [command_text(*command) for command in commands] == [
        "noop",
        "read 1",
        "op1 3 > 5",
        "paste > 5",
        "const 7 > 2",
        "delete 4",
        "submit",
        "unknown",
    ]
