"""What a run found, and what it is held against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.compiled import FirstCall, Temporaries
from benchmarks.host_path import ALL, HostResult
from benchmarks.kernels import KernelResult
from benchmarks.machine import Machine

MB = 1e6
TIMES_FASTER_THAN_PYTHON = 5.0
AT_SHAPES = ("1024x128", "256x128")
TEMPORARY_MB = 100.0
COMMANDS_PER_SECOND = 100_000.0


@dataclass
class Results:
    """One run; a section that was not asked for is empty."""

    machine: Machine
    quick: bool
    """Tiny shapes: that it works is seen, but nothing is held against a bound."""
    kernels: list[KernelResult] = field(default_factory=list)
    temporaries: list[Temporaries] = field(default_factory=list)
    first_calls: list[FirstCall] = field(default_factory=list)
    host_path: list[HostResult] = field(default_factory=list)

    def add(self, result: KernelResult | Temporaries | FirstCall | HostResult) -> None:
        match result:
            case KernelResult():
                self.kernels.append(result)
            case Temporaries():
                self.temporaries.append(result)
            case FirstCall():
                self.first_calls.append(result)
            case HostResult():
                self.host_path.append(result)


@dataclass(frozen=True)
class Requirement:
    """A bound that a full run must keep; aims are not here."""

    what: str
    bound: str
    found: str
    passed: bool


def requirements(results: Results) -> list[Requirement]:
    """The bounds on whatever was measured."""
    return [] if results.quick else list(_requirements(results))


def _requirements(results: Results) -> Iterator[Requirement]:
    for kernel in results.kernels:
        if kernel.shape in AT_SHAPES and kernel.rule == "paper":
            times = kernel.times_faster_than_python.median
            yield Requirement(
                f"times faster than plain Python, {kernel.shape}",
                f">= {TIMES_FASTER_THAN_PYTHON:g}",
                f"{times:.1f}",
                times >= TIMES_FASTER_THAN_PYTHON,
            )
    for memory in results.temporaries:
        used = memory.temporary_bytes / MB
        yield Requirement(
            f"temporaries in MB, {memory.shape}",
            f"<= {TEMPORARY_MB:g}",
            f"{used:.1f}",
            used <= TEMPORARY_MB,
        )
    for host in results.host_path:
        rate = host.commands_per_second[ALL].median
        yield Requirement(
            f"commands a second from JSON bytes to TraceBatch, {host.shape}",
            f">= {COMMANDS_PER_SECOND:,.0f}",
            f"{rate:,.0f}",
            rate >= COMMANDS_PER_SECOND,
        )
