"""What compiling costs: the executable's temporaries, and the first call of a new process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.inputs import inputs
from benchmarks.kernels import own_jit
from benchmarks.timing import Spread, spread
from depgpo_jax import TraceBatch

ROOT = Path(__file__).resolve().parent.parent
FULL = ((1024, 128), (256, 512))
QUICK = ((6, 16),)


@dataclass(frozen=True)
class Temporaries:
    """Bytes of the compiled kernel inside a user's own `jit`, as XLA counts them."""

    shape: str
    temporary_bytes: int
    argument_bytes: int
    output_bytes: int


@dataclass(frozen=True)
class FirstCall:
    """Seconds of the first call in a new process, one core."""

    shape: str
    cold: float
    """With an empty cache."""
    cached: Spread
    """With what the cold process left in the persistent cache."""


def temporaries(B: int, N: int) -> Temporaries:
    sizes = own_jit("paper").lower(inputs(B, N).batch).compile().memory_analysis()
    assert sizes is not None, "XLA counts memory on every backend of the benchmarks"
    return Temporaries(
        shape=f"{B}x{N}",
        temporary_bytes=sizes.temp_size_in_bytes,
        argument_bytes=sizes.argument_size_in_bytes,
        output_bytes=sizes.output_size_in_bytes,
    )


def first_call(B: int, N: int, *, cached_starts: int) -> FirstCall:
    sizes = _sizes(inputs(B, N).batch)
    with tempfile.TemporaryDirectory() as cache:
        cold = _in_new_process(sizes, cache)
        cached = [_in_new_process(sizes, cache) for _ in range(cached_starts)]
    return FirstCall(f"{B}x{N}", cold, spread(cached))


def _sizes(batch: TraceBatch) -> list[int]:
    """B, N, T, S, R."""
    rollouts, commands = batch.recorded.shape
    per_rollout = (batch.loss_tokens, batch.segment_owner, batch.inspected)
    return [rollouts, commands, *(field.shape[1] for field in per_rollout)]


def _in_new_process(sizes: list[int], cache: str) -> float:
    command = [sys.executable, "-m", "benchmarks.first_call", *map(str, sizes)]
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_ENABLE_COMPILATION_CACHE": "true",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    child = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return float(child.stdout)
