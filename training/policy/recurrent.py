"""A small GRU policy for the file world, and how it samples commands.

A command's parts are drawn one after another: the verb, the source given the verb, the target
given both. The prompt enters the gates of every step but is multiplied once a rollout; with known
commands the products with inputs and heads lie outside the scan over steps too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float32, Int32

from training.config import RecurrentConfig
from training.environments.commands import (
    FEEDBACK_FIELDS,
    NUM_FILES,
    NUM_VERBS,
    PROMPT_FIELDS,
    USES_SOURCE,
    is_one_of,
    one_hot_fields,
)
from training.environments.rollouts import Acted, Policy, sample


class RecurrentMemory(NamedTuple):
    """What the policy keeps between commands.

    Attributes:
        hidden: state of the GRU.
        prompt: the prompt's part of the gates, which stays.
    """

    hidden: Float32[Array, "B _"]
    prompt: Float32[Array, "B _"]


class TokenScores(NamedTuple):
    """Of every token of known commands; what the verb does not use holds anything."""

    log_probs: Float32[Array, "B N 3"]
    entropy: Float32[Array, "B N 3"]  # of the distribution that the token was drawn from, in nats


class RecurrentPolicy(nnx.Module):
    """Prompt and feedback to distributions over commands."""

    def __init__(self, config: RecurrentConfig, *, rngs: nnx.Rngs) -> None:
        self.config = config
        width, head = config.width, config.head_width
        prompt_size = sum(size for _, size in PROMPT_FIELDS)
        feedback_size = sum(size for _, size in FEEDBACK_FIELDS)
        small = nnx.initializers.normal(0.02)
        self.prompt = nnx.Linear(prompt_size, 3 * width, rngs=rngs)
        self.feedback = nnx.Linear(feedback_size, 3 * width, use_bias=False, rngs=rngs)
        self.recurrent = nnx.Linear(
            width, 3 * width, kernel_init=nnx.initializers.orthogonal(), rngs=rngs
        )
        self.verb = nnx.Linear(width, NUM_VERBS, kernel_init=small, rngs=rngs)
        # Source and target each have a hidden layer, so that what was drawn before can matter.
        self.parts = nnx.Linear(width, 2 * head, rngs=rngs)
        self.given_verb = nnx.Linear(NUM_VERBS, 2 * head, use_bias=False, rngs=rngs)
        self.given_source = nnx.Linear(NUM_FILES, head, use_bias=False, rngs=rngs)
        self.source = nnx.Linear(head, NUM_FILES, kernel_init=small, rngs=rngs)
        self.target = nnx.Linear(head, NUM_FILES, kernel_init=small, rngs=rngs)

    def start(self, prompt: Int32[Array, "B 7"]) -> RecurrentMemory:
        """Memory before the first command."""
        gates = self.prompt(one_hot_fields(prompt, PROMPT_FIELDS))
        return RecurrentMemory(jnp.zeros((prompt.shape[0], self.config.width)), gates)

    def advance(
        self, hidden: Float32[Array, "B _"], gates: Float32[Array, "B _"]
    ) -> Float32[Array, "B _"]:
        """One step of the GRU, the reset gate after the product, so that there is only one.

        Args:
            hidden: the state before.
            gates: prompt's and feedback's part of update, reset and candidate.

        Returns:
            The state after.
        """
        update, reset, candidate = jnp.split(gates, 3, axis=-1)
        own_update, own_reset, own_candidate = jnp.split(self.recurrent(hidden), 3, axis=-1)
        keep = jax.nn.sigmoid(update + own_update)
        proposed = jnp.tanh(candidate + jax.nn.sigmoid(reset + own_reset) * own_candidate)
        return keep * hidden + (1.0 - keep) * proposed

    def act(
        self,
        memory: RecurrentMemory,
        feedback: Int32[Array, "B 6"],
        uniforms: Float32[Array, "B 3"],
    ) -> Acted:
        """Draws a command; see `training.environments.rollouts.Policy`."""
        gates = memory.prompt + self.feedback(one_hot_fields(feedback, FEEDBACK_FIELDS))
        hidden = self.advance(memory.hidden, gates)
        verb, verb_log_prob = sample(self.verb(hidden), uniforms[:, 0])
        for_source, for_target = self._part_inputs(hidden, verb)
        source, source_log_prob = sample(self.source(jax.nn.relu(for_source)), uniforms[:, 1])
        for_target += self.given_source(_source_row(verb, source))
        target, target_log_prob = sample(self.target(jax.nn.relu(for_target)), uniforms[:, 2])
        action = jnp.stack([verb, source, target], axis=1)
        log_probs = jnp.stack([verb_log_prob, source_log_prob, target_log_prob], axis=1)
        return memory._replace(hidden=hidden), action, log_probs

    def scores(
        self,
        prompt: Int32[Array, "B 7"],
        feedback: Int32[Array, "B N 6"],
        action: Int32[Array, "B N 3"],
    ) -> TokenScores:
        """Log-probabilities of given commands, and the entropies of what they were drawn from.

        Args:
            prompt: of each rollout.
            feedback: what stood there before each command.
            action: the commands; at padding anything.

        Returns:
            One number a token, those of unused parts included.
        """
        memory = self.start(prompt)
        gates = self.feedback(one_hot_fields(jnp.swapaxes(feedback, 0, 1), FEEDBACK_FIELDS))
        gates = gates + memory.prompt[None]

        def one(
            hidden: Float32[Array, "B _"], gates: Float32[Array, "B _"]
        ) -> tuple[Float32[Array, "B _"], Float32[Array, "B _"]]:
            hidden = self.advance(hidden, gates)
            return hidden, hidden

        _, hidden = jax.lax.scan(one, memory.hidden, gates)
        verb, source, target = jnp.moveaxis(jnp.swapaxes(action, 0, 1), -1, 0)
        for_source, for_target = self._part_inputs(hidden, verb)
        for_target += self.given_source(_source_row(verb, source))
        scored = [
            _score(self.verb(hidden), verb),
            _score(self.source(jax.nn.relu(for_source)), source),
            _score(self.target(jax.nn.relu(for_target)), target),
        ]
        log_probs, entropy = (
            jnp.swapaxes(jnp.stack(parts, axis=-1), 0, 1) for parts in zip(*scored, strict=True)
        )
        return TokenScores(log_probs, entropy)

    def _part_inputs(
        self, hidden: Float32[Array, "*B _"], verb: Int32[Array, "*B"]
    ) -> tuple[Float32[Array, "*B _"], Float32[Array, "*B _"]]:
        both = self.parts(hidden) + self.given_verb(jax.nn.one_hot(verb, NUM_VERBS))
        for_source, for_target = jnp.split(both, 2, axis=-1)
        return for_source, for_target


def _source_row(verb: Int32[Array, "*B"], source: Int32[Array, "*B"]) -> Float32[Array, "*B 8"]:
    """The source one-hot; zeros where the verb has none, as that draw is no token."""
    has_source = is_one_of(verb, USES_SOURCE)[..., None]
    return jnp.where(has_source, jax.nn.one_hot(source, NUM_FILES), 0.0)


def _score(
    logits: Float32[Array, "*B _"], chosen: Int32[Array, "*B"]
) -> tuple[Float32[Array, "*B"], Float32[Array, "*B"]]:
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    of_chosen = jnp.sum(jax.nn.one_hot(chosen, logits.shape[-1]) * log_probs, axis=-1)
    return of_chosen, -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)


def recurrent_sampler(model: RecurrentPolicy) -> Policy:
    """The policy as the rollout takes it, parametrised by its `nnx.state`.

    Args:
        model: says which architecture; its parameter values are not used.

    Returns:
        A policy whose parameters are the model's state.
    """
    graph = nnx.graphdef(model)

    def start(params: Any, prompt: Int32[Array, "B 7"]) -> RecurrentMemory:
        return nnx.merge(graph, params).start(prompt)

    def act(
        params: Any,
        memory: RecurrentMemory,
        feedback: Int32[Array, "B 6"],
        uniforms: Float32[Array, "B 3"],
    ) -> Acted:
        return nnx.merge(graph, params).act(memory, feedback, uniforms)

    return Policy(start, act, num_uniforms=3)
