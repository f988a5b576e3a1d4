"""What the step-level peers refuse, as users have them, and what jit may trace in them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import depgpo_jax as dg
from depgpo_jax.errors import ConfigError, ShapeError

REWARD, GROUP = jnp.array([1.0, 0.0]), jnp.array([0, 0])
STATE, IS_STEP = jnp.array([[0, 1, 2], [0, 1, 3]]), jnp.ones((2, 3), bool)
ARRAYS = {"reward": REWARD, "group": GROUP, "is_step": IS_STEP}
METHODS: dict[str, Callable[..., jax.Array]] = {
    "gigpo_advantages": partial(dg.gigpo_advantages, **ARRAYS, state=STATE),
    "graph_gpo_advantages": partial(
        dg.graph_gpo_advantages, **ARRAYS, state=STATE, success=REWARD > 0
    ),
    "mt_grpo_advantages": partial(
        dg.mt_grpo_advantages, **ARRAYS, step_reward=STATE[:, ::-1] * 1.0
    ),
}
NUMBERS = [
    ("gigpo_advantages", "gamma", 0.5),
    ("gigpo_advantages", "step_weight", 2.0),
    ("graph_gpo_advantages", "omega", 0.5),
    ("graph_gpo_advantages", "success_reward", 4.0),
    ("graph_gpo_advantages", "step_weight", 2.0),
    ("graph_gpo_advantages", "episode_weight", 2.0),
    ("mt_grpo_advantages", "turn_weight", 2.0),
    ("mt_grpo_advantages", "outcome_weight", 2.0),
]


@pytest.mark.parametrize(
    ("method", "option"),
    [
        *((method, option) for method in METHODS for option in ("singleton", "equal")),
        ("gigpo_advantages", "anchor_singleton"),
        ("gigpo_advantages", "anchor_equal"),
        ("mt_grpo_advantages", "turn_singleton"),
        ("mt_grpo_advantages", "turn_equal"),
    ],
)
def test_a_word_is_refused_under_its_own_name(method: str, option: str, unchecked: None):
    with pytest.raises(ConfigError) as error:
        METHODS[method](**{option: "q"})
    assert str(error.value) == f"{method}: {option} is 'q'; it must be one of 'zero', 'reward'"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [2, None, "1", 1.0])
def test_a_ddof_is_refused_with_the_method(method: str, value: object, unchecked: None):
    with pytest.raises(ConfigError) as error:
        METHODS[method](ddof=value)
    assert str(error.value) == (
        f"{method}: ddof is {value!r}; it must be 0 (divide by G) or 1 (divide by G - 1)"
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), None, "1", True])
def test_an_eps_is_refused_with_the_method(method: str, value: object, unchecked: None):
    with pytest.raises(ConfigError) as error:
        METHODS[method](eps=value)
    assert str(error.value) == (
        f"{method}: eps is {value!r}; it must be a finite number >= 0, such as 1e-6"
    )


@pytest.mark.parametrize(("method", "option", "_"), NUMBERS)
@pytest.mark.parametrize("value", [None, "a", True, 1j, [0.5], np.zeros(2), jnp.array(True)])
def test_what_is_no_number_is_refused(
    method: str, option: str, _: float, value: object, unchecked: None
):
    with pytest.raises(ConfigError) as error:
        METHODS[method](**{option: value})
    assert str(error.value).startswith(
        f"{method}: {option} is {value!r}; it must be a number from "
    )


@pytest.mark.parametrize(("method", "option", "value"), NUMBERS)
def test_a_number_may_be_traced(method: str, option: str, value: float):
    def run(number: Any) -> jax.Array:
        return METHODS[method](**{option: number}, normalise="mean")

    plain = run(value)
    np.testing.assert_allclose(jax.jit(run)(value), plain, rtol=1e-6)
    sweep = jax.jit(jax.vmap(run))(jnp.array([value, 0.25]))
    np.testing.assert_allclose(sweep[0], plain, rtol=1e-6)
    assert not np.allclose(sweep[0], sweep[1])


def test_a_traced_array_is_no_number(unchecked: None):
    with pytest.raises(ConfigError, match=r"gigpo_advantages: gamma is .*\[2\].*; it must be"):
        jax.jit(lambda gamma: METHODS["gigpo_advantages"](gamma=gamma))(jnp.zeros(2))


def test_a_number_of_numpy_or_an_array_without_axes_is_a_number(unchecked: None):
    gigpo = METHODS["gigpo_advantages"]
    for gamma in (np.float32(0.5), np.array(0.5), jnp.array(0.5)):
        np.testing.assert_array_equal(gigpo(gamma=gamma), gigpo(gamma=0.5))


@pytest.mark.parametrize(
    ("method", "arrays", "message"),
    [
        (
            "gigpo_advantages",
            {"state": [[0]]},
            "a value of type list for state; allowed: an array of whole num",
        ),
        (
            "gigpo_advantages",
            {"reward": [1.0]},
            "a value of type list for reward; allowed: an array of numbers",
        ),
        (
            "gigpo_advantages",
            {"reward": None},
            "a value of type NoneType for reward; allowed: an array of numb",
        ),
        ("gigpo_advantages", {"state": STATE * 1.0}, "an array of float32 for state; allowed: an"),
        ("gigpo_advantages", {"group": REWARD}, "an array of float32 for group; allowed: an arra"),
        ("gigpo_advantages", {"is_step": STATE}, "an array of int32 for is_step; allowed: an arr"),
        (
            "gigpo_advantages",
            {"step_reward": 1.0},
            "a value of type float for step_reward; allowed: an array ",
        ),
        ("graph_gpo_advantages", {"success": GROUP}, "an array of int32 for success; allowed: an"),
        ("graph_gpo_advantages", {"final_state": REWARD}, "an array of float32 for final_state; "),
        ("mt_grpo_advantages", {"step_reward": STATE * 1j}, "an array of complex64 for step_rew"),
    ],
)
def test_what_is_no_such_array_is_refused(
    method: str, arrays: dict[str, Any], message: str, unchecked: None
):
    with pytest.raises(ShapeError) as error:
        METHODS[method](**arrays)
    assert str(error.value).startswith(f"{method}: found {message}")
    assert str(error.value).endswith(". Make one with jax.numpy.asarray(..., dtype=...)")
