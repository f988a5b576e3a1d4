"""DepGPO inside a training loop of your own that is one `lax.scan` under one `jit`.

    python examples/scan_loop.py [--credit group]

The loop is of the kind that runs whole on the device: a scan over updates, in it a scan over the
environment's steps. Nothing here comes from this project's `training` folder: environment, policy
and optimiser are as small as they can be. What DepGPO adds stands between the two marks.

Environment: four files hold numbers; a command copies a file onto another, adding 0 or 1, or does
nothing. File 3 must end up holding what file 0 held, plus 2: two commands that build on each
other, among six.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float32, Int32, Key

import depgpo_jax as dg

FILES, COMMANDS, TARGET = 4, 6, 3
ACTIONS = np.array(
    [(0, 0, 0, 0)]  # does nothing
    + [
        (1, source, target, added)
        for source in range(FILES)
        for target in range(FILES)
        if source != target
        for added in (0, 1)
    ],
    np.int32,
)
"""Acts, source, target, what is added."""


class Settings(NamedTuple):
    """Of a run; `credit` is `"depgpo"` or `"group"`."""

    credit: str = "depgpo"
    groups: int = 16
    group_size: int = 16
    updates: int = 150
    learning_rate: float = 0.05


class Played(NamedTuple):
    """B finished rollouts."""

    action: Int32[Array, "B N"]
    log_prob: Float32[Array, "B N"]
    reward: Float32[Array, " B"]


def env_step(files: Int32[Array, " 4"], action: Int32[Array, ""]) -> Int32[Array, " 4"]:
    """One command of one rollout."""
    acts, source, target, added = jnp.asarray(ACTIONS)[action]
    return jnp.where(acts == 1, files.at[target].set(files[source] + added), files)


def play(logits: Float32[Array, "N _"], key: Key[Array, ""], rollouts: int) -> Played:
    """A scan over commands, all rollouts side by side. The policy is a row of logits a command."""
    files = jnp.zeros((rollouts, FILES), jnp.int32).at[:, 0].set(5)

    def step(files: Array, now: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        logits, key = now
        log_probs = jax.nn.log_softmax(logits)
        action = jax.random.categorical(key, logits, shape=(rollouts,)).astype(jnp.int32)
        return jax.vmap(env_step)(files, action), (action, log_probs[action])

    files, (action, log_prob) = jax.lax.scan(step, files, (logits, jax.random.split(key, COMMANDS)))
    reward = (files[:, TARGET] == 7).astype(jnp.float32)
    return Played(action.T, log_prob.T, reward)


# ---- What DepGPO needs: who read and wrote what, as the dense tensors of one rollout.


def dense_rollout(action: Int32[Array, " N"]) -> dg.DenseRollout:
    """Every command writes its target as a whole, so it has one segment of one record, or none."""
    acts, source, target, _ = jnp.asarray(ACTIONS)[action].T
    writes = acts == 1
    number = jnp.arange(COMMANDS, dtype=jnp.int32)
    # The next command that writes the same file ends the record, in place.
    later = writes[None] & (target[None] == target[:, None]) & (number[None] > number[:, None])
    killer = jnp.where(later.any(axis=1), jnp.argmax(later, axis=1), dg.SURVIVES)
    return dg.DenseRollout(
        recorded=jnp.ones(COMMANDS, bool),
        step_of_command=number,
        loss_tokens=jnp.ones(COMMANDS, jnp.float32),
        segment_owner=jnp.where(writes, number, dg.NO_OWNER),
        segment_resource=target,
        segment_killer=killer.astype(jnp.int32),
        segment_in_place=later.any(axis=1),
        segment_count=writes.astype(jnp.int32),
        inspected=jnp.arange(FILES) == TARGET,
        reads=writes[:, None] & (source[:, None] == jnp.arange(FILES)[None]),
        stdout=jnp.zeros((COMMANDS, COMMANDS), bool),
    )


def token_advantages(played: Played, settings: Settings) -> Float32[Array, "B N"]:
    """One token a command, so L = N."""
    group = jnp.repeat(jnp.arange(settings.groups, dtype=jnp.int32), settings.group_size)
    advantage = dg.group_advantages(played.reward, group)
    if settings.credit == "group":
        return jnp.broadcast_to(advantage[:, None], played.action.shape)
    config = dg.CreditConfig(relevance="slice", max_weight=2.0)
    rollouts = jax.vmap(dense_rollout)(played.action)
    credit = jax.vmap(lambda rollout: dg.rollout_credit(rollout, config))(rollouts)
    step_of_token = jnp.broadcast_to(rollouts.step_of_command, played.action.shape)
    return dg.token_advantages(credit, advantage, step_of_token, jnp.ones_like(played.action, bool))


# ---- From here on the loop knows nothing of credit.


def make_train(settings: Settings) -> Callable[[Key[Array, ""]], Any]:
    """A function of a key alone: all updates as one scan."""
    optimizer = optax.adam(settings.learning_rate)
    rollouts = settings.groups * settings.group_size

    def loss(logits: Array, played: Played, advantages: Array) -> Array:
        log_probs = jax.nn.log_softmax(logits)  # [N, A]
        chosen = jax.nn.one_hot(played.action, len(ACTIONS))  # [B, N, A]
        ratio = jnp.exp(jnp.sum(chosen * log_probs[None], axis=-1) - played.log_prob)
        return -jnp.mean(ratio * advantages)

    def update(carry: tuple[Array, Any], key: Array) -> tuple[tuple[Array, Any], Array]:
        logits, moments = carry
        played = play(logits, key, rollouts)
        advantages = token_advantages(played, settings)
        grads = jax.grad(loss)(logits, played, advantages)
        changes, moments = optimizer.update(grads, moments)
        return (jax.tree.map(jnp.add, logits, changes), moments), played.reward.mean()

    def train(key: Key[Array, ""]) -> Float32[Array, " _"]:
        logits = jnp.zeros((COMMANDS, len(ACTIONS)))
        start = (logits, optimizer.init(logits))
        _, rewards = jax.lax.scan(update, start, jax.random.split(key, settings.updates))
        return rewards

    return train


def main() -> None:
    """Trains and prints how often rollouts succeed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--credit", choices=("depgpo", "group"), default="depgpo")
    parser.add_argument("--updates", type=int, default=150)
    options = parser.parse_args()
    settings = Settings(credit=options.credit, updates=options.updates)
    rewards = np.asarray(jax.jit(make_train(settings))(jax.random.key(0)))
    for part in np.array_split(rewards, 5):
        print(f"{settings.credit}: {part.mean():.3f} of the rollouts succeed")


if __name__ == "__main__":
    main()
