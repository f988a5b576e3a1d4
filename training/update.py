"""One policy update: forward, objective, AdamW, as a single jitted function."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, PyTree

from training.config import ObjectiveConfig, OptimizerConfig
from training.objectives import token_entropy, token_log_probs
from training.policy.transformer import Transformer
from training.policy_loss import PolicyLoss, policy_loss
from training.rows import TokenRows


class TokenBatch(NamedTuple):
    """Rows of tokens to learn from, right-padded."""

    tokens: Int[Array, "B L"]  # ids; padding: any id
    is_token: Bool[Array, "B L"]  # False at padding
    loss_mask: Bool[Array, "B L"]  # tokens that enter the loss; False at padding and at position 0
    sampling_log_probs: Float[Array, "B L"]  # of the policy that wrote them; off the mask: anything
    advantages: Float[Array, "B L"]  # one a token; off the mask: anything
    # Of the policy to stay near; off the mask: anything; None: no such policy.
    reference_log_probs: Float[Array, "B L"] | None = None


class TrainState(NamedTuple):
    """All that an update changes: a plain pytree of arrays."""

    params: PyTree[Array]  # the policy's nnx.State
    optimizer: optax.OptState
    step: Int[Array, ""]  # updates done


class Metrics(NamedTuple):
    """Scalars of one update, computed at the parameters before it."""

    loss: Float[Array, ""]
    grad_norm: Float[Array, ""]  # global norm before clipping
    clip_fraction: Float[Array, ""]
    mean_ratio: Float[Array, ""]
    entropy: Float[Array, ""]  # in nats, aggregated as the objective says
    kl: Float[Array, ""]  # k3 distance to the reference policy; 0 without one


Update = Callable[[TrainState, TokenBatch], tuple[TrainState, Metrics]]


def make_optimizer(config: OptimizerConfig) -> optax.GradientTransformation:
    """AdamW behind clipping by global norm; decays matrices only, not norm scales."""
    return optax.chain(
        optax.clip_by_global_norm(config.max_grad_norm),
        optax.adamw(
            config.learning_rate,
            b1=config.b1,
            b2=config.b2,
            eps=config.eps,
            weight_decay=config.weight_decay,
            mask=lambda params: jax.tree.map(lambda leaf: leaf.ndim > 1, params),
        ),
    )


def init_state(model: nnx.Module, config: OptimizerConfig) -> TrainState:
    """A state at the model's parameters; they are copied, as an update donates its state."""
    params = jax.tree.map(jnp.copy, nnx.state(model))
    return TrainState(params, make_optimizer(config).init(params), jnp.zeros((), jnp.int32))


def make_update(
    model: Transformer, optimizer: OptimizerConfig, objective: ObjectiveConfig
) -> Update:
    """The jitted update of this model's architecture.

    Its first argument is donated: use the state that it returns. It compiles once for each [B, L].

    Args:
        model: says which architecture; its parameter values are not used.
        optimizer: as given to `init_state`.
        objective: surrogate, coefficients and aggregation.

    Returns:
        update(state, batch) -> (state, metrics).
    """
    graph = nnx.graphdef(model)
    transform = make_optimizer(optimizer)

    def loss(params: PyTree[Array], batch: TokenBatch) -> tuple[Array, PolicyLoss]:
        logits = nnx.merge(graph, params)(batch.tokens, batch.is_token)
        parts = policy_loss(
            token_log_probs(logits, batch.tokens),
            batch.sampling_log_probs,
            batch.advantages,
            batch.loss_mask,
            objective,
            reference_log_probs=batch.reference_log_probs,
            entropy=token_entropy(logits),
        )
        return parts.loss, parts

    def update(state: TrainState, batch: TokenBatch) -> tuple[TrainState, Metrics]:
        (_, parts), grads = jax.value_and_grad(loss, has_aux=True)(state.params, batch)
        changes, moments = transform.update(grads, state.optimizer, state.params)
        params = optax.apply_updates(state.params, changes)
        metrics = Metrics(
            loss=parts.loss,
            grad_norm=optax.tree.norm(grads),
            clip_fraction=parts.clip_fraction,
            mean_ratio=parts.mean_ratio,
            entropy=parts.entropy,
            kl=parts.kl,
        )
        return TrainState(params, moments, state.step + 1), metrics

    return jax.jit(update, donate_argnums=0)


def policy_log_probs(
    model: Transformer,
) -> Callable[[PyTree[Array], Int[Array, "B L"], Bool[Array, "B L"]], Float[Array, "B L"]]:
    """A jitted (params, tokens, is_token) -> log-probabilities of the tokens.

    Given to an update as `sampling_log_probs` it makes the ratio 1: what an on-policy trainer
    does when the sampler did not record its log-probabilities.
    """
    graph = nnx.graphdef(model)

    @jax.jit
    def log_probs(
        params: PyTree[Array], tokens: Int[Array, "B L"], is_token: Bool[Array, "B L"]
    ) -> Float[Array, "B L"]:
        return token_log_probs(nnx.merge(graph, params)(tokens, is_token), tokens)

    return log_probs


def on_policy_batch(
    model: Transformer, rows: TokenRows, advantage: Float[Array, " B"]
) -> TokenBatch:
    """Rows to learn from, as sampled by the policy at hand.

    Args:
        model: the policy.
        rows: tokens, with log-probabilities where the traces have them.
        advantage: one a rollout, [B], given to each of its tokens.

    Returns:
        The rows with these advantages; unrecorded log-probabilities are the policy's own.
    """
    tokens, is_token = jnp.asarray(rows.tokens), jnp.asarray(rows.is_token)
    own = policy_log_probs(model)(nnx.state(model), tokens, is_token)
    recorded = jnp.asarray(rows.has_log_probs)[:, None]
    return TokenBatch(
        tokens=tokens,
        is_token=is_token,
        loss_mask=jnp.asarray(rows.loss_mask),
        sampling_log_probs=jnp.where(recorded, jnp.asarray(rows.sampling_log_probs), own),
        advantages=jnp.broadcast_to(advantage[:, None], tokens.shape),
    )
