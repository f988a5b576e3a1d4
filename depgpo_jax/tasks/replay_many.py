"""Many trajectories, replayed in two passes: one finds out what there is, one runs it.

The first one shows bad trajectories, repeated ids and unknown tasks before anything runs, and needs
little memory: the second one reads each trajectory again when its turn comes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from depgpo_jax.errors import DepgpoError, TraceError, printable
from depgpo_jax.tasks.catalogue import Catalogue
from depgpo_jax.tasks.replay import ReplayConfig
from depgpo_jax.tasks.replay_pool import Job, run_jobs
from depgpo_jax.tasks.replay_store import ReplayStore
from depgpo_jax.trajectories import Found, ToolNames, read_file

Files = Sequence[tuple[Path, str]]
"""As `find_files` gives them."""


class Item(NamedTuple):
    """A trajectory in the first pass.

    Attributes:
        source: where it is.
        trace_id: its id; None: it is bad.
        task: its task's directory.
        content: a digest of its bytes.
        digest: of these and of its task.
        problem: why it is bad.
    """

    source: str
    trace_id: str | None
    task: str
    content: str
    digest: str
    problem: str

    def is_done(self, store: ReplayStore) -> bool:
        """Whether a store has its replay, of this very trajectory and task."""
        kept = None if self.trace_id is None else store.kept.get(self.trace_id)
        return kept is not None and kept.digest == self.digest


class Batch:
    """Many trajectories; making one is the first pass, `run` the second.

    Args:
        files: where they are.
        tools: what their tools are called.
        catalogue: the tasks.
    """

    def __init__(self, files: Files, tools: ToolNames, catalogue: Catalogue) -> None:
        self._files = files
        self._tools = tools
        self.items: list[Item] = []
        first: dict[str, str] = {}
        for found in self._found():
            try:
                self.items.append(_item(found, catalogue, first))
            except (DepgpoError, OSError) as error:
                self.items.append(Item(found.source, None, "", found.digest, "", str(error)))

    def _found(self) -> Iterator[Found]:
        for path, stem in self._files:
            yield from read_file(path, stem, self._tools)

    def run(
        self,
        config: ReplayConfig,
        workers: int,
        store: ReplayStore,
        step_done: Callable[[], object],
    ) -> dict[int, str]:
        """Replays what the store does not have yet, and keeps it there.

        Args:
            config: time limits.
            workers: how many run at a time.
            store: what is finished.
            step_done: called for each good trajectory, also one that was finished before.

        Returns:
            What failed, by the number of its item, and why.

        Raises:
            TraceError: a file is another one than in the first pass.
        """
        failed = {n: item.problem for n, item in enumerate(self.items) if item.trace_id is None}
        for item in self.items:
            if item.is_done(store):
                step_done()
        with closing(run_jobs(self._jobs(store), workers, config)) as outcomes:
            for outcome in outcomes:
                item = self.items[outcome.number]
                if outcome.done is None:
                    failed[outcome.number] = outcome.problem
                else:
                    trace, verdict = outcome.done
                    store.add(str(item.trace_id), item.digest, verdict, trace)
                step_done()
        return failed

    def _jobs(self, store: ReplayStore) -> Iterator[Job]:
        """Reads trajectories again, one by one, so that not all of them are held at a time."""
        if all(item.trace_id is None or item.is_done(store) for item in self.items):
            return
        for number, found in enumerate(self._found()):
            item = self.items[number] if number < len(self.items) else None
            if item is None or (item.source, item.content) != (found.source, found.digest):
                raise TraceError(
                    "something else than a moment ago",
                    "files that stay as they are while they are replayed",
                    "Run the command again: it goes on where this one ended.",
                    file=found.source,
                )
            if item.trace_id is None or found.trajectory is None or item.is_done(store):
                continue
            yield Job(number, item.task, found.trajectory)


def _item(found: Found, catalogue: Catalogue, first: dict[str, str]) -> Item:
    if found.trajectory is None:
        return Item(found.source, None, "", found.digest, "", str(found.error))
    name = found.trajectory.trajectory_id
    if name in first:
        raise TraceError(
            f"the id '{printable(name)}' again, that of {printable(first[name])}",
            "one trajectory of an id",
            "Give it another one, or leave the copy out.",
            file=found.source,
        )
    place = catalogue.find(found.trajectory.task, found.folder, found.source)
    first[name] = found.source
    digest = hashlib.sha256(f"{found.digest} {place.digest}".encode()).hexdigest()
    return Item(found.source, name, place.directory, found.digest, digest, "")
