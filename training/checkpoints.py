"""A run's folder: its config, its checkpoints by Orbax, its metrics, its result.

config.json          the `RunConfig`
checkpoints/N/       the state after update N; the last two are kept
best/N/              the state with the highest validation success so far
metrics.jsonl        a line an update, and one a validation
tensorboard/         the same for TensorBoard
result.json          written once, at the very end
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import msgspec
import orbax.checkpoint as ocp
from flax import nnx
from jaxtyping import Array, PyTree

from depgpo_jax.errors import ConfigError, printable
from depgpo_jax.traces.files import open_output
from training.config import RecurrentConfig
from training.policy.recurrent import RecurrentPolicy
from training.run_config import RunConfig, config_of
from training.update import TrainState, init_state

CONFIG, RESULT, METRICS, TENSORBOARD = "config.json", "result.json", "metrics.jsonl", "tensorboard"
LAST, BEST = "checkpoints", "best"

RUN_STREAM = 1
"""Which of a seed's streams of chance the updates draw from; a warm start has another."""


class Progress(msgspec.Struct, frozen=True):
    """Where a run stands, beside its arrays.

    Attributes:
        update: updates done, which is also the position in the stream of tasks.
        rollouts: drawn so far, those of dropped groups included.
        tokens: of the policy in them.
        best_update: the update with the highest validation success; the earliest of equals.
        best_success: that success; -1 before the first validation.
    """

    update: int = 0
    rollouts: int = 0
    tokens: int = 0
    best_update: int = 0
    best_success: float = -1.0

    def after(self, rollouts: int, tokens: int) -> Progress:
        """Progress after one more update, which drew that much."""
        return msgspec.structs.replace(
            self,
            update=self.update + 1,
            rollouts=self.rollouts + rollouts,
            tokens=self.tokens + tokens,
        )

    def examined(self, success: float) -> Progress:
        """Progress after a validation; of equal successes the earlier stays the best."""
        if success <= self.best_success:
            return self
        return msgspec.structs.replace(self, best_update=self.update, best_success=success)


class RunState(NamedTuple):
    """All that a resumed run needs: policy, optimiser, random state, position.

    Attributes:
        train: parameters, moments, steps of the optimiser.
        key: from which every further update and nothing else draws.
        progress: see `Progress`.
    """

    train: TrainState
    key: Array
    progress: Progress


class Checkpoints:
    """The checkpoints in a run's folder; a context manager, since Orbax has threads to end."""

    def __init__(self, run: Path) -> None:
        run = run.resolve()  # Orbax takes absolute paths only
        self._last = _manager(run / LAST, keep=2)
        self._best = _manager(run / BEST, keep=1)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *_: object) -> None:
        self._last.close()
        self._best.close()

    @property
    def kept(self) -> list[int]:
        """The updates whose states are there, in order."""
        return sorted({*self._last.all_steps(), *self._best.all_steps()})

    @property
    def last_update(self) -> int | None:
        """The newest checkpoint; None: there is none."""
        return self._last.latest_step()

    def save(self, state: RunState) -> None:
        """Writes the state, and as the best one too if it is that. Whole or not at all.

        The best comes first: a run that dies in between repeats these updates, bit for bit, and
        finds its best checkpoint already there.
        """
        update = state.progress.update
        if update == state.progress.best_update:
            _save(self._best, state)
        _save(self._last, state)

    def restore(self, like: RunState, which: str | int = "last") -> RunState:
        """Reads a state.

        Args:
            like: a state of the same shapes; its values are not used.
            which: `"last"`, `"best"` or the number of an update that is still kept.

        Raises:
            ConfigError: there is no such checkpoint, or it is damaged.
        """
        manager, update = self._find(which)
        arrays = jax.tree.map(ocp.utils.to_shape_dtype_struct, _arrays(like))
        wanted = ocp.args.Composite(
            state=ocp.args.StandardRestore(arrays), progress=ocp.args.JsonRestore()
        )
        with damage_told(Path(manager.directory) / str(update)):
            found = manager.restore(update, args=wanted)
            progress = msgspec.convert(found["progress"], Progress)
        state = uncommitted(found["state"])
        return RunState(state["train"], jax.random.wrap_key_data(state["key"]), progress)

    def _find(self, which: str | int) -> tuple[ocp.CheckpointManager, int]:
        update = None
        if which == "best":
            managers, update = [self._best], self._best.latest_step()
        elif which == "last":
            managers, update = [self._last], self._last.latest_step()
        else:
            managers = [self._last, self._best]
        for manager in managers:
            wanted = update if isinstance(which, str) else which
            if wanted is not None and wanted in manager.all_steps():
                return manager, wanted
        raise ConfigError(
            f"checkpoint {which!r}: this run does not hold it; it holds "
            f"{', '.join(map(str, self.kept)) or 'none'}, 'last' and 'best' among them"
        )


def fresh_state(
    config: RunConfig, model: RecurrentPolicy, params: PyTree[Array] | None = None
) -> RunState:
    """The state before the first update.

    Args:
        config: its seed and its optimiser.
        model: the policy.
        params: where to start; None: the model's own.
    """
    train = init_state(model, config.update.optimizer)
    if params is not None:
        train = train._replace(params=jax.tree.map(jnp.copy, params))
    key = jax.random.fold_in(jax.random.key(config.seed), RUN_STREAM)
    return RunState(train, key, Progress())


class LoadedPolicy(NamedTuple):
    """A trained policy, ready to play."""

    config: RunConfig
    model: RecurrentPolicy
    params: PyTree[Array]
    update: int


def load_policy(run: Path, which: str = "best") -> LoadedPolicy:
    """The policy of a run.

    Args:
        run: the run's folder.
        which: `"best"`, `"last"` or the number of an update.

    Raises:
        ConfigError: no such run or checkpoint.
    """
    config = read_config(run)
    if which not in ("best", "last") and not which.isdecimal():
        raise ConfigError(
            f"checkpoint {which!r}: it must be 'best', 'last' or the number of an update"
        )
    model = new_model(config.policy)
    with Checkpoints(run) as checkpoints:
        number = int(which) if which.isdecimal() else which
        state = checkpoints.restore(fresh_state(config, model), number)
    return LoadedPolicy(config, model, state.train.params, state.progress.update)


def new_model(config: RecurrentConfig, seed: int = 0) -> RecurrentPolicy:
    """The policy's architecture with first weights."""
    return RecurrentPolicy(config, rngs=nnx.Rngs(seed))


def read_config(run: Path) -> RunConfig:
    """The config of a run's folder.

    Raises:
        ConfigError: the folder holds no run, or its config is damaged.
    """
    path = run / CONFIG
    try:
        tree: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(
            f"{run}: found no {CONFIG} there; give the folder that training.train wrote with --out"
        ) from None
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"{path}: found damaged JSON ({error}); restore it or start anew"
        ) from None
    return config_of(tree, where=str(path))


def read_result(run: Path) -> dict[str, Any] | None:
    """What a finished run found; None: it is not finished.

    Raises:
        ConfigError: the file is damaged.
    """
    path = run / RESULT
    try:
        result = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}: found damaged JSON ({error}); move it away") from None
    if not isinstance(result.get("test"), dict) or "best_update" not in result:
        raise ConfigError(f"{path}: found no result of a run in it; move it away")
    return result


def write_json(path: Path, value: Any) -> None:
    """Writes a small JSON file, aside first, so that it is whole or not there."""
    with open_output(path) as out:
        out.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


@contextmanager
def damage_told(folder: Path) -> Generator[None]:
    """Turns whatever Orbax says about a damaged folder into one error that says what to do.

    Raises:
        ConfigError: the block raised something else.
    """
    try:
        yield
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(
            f"{folder}: found a damaged checkpoint ({printable(first)}); restore this folder, or "
            "remove it: what came before it is used, or made anew"
        ) from error


def uncommitted(arrays: PyTree[Array]) -> PyTree[Array]:
    """The same arrays, bound to no device, as computed ones are: what is compiled stays in use."""
    return jax.tree.map(jnp.asarray, jax.device_get(arrays))


def _manager(folder: Path, *, keep: int) -> ocp.CheckpointManager:
    options = ocp.CheckpointManagerOptions(
        max_to_keep=keep, create=True, enable_async_checkpointing=False
    )
    return ocp.CheckpointManager(folder, options=options)


def _save(manager: ocp.CheckpointManager, state: RunState) -> None:
    update = state.progress.update
    if update in manager.all_steps():
        return
    manager.save(
        update,
        args=ocp.args.Composite(
            state=ocp.args.StandardSave(_arrays(state)),
            progress=ocp.args.JsonSave(msgspec.to_builtins(state.progress)),
        ),
    )


def _arrays(state: RunState) -> dict[str, Any]:
    return {"train": state.train, "key": jax.random.key_data(state.key)}
