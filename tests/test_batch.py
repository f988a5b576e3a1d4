"""The batch's public fields, its shapes and messages, and results without padding."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from depgpo_jax.batch import (
    NO_GROUP,
    NO_OWNER,
    BatchShape,
    TraceBatch,
    batch_traces,
    bucket,
    check_batch,
    unpad,
)
from depgpo_jax.credit import Credit, CreditConfig, dependency_credit
from depgpo_jax.errors import ShapeError
from depgpo_jax.ownership import SURVIVES, replay
from depgpo_jax.traces import Trace
from tests.helpers import (
    FAMILIES,
    all_ones,
    command,
    credit_of,
    f64,
    lines,
    random_parsed,
    results,
    step,
    trace,
    whole,
)

SHAPE = BatchShape(rollouts=3, commands=64, steps=5, segments=7, resources=4)

by_family = pytest.mark.parametrize("family", FAMILIES)


def example() -> Trace:
    """Four commands in three steps; the second step is empty."""
    return trace(
        step(
            10,
            command(writes=[lines("/a", (1, 3)), whole("/b")]),
            command(reads=["/a", "/never"], writes=[lines("/a", (2, 2))], stdout_from=[0, 0]),
        ),
        step(0),
        step(
            7,
            command(reads=["/a", "/b"], stdout_from=[1, 0], recorded=False, unrecorded_reason="x"),
            command(writes=[whole("/c", moved_from="/b")]),
        ),
        verifier=["/a", "/not written"],
        reward=2,
        group_id="g",
    )


def bits(*commands: int) -> list[int]:
    words = [0, 0]
    for i in commands:
        words[i // 32] |= 1 << i % 32
    return words


def test_every_field_of_an_example():
    batch = batch_traces([example()], shape=SHAPE)
    expected = {
        "is_rollout": [True],
        "num_commands": [4],
        "num_steps": [3],
        "recorded": [[True, True, False, True]],
        "commands_per_step": [[2, 0, 2]],
        "loss_tokens": [[10.0, 0.0, 7.0]],
        # 0 wrote a1, a3 (live), a2 (killed by 1) and b (moved away by 3).
        "segment_owner": [[0, 0, 0, 1, 3]],
        "segments_per_command": [[3, 1, 0, 1]],
        "records_per_command": [[4, 1, 0, 1]],
        "inspected": [[True, False, False]],
        "readers": [[bits(1, 2), bits(2, 3), bits()]],
        "only_writers": [[bits(1), bits(), bits(3)]],
        "stdout_readers": [[bits(1, 2), bits(2), bits(), bits()]],
        "reward": [2.0],
        "trainable": [True],
        "group": [0],
    }
    for name, value in expected.items():
        field = np.asarray(getattr(batch, name))
        wanted = np.asarray(value)
        corner = field[tuple(slice(size) for size in wanted.shape)]
        np.testing.assert_array_equal(corner, wanted, err_msg=name)
    segments = zip(*(np.asarray(field)[0, :5].tolist() for field in batch[6:11]), strict=True)
    a, b, c = 0, 1, 2
    assert sorted(segments) == [
        (0, a, 1, True, 1),
        (0, a, SURVIVES, False, 2),
        (0, b, 3, False, 1),
        (1, a, SURVIVES, False, 1),
        (3, c, SURVIVES, False, 1),
    ]


def test_shapes_dtypes_and_padding_are_as_documented():
    batch = batch_traces([example()], shape=SHAPE)
    B, N, T, S, R, W = 3, 64, 5, 7, 4, 2
    documented = {
        "is_rollout": ((B,), "bool", False),
        "num_commands": ((B,), "int32", 0),
        "num_steps": ((B,), "int32", 0),
        "recorded": ((B, N), "bool", False),
        "commands_per_step": ((B, T), "int32", 0),
        "loss_tokens": ((B, T), "float32", 0),
        "segment_owner": ((B, S), "int32", NO_OWNER),
        "segment_resource": ((B, S), "int32", 0),
        "segment_killer": ((B, S), "int32", SURVIVES),
        "segment_in_place": ((B, S), "bool", False),
        "segment_count": ((B, S), "int32", 0),
        "segments_per_command": ((B, N), "int32", 0),
        "records_per_command": ((B, N), "int32", 0),
        "inspected": ((B, R), "bool", False),
        "readers": ((B, R, W), "uint32", 0),
        "only_writers": ((B, R, W), "uint32", 0),
        "stdout_readers": ((B, N, W), "uint32", 0),
        "reward": ((B,), "float32", 0),
        "trainable": ((B,), "bool", False),
        "group": ((B,), "int32", NO_GROUP),
    }
    assert tuple(documented) == TraceBatch._fields
    used = {2: {N: 4, T: 3, S: 5, R: 3}, 3: {R: 3, N: 4}}
    for name, (shape, dtype, padding) in documented.items():
        field = np.asarray(getattr(batch, name))
        assert isinstance(getattr(batch, name), jax.Array)
        assert field.shape == shape, name
        assert field.dtype == dtype, name
        assert (field[1:] == padding).all(), name
        if field.ndim > 1:
            assert (field[0, used[field.ndim][shape[1]] :] == padding).all(), name
        assert f"{name}: " in (TraceBatch.__doc__ or "")


def unpacked(words: np.ndarray) -> np.ndarray:
    return np.unpackbits(
        np.ascontiguousarray(words).view(np.uint8), axis=-1, bitorder="little"
    ).astype(bool)


def test_random_batches_against_replay():
    traces = random_parsed(11, 300, max_commands=140)
    batch = jax.device_get(batch_traces(traces))
    for row, one in enumerate(traces):
        segments = replay(one)
        size = len(segments.owner)
        for name in ("owner", "resource", "killer", "in_place", "count"):
            field = getattr(batch, f"segment_{name}")[row]
            assert field[:size].tolist() == getattr(segments, name)
        assert (batch.segment_owner[row, size:] == NO_OWNER).all()
        commands = [c for s in one.steps for c in s.commands]
        written: dict[int, set[int]] = {}
        for owner, resource in zip(segments.owner, segments.resource, strict=True):
            written.setdefault(owner, set()).add(resource)
        assert pairs(batch.readers[row]) == {
            *zip(segments.read_resource, segments.read_command, strict=True)
        }
        assert pairs(batch.only_writers[row]) == {
            (min(resources), i) for i, resources in written.items() if len(resources) == 1
        }
        assert pairs(batch.stdout_readers[row]) == {
            (j, i) for i, c in enumerate(commands) for j in c.stdout_from
        }
        inspected = [name in one.verifier for name in segments.resources]
        assert batch.inspected[row, : len(inspected)].tolist() == inspected
        assert batch.recorded[row, : len(commands)].tolist() == [c.recorded for c in commands]


def pairs(words: np.ndarray) -> set[tuple[int, int]]:
    return {(int(r), int(i)) for r, i in np.argwhere(unpacked(words))}


# Shapes.


def test_buckets():
    assert [bucket(size, 8) for size in (0, 8, 9, 12, 13, 16, 17, 24, 25, 33)] == [
        *(8, 8, 12, 12, 16, 16, 24, 24, 32, 48),
    ]
    assert [bucket(size, 1) for size in (1, 2, 3, 4, 5, 6, 7)] == [1, 2, 3, 4, 6, 6, 8]


@pytest.mark.parametrize(
    ("commands", "width"), [(0, 32), (1, 32), (32, 32), (33, 64), (65, 96), (97, 128), (129, 192)]
)
def test_commands_are_padded_to_buckets(commands: int, width: int):
    case = trace(*(step(1, command(writes=[whole("/a")])) for _ in range(commands)))
    batch = batch_traces([case])
    assert batch.recorded.shape == (1, width)
    assert batch.readers.shape == (1, 8, width // 32)
    assert batch.loss_tokens.shape == (1, bucket(commands, 8))
    assert batch.segment_owner.shape == (1, bucket(commands, 32))


@pytest.mark.parametrize(
    ("field", "size", "message"),
    [
        ("rollouts", -1, "BatchShape.rollouts: found -1; allowed: at least 0"),
        ("commands", 0, "BatchShape.commands: found 0; allowed: at least 32"),
        ("commands", 48, "BatchShape.commands: found 48; allowed: a multiple of 32"),
        ("steps", 0, "BatchShape.steps: found 0; allowed: at least 1"),
        ("segments", 0, "BatchShape.segments: found 0; allowed: at least 1"),
        ("resources", 0, "BatchShape.resources: found 0; allowed: at least 1"),
    ],
)
def test_refused_shapes(field: str, size: int, message: str):
    sizes = {"rollouts": 1, "commands": 32, "steps": 1, "segments": 1, "resources": 1}
    with pytest.raises(ShapeError, match=message):
        BatchShape(**{**sizes, field: size})


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 32, 9, 9, 9), r"batch of 2 traces: BatchShape\.rollouts is 1; give a larger shape"),
        ((2, 32, 9, 9, 9), r"trace 'u': found 40 commands, but BatchShape\.commands is 32; give"),
        ((2, 64, 2, 9, 9), r"trace 't': found 3 steps, but BatchShape\.steps is 2; give a larger"),
        ((2, 64, 9, 4, 9), r"trace 't': found 5 segments, but BatchShape\.segments is 4; give"),
        ((2, 64, 9, 9, 2), r"trace 't': found 3 resources, but BatchShape\.resources is 2; give"),
    ],
)
def test_traces_that_do_not_fit(shape: tuple[int, int, int, int, int], message: str):
    long = trace(step(1, *(command() for _ in range(40))), trace_id="u")
    with pytest.raises(ShapeError, match=message):
        batch_traces([example(), long], shape=BatchShape(*shape))


@pytest.mark.parametrize("name", [n for n in TraceBatch._fields if n != "recorded"])
def test_a_field_of_another_shape_is_named(name: str, unchecked: None):
    batch = batch_traces([example()], shape=SHAPE)
    field = getattr(batch, name)
    wrong = batch._replace(**{name: jnp.concatenate([field, field])})
    with pytest.raises(ShapeError, match=rf"TraceBatch\.{name}: found shape \(6[,)].*allowed: \(3"):
        check_batch(wrong)
    with pytest.raises(ShapeError, match="build batches with batch_traces"):
        dependency_credit(wrong)


def test_a_batch_of_odd_width_is_refused(unchecked: None):
    batch = batch_traces([example()], shape=SHAPE)
    with pytest.raises(ShapeError, match=r"BatchShape.commands: found 50; allowed: a multiple"):
        check_batch(batch._replace(recorded=batch.recorded[:, :50]))


# Corners.


@by_family
def test_no_traces(family: str):
    batch = batch_traces([])
    assert batch.recorded.shape == (0, 32)
    credit = FAMILIES[family](batch, CreditConfig())
    assert credit.token_weight.shape == (0, 8)
    assert unpad(batch, credit) == []
    padded = batch_traces([], shape=SHAPE)
    assert unpad(padded, FAMILIES[family](padded, CreditConfig())) == []


@by_family
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_traces_without_commands(family: str, steps: int):
    found = credit_of(trace(*(step(4) for _ in range(steps))), family=family)
    assert found["command_credit"] == []
    assert found["step_credit"] == [0.0] * steps
    assert found["token_weight"] == [1.0] * steps
    assert found["fallback"]
    assert (found["relevant_fraction"], found["on_path_fraction"]) == (0.0, 0.0)
    assert (found["max_weight_seen"], found["effective_fraction"]) == (1.0, 1.0)


@by_family
def test_one_command(family: str):
    case = trace(step(3, command(writes=[whole("/a")])), verifier=["/a"])
    found = credit_of(case, family=family)
    assert found["command_credit"] == [1.0]
    assert found["token_weight"] == [1.0]
    assert found["fallback"]
    assert (found["relevant_fraction"], found["on_path_fraction"]) == (1.0, 1.0)
    batch = batch_traces([trace(step(3), step(4, command()))])
    assert all_ones(FAMILIES[family](batch, CreditConfig()).token_weight)


@by_family
def test_the_largest_command_is_counted_exactly(family: str):
    most = 2**24
    case = trace(
        step(1, command(writes=[lines("/a", (1, most))])),
        step(1, command(writes=[lines("/a", (1, 1))])),
        step(1, command(writes=[lines("/b", (1, most))])),
        step(1, command(writes=[lines("/b", (2, most))])),
        verifier=["/a", "/b"],
    )
    found = credit_of(case, family=family)
    np.testing.assert_array_equal(
        np.asarray(found["command_credit"], np.float32),
        np.asarray([(most - 1) / most, 1.0, 1 / most, 1.0], np.float32),
    )


@by_family
def test_totals_beyond_int32_do_not_matter(family: str):
    most = 2**24
    writers = [step(1, command(writes=[lines(f"/{i}", (1, most))])) for i in range(200)]
    case = trace(*writers, verifier=[f"/{i}" for i in range(0, 200, 2)])
    found = credit_of(case, family=family)
    assert found["command_credit"] == [1.0, 0.0] * 100
    assert found["relevant_fraction"] == pytest.approx(0.5, rel=1e-6)


@by_family
def test_more_loss_tokens_than_int32_holds(family: str):
    tokens = [2**40, 3 * 2**33, 2**31]
    writes = [command(writes=[whole(path)]) for path in ("/a", "/b", "/c")]
    case = trace(*map(step, tokens, writes), verifier=["/a", "/c"])
    assert np.asarray(batch_traces([case]).loss_tokens)[0, :3].tolist() == tokens
    weight = f64(credit_of(case, family=family)["token_weight"])
    np.testing.assert_allclose((weight * tokens).sum(), sum(tokens), rtol=1e-6)
    assert weight[1] == 0.0


def test_groups_are_numbered_and_rewards_kept():
    cases = [
        trace(step(1), trace_id="a", group_id="x", reward=1.5),
        trace(step(1), trace_id="b"),
        trace(step(1), trace_id="c", group_id="x", reward=0, invalid="crashed"),
        trace(step(1), trace_id="d", group_id="b", reward=-2),
    ]
    batch = batch_traces(cases, shape=BatchShape(6, 32, 1, 1, 1))
    # A rollout without a group is one of its own, under its own id.
    assert batch.group.tolist() == [0, 1, 0, 1, NO_GROUP, NO_GROUP]
    assert batch.reward.tolist() == [1.5, 0.0, 0.0, -2.0, 0.0, 0.0]
    assert batch.trainable.tolist() == [True, False, False, True, False, False]
    assert batch.is_rollout.tolist() == [True] * 4 + [False] * 2


def test_unpad_keeps_the_order_and_drops_the_padding():
    cases = random_parsed(12, 40, max_commands=32)
    batch = batch_traces(cases)
    assert batch.is_rollout.shape[0] == 48
    rows = unpad(batch, dependency_credit(batch))
    assert len(rows) == len(cases)
    for row, one in zip(rows, cases, strict=True):
        commands = [len(s.commands) for s in one.steps]
        assert row.command_credit.shape == (sum(commands),)
        for name in ("step_credit", "step_factor", "token_weight"):
            assert isinstance(getattr(row, name), np.ndarray)
            assert getattr(row, name).shape == (len(commands),)
        credits_of_steps = np.split(row.command_credit, np.cumsum(commands)[:-1])
        sums = [part.sum() for part in credits_of_steps[: len(commands)]]
        np.testing.assert_allclose(row.step_credit, sums, rtol=1e-6, atol=1e-7)
        assert type(row.fallback) is bool
        assert type(row.relevant_fraction) is float
    assert len(results(batch, dependency_credit(batch))) == len(cases)


def test_unpad_refuses_the_credit_of_another_batch():
    batch = batch_traces([example()], shape=SHAPE)
    credit: Credit = dependency_credit(batch_traces([example()]))
    with pytest.raises(ShapeError, match="found credit of 1 x 32 commands for a batch of 3 x 64"):
        unpad(batch, credit)
