"""One core for everything that is timed, and what stands above every table: machine and versions.

Imports neither jax nor numba: both decide about their threads when they are first imported.
"""

from __future__ import annotations

import datetime as dt
import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

ONE_THREAD = {
    "NPROC": "1",  # the width of XLA's own pool, where the affinity cannot say it
    "NUMBA_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
NO_EIGEN_THREADS = "--xla_cpu_multi_thread_eigen=false"
PACKAGES = ("jax", "jaxlib", "numba", "numpy", "msgspec")


@dataclass(frozen=True)
class Machine:
    """Where and with what a run was made."""

    cpu: str
    cores: int
    pinned: bool
    """Whether everything ran on one core; False: only asked of the libraries."""
    load: float
    """Processes that wanted a core in the minute before the run."""
    system: str
    versions: dict[str, str]
    xla_flags: str
    date: str


def pin() -> bool:
    """Keeps this process and its children on one core; call it before jax is imported."""
    os.environ |= ONE_THREAD
    flags = os.environ.get("XLA_FLAGS", "")
    if NO_EIGEN_THREADS not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {NO_EIGEN_THREADS}".strip()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if not hasattr(os, "sched_setaffinity"):
        return False
    try:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    except OSError:
        return False
    return True


def describe(*, pinned: bool) -> Machine:
    """The machine as it is now."""
    versions = {"Python": platform.python_version()}
    versions |= {package: version(package) for package in PACKAGES}
    return Machine(
        cpu=_cpu_model(),
        cores=os.cpu_count() or 1,
        pinned=pinned,
        load=round(os.getloadavg()[0], 2),
        system=f"{platform.system()} {platform.machine()}",
        versions=versions,
        xla_flags=os.environ.get("XLA_FLAGS", ""),
        date=dt.datetime.now(dt.UTC).date().isoformat(),
    )


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
