"""A player's success on given prompts, batch by batch on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, Key, PyTree

from depgpo_jax.errors import ConfigError
from training.checks import MAX_SEED, whole
from training.environments.commands import Family
from training.environments.file_world import FileWorld
from training.environments.records import state_number
from training.environments.rollouts import Starts
from training.environments.world_params import WorldParams
from training.pass_at_k import Interval, bootstrap, pass_at_k
from training.players import Play, Player


class Evaluation(NamedTuple):
    """What a player did with P prompts of n rollouts each.

    Attributes:
        player: its name.
        samples: n.
        successes: of each prompt, 0 to n.
        family: of each prompt.
        num_steps: mean number of commands of each prompt's rollouts.
        files: of each prompt, the number of its files at the start: equal files, equal numbers.
    """

    player: str
    samples: int
    successes: Int32[np.ndarray, " _"]
    family: Int32[np.ndarray, " _"]
    num_steps: Float32[np.ndarray, " _"]
    files: Int32[np.ndarray, " _"]


class _Sizes(NamedTuple):
    prompts: int
    samples: int
    batch: int


class _Found(NamedTuple):
    successes: Int32[Array, " _"]
    family: Int32[Array, " _"]
    num_steps: Float32[Array, " _"]
    files: Int32[Array, " _"]


_SomeOf = Callable[[PyTree[Array], WorldParams, Key[Array, ""], Int32[Array, " _"]], _Found]


class Evaluator:
    """Plays on the same prompts as often as asked; compiles once for a way of playing.

    Seed and world parameters are traced: other ones find the same program in JAX's cache.

    Prompt i and its files come from the seed and i alone, and rollout j of it from the seed, i and
    j: whoever plays, and whatever the batch, meets the same tasks with the same chance.

    Args:
        world: the world.
        world_params: which prompts; decides about regime and split.
        seed: of the prompts, 0 to `MAX_SEED`.
        prompts: P, how many.
        samples: n, rollouts of each.
        batch: rollouts at a time; rounded up to whole prompts.

    Raises:
        ConfigError: a size is no whole number >= 1, or the seed is out of range.
    """

    def __init__(
        self,
        world: FileWorld,
        world_params: WorldParams,
        *,
        seed: int,
        prompts: int,
        samples: int,
        batch: int,
    ) -> None:
        self._sizes = _Sizes(prompts, samples, batch)
        for name, value in self._sizes._asdict().items():
            whole(self, name, value)
        whole(self, "seed", seed, at_least=0, at_most=MAX_SEED)
        self._world, self._world_params, self._seed = world, world_params, seed
        self._play: Play | None = None
        self._compiled: _SomeOf | None = None

    def __call__(self, player: Player) -> Evaluation:
        """Lets a player play all prompts."""
        if self._compiled is None or self._play is not player.play:
            self._play, self._compiled = player.play, jax.jit(self._some_of(player.play))
        prompts, samples, batch = self._sizes
        key = jax.random.key(self._seed)
        at_a_time = min(prompts, -(-batch // samples))
        found: list[_Found] = []
        for begin in range(0, prompts, at_a_time):
            numbers = jnp.arange(begin, begin + at_a_time, dtype=jnp.int32)
            found.append(self._compiled(player.params, self._world_params, key, numbers))
        columns = [np.concatenate(parts)[:prompts] for parts in zip(*found, strict=True)]
        return Evaluation(player.name, samples, *columns)

    def _some_of(self, play: Play) -> _SomeOf:
        world, samples = self._world, self._sizes.samples

        def one(
            params: PyTree[Array],
            world_params: WorldParams,
            key: Key[Array, ""],
            number: Int32[Array, ""],
        ) -> _Found:
            for_task, for_player = jax.random.split(jax.random.fold_in(key, number))
            observation, state = jax.tree.map(
                lambda leaf: leaf[None], world.reset(for_task, world_params)
            )
            starts = Starts(observation, state, jnp.zeros(1, jnp.int32))

            def sample(key: Key[Array, ""]) -> tuple[Array, Array]:
                done = play(params, key, starts, world_params)
                return done.reward[0] > 0, done.num_steps[0]

            succeeds, steps = jax.vmap(sample)(jax.random.split(for_player, samples))
            return _Found(
                jnp.sum(succeeds, dtype=jnp.int32),
                state.task.family[0],
                jnp.mean(steps.astype(jnp.float32)),
                state_number(state.lines[0], state.printed[0]),
            )

        return jax.vmap(one, in_axes=(None, None, None, 0))


def summary(found: Evaluation, ks: Sequence[int], *, level: float = 0.95) -> dict[str, Any]:
    """An evaluation as JSON has it.

    Args:
        found: the evaluation.
        ks: which pass@k, each from 1 to its samples.
        level: of the intervals.

    Returns:
        `player`, `samples`, `level`, `prompts`, `success` and `num_steps` (means over all
        rollouts), `pass_at_k` (k as a string to `mean`, `low`, `high`), and `family`: the last four
        by name for each family that occurred.

    Raises:
        ConfigError: a k or the level is out of range.
    """

    def part(chosen: np.ndarray) -> dict[str, Any]:
        values = {k: pass_at_k(found.successes[chosen], found.samples, k) for k in ks}
        return {
            "prompts": int(chosen.sum()),
            "success": float(found.successes[chosen].mean() / found.samples),
            "num_steps": float(found.num_steps[chosen].mean()),
            "pass_at_k": {str(k): bootstrap(of, level=level)._asdict() for k, of in values.items()},
        }

    return {
        "player": found.player,
        "samples": found.samples,
        "level": level,
        **part(np.ones(found.family.shape, bool)),
        "family": {
            family.name.lower(): part(found.family == family)
            for family in Family
            if (found.family == family).any()
        },
    }


def paired_difference(
    one: Evaluation, other: Evaluation, k: int = 1, *, level: float = 0.95
) -> Interval:
    """pass@k of one minus that of the other, with a paired bootstrap interval.

    Args:
        one: an evaluation.
        other: of the same prompts, from an `Evaluator` of the same seed.
        k: of pass@k.
        level: of the interval.

    Raises:
        ConfigError: the tasks differ in number, family or files, or k is out of range.
    """
    if one.family.shape != other.family.shape:
        raise ConfigError(
            f"paired_difference: {one.player} met {one.family.size} prompts, {other.player} "
            f"{other.family.size}; they must be the same ones. Evaluate both with one Evaluator"
        )
    differ = (one.family != other.family) | (one.files != other.files)
    if differ.any():
        raise ConfigError(
            f"paired_difference: {differ.sum()} of the {differ.size} tasks that {one.player} and "
            f"{other.player} met are not the same. Evaluate both with one Evaluator"
        )
    values = [pass_at_k(found.successes, found.samples, k) for found in (one, other)]
    return bootstrap(values[0] - values[1], level=level)
