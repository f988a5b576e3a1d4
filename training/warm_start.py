"""A policy that succeeds now and then: imitation of noisy demonstrations, cached on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import jax
import msgspec
import orbax.checkpoint as ocp
from jaxtyping import Array, Bool, Key, PyTree

from depgpo_jax.errors import ConfigError
from training.checkpoints import damage_told, uncommitted
from training.config import OptimizerConfig
from training.environments.experts import demonstrations
from training.environments.prompts import Split
from training.environments.rollouts import Rollout, rollout, start_groups
from training.policy.recurrent import RecurrentPolicy, recurrent_sampler
from training.run_config import RunConfig
from training.update import init_state
from training.world_update import make_imitation

WARM_STREAM = 0
"""Which of a seed's streams of chance is used here."""

VERSION = 1
"""Goes into the cache's names: another number after a change here makes every start anew."""

Report = Callable[[int, float], None]


class WarmStart(NamedTuple):
    """What imitation gave.

    Attributes:
        params: of the policy.
        cached: they were read, not made.
    """

    params: PyTree[Array]
    cached: bool


def warm_start(
    config: RunConfig, model: RecurrentPolicy, cache: Path, report: Report | None = None
) -> WarmStart:
    """Parameters to start from; made once for a seed, a world and a policy.

    The demonstrations are of training prompts. Those that fail are left out; noise stays in the
    others. Imitation ends at the first look at which enough of the policy's own rollouts succeed.

    Args:
        config: its seed, regime, size, policy and warm start.
        model: the policy, at its first weights.
        cache: a folder for finished starts; it is made.
        report: called with (step, success) at every look.

    Returns:
        The parameters.

    Raises:
        ConfigError: the success is not reached, or the cached start is damaged.
    """
    cache.mkdir(parents=True, exist_ok=True)
    place = (cache / _name(config)).resolve()
    params = init_state(model, config.update.optimizer).params
    if config.warm_start.success == 0:
        return WarmStart(params, cached=False)
    with ocp.StandardCheckpointer() as checkpointer:
        if place.exists():
            like = jax.tree.map(ocp.utils.to_shape_dtype_struct, params)
            with damage_told(place):
                return WarmStart(uncommitted(checkpointer.restore(place, like)), cached=True)
        params = _imitate(config, model, report)
        # Two runs may make the same start at once; Orbax renames it into place when it is whole.
        checkpointer.save(place, params, force=True)
    return WarmStart(params, cached=False)


def _imitate(config: RunConfig, model: RecurrentPolicy, report: Report | None) -> PyTree[Array]:
    warm = config.warm_start
    world, world_params, noise = config.preset(Split.TRAIN)
    optimizer = OptimizerConfig(learning_rate=warm.learning_rate)
    imitate = make_imitation(model, replace(config.update, optimizer=optimizer))
    sampler = recurrent_sampler(model)

    @jax.jit
    def shown(key: Key[Array, ""]) -> Rollout:
        for_tasks, for_noise = jax.random.split(key)
        starts = start_groups(world, for_tasks, world_params, warm.rollouts, 1)
        found = demonstrations(world, for_noise, starts, world_params, noise)
        succeeds: Bool[Array, "B 1 1"] = (found.reward > 0)[:, None, None]
        return found._replace(loss_mask=found.loss_mask & succeeds)

    @jax.jit
    def success(params: PyTree[Array], key: Key[Array, ""]) -> Array:
        for_tasks, for_policy = jax.random.split(key)
        starts = start_groups(world, for_tasks, world_params, warm.rollouts, 1)
        return rollout(world, sampler, params, for_policy, starts, world_params).reward.mean()

    key = jax.random.fold_in(jax.random.key(config.seed), WARM_STREAM)
    for_shown, for_looks = jax.random.split(key)
    state, found = init_state(model, optimizer), 0.0
    for step in range(1, warm.max_steps + 1):
        state, _ = imitate(state, shown(jax.random.fold_in(for_shown, step)))
        if step % warm.check_every == 0:
            found = float(success(state.params, jax.random.fold_in(for_looks, step)))
            if report is not None:
                report(step, found)
            if found >= warm.success:
                return state.params
    raise ConfigError(
        f"WarmStartConfig.max_steps is {warm.max_steps}, after which {found:.3f} of the policy's "
        f"rollouts succeed; success asks for {warm.success:.3f}. Allow more steps, or ask for less"
    )


def _name(config: RunConfig) -> str:
    decides = {
        "version": VERSION,
        "seed": config.seed,
        "regime": config.regime,
        "size": config.size,
        "policy": asdict(config.policy),
        "warm_start": asdict(config.warm_start),
    }
    digest = hashlib.sha256(msgspec.json.encode(decides, order="sorted")).hexdigest()[:12]
    return f"{config.regime}-{config.size}-{config.seed}-{digest}"
