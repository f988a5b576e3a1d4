"""One update of a run in three phases, each jitted and timed by itself.

The phases together take as long as the update as one function (`training.world_update`): what lies
between them is three hand-overs of arrays that stay on the device.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import jax
from jaxtyping import Array, PyTree

from depgpo_jax.summary import Credit
from training.assignments import Assign
from training.checkpoints import RunState, new_model
from training.config import RecurrentConfig, WorldUpdateConfig
from training.environments.commands import Family
from training.environments.prompts import Split
from training.environments.world_params import WorldParams
from training.improve import Improve
from training.run_config import RunConfig, preset_of
from training.sampling import Collect
from training.world_metrics import Drawn, Learnt, WorldMetrics, world_metrics
from training.world_update import UpdateKeys, world_update_parts

Found = TypeVar("Found")


class Phases(NamedTuple):
    """Updates of runs that differ in nothing that is compiled; from `phases_of`."""

    collect: Collect
    assign: Assign
    improve: Improve
    metrics: Callable[[Drawn, Credit, Learnt], WorldMetrics]
    world_params: WorldParams

    def update(
        self, state: RunState, reference: PyTree[Array] | None
    ) -> tuple[RunState, dict[str, Any]]:
        """Does one update.

        Args:
            state: before it; its arrays are donated.
            reference: the parameters to stay near; None: the objective asks for none.

        Returns:
            The state after it, and its row for the log.
        """
        key, now = jax.random.split(state.key)
        keys, seconds = UpdateKeys.of(now), {}
        timed = partial(_timed, seconds)
        rollouts, drawn = timed(
            "rollout", lambda: self.collect(state.train.params, keys.collect, self.world_params)
        )
        assigned = timed("credit", lambda: self.assign(rollouts, keys.assign))
        train, learnt = timed(
            "improve",
            lambda: self.improve(
                state.train, keys.improve, rollouts, assigned.advantages, reference
            ),
        )
        metrics = jax.device_get(self.metrics(drawn, assigned.credit, learnt))
        progress = state.progress.after(int(metrics.rollouts), int(metrics.tokens))
        row = {
            "kind": "update",
            "update": progress.update,
            "total_rollouts": progress.rollouts,
            "total_tokens": progress.tokens,
            **_row(metrics),
            "seconds": seconds,
        }
        return RunState(train, key, progress), row


def phases_of(config: RunConfig) -> Phases:
    """The compiled update of a run. Runs that differ in their seed or length share it."""
    return _phases(config.regime, config.size, config.policy, config.update)


@lru_cache(maxsize=8)
def _phases(regime: str, size: str, policy: RecurrentConfig, update: WorldUpdateConfig) -> Phases:
    world, world_params, _ = preset_of(regime, size, Split.TRAIN)
    parts = world_update_parts(world, new_model(policy), update)
    return Phases(
        collect=jax.jit(parts.collect),
        assign=jax.jit(parts.assign),
        improve=jax.jit(parts.improve, donate_argnums=0),
        metrics=jax.jit(world_metrics),
        world_params=world_params,
    )


def _timed(seconds: dict[str, float], name: str, call: Callable[[], Found]) -> Found:
    started = time.perf_counter()
    found = jax.block_until_ready(call())
    seconds[name] = time.perf_counter() - started
    return found


def _row(metrics: WorldMetrics) -> dict[str, Any]:
    """Plain numbers; families by name, those without a rollout left out."""
    plain = {name: value.item() for name, value in metrics._asdict().items() if value.ndim == 0}
    plain["success"] = {
        family.name.lower(): float(metrics.family_success[family])
        for family in Family
        if metrics.family_count[family]
    }
    return plain
