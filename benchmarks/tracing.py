"""What tracing costs: each workload in a terminal with and without a tracer, in turn, in one run.

A terminal's processes are either free to run where the kernel puts them, or kept on one core
together with their tracer, which makes each stop cheaper. This process, which parses and records,
is never kept with them: its own threads go back to all cores once the terminal has started.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.timing import Spread, ratio, spread
from benchmarks.tracing_workloads import Workload
from depgpo_jax.tracer.recorder import Recorder
from depgpo_jax.tracer.session import TracedTerminal
from depgpo_jax.tracer.strace_log import Parser
from depgpo_jax.tracer.terminal import CommandRecord, Terminal, TerminalConfig

FREE, PINNED = "free", "one core"
PLACES: tuple[str, ...] = (FREE, PINNED)
PLAIN, TRACED = "untraced", "traced"
SHORT = "/bin/true"
ENVIRONMENT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"}


class WorkloadError(Exception):
    """A command of a workload failed, so that its time means nothing."""


@dataclass(frozen=True)
class Tracing:
    """One workload; dictionaries go by place, `seconds` by place and then with or without tracer.

    Attributes:
        ratios: traced over untraced, in the same place, from the text to its record.
        waiting: the same without what this process does after the text has ended.
        parsing: share of the traced time that this process spends on lines of the log.
        recording: the same, on looking at files and comparing them.
        against_free: traced on one core over untraced where the kernel likes.
        log_bytes: of one traced run.
        records: reads and writes of one traced run, so that an empty record is noticed.
    """

    name: str
    at_most: float
    aim: float
    seconds: dict[str, dict[str, Spread]]
    ratios: dict[str, Spread]
    waiting: dict[str, Spread]
    parsing: dict[str, Spread]
    recording: dict[str, Spread]
    against_free: Spread
    log_bytes: int
    records: int


@dataclass(frozen=True)
class ShortCommands:
    """Seconds of a command that does nothing: by files in the folder, place, tracer or not."""

    seconds: dict[str, dict[str, dict[str, Spread]]]


@dataclass
class _Cost:
    """Processor time of this process for the traced texts since it was last set to nothing."""

    parsing: float = 0.0
    recording: float = 0.0
    log_bytes: int = 0


@dataclass
class _Contestant:
    session: Terminal | TracedTerminal
    texts: list[str] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    costs: list[_Cost] = field(default_factory=list)

    def run(self, text: str) -> CommandRecord:
        """Runs a text that has to go well."""
        self.texts.append(text)
        ended = self.session.run(text)
        if ended.exit_code != 0:
            said = ended.output.decode("utf-8", "replace").strip().splitlines()
            raise WorkloadError(
                f"{text[:60]!r}: found exit code {ended.exit_code}, {said[-1:] or ended.failure}; "
                "allowed: 0. Install what it needs, such as gcc or git."
            )
        return ended

    def timed(self, text: str, cost: _Cost) -> None:
        """Runs a text and keeps what it took."""
        cost.parsing, cost.recording, cost.log_bytes = 0.0, 0.0, 0
        start = time.perf_counter()
        ended = self.run(text)
        self.samples.append(time.perf_counter() - start)
        self.waits.append(ended.ended - ended.started)
        self.costs.append(replace(cost))

    def share(self, of: Callable[[_Cost], float]) -> Spread:
        """A part of the cost over the time that passed."""
        return spread(
            [of(cost) / passed for cost, passed in zip(self.costs, self.samples, strict=True)]
        )


def measure(workload: Workload, *, rounds: int) -> Tracing:
    """Times one workload in all four ways, which take turns; every other round in reverse."""
    with ExitStack() as stack:
        cost = stack.enter_context(_watched())
        contestants = _contestants(stack)
        # Once each beforehand: what is read for the first time comes from the disk.
        for number in range(rounds + 1):
            for contestant in _in_turn(contestants, number):
                contestant.run(f"cd .. && rm -rf work && mkdir work && cd work\n{workload.prepare}")
                if number:
                    contestant.timed(workload.text, cost)
                else:
                    contestant.run(workload.text)
        plain, traced = ({p: contestants[p, kind] for p in PLACES} for kind in (PLAIN, TRACED))
        records = _records(traced[FREE])
    return Tracing(
        workload.name,
        workload.at_most,
        workload.aim,
        _seconds(contestants),
        {p: ratio(traced[p].samples, plain[p].samples) for p in PLACES},
        {p: ratio(traced[p].waits, plain[p].waits) for p in PLACES},
        {p: traced[p].share(lambda cost: cost.parsing) for p in PLACES},
        {p: traced[p].share(lambda cost: cost.recording) for p in PLACES},
        ratio(traced[PINNED].samples, plain[FREE].samples),
        traced[FREE].costs[-1].log_bytes,
        records,
    )


def measure_short(*, files: Sequence[int], rounds: int, commands: int) -> ShortCommands:
    """Times commands that do nothing, in folders with nothing and with many files."""
    found: dict[str, dict[str, dict[str, Spread]]] = {}
    for count in files:
        with ExitStack() as stack:
            contestants = _contestants(stack)
            for contestant in contestants.values():
                contestant.run(f"for i in $(seq {count}); do echo $i > $i; done")
            for number in range(rounds + 1):
                for contestant in _in_turn(contestants, number):
                    start = time.perf_counter()
                    for _ in range(commands):
                        contestant.run(SHORT)
                    if number:
                        contestant.samples.append((time.perf_counter() - start) / commands)
        found[f"{count:,} files"] = _seconds(contestants)
    return ShortCommands(found)


_Contestants = dict[tuple[str, str], _Contestant]


def _in_turn(contestants: _Contestants, number: int) -> list[_Contestant]:
    order = list(contestants.values())
    return order if number % 2 else order[::-1]


def _seconds(contestants: _Contestants) -> dict[str, dict[str, Spread]]:
    return {
        place: {kind: spread(contestants[place, kind].samples) for kind in (PLAIN, TRACED)}
        for place in PLACES
    }


def _records(contestant: _Contestant) -> int:
    """Reads and writes in the record of the last text."""
    assert isinstance(contestant.session, TracedTerminal)
    last = contestant.session.commands(contestant.texts)[-1]
    return len(last.reads) + len(last.writes)


def _contestants(stack: ExitStack) -> _Contestants:
    """A session for each place, with and without a tracer, each in a folder of its own."""
    found: _Contestants = {}
    config = TerminalConfig(time_limit_s=600.0)
    # In memory, as a sandbox's files are: a disk's own pace would hide the tracer's.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    for place in PLACES:
        for kind in (PLAIN, TRACED):
            folder = tempfile.TemporaryDirectory(prefix="depgpo-bench-", dir=memory)
            top = Path(stack.enter_context(folder))
            (top / "work").mkdir()
            environment = {**os.environ, **ENVIRONMENT, "HOME": str(top)}
            with _placed(place):
                session = (
                    Terminal(list, config, environment=environment)
                    if kind == PLAIN
                    else TracedTerminal(
                        [os.fsencode(top)], config=config, environment=environment, core=None
                    )
                )
                found[place, kind] = _Contestant(stack.enter_context(session))
            found[place, kind].run(f"cd {top}/work")
    return found


@contextmanager
def _watched() -> Generator[_Cost]:
    """Sums up the processor time of parsing and recording, in whichever thread, in the block."""
    cost = _Cost()
    feed = Parser.feed

    def timed_feed(parser: Parser, chunk: bytes) -> object:
        cost.log_bytes += len(chunk)
        start = time.thread_time()
        try:
            return feed(parser, chunk)
        finally:
            cost.parsing += time.thread_time() - start

    def without_parsing(call: Callable[..., object]) -> Callable[..., object]:
        def timed(*arguments: object) -> object:
            start, parsed = time.thread_time(), cost.parsing
            try:
                return call(*arguments)
            finally:
                cost.recording += time.thread_time() - start - (cost.parsing - parsed)

        return timed

    kept = {(Parser, "feed"): feed}
    kept |= {(Recorder, name): getattr(Recorder, name) for name in ("feed", "finish", "settle")}
    try:
        for (owner, name), call in kept.items():
            setattr(owner, name, timed_feed if owner is Parser else without_parsing(call))
        yield cost
    finally:
        for (owner, name), call in kept.items():
            setattr(owner, name, call)


@contextmanager
def _placed(place: str) -> Generator[None]:
    """What is started in the block stays on one core if the place says so; this process does not.

    Affinity belongs to a thread and is inherited, also by the thread that reads the tracer's lines.
    """
    if place != PINNED or not hasattr(os, "sched_setaffinity"):
        yield
        return
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(everywhere)})
    try:
        yield
    finally:
        for thread in Path("/proc/self/task").iterdir():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), everywhere)
