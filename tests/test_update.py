"""One update: compiled once, moves the right log-probabilities, and what the weights change."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from depgpo_jax import BatchShape, batch_traces, dependency_credit, token_advantages
from training.config import ObjectiveConfig, OptimizerConfig, PolicyConfig
from training.objectives import Aggregation, clipped_objective
from training.policy.transformer import Transformer
from training.update import (
    TokenBatch,
    TrainState,
    Update,
    init_state,
    make_update,
    policy_log_probs,
)

POLICY = PolicyConfig(vocab_size=32, width=16, num_layers=2, num_heads=2, mlp_width=32)
OPTIMIZER = OptimizerConfig(learning_rate=1e-2)
ROWS, LENGTH, STEPS = 4, 24, 4


class CountedTransformer(Transformer):
    """Counts how often its forward pass is traced."""

    traced = 0

    def __call__(self, tokens: jax.Array, is_token: jax.Array | None = None) -> jax.Array:
        type(self).traced += 1
        return super().__call__(tokens, is_token)


@pytest.fixture(scope="module")
def model() -> Transformer:
    return Transformer(POLICY, rngs=nnx.Rngs(0))


@pytest.fixture(scope="module")
def batch(model: Transformer) -> TokenBatch:
    """Rows of different lengths, tokens sampled by nobody in particular, ratio 1."""
    rng = np.random.default_rng(0)
    tokens = jnp.asarray(rng.integers(1, POLICY.vocab_size, (ROWS, LENGTH), np.int32))
    is_token = jnp.arange(LENGTH)[None, :] < jnp.array([[24], [20], [13], [9]])
    loss_mask = is_token & (jnp.arange(LENGTH)[None, :] > 0)
    sampling = policy_log_probs(model)(nnx.state(model), tokens, is_token)
    advantages = jnp.broadcast_to(jnp.array([[1.0], [-0.6], [0.5], [-0.5]]), tokens.shape)
    return TokenBatch(tokens, is_token, loss_mask, sampling, advantages)


@pytest.fixture(scope="module")
def update(model: Transformer) -> Update:
    return make_update(model, OPTIMIZER, ObjectiveConfig())


STEP_FACTOR = (0.0, 2.0, 0.5, 1.5)


def step_weighted(batch: TokenBatch) -> TokenBatch:
    """The batch with DepGPO's weights for four steps a row of which the first has no credit."""
    factor = jnp.broadcast_to(jnp.array(STEP_FACTOR, jnp.float32), (ROWS, STEPS))
    empty = batch_traces(
        [], shape=BatchShape(ROWS, commands=32, steps=STEPS, segments=1, resources=1)
    )
    credit = dependency_credit(empty)._replace(step_factor=factor)
    step = jnp.broadcast_to(jnp.arange(LENGTH, dtype=jnp.int32) * STEPS // LENGTH, (ROWS, LENGTH))
    advantages = token_advantages(credit, batch.advantages[:, 0], step, batch.loss_mask)
    return batch._replace(advantages=advantages)


def copied(state: TrainState) -> TrainState:
    return jax.tree.map(jnp.copy, state)


@pytest.mark.parametrize(
    "aggregation", ["token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum"]
)
def test_at_ratio_one_weights_keep_the_loss_and_change_the_gradient(
    model: Transformer, batch: TokenBatch, aggregation: Aggregation
):
    update = make_update(model, OPTIMIZER, ObjectiveConfig(aggregation=aggregation))
    plain_state, plain = update(init_state(model, OPTIMIZER), batch)
    weighted_state, weighted = update(init_state(model, OPTIMIZER), step_weighted(batch))

    assert plain.mean_ratio == pytest.approx(1.0, abs=1e-6)
    assert plain.clip_fraction == weighted.clip_fraction == 0.0
    assert abs(float(plain.loss)) > 0.01
    np.testing.assert_allclose(weighted.loss, plain.loss, rtol=1e-5)
    assert abs(float(weighted.grad_norm) / float(plain.grad_norm) - 1) > 0.01
    difference = jax.tree.map(
        lambda a, b: float(jnp.abs(a - b).max()), plain_state.params, weighted_state.params
    )
    assert max(jax.tree.leaves(difference)) > 1e-3


def test_loss_is_the_mean_advantage_at_ratio_one(
    model: Transformer, batch: TokenBatch, update: Update
):
    _, metrics = update(init_state(model, OPTIMIZER), batch)
    mean = np.asarray(batch.advantages)[np.asarray(batch.loss_mask)].mean()
    np.testing.assert_allclose(metrics.loss, -mean, rtol=1e-5)


def test_log_probs_follow_the_advantage(model: Transformer, batch: TokenBatch, update: Update):
    state = init_state(model, OPTIMIZER)
    for _ in range(3):
        state, _ = update(state, batch)
    assert state.step == 3
    after = policy_log_probs(model)(state.params, batch.tokens, batch.is_token)
    change = np.where(batch.loss_mask, after - batch.sampling_log_probs, 0.0).sum(axis=1)
    assert (np.sign(change) == [1, -1, 1, -1]).all()


def test_zero_weight_steps_get_no_gradient_of_their_own(batch: TokenBatch):
    """Without shared parameters in the way: the gradient by the log-probabilities themselves."""
    weighted = step_weighted(batch)

    def loss(log_probs: jax.Array) -> jax.Array:
        return clipped_objective(
            log_probs, batch.sampling_log_probs, weighted.advantages, batch.loss_mask
        ).loss

    gradient = np.asarray(jax.grad(loss)(batch.sampling_log_probs))
    first_step = np.arange(LENGTH) * STEPS // LENGTH == 0
    np.testing.assert_array_equal(gradient[:, first_step], 0.0)
    assert (gradient[0, ~first_step] != 0).all()


def test_it_compiles_once_for_a_shape(batch: TokenBatch):
    CountedTransformer.traced = 0
    model = CountedTransformer(POLICY, rngs=nnx.Rngs(0))
    update = make_update(model, OPTIMIZER, ObjectiveConfig())
    state, _ = update(init_state(model, OPTIMIZER), batch)
    once = CountedTransformer.traced
    state, _ = update(state, step_weighted(batch))
    update(state, batch)
    assert CountedTransformer.traced == once == 1


def test_padding_rows_and_columns_change_nothing(
    model: Transformer, batch: TokenBatch, update: Update
):
    padded = jax.tree.map(lambda array: jnp.pad(array, ((0, 2), (0, 8))), batch)
    _, metrics = update(init_state(model, OPTIMIZER), batch)
    _, padded_metrics = update(init_state(model, OPTIMIZER), padded)
    np.testing.assert_allclose(padded_metrics, metrics, rtol=1e-5, atol=1e-6)


def test_a_batch_without_loss_tokens_leaves_the_policy(
    model: Transformer, batch: TokenBatch, update: Update
):
    start = init_state(model, OPTIMIZER)
    state, metrics = update(copied(start), batch._replace(loss_mask=batch.loss_mask & False))
    assert metrics.loss == 0.0
    assert metrics.grad_norm == 0.0
    assert metrics.mean_ratio == 1.0
    jax.tree.map(np.testing.assert_array_equal, state.params, start.params)


def test_kl_and_entropy_enter_the_loss_with_their_coefficients(
    model: Transformer, batch: TokenBatch, update: Update
):
    with_reference = batch._replace(reference_log_probs=batch.sampling_log_probs - 0.5)
    objective = ObjectiveConfig(kl_coefficient=0.1, entropy_coefficient=0.01)
    _, plain = update(init_state(model, OPTIMIZER), batch)
    _, metrics = make_update(model, OPTIMIZER, objective)(
        init_state(model, OPTIMIZER), with_reference
    )
    assert metrics.kl == pytest.approx(np.exp(-0.5) + 0.5 - 1, rel=1e-4)
    assert 0 < float(metrics.entropy) <= np.log(POLICY.vocab_size)
    expected = float(plain.loss) + 0.1 * float(metrics.kl) - 0.01 * float(metrics.entropy)
    assert metrics.loss == pytest.approx(expected, rel=1e-5)
    assert plain.kl == 0.0


def test_the_model_survives_the_donation_of_its_state(
    model: Transformer, batch: TokenBatch, update: Update
):
    before = np.asarray(model(batch.tokens))
    update(init_state(model, OPTIMIZER), batch)
    np.testing.assert_array_equal(model(batch.tokens), before)


def test_gradients_are_clipped_by_their_norm(model: Transformer, batch: TokenBatch):
    """Adam forgets the scale of gradients, so two very different scales must meet only its eps."""
    large = batch._replace(advantages=batch.advantages * 1e4)
    config = OptimizerConfig(learning_rate=1e-2, eps=1.0, max_grad_norm=0.1)
    update = make_update(model, config, ObjectiveConfig())
    state, metrics = update(init_state(model, config), large)
    assert metrics.grad_norm > 10.0
    moved = jax.tree.map(
        lambda a, b: float(jnp.abs(a - b).max()), state.params, init_state(model, config).params
    )
    assert max(jax.tree.leaves(moved)) < 1e-2 * 0.1


def test_weight_decay_leaves_norm_scales_alone(model: Transformer, batch: TokenBatch):
    config = OptimizerConfig(learning_rate=1e-2, weight_decay=0.5)
    update = make_update(model, config, ObjectiveConfig())
    start = init_state(model, config)
    state, _ = update(copied(start), batch._replace(loss_mask=batch.loss_mask & False))
    for before, after in zip(
        jax.tree.leaves(start.params), jax.tree.leaves(state.params), strict=True
    ):
        kept = 1.0 if before.ndim == 1 else 1.0 - 1e-2 * 0.5
        np.testing.assert_allclose(after, before * kept, rtol=1e-5, atol=1e-9)
