"""What an update in the file world costs: the whole as one jitted function, and its parts.

On all cores that the process may use, since that is how a loop runs. Parts are timed as jitted
functions of their own, so their sum may differ a little from the whole.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
from flax import nnx

from benchmarks.timing import Spread, alternate, spread
from depgpo_jax.credit import CreditConfig
from training.config import RecurrentConfig, WorldUpdateConfig
from training.environments.presets import SMALL, STANDARD, Size, regime_b
from training.policy.recurrent import RecurrentPolicy
from training.update import TrainState, init_state
from training.world_update import make_world_update, world_update_parts

WHOLE, PLAIN = "whole update", "the same with plain GRPO"
ROLLOUT, CREDIT, LEARN = "tasks, rollouts, verifier", "credit, weights, advantages", "optimiser"
CONTESTANTS: tuple[str, ...] = (WHOLE, PLAIN, ROLLOUT, CREDIT, LEARN)


@dataclass(frozen=True)
class WorldUpdates:
    """One size of update; dictionaries go by what of `CONTESTANTS` was measured.

    Attributes:
        rollouts: of an update.
        commands: of a rollout; regime B, so all of them are given.
        parameters: of the policy.
        seconds: a call, after compilation.
        processor: of the whole update, as processor time of this process, all threads together.
        first: the first call: tracing, compiling, or loading where there is a cache.
        first_processor: the same as processor time.
        cached: a cache for compiled code was in force.
    """

    rollouts: int
    commands: int
    parameters: int
    seconds: dict[str, Spread]
    processor: float
    first: dict[str, float]
    first_processor: dict[str, float]
    cached: bool

    @property
    def updates_per_second(self) -> float:
        """Of the whole update, by the median."""
        return 1.0 / self.seconds[WHOLE].median


@dataclass(frozen=True)
class Case:
    """What is measured."""

    size: Size
    groups: int
    group_size: int
    policy: RecurrentConfig
    with_plain: bool


FULL = Case(STANDARD, 32, 16, RecurrentConfig(), with_plain=True)
QUICK = Case(SMALL, 4, 4, RecurrentConfig(width=8, head_width=4), with_plain=False)
"""Plain GRPO is one more compilation, which says nothing new about whether all this works."""


def measure(case: Case, *, rounds: int) -> WorldUpdates:
    """Times the whole and its parts in turn, in one process."""
    world, params, _ = regime_b(case.size)
    model = RecurrentPolicy(case.policy, rngs=nnx.Rngs(0))
    config = WorldUpdateConfig(
        groups=case.groups, group_size=case.group_size, credit=CreditConfig(max_weight=2.0)
    )
    plain = replace(config, assignment="group")
    key = jax.random.key(0)
    state = init_state(model, config.optimizer)
    collect, assign, improve = map(jax.jit, world_update_parts(world, model, config))
    first: dict[str, tuple[float, float]] = {}
    (rollouts, _), first[ROLLOUT] = _first(lambda: collect(state.params, key, params))
    assigned, first[CREDIT] = _first(lambda: assign(rollouts, key))
    advantages = assigned.advantages
    calls: dict[str, Callable[[], Any]] = {
        ROLLOUT: lambda: collect(state.params, key, params),
        CREDIT: lambda: assign(rollouts, key),
        LEARN: lambda: improve(state, key, rollouts, advantages, None),
        WHOLE: _carried(make_world_update(world, model, config), model, config, params),
    }
    if case.with_plain:
        calls[PLAIN] = _carried(make_world_update(world, model, plain), model, plain, params)
    for name, call in calls.items():
        if name not in first:
            _, first[name] = _first(call)
    blocking = {
        name: lambda call=call: jax.block_until_ready(call()) for name, call in calls.items()
    }
    samples, _ = alternate(blocking, rounds=rounds)
    processor = time.process_time()
    for _ in range(rounds):
        blocking[WHOLE]()
    processor = (time.process_time() - processor) / rounds
    return WorldUpdates(
        rollouts=config.rollouts,
        commands=world.max_commands,
        parameters=sum(leaf.size for leaf in jax.tree.leaves(state.params)),
        seconds={name: spread(times) for name, times in samples.items()},
        processor=processor,
        first={name: seconds for name, (seconds, _) in first.items()},
        first_processor={name: seconds for name, (_, seconds) in first.items()},
        cached=bool(os.environ.get("JAX_COMPILATION_CACHE_DIR")),
    )


def _carried(
    update: Callable[..., Any], model: RecurrentPolicy, config: WorldUpdateConfig, params: Any
) -> Callable[[], Any]:
    """Update after update, each from the state that the last one left."""
    held: list[TrainState] = [init_state(model, config.optimizer)]
    key = jax.random.key(1)

    def call() -> Any:
        state, metrics = update(held[0], jax.random.fold_in(key, held[0].step), params)
        held[0] = state
        return metrics

    return call


def _first(call: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """What a call gives, the seconds that passed, and those of processor time."""
    processor, start = time.process_time(), time.perf_counter()
    found = jax.block_until_ready(call())
    return found, (time.perf_counter() - start, time.process_time() - processor)
