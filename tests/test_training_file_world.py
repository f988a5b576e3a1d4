"""The file world against a slow interpreter of its definition, and what its pieces promise."""

from __future__ import annotations

import itertools
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from depgpo_jax.errors import ConfigError
from tests import slow_file_world as slow
from training.environments.commands import OPS, VOCABULARY, Family, Verb, apply_op
from training.environments.experts import RANDOM, demonstrations, noise
from training.environments.file_world import FileWorld
from training.environments.presets import (
    EASY,
    HARD,
    SMALL,
    Preset,
    Size,
    regime_a,
    regime_b,
    regime_c,
)
from training.environments.prompts import Split, prompt_number, prompt_table, split_of
from training.environments.rollouts import Rollout, rollout, sample, start_groups
from training.environments.world_params import world_params

GROUPS, GROUP_SIZE = 64, 4


@partial(jax.jit, static_argnames=("world", "expert"))
def play(world: FileWorld, key: jax.Array, preset: Preset, *, expert: bool) -> Rollout:
    """Rollouts of the noisy script or of pure chance; compiled once for a length of rollouts."""
    for_tasks, for_policy = jax.random.split(key)
    starts = start_groups(world, for_tasks, preset.params, GROUPS, GROUP_SIZE)
    if expert:
        return demonstrations(world, for_policy, starts, preset.params, preset.noise)
    return rollout(world, RANDOM, None, for_policy, starts, preset.params)


@cache
def played(number: int, *, expert: bool) -> tuple[Preset, Rollout]:
    """Rollouts on the host, by regime and size."""
    presets = (regime_a(), regime_b(), regime_c(), regime_a(SMALL), regime_b(HARD), regime_c(EASY))
    preset = presets[number]
    world, arrays = preset.world, preset._replace(world=None)
    return preset, jax.device_get(play(world, jax.random.key(number), arrays, expert=expert))


def slow_world(preset: Preset, rollouts: Rollout, row: int) -> slow.SlowWorld:
    task = jax.tree.map(lambda leaf: leaf[row], rollouts.starts.state.task)
    lines = rollouts.starts.state.lines[row]
    shown = {int(name) for name in (task.a, task.z, task.scratch)}
    if task.family == Family.JOIN:
        shown.add(int(task.b))
    return slow.SlowWorld(
        task=slow.SlowTask(
            slow.FAMILIES[task.family], int(task.a), int(task.z), shown, task.target.tolist()
        ),
        files={file: [v for v in lines[file].tolist() if v >= 0] for file in range(8)},
        submit_allowed=bool(preset.params.submit),
        max_commands=preset.world.max_commands,
    )


@pytest.mark.parametrize("expert", [True, False])
@pytest.mark.parametrize("number", range(6))
def test_every_command_does_what_the_slow_world_says(number: int, expert: bool):
    """2 x 6 x 256 rollouts: observations, records, states and rewards."""
    preset, rollouts = played(number, expert=expert)
    record = rollouts.record
    seen: dict[int, tuple[Any, ...]] = {}
    start = slow.tokens_of([None, None, None, "start", None, None])
    for row in range(GROUPS * GROUP_SIZE):
        world = slow_world(preset, rollouts, row)
        assert rollouts.feedback[row, 0].tolist() == start
        for t in range(int(rollouts.num_steps[row])):
            where = f"rollout {row}, step {t}"
            verb, source, target = rollouts.action[row, t].tolist()
            feedback = world.do(slow.VERBS[verb], source, target)
            done = world.commands[-1]
            if t + 1 < preset.world.max_commands:
                assert rollouts.feedback[row, t + 1].tolist() == slow.tokens_of(feedback), where
            assert record.is_step[row, t], where
            assert record.is_command[row, t] == (not done["step_without_commands"]), where
            assert record.valid[row, t] == (feedback[3] == "done"), where
            assert names(record.read[row, t]) == done["reads"], where
            assert names(record.stdout_from[row, t]) == done["stdout_from"], where
            assert written(record, row, t) == [write[:3] for write in done["writes"]], where
            assert record.loss_tokens[row, t] == slow.loss_tokens(slow.VERBS[verb]), where
            assert rollouts.loss_mask[row, t].sum() == record.loss_tokens[row, t], where
            state = int(record.state[row, t])
            assert seen.setdefault(state, world.states[-1]) == world.states[-1], where
        assert world.over
        assert rollouts.reward[row] == world.reward
        assert not record.is_step[row, len(world.commands) :].any()
        assert not rollouts.loss_mask[row, len(world.commands) :].any()
    assert len(set(seen.values())) == len(seen), "equal states have equal numbers"


def names(number: Any) -> list[int]:
    return [int(number)] if number >= 0 else []


def written(record: Any, row: int, t: int) -> list[tuple[Any, ...]]:
    if record.written[row, t] < 0:
        return []
    file, deleted = int(record.written[row, t]), record.action[row, t, 0] == Verb.DELETE
    if record.whole[row, t]:
        return [(file, "whole", bool(deleted))]
    return [(file, "lines", [n for n in (1, 2) if record.lines[row, t, n - 1]])]


@pytest.mark.parametrize("number", range(6))
def test_tasks_are_what_the_prompt_and_the_files_say(number: int):
    _, rollouts = played(number, expert=True)
    state = rollouts.starts.state
    for row in range(0, GROUPS * GROUP_SIZE, GROUP_SIZE):
        task = jax.tree.map(lambda leaf, row=row: leaf[row], state.task)
        lines = state.lines[row].tolist()
        word = [slow.VOCABULARY[token] for token in task.prompt.tolist()]
        words: list[Any] = [None if w == "nothing" else w for w in word]
        family, a, b, z, scratch, f, g = words
        hidden = int(task.b) if family == "pointer" else b
        assert family == slow.FAMILIES[task.family]
        assert len({a, z, scratch} | ({hidden} - {None})) == (3 if hidden is None else 4)
        assert lines[scratch] == [-1, -1]
        if family == "pointer":
            assert (b, lines[a][0]) == (None, hidden)
        assert f != g
        b_lines = None if hidden is None else lines[hidden]
        expected = slow.wanted(family, lines[a], b_lines, f, g)
        assert task.target.tolist() == expected != lines[z]
        others = [lines[file] for file in range(8) if file not in (scratch, z)]
        assert all(0 <= value < 8 for file in others for value in file)
        assert lines[z] == [-1, -1] or min(lines[z]) >= 0


def test_a_group_starts_alike_and_groups_differ():
    _, rollouts = played(0, expert=False)
    starts = rollouts.starts
    for leaf in jax.tree.leaves((starts.observation, starts.state)):
        by_group = leaf.reshape(GROUPS, GROUP_SIZE, *leaf.shape[1:])
        np.testing.assert_array_equal(by_group, np.broadcast_to(by_group[:, :1], by_group.shape))
    assert starts.group.tolist() == sorted(list(range(GROUPS)) * GROUP_SIZE)
    assert len({leaf.tobytes() for leaf in starts.state.lines}) > GROUPS // 2


def test_the_vocabulary_is_the_page_s():
    assert len(slow.VOCABULARY) == VOCABULARY
    assert [verb.name.lower() for verb in Verb] == list(slow.VERBS)
    assert [family.name.lower() for family in Family] == list(slow.FAMILIES)


def test_no_chain_can_be_shortened():
    """Two different operations in a row are never one of them, nor none at all."""
    values = jnp.arange(8, dtype=jnp.int32)
    single = {op: apply_op(jnp.full(8, op, jnp.int32), values).tolist() for op in OPS}
    known = [*single.values(), values.tolist()]
    for f, g in itertools.permutations(OPS, 2):
        both = apply_op(jnp.full(8, g, jnp.int32), jnp.array(single[f], jnp.int32)).tolist()
        assert sorted(both) == values.tolist()
        assert both not in known


# Prompts.


def test_splits_share_no_prompt_and_hold_all_of_them():
    table = prompt_table()
    assert len(table.rows) == len({row.tobytes() for row in table.rows}) == 15_120
    assert len(set(prompt_number(table.rows).tolist())) == len(table.rows)
    for family in Family:
        for split in Split:
            first, count = table.first[family, split], table.number[family, split]
            rows = table.rows[first : first + count]
            assert (rows[:, 0] == family).all()
            assert (split_of(rows) == split).all()
        shares = table.number[family] / table.number[family].sum()
        np.testing.assert_allclose(shares, [0.8, 0.1, 0.1], atol=0.03)
    assert table.number.sum() == len(table.rows)


def test_the_hash_is_the_page_s():
    """By hand, with Python's integers: it must never change, or held-out prompts leak."""

    def mixed(number: int) -> int:
        number = (number ^ number >> 16) * 0x85EBCA6B % 2**32
        number = (number ^ number >> 13) * 0xC2B2AE35 % 2**32
        return number ^ number >> 16

    rows = prompt_table().rows[::101]
    found = split_of(rows)
    for row, split in zip(rows.tolist(), found.tolist(), strict=True):
        number = row[0]
        for part in row[1:5]:
            number = number * 9 + part + 1
        for part in row[5:]:
            number = number * 12 + part + 1
        assert split == max(0, mixed(number) % 10 - 7)


def test_a_world_draws_prompts_of_its_split_only():
    for split in Split:
        preset = regime_a(split=split)
        arrays = preset._replace(world=None)
        found = play(preset.world, jax.random.key(9), arrays, expert=False)
        rows = jax.device_get(found.starts.state.task)
        prompt = np.stack([rows.family, rows.a, rows.b, rows.z, rows.scratch, rows.f, rows.g], 1)
        prompt[rows.family == Family.POINTER, 2] = -1
        assert (split_of(prompt) == split).all()


# Demonstrations, chance, sampling.


@pytest.mark.parametrize("size", [SMALL, HARD, Size()])
def test_without_noise_the_script_is_always_right(size: Size):
    for regime in (regime_a, regime_b):
        preset = regime(size)._replace(noise=noise(rate=0.0, reads=0.0), world=None)
        found = play(FileWorld(size.max_commands), jax.random.key(3), preset, expert=True)
        assert (np.asarray(found.reward) == 1.0).all()
        shortest = np.isin(found.starts.state.task.family, (Family.CHAIN, Family.POINTER))
        expected = np.where(shortest, 3, 4) if regime is regime_a else size.max_commands
        np.testing.assert_array_equal(found.num_steps, np.broadcast_to(expected, (256,)))


def test_demonstrations_fail_now_and_then_and_chance_nearly_always():
    for number in range(3):
        assert 0.5 < played(number, expert=True)[1].reward.mean() < 0.95
        assert played(number, expert=False)[1].reward.mean() < 0.1


def test_sampling_follows_the_softmax():
    logits = jnp.array([0.0, 1.0, -40.0, 2.0], jnp.float32)
    uniforms = (jnp.arange(4096, dtype=jnp.float32) + 0.5) / 4096
    index, log_prob = sample(jnp.broadcast_to(logits, (4096, 4)), uniforms)
    expected = jax.nn.log_softmax(logits)
    np.testing.assert_allclose(log_prob, expected[index], rtol=1e-6)
    share = np.bincount(np.asarray(index), minlength=4) / 4096
    np.testing.assert_allclose(share, np.exp(expected), atol=1 / 2048)
    first, last = sample(jnp.full((2, 3), -1.0), jnp.array([0.0, 1.0 - 2.0**-24]))[0]
    assert (first, last) == (0, 2)


# The environment's own interface.


def test_reset_and_step_of_one_rollout():
    """`op2 3 > 5`, then a step that is not there any more."""
    world, params = FileWorld(max_commands=2), world_params(families=[Family.CHAIN])
    key = jax.random.key(0)
    observation, state = world.reset(key, params)
    a, z = int(state.task.a), int(state.task.z)
    action = jnp.array([Verb.OP2, a, z], jnp.int32)
    shown, after, reward, done, info = jax.jit(world.step)(key, state, action, params)
    np.testing.assert_array_equal(after.lines[z], 7 - state.lines[a])
    np.testing.assert_array_equal(shown.prompt, observation.prompt)
    assert (float(reward), bool(done), bool(info.success)) == (0.0, False, False)
    submit = jnp.array([Verb.SUBMIT, 0, 0], jnp.int32)
    _, after, reward, done, info = world.step(key, after, submit, params)
    assert (float(reward), bool(done), bool(info.record.is_command)) == (0.0, True, False)
    _, frozen, reward, done, info = world.step(key, after, action, params)
    assert (float(reward), bool(done), bool(info.record.is_step)) == (0.0, True, False)
    jax.tree.map(np.testing.assert_array_equal, frozen, after)


def test_commands_out_of_range_are_invalid():
    world, params = FileWorld(), world_params()
    key = jax.random.key(0)
    _, state = world.reset(key, params)
    for action in ([-1, 0, 0], [11, 0, 0], [Verb.CONST, 8, 0], [Verb.CONST, 0, -1], [8, -3, 2]):
        shown, after, _, _, info = world.step(key, state, jnp.array(action, jnp.int32), params)
        assert not info.record.valid
        assert (np.asarray(shown.feedback[:3]) == 0).sum() >= 1
        assert shown.feedback[3] == slow.VOCABULARY.index("invalid")
        np.testing.assert_array_equal(after.lines, state.lines)


def test_what_is_refused():
    with pytest.raises(ConfigError, match=r"FileWorld.max_commands is 0; it must be a whole"):
        FileWorld(0)
    with pytest.raises(
        ConfigError, match=r"world_params: families is \[\]; .* at least one of Family.CHAIN"
    ):
        world_params(families=[])
    with pytest.raises(ConfigError, match=r"empty_target is 1.5; it must be a probability in"):
        world_params(empty_target=1.5)
    with pytest.raises(ConfigError, match=r"noise: rate is 1.0; it must be in \[0, 1\), as a"):
        noise(rate=1.0, reads=0.5)
    with pytest.raises(ConfigError, match=r"noise: reads is -0.1; it must be a probability"):
        noise(rate=0.1, reads=-0.1)
