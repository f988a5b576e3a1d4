"""Policies without a network: a script that knows the answer, with noise, and pure chance.

The script's rollouts are the demonstrations for a warm start. Its noise is a command that somebody
who does not know the answer might give: it wastes a step and may well spoil a file, so a part
of the demonstrations fails.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from depgpo_jax.errors import ConfigError
from training.environments.commands import NUM_FILES, NUM_VERBS, Family, Verb
from training.environments.file_world import FileWorld
from training.environments.rollouts import Acted, Policy, Rollout, Starts, rollout
from training.environments.tasks import Task, whole_number
from training.environments.world_params import WorldParams

PLAN_LENGTH = 3


class Noise(NamedTuple):
    """How often the script does something else.

    Attributes:
        rate: probability, before each command of the plan, that a noise command comes first.
        reads: probability that a noise command is `read` of a random file; else its verb (never
            `submit`), source and target are random.
    """

    rate: Float32[Array, ""]
    reads: Float32[Array, ""]


def noise(*, rate: float, reads: float) -> Noise:
    """Checked noise.

    Raises:
        ConfigError: a value outside its range.
    """
    if not 0.0 <= rate < 1.0:
        raise ConfigError(
            f"noise: rate is {rate!r}; it must be in [0, 1), as a plan would never go on at 1"
        )
    if not 0.0 <= reads <= 1.0:
        raise ConfigError(f"noise: reads is {reads!r}; it must be a probability in [0, 1]")
    return Noise(jnp.array(rate, jnp.float32), jnp.array(reads, jnp.float32))


class Script(NamedTuple):
    """What the script follows, for B rollouts.

    Attributes:
        plan: commands that lead to the target.
        length: how many of them there are.
        noise: see `Noise`.
        submit: whether it ends the rollout after its plan.
    """

    plan: Int32[Array, "B 3 3"]
    length: Int32[Array, " B"]
    noise: Noise
    submit: Bool[Array, ""]


def plans(task: Task, in_place: Bool[Array, ""]) -> tuple[Int32[Array, "3 3"], Int32[Array, ""]]:
    """The shortest way to the target; batch it with `jax.vmap`.

    Args:
        task: one task, hidden part included.
        in_place: in `CHAIN` and `PRINTED`, go through z itself instead of the scratch file.

    Returns:
        Commands, and how many of the rows count.
    """
    a, b, z, t, f, g = task.a, task.b, task.z, task.scratch, task.f, task.g
    middle = jnp.where(in_place, z, t)
    by_family = {
        Family.CHAIN: [(f, a, middle), (g, middle, z)],
        Family.JOIN: [(f, a, z), (g, b, t), (Verb.PUT2, t, z)],
        Family.PRINTED: [(Verb.READ, a, 0), (Verb.PASTE, 0, middle), (f, middle, z)],
        Family.POINTER: [(Verb.READ, a, 0), (f, b, z)],
        Family.REPORT: [(f, a, t), (Verb.READ, t, 0), (Verb.PASTE, 0, z)],
    }
    plan = jnp.zeros((PLAN_LENGTH, 3), jnp.int32)
    length = jnp.zeros((), jnp.int32)
    for family, commands in by_family.items():
        padded = [*commands, *[(int(Verb.NOOP), 0, 0)] * (PLAN_LENGTH - len(commands))]
        rows = jnp.stack([jnp.stack([jnp.asarray(n, jnp.int32) for n in row]) for row in padded])
        plan = jnp.where(task.family == family, rows, plan)
        length = jnp.where(task.family == family, len(commands), length)
    return plan, length.astype(jnp.int32)


def _below(size: int, uniform: Float32[Array, " B"]) -> Int32[Array, " B"]:
    return whole_number(uniform, jnp.int32(size))


def _start_script(script: Script, prompt: Int32[Array, "B 7"]) -> Int32[Array, " B"]:
    del script
    return jnp.zeros(prompt.shape[0], jnp.int32)


def _follow_script(
    script: Script,
    position: Int32[Array, " B"],
    feedback: Int32[Array, "B 6"],
    uniforms: Float32[Array, "B 5"],
) -> Acted:
    """The plan's next command, unless noise comes first; after it submit, or harmless reads."""
    del feedback
    place = jnp.arange(PLAN_LENGTH, dtype=jnp.int32)
    at = (position[:, None] == place[None])[..., None]
    planned = jnp.sum(jnp.where(at, script.plan, 0), axis=1, dtype=jnp.int32)
    read_any = jnp.stack(
        [
            jnp.full_like(position, Verb.READ),
            _below(NUM_FILES, uniforms[:, 3]),
            jnp.zeros_like(position),
        ],
        axis=1,
    )
    submit = jnp.broadcast_to(jnp.array([Verb.SUBMIT, 0, 0], jnp.int32), planned.shape)
    after = jnp.where(script.submit, submit, read_any)
    finished = position >= script.length
    right = jnp.where(finished[:, None], after, planned)

    anything = jnp.stack(
        [
            _below(NUM_VERBS - 1, uniforms[:, 2]),
            _below(NUM_FILES, uniforms[:, 3]),
            _below(NUM_FILES, uniforms[:, 4]),
        ],
        axis=1,
    )
    is_read = uniforms[:, 1] < script.noise.reads
    wrong = jnp.where(is_read[:, None], read_any, anything)
    is_noise = uniforms[:, 0] < script.noise.rate
    action = jnp.where(is_noise[:, None], wrong, right)
    position = position + ~is_noise
    return position, action, jnp.zeros(action.shape, jnp.float32)


SCRIPTED = Policy(_start_script, _follow_script, num_uniforms=5)
"""Follows a `Script`, its parameters. Its log-probabilities are 0: it is not to be trained."""


def demonstrations(
    world: FileWorld, key: Key[Array, ""], starts: Starts, params: WorldParams, noise: Noise
) -> Rollout:
    """Rollouts of the script that knows the answer, with noise; half of them work in place.

    Args:
        world: the world.
        key: decides about noise and ways.
        starts: from `start_groups`.
        params: as given to `start_groups`.
        noise: how noisy.

    Returns:
        Finished rollouts, some of them failures; choose by `reward`.
    """
    for_way, for_noise = jax.random.split(key)
    in_place = jax.random.bernoulli(for_way, shape=starts.group.shape)
    plan, length = jax.vmap(plans)(starts.state.task, in_place)
    script = Script(plan, length, noise, params.submit)
    return rollout(world, SCRIPTED, script, for_noise, starts, params)


def _start_nothing(params: None, prompt: Int32[Array, "B 7"]) -> tuple[()]:
    del params, prompt
    return ()


def _act_by_chance(
    params: None,
    memory: tuple[()],
    feedback: Int32[Array, "B 6"],
    uniforms: Float32[Array, "B 3"],
) -> Acted:
    del params, feedback
    sizes = (NUM_VERBS, NUM_FILES, NUM_FILES)
    numbers = [_below(size, uniforms[:, place]) for place, size in enumerate(sizes)]
    action = jnp.stack(numbers, axis=1)
    log_probs = -jnp.log(jnp.array(sizes, jnp.float32))
    return memory, action, jnp.broadcast_to(log_probs, action.shape)


RANDOM = Policy(_start_nothing, _act_by_chance, num_uniforms=3)
"""Every verb, source and target equally likely; its parameters are `None`."""
