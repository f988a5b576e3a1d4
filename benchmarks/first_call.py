"""A process of its own that prints how long the first `dependency_credit` of a shape took.

    python -m benchmarks.first_call ROLLOUTS COMMANDS STEPS SEGMENTS RESOURCES

The batch holds no rollout, so what is timed is tracing, lowering, and compiling or loading.
"""

from __future__ import annotations

import sys
import time

import jax

from depgpo_jax import BatchShape, batch_traces, dependency_credit


def main() -> None:
    batch = jax.block_until_ready(batch_traces([], shape=BatchShape(*map(int, sys.argv[1:]))))
    start = time.perf_counter()
    jax.block_until_ready(dependency_credit(batch))
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
