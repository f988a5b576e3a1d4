"""DepGPO inside a data-parallel update of your own: `shard_map` over the devices of a mesh.

    python examples/shard_map_loop.py [FILE]

Each device holds some rollouts, computes their credit and the gradient on their tokens; the
gradients are summed over the devices. A rollout never spans devices, so credit needs no collective.
Only group advantages look across rollouts: they are computed before, on one number a rollout.

FILE holds traces (default: recorded rollouts of this checkout). Random ids stand in for a
tokenizer's, and a table of logits for a policy. The update on four devices is compared with that on
one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax

# Four devices on a CPU; on a machine with accelerators leave this out.
jax.config.update("jax_num_cpu_devices", 4)

import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float32, Int32

import depgpo_jax as dg

TRACES = Path(__file__).resolve().parent.parent / "tests" / "real" / "log-summary-group.jsonl"
VOCABULARY, TOKENS_OF_A_STEP, DEVICES = 32, 3, 4


class Tokens(NamedTuple):
    """What a trainer has of B rollouts, B a multiple of the number of devices."""

    token: Int32[Array, "B L"]
    step_of_token: Int32[Array, "B L"]
    loss_mask: Bool[Array, "B L"]
    log_probs: Float32[Array, "B L"]  # of the policy that wrote them


def load(path: Path) -> tuple[dg.TraceBatch, Tokens]:
    """Traces as a batch that four devices can share, and tokens for their steps."""
    traces = list(dg.read_traces(path))
    own = dg.batch_traces(traces)
    shape = dg.BatchShape(
        rollouts=-(-len(traces) // DEVICES) * DEVICES,
        commands=own.recorded.shape[1],
        steps=own.loss_tokens.shape[1],
        segments=own.segment_owner.shape[1],
        resources=own.inspected.shape[1],
    )
    batch = dg.batch_traces(traces, shape=shape)
    steps = np.repeat(np.arange(shape.steps, dtype=np.int32), TOKENS_OF_A_STEP)
    step_of_token = np.broadcast_to(steps, (shape.rollouts, len(steps)))
    token = np.random.default_rng(0).integers(VOCABULARY, size=step_of_token.shape, dtype=np.int32)
    loss_mask = step_of_token < np.asarray(batch.num_steps)[:, None]
    log_probs = np.full(token.shape, -np.log(VOCABULARY), np.float32)
    return batch, Tokens(*map(jnp.asarray, (token, step_of_token, loss_mask, log_probs)))


def make_update(
    optimizer: optax.GradientTransformation, axis: str | None
) -> Callable[..., tuple[Array, Array]]:
    """One update on the rollouts at hand; with an axis, on those of all devices along it."""

    def all_devices(value: Array) -> Array:
        return value if axis is None else jax.lax.psum(value, axis)

    def update(
        logits: Float32[Array, " _"],
        batch: dg.TraceBatch,
        tokens: Tokens,
        advantage: Float32[Array, " B"],
    ) -> tuple[Array, Array]:
        credit = dg.dependency_credit(batch, dg.CreditConfig(relevance="stdout"))
        advantages = dg.token_advantages(credit, advantage, tokens.step_of_token, tokens.loss_mask)
        # The mean is over the tokens of all devices, so that their number does not matter.
        count = all_devices(tokens.loss_mask.sum().astype(jnp.float32))

        def loss(logits: Array) -> Array:
            chosen = jax.nn.one_hot(tokens.token, VOCABULARY)
            log_probs = jnp.sum(chosen * jax.nn.log_softmax(logits)[None, None], axis=-1)
            ratio = jnp.exp(log_probs - tokens.log_probs)
            return -jnp.sum(jnp.where(tokens.loss_mask, ratio * advantages, 0.0)) / count

        # The logits are the same on all devices, so `shard_map` sums their gradient over them.
        grads = jax.grad(loss)(logits)
        changes, _ = optimizer.update(grads, optimizer.init(logits), logits)
        return jax.tree.map(jnp.add, logits, changes), credit.token_weight

    return update


def main() -> None:
    """Does the update on one device and on four, and compares."""
    batch, tokens = load(Path(sys.argv[1]) if len(sys.argv) > 1 else TRACES)
    advantage = dg.group_advantages(batch.reward, batch.group, batch.trainable)
    logits, optimizer = jnp.zeros(VOCABULARY), optax.sgd(1.0)
    alone, _ = jax.jit(make_update(optimizer, None))(logits, batch, tokens, advantage)

    mesh = jax.make_mesh((DEVICES,), ("data",), axis_types=(AxisType.Auto,))
    of_rollouts, everywhere = PartitionSpec("data"), PartitionSpec()
    update = jax.shard_map(
        make_update(optimizer, "data"),
        mesh=mesh,
        in_specs=(everywhere, of_rollouts, of_rollouts, of_rollouts),
        out_specs=(everywhere, of_rollouts),
    )
    spread = jax.device_put((batch, tokens, advantage), NamedSharding(mesh, of_rollouts))
    together, weight = jax.jit(update)(logits, *spread)

    devices = {shard.device.id for shard in weight.addressable_shards}
    difference = float(jnp.abs(together - alone).max())
    print(f"{weight.shape[0]} rollouts on {len(devices)} devices")
    print(f"the update moves logits by up to {float(jnp.abs(alone - logits).max()):.4f}")
    print(f"four devices and one differ by {difference:.1e}")


if __name__ == "__main__":
    main()
