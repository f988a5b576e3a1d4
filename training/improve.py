"""From token advantages to new parameters: minibatches, and micro-batches within them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float32, Key, PyTree

from depgpo_jax.errors import ConfigError
from training.config import WorldUpdateConfig
from training.environments.rollouts import Rollout
from training.objectives import aggregate, aggregation_count
from training.policy.recurrent import RecurrentPolicy
from training.policy_loss import policy_loss
from training.update import TrainState, make_optimizer
from training.world_metrics import Learnt, Rows

Reference = PyTree[Array] | None
Improve = Callable[
    [TrainState, Key[Array, ""], Rollout, Float32[Array, "B L"], Reference],
    tuple[TrainState, Learnt],
]


def make_improve(model: RecurrentPolicy, config: WorldUpdateConfig) -> Improve:
    """All minibatches of an update, in random order.

    A minibatch is one step of the optimiser. Its micro-batches are taken one after another and
    their gradients added; each divides by the whole minibatch's `aggregation_count`, so the sum
    is the minibatch's gradient and only one micro-batch's activations are held at a time.

    Args:
        model: says which architecture; its parameter values are not used.
        config: sizes, objective, optimiser.

    Returns:
        improve(state, key, rollouts, advantages, reference) -> (state, `Learnt`), not jitted.
        `reference` holds the parameters that `kl_coefficient` keeps the policy near, or is None.

    Raises:
        ConfigError: (from `improve`) `kl_coefficient` is positive and there is no reference.
    """
    graph, transform = nnx.graphdef(model), make_optimizer(config.optimizer)
    objective = config.objective

    def loss(
        params: PyTree[Array], rows: Rows, reference: Reference, share: _Share
    ) -> tuple[Float32[Array, ""], Learnt]:
        scores = nnx.merge(graph, params).scores(rows.prompt, rows.feedback, rows.action)
        shape = rows.loss_mask.shape
        entropy = scores.entropy.reshape(shape)
        anchor = None
        if reference is not None:
            known = nnx.merge(graph, reference).scores(rows.prompt, rows.feedback, rows.action)
            anchor = known.log_probs.reshape(shape)
        found = policy_loss(
            scores.log_probs.reshape(shape),
            rows.log_probs,
            rows.advantages,
            rows.loss_mask,
            objective,
            reference_log_probs=anchor,
            entropy=entropy,
            count=share.divisor,
        )
        here = jnp.sum(rows.loss_mask, dtype=jnp.float32) / jnp.maximum(share.tokens, 1.0)
        return found.loss, Learnt(
            loss=found.loss,
            grad_norm=jnp.zeros(()),
            clip_fraction=here * found.clip_fraction,
            mean_ratio=here * found.mean_ratio,
            entropy=aggregate(entropy, rows.loss_mask, "token_mean", count=share.tokens),
            kl=found.kl,
        )

    def minibatch(state: TrainState, rows: Rows, reference: Reference) -> tuple[TrainState, Learnt]:
        share = _Share(
            divisor=aggregation_count(rows.loss_mask, objective.aggregation),
            tokens=jnp.sum(rows.loss_mask, dtype=jnp.float32),
        )
        gradient = jax.grad(loss, has_aux=True)
        if config.micro_batches == 1:
            grads, learnt = gradient(state.params, rows, reference, share)
        else:
            parts = _split(rows, config.micro_batches)

            def add(
                total: tuple[PyTree[Array], Learnt], part: Rows
            ) -> tuple[tuple[PyTree[Array], Learnt], None]:
                found = gradient(state.params, part, reference, share)
                return jax.tree.map(jnp.add, total, found), None

            nothing = jax.tree.map(
                lambda leaf: jnp.zeros(leaf.shape, leaf.dtype),
                jax.eval_shape(
                    gradient,
                    state.params,
                    jax.tree.map(lambda leaf: leaf[0], parts),
                    reference,
                    share,
                ),
            )
            (grads, learnt), _ = jax.lax.scan(add, nothing, parts)
        changes, moments = transform.update(grads, state.optimizer, state.params)
        params = optax.apply_updates(state.params, changes)
        learnt = learnt._replace(grad_norm=optax.tree.norm(grads))
        return TrainState(params, moments, state.step + 1), learnt

    def improve(
        state: TrainState,
        key: Key[Array, ""],
        rollouts: Rollout,
        advantages: Float32[Array, "B L"],
        reference: Reference = None,
    ) -> tuple[TrainState, Learnt]:
        if objective.kl_coefficient > 0 and reference is None:
            raise ConfigError(
                f"ObjectiveConfig.kl_coefficient is {objective.kl_coefficient!r}, but the update "
                "got no reference parameters; give those of the warm start, or set it to 0"
            )
        order = jax.random.permutation(key, config.rollouts)
        rows = jax.tree.map(lambda leaf: leaf[order], Rows.of(rollouts, advantages))
        state, learnt = jax.lax.scan(
            lambda state, rows: minibatch(state, rows, reference),
            state,
            _split(rows, config.minibatches),
        )
        return state, jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), learnt)

    return improve


class _Share(NamedTuple):
    """What a micro-batch divides by: numbers of its whole minibatch."""

    divisor: Float32[Array, ""]
    tokens: Float32[Array, ""]


def _split(rows: Rows, parts: int) -> Rows:
    return jax.tree.map(lambda leaf: leaf.reshape(parts, -1, *leaf.shape[1:]), rows)
