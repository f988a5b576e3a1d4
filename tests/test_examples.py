"""The examples of `depgpo_jax` in other people's loops."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import depgpo_jax as dg
from depgpo_jax.traces import Command, Step, Trace, Write

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture(scope="module")
def scan_loop() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scan_loop", EXAMPLES / "scan_loop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["scan_loop"] = module  # where a NamedTuple looks for its annotations
    spec.loader.exec_module(module)
    return module


def output(name: str, *arguments: str) -> str:
    """Of the program, which may not even warn."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_scan_loop_learns():
    lines = output("scan_loop.py").splitlines()
    shares = [float(line.split()[1]) for line in lines]
    assert len(shares) == 5
    assert shares[0] < 0.3
    assert shares[-1] > 0.8


def test_without_weights_it_is_the_group_advantage(scan_loop: Any):
    settings = scan_loop.Settings(credit="group", groups=2, group_size=4)
    played = scan_loop.play(jnp.zeros((6, len(scan_loop.ACTIONS))), jax.random.key(0), 8)
    played = played._replace(reward=jnp.array([1, 0, 0, 0, 1, 1, 0, 0], jnp.float32))
    plain = scan_loop.token_advantages(played, settings)
    weighted = jax.jit(scan_loop.token_advantages, static_argnums=1)(
        played, settings._replace(credit="depgpo")
    )
    np.testing.assert_allclose(weighted.mean(axis=1), plain.mean(axis=1), atol=1e-6)
    assert (jnp.sign(weighted) * jnp.sign(plain) >= 0).all()


def test_its_dense_tensors_are_those_of_a_trace(scan_loop: Any):
    """Credits of random rollouts, filled in by hand there and replayed from a trace here."""
    logits = jnp.zeros((6, len(scan_loop.ACTIONS)))
    actions = np.asarray(scan_loop.play(logits, jax.random.key(1), 200).action)
    traces = [trace_of(scan_loop.ACTIONS, number, row) for number, row in enumerate(actions)]
    batch = dg.batch_traces(traces)
    config = dg.CreditConfig(relevance="slice")
    from_traces = dg.unpad(batch, dg.dependency_credit(batch, config))
    rollouts = jax.vmap(scan_loop.dense_rollout)(jnp.asarray(actions))
    dense = jax.jit(jax.vmap(lambda rollout: dg.rollout_credit(rollout, config)))(rollouts)
    assert (np.asarray(dense.command_credit) > 0).any(axis=1).mean() > 0.5
    for row, known in enumerate(from_traces):
        np.testing.assert_allclose(dense.command_credit[row], known.command_credit, atol=1e-6)
        np.testing.assert_allclose(dense.token_weight[row], known.token_weight, atol=1e-5)


def trace_of(actions: np.ndarray, number: int, row: np.ndarray) -> Trace:
    steps = [
        Step(
            loss_tokens=1,
            commands=[
                Command(
                    reads=[f"/{source}"] if acts else [],
                    writes=[Write(resource=f"/{target}", whole=True)] if acts else [],
                )
            ],
        )
        for acts, source, target, _ in actions[row].tolist()
    ]
    return Trace(
        version=1,
        trace_id=str(number),
        group_id="all",
        reward=0.0,
        verifier=["/3"],
        steps=steps,
    )


def test_four_devices_do_what_one_does():
    said = output("shard_map_loop.py")
    assert "8 rollouts on 4 devices" in said
    moved = re.search(r"moves logits by up to ([\d.]+)", said)
    differ = re.search(r"differ by (\S+)", said)
    assert moved is not None
    assert differ is not None
    assert float(moved[1]) > 0.01
    assert float(differ[1]) < 1e-6
