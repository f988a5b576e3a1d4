"""Finished rollouts of the file world as traces: what a tracer would have written about them."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int32
from msgspec import UNSET

from depgpo_jax.traces import Command, Step, Trace, Write
from training.environments.commands import (
    NO_LINE,
    NUM_VERBS,
    USES_SOURCE,
    USES_TARGET,
    Family,
    Verb,
)
from training.environments.commands import command_tokens as tokens_of_commands
from training.environments.rollouts import Rollout

FOLDER = "/files"


def path_of(file: int) -> str:
    """The resource that a file is."""
    return f"{FOLDER}/{file}"


def traces_of(rollouts: Rollout, *, name: str = "file-world") -> Iterator[Trace]:
    """One trace a rollout, in order.

    Tokens and log-probabilities stand in the steps; the context of the first step is the prompt,
    that of a later one what the policy was told about the step before. The command's own
    tokens are left out there, since they stand in the step that wrote them.

    Args:
        rollouts: finished rollouts, on any device.
        name: goes before the numbers of groups and rollouts in the traces' names.

    Yields:
        Valid traces, `name/group/number`.
    """
    tokens = tokens_of_commands(jnp.asarray(rollouts.action))
    host: Rollout
    host, tokens = jax.device_get((rollouts, tokens))
    for row in range(len(host.reward)):
        yield _trace(host, np.asarray(tokens), row, name)


def _trace(host: Rollout, tokens: Int32[np.ndarray, "B N 3"], row: int, name: str) -> Trace:
    task = host.starts.state.task
    group = int(host.starts.group[row])
    family = Family(int(task.family[row])).name.lower()
    return Trace(
        version=1,
        trace_id=f"{name}/{group}/{row}",
        group_id=f"{name}/{group}",
        reward=float(host.reward[row]),
        verifier=[path_of(int(task.z[row]))],
        steps=[_step(host, tokens, row, t) for t in range(int(host.num_steps[row]))],
        extra={"family": family, "target": np.asarray(task.target[row]).tolist()},
    )


def _step(host: Rollout, tokens: Int32[np.ndarray, "B N 3"], row: int, t: int) -> Step:
    used = np.asarray(host.loss_mask[row, t])
    if t == 0:
        shown = np.asarray(host.starts.observation.prompt[row])
    else:
        shown = np.asarray(host.feedback[row, t])[3:]
    return Step(
        loss_tokens=int(host.record.loss_tokens[row, t]),
        commands=[_command(host, row, t)] if host.record.is_command[row, t] else [],
        state=f"{int(host.record.state[row, t]):08x}",
        token_ids=tokens[row, t][used].tolist(),
        logprobs=np.asarray(host.log_probs[row, t], np.float64)[used].tolist(),
        context_token_ids=shown.tolist(),
    )


def _command(host: Rollout, row: int, t: int) -> Command:
    record = host.record
    valid = bool(record.valid[row, t])
    read, producer = int(record.read[row, t]), int(record.stdout_from[row, t])
    printed = [str(value) for value in record.printed[row, t].tolist() if value != NO_LINE]
    return Command(
        reads=[path_of(read)] if read >= 0 else (),
        writes=_writes(host, row, t),
        stdout_from=[producer] if producer >= 0 else (),
        text=command_text(*record.action[row, t].tolist()),
        exit_code=0 if valid else 1,
        stdout="".join(f"{line}\n" for line in printed) if printed else UNSET,
    )


def _writes(host: Rollout, row: int, t: int) -> list[Write]:
    record = host.record
    file = int(record.written[row, t])
    if file < 0:
        return []
    if record.whole[row, t]:
        deleted = record.action[row, t, 0] == Verb.DELETE
        return [Write(path_of(file), whole=True, deleted=True if deleted else UNSET)]
    first, second = record.lines[row, t].tolist()
    return [Write(path_of(file), lines=[(1 if first else 2, 2 if second else 1)])]


def command_text(verb: int, source: int, target: int) -> str:
    """A command in words: `op1 3 > 5`, `read 3`, `const 7 > 2`, `delete 4`; no verb: `unknown`."""
    if not 0 <= verb < NUM_VERBS:
        return "unknown"
    name = Verb(verb).name.lower()
    text = f"{name} {source}" if verb in USES_SOURCE else name
    if verb == Verb.DELETE:
        return f"{name} {target}"
    return f"{text} > {target}" if verb in USES_TARGET else text
