"""The file world: a terminal of eight tiny files that runs on the device.

`reset` and `step` are pure functions of one rollout; batch them with `jax.vmap`. Everything has a
static shape. The full definition stands in docs/file-world.md; the tests hold this module against
an interpreter of that page in plain Python.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, Key

from depgpo_jax.errors import ConfigError
from training.environments.commands import (
    DONE,
    FROM_FILE,
    INVALID,
    NO_LINE,
    NOTHING,
    NUM_FILES,
    NUM_LINES,
    START,
    USES_TARGET,
    Verb,
    command_tokens,
    is_one_of,
    name_tokens,
    used_tokens,
)
from training.environments.dynamics import (
    is_valid,
    pick,
    producer,
    record_kind,
    written_lines,
)
from training.environments.records import NOBODY, StepRecord, state_number
from training.environments.state import Info, Observation, State
from training.environments.tasks import draw_task
from training.environments.world_params import WorldParams


@dataclass(frozen=True)
class FileWorld:
    """The world's static side.

    Attributes:
        max_commands: steps of a rollout at most, submit included; N and T of its tensors.

    Raises:
        ConfigError: `max_commands` is no whole number of at least 1.
    """

    max_commands: int = 16

    def __post_init__(self) -> None:
        size = self.max_commands
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ConfigError(
                f"FileWorld.max_commands is {size!r}; it must be a whole number >= 1, such as 16"
            )

    def reset(self, key: Key[Array, ""], params: WorldParams) -> tuple[Observation, State]:
        """A new task and its files.

        Args:
            key: decides everything: family, prompt, contents.
            params: what tasks to draw.

        Returns:
            The prompt with empty feedback, and the state before the first command.
        """
        task, lines = draw_task(key, params.family_weights, params.split, params.empty_target)
        nobody = jnp.array(NOBODY, jnp.int32)
        state = State(
            task=task,
            lines=lines,
            marked=jnp.zeros(NUM_FILES, bool),
            printed=jnp.full(NUM_LINES, NO_LINE, jnp.int32),
            printer=nobody,
            value_printer=jnp.full(NUM_FILES, NOBODY, jnp.int32),
            position=jnp.zeros((), jnp.int32),
            done=jnp.zeros((), bool),
        )
        start = [NOTHING, NOTHING, NOTHING, START, NOTHING, NOTHING]
        return Observation(task.prompt, jnp.array(start, jnp.int32)), state

    def step(
        self,
        key: Key[Array, ""],
        state: State,
        action: Int32[Array, " 3"],
        params: WorldParams,
    ) -> tuple[Observation, State, Float32[Array, ""], Bool[Array, ""], Info]:
        """One command.

        Indices are turned into one-hot rows: on a CPU a batch of look-ups is slower than
        eight comparisons.

        Args:
            key: not used, since nothing here is random; there because environments have it.
            state: before the command.
            action: `[verb, source, target]`; what the verb does not use may hold anything.
            params: as given to `reset`.

        Returns:
            Observation and state after it; the reward, which is 1 at the end of a rollout
            whose z is right and else 0; whether the rollout is over; and the step's record. After
            the end: the same state, no reward, and a record that says so.
        """
        del key
        verb, source, target = action
        file = jnp.arange(NUM_FILES, dtype=jnp.int32)
        is_source, is_target = file == source, file == target
        from_lines = pick(state.lines, is_source)
        old_lines = pick(state.lines, is_target)
        valid = ~state.done & is_valid(state, action, from_lines, old_lines, params.submit)

        prints = valid & (verb == Verb.READ)
        printed = jnp.where(prints, from_lines, state.printed)
        named = jnp.any(printed[:, None] == file[None], axis=0)
        value_printer = jnp.where(prints & named, state.position, state.value_printer)

        writes = valid & is_one_of(verb, USES_TARGET)
        new_lines = written_lines(verb, source, from_lines, old_lines, state.printed)
        lines = jnp.where(writes & is_target[:, None], new_lines[None], state.lines)
        whole, by_line = record_kind(verb, old_lines, new_lines, jnp.any(state.marked & is_target))

        is_submit = (verb == Verb.SUBMIT) & params.submit
        record = StepRecord(
            is_step=~state.done,
            is_command=~state.done & ~is_submit,
            valid=valid,
            action=action,
            read=jnp.where(valid & is_one_of(verb, FROM_FILE), source, NOBODY),
            written=jnp.where(writes, target, NOBODY),
            lines=writes & by_line,
            whole=writes & whole,
            stdout_from=jnp.where(valid, producer(state, verb, is_source), NOBODY),
            printed=jnp.where(prints, from_lines, NO_LINE),
            loss_tokens=jnp.where(state.done, 0, used_tokens(verb).sum()).astype(jnp.float32),
            state=state_number(state.lines, state.printed),
        )
        position = state.position + ~state.done
        done = state.done | is_submit | (position >= self.max_commands)
        after = State(
            task=state.task,
            lines=lines,
            marked=state.marked | (writes & whole & is_target),
            printed=printed,
            printer=jnp.where(prints, state.position, state.printer),
            value_printer=value_printer,
            position=position,
            done=done,
        )
        success = jnp.all(pick(lines, file == state.task.z) == state.task.target)
        reward = (success & done & ~state.done).astype(jnp.float32)
        status = jnp.where(valid, DONE, INVALID)[None]
        shown = name_tokens(record.printed)
        feedback = jnp.concatenate([command_tokens(action), status, shown]).astype(jnp.int32)
        return Observation(state.task.prompt, feedback), after, reward, done, Info(record, success)
