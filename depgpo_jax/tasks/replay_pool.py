"""Replays in worker processes, so that one that goes wrong takes nothing else with it.

A worker that is killed, by the machine's memory for one, costs the trajectory it was at: that one
fails with its reason, and another worker goes on with the next. When this process ends, however it
ends, its workers end too, and with each of them its sandbox.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final, NamedTuple, NoReturn

from depgpo_jax.errors import DepgpoError
from depgpo_jax.tasks.agreement import Verdict
from depgpo_jax.tasks.replay import ReplayConfig, replay
from depgpo_jax.tasks.task import read_task
from depgpo_jax.traces import encode_trace
from depgpo_jax.trajectories.structs import Trajectory

PATIENCE_S: Final = 20.0
"""How long a worker that was asked to end may take to end its sandbox."""

_SPAWN: Final = get_context("spawn")


class Job(NamedTuple):
    """What a worker is given: a number that comes back, and what to replay."""

    number: int
    task: str
    trajectory: Trajectory


class Outcome(NamedTuple):
    """What came of a job.

    Attributes:
        number: the job's.
        done: the trace's JSON, and how far it agrees; None: it failed.
        problem: why.
    """

    number: int
    done: tuple[bytes, Verdict] | None
    problem: str = ""


class _Worker:
    """One process."""

    def __init__(self, config: ReplayConfig) -> None:
        self.pipe, theirs = _SPAWN.Pipe()
        self.process: BaseProcess = _SPAWN.Process(target=_work, args=(theirs, config))
        self.process.start()
        theirs.close()

    def give(self, job: Job) -> None:
        with suppress(OSError):  # it is gone; that shows when its answer is read
            self.pipe.send(job)

    def take(self) -> Outcome | None:
        """The answer that has come; None: the worker is gone."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            return None

    def ask_to_end(self) -> None:
        with suppress(ProcessLookupError, ValueError):
            self.process.terminate()

    def end(self) -> None:
        """Waits for the end that was asked for, and then no longer."""
        self.process.join(PATIENCE_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def run_jobs(
    jobs: Iterator[Job], workers: int, config: ReplayConfig
) -> Generator[Outcome, None, None]:
    """Replays, as they end.

    Args:
        jobs: taken one by one, as workers become free.
        workers: how many run at a time.
        config: time limits.
    """
    idle: list[_Worker] = []
    busy: dict[_Worker, Job] = {}
    try:
        while True:
            while len(busy) < workers and (job := next(jobs, None)) is not None:
                worker = _free(idle, config)
                busy[worker] = job
                worker.give(job)
            if not busy:
                return
            ready = wait([worker.pipe for worker in busy])
            for worker in [worker for worker in busy if worker.pipe in ready]:
                outcome = worker.take()
                if outcome is None:
                    worker.end()
                    outcome = _lost(worker, busy.pop(worker))
                else:
                    del busy[worker]
                    idle.append(worker)
                yield outcome
    finally:
        for worker in (*idle, *busy):
            worker.ask_to_end()
        for worker in (*idle, *busy):
            worker.end()


def _free(idle: list[_Worker], config: ReplayConfig) -> _Worker:
    """A worker that waits for a job, or a new one."""
    while idle:
        worker = idle.pop()
        if worker.process.is_alive():
            return worker
        worker.end()
    return _Worker(config)


def _lost(worker: _Worker, job: Job) -> Outcome:
    """What to say of the job that a worker was at when it ended."""
    code = worker.process.exitcode
    how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    return Outcome(
        job.number,
        None,
        f"{job.trajectory.source}: found that its worker process ended ({how}). Allowed: one that "
        "lives until its trajectory is done. Give it more memory, or lower --jobs.",
    )


def _work(pipe: Connection, config: ReplayConfig) -> None:
    """A worker's life."""
    signal.signal(signal.SIGTERM, _end)
    # Ctrl-C reaches all processes of a terminal: the parent decides. Not ignored, as what a sandbox
    # starts would inherit that.
    signal.signal(signal.SIGINT, lambda *_: None)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            pipe.send(_outcome(pipe.recv(), config))


def _end(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)  # an exception, so that a sandbox is taken down


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE_S)
    os.kill(os.getpid(), signal.SIGKILL)


def _outcome(job: Job, config: ReplayConfig) -> Outcome:
    try:
        done = replay(read_task(job.task), job.trajectory, config)
        line = encode_trace(done.trace)
    except (DepgpoError, OSError) as error:
        return Outcome(job.number, None, f"{job.trajectory.source}: {error}")
    except Exception as error:  # a mistake of this package must not stop the others
        said = f"{job.trajectory.source}: {type(error).__name__}: {error}"
        return Outcome(job.number, None, said)
    return Outcome(job.number, (line, done.agreement.verdict))
