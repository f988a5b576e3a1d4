"""At a fixed batch the results are the same in every bit on one, two and four devices."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import jax
import numpy as np
import pytest
from jax import shard_map
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from depgpo_jax.batch import BatchShape, TraceBatch
from depgpo_jax.credit import Credit, CreditConfig
from tests.helpers import FAMILIES, assert_bit_identical, random_batch

CONFIG = CreditConfig(relevance="stdout", max_weight=2.0)
ROLLOUTS = PartitionSpec("rollouts")


@cache
def batch_of(rollouts: int) -> TraceBatch:
    shape = BatchShape(rollouts=rollouts, commands=32, steps=64, segments=128, resources=16)
    return random_batch(2001, rollouts - 5, shape=shape)


@cache
def on_one_device(family: str, rollouts: int) -> Credit:
    return jax.device_get(FAMILIES[family](batch_of(rollouts), CONFIG))


# 12 rollouts leave three a device: fewer than a tile, and no power of two.
by_batch = pytest.mark.parametrize(
    ("family", "rollouts"), [("packed", 12), ("packed", 64), ("packed", 256), ("dense", 64)]
)


def mesh_of(devices: int) -> Mesh:
    assert jax.device_count() == 4
    return Mesh(np.array(jax.devices()[:devices]), ("rollouts",))


def credit_by(family: str) -> Callable[[TraceBatch], Credit]:
    return lambda batch: FAMILIES[family](batch, CONFIG)


@pytest.mark.parametrize("devices", [1, 2, 4])
@by_batch
def test_shard_map(family: str, rollouts: int, devices: int):
    mapped = shard_map(
        credit_by(family), mesh=mesh_of(devices), in_specs=ROLLOUTS, out_specs=ROLLOUTS
    )
    found = jax.jit(mapped)(batch_of(rollouts))
    assert len(found.token_weight.sharding.device_set) == devices
    assert_bit_identical(found, on_one_device(family, rollouts), f"{devices} devices,")


@pytest.mark.parametrize("devices", [2, 4])
@by_batch
def test_sharded_input(family: str, rollouts: int, devices: int):
    sharding = NamedSharding(mesh_of(devices), ROLLOUTS)
    batch = jax.device_put(batch_of(rollouts), sharding)
    found = jax.jit(credit_by(family), out_shardings=sharding)(batch)
    assert len(found.token_weight.sharding.device_set) == devices
    assert_bit_identical(found, on_one_device(family, rollouts), f"{devices} devices,")
