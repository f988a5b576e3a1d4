"""The transformer and the configs: shapes, causality, padding, what is refused."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from depgpo_jax.errors import ConfigError, ShapeError
from training.config import ObjectiveConfig, OptimizerConfig, PolicyConfig
from training.policy.transformer import Transformer

CONFIG = PolicyConfig(vocab_size=17, width=16, num_layers=2, num_heads=2, mlp_width=24)


@pytest.fixture(scope="module")
def policy() -> Transformer:
    return Transformer(CONFIG, rngs=nnx.Rngs(0))


@pytest.fixture(scope="module")
def tokens() -> jax.Array:
    return jax.random.randint(jax.random.key(1), (3, 10), 0, CONFIG.vocab_size)


def test_logits_have_the_shape_and_are_finite(policy: Transformer, tokens: jax.Array):
    logits = policy(tokens)
    assert logits.shape == (3, 10, 17)
    assert logits.dtype == jnp.float32
    assert np.isfinite(logits).all()


def test_an_untrained_policy_is_nearly_uniform(policy: Transformer, tokens: jax.Array):
    log_probs = jax.nn.log_softmax(policy(tokens))
    np.testing.assert_allclose(log_probs, -np.log(17), atol=0.5)


def test_no_position_sees_a_later_one(policy: Transformer, tokens: jax.Array):
    changed = tokens.at[:, 6].set((tokens[:, 6] + 1) % 17)
    before, after = policy(tokens), policy(changed)
    np.testing.assert_allclose(after[:, :6], before[:, :6], atol=1e-6)
    assert (np.abs(np.asarray(after - before))[:, 6:].max(axis=(1, 2)) > 1e-4).all()


def test_every_position_sees_all_earlier_ones(policy: Transformer, tokens: jax.Array):
    changed = tokens.at[:, 0].set((tokens[:, 0] + 1) % 17)
    difference = np.abs(np.asarray(policy(changed) - policy(tokens))).max(axis=2)
    assert (difference > 1e-6).all()


def test_the_order_of_tokens_matters(policy: Transformer):
    one, other = policy(jnp.array([[1, 2, 3]])), policy(jnp.array([[2, 1, 3]]))
    assert np.abs(np.asarray(one - other))[0, 2].max() > 1e-5


@pytest.mark.parametrize("masked", [False, True])
def test_right_padding_changes_nothing(policy: Transformer, tokens: jax.Array, masked: bool):
    padded = jnp.pad(tokens, ((0, 2), (0, 6)), constant_values=5)
    is_token = jnp.pad(jnp.ones_like(tokens, bool), ((0, 2), (0, 6))) if masked else None
    logits = policy(padded, is_token)
    np.testing.assert_allclose(logits[:3, :10], policy(tokens), atol=1e-5)
    assert np.isfinite(logits).all()


def test_left_padding_changes_nothing(policy: Transformer, tokens: jax.Array):
    padded = jnp.pad(tokens, ((0, 0), (4, 0)), constant_values=5)
    is_token = jnp.pad(jnp.ones_like(tokens, bool), ((0, 0), (4, 0)))
    np.testing.assert_allclose(policy(padded, is_token)[:, 4:], policy(tokens), atol=1e-5)


def test_gradients_through_padding_are_finite(policy: Transformer, tokens: jax.Array):
    graph, params = nnx.split(policy)
    is_token = jnp.ones_like(tokens, bool).at[1].set(False)

    def total(params: nnx.State[Any, Any]) -> jax.Array:
        return nnx.merge(graph, params)(tokens, is_token).sum()

    for leaf in jax.tree.leaves(jax.grad(total)(params)):
        assert np.isfinite(leaf).all()


def test_same_seed_same_policy(policy: Transformer, tokens: jax.Array):
    again = Transformer(CONFIG, rngs=nnx.Rngs(0))
    np.testing.assert_array_equal(again(tokens), policy(tokens))


def test_refused_shapes(policy: Transformer, unchecked: None):
    with pytest.raises(ShapeError, match=r"Transformer: found tokens \(4,\); both must be"):
        policy(jnp.zeros(4, jnp.int32))
    with pytest.raises(ShapeError, match=r"tokens \(1, 4\) and is_token \(1, 3\)"):
        policy(jnp.zeros((1, 4), jnp.int32), jnp.ones((1, 3), bool))


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (
            PolicyConfig,
            {"vocab_size": 0},
            "PolicyConfig.vocab_size is 0; it must be a whole",
        ),
        (PolicyConfig, {"width": 2.0}, "width is 2.0; it must be a whole number >= 1"),
        (PolicyConfig, {"num_layers": True}, "PolicyConfig.num_layers is True; it must be a whole"),
        (
            PolicyConfig,
            {"width": 12},
            r"width is 12 with num_heads 4; it must be a multiple",
        ),
        (PolicyConfig, {"rope_base": 1.0}, "rope_base is 1.0; it must be a finite number > 1"),
        (
            ObjectiveConfig,
            {"clip_low": 0.0},
            "clip_low is 0.0; .* finite number > 0 and <= 1",
        ),
        (ObjectiveConfig, {"clip_high": float("inf")}, "clip_high is inf; it must be a finite"),
        (
            ObjectiveConfig,
            {"aggregation": "mean"},
            "aggregation is 'mean'; it must be one of 't",
        ),
        (OptimizerConfig, {"learning_rate": -1.0}, "learning_rate is -1.0; it must be a finite"),
        (
            OptimizerConfig,
            {"learning_rate": float("nan")},
            "learning_rate is nan; it must be",
        ),
        (OptimizerConfig, {"b1": 1.0}, "b1 is 1.0; it must be a finite number >= 0 and < 1"),
        (OptimizerConfig, {"b2": -0.1}, "b2 is -0.1; it must be a finite number >= 0 and < 1"),
        (OptimizerConfig, {"eps": 0.0}, "eps is 0.0; it must be a finite number > 0"),
        (OptimizerConfig, {"weight_decay": -1.0}, "weight_decay is -1.0; it must be a finite"),
        (OptimizerConfig, {"max_grad_norm": 0.0}, "max_grad_norm is 0.0; it must be a finite"),
    ],
)
def test_refused_configs(config: type, options: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        config(**options)
