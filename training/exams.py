"""A run's examinations: validation prompts again and again, test prompts once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from jaxtyping import Array, PyTree

from training.checkpoints import new_model
from training.config import RecurrentConfig
from training.environments.prompts import Split
from training.evaluation import Evaluation, Evaluator, summary
from training.players import Player, learned
from training.run_config import ExamConfig, RunConfig, preset_of

VALIDATION_SEED: Final = 1
TEST_SEED: Final = 2
"""Of the tasks and their files. No run's own: all runs of a world meet the same ones."""


class Exams:
    """Examines the policies of a run."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config

    def validate(self, params: PyTree[Array]) -> dict[str, Any]:
        """Success on validation prompts.

        Args:
            params: of the policy.

        Returns:
            `success` and `num_steps`, means over all rollouts, and `family`, success of each.
        """
        found = summary(self._examine(Split.VALIDATION, params), ks=())
        return {
            "success": found["success"],
            "num_steps": found["num_steps"],
            "family": {name: part["success"] for name, part in found["family"].items()},
        }

    def test(self, params: PyTree[Array]) -> dict[str, Any]:
        """Success on held-out test prompts, as `training.evaluation.summary` gives it.

        Args:
            params: of the chosen policy.

        Returns:
            pass@1 and pass@n with intervals, in all and by family.
        """
        ks = sorted({1, self._config.exam.samples})
        return summary(self._examine(Split.TEST, params), ks)

    def _examine(self, split: Split, params: PyTree[Array]) -> Evaluation:
        config = self._config
        evaluator, player = _examiner(config.regime, config.size, config.policy, config.exam, split)
        return evaluator(player._replace(name=config.method, params=params))


@lru_cache(maxsize=8)
def _examiner(
    regime: str, size: str, policy: RecurrentConfig, exam: ExamConfig, split: Split
) -> tuple[Evaluator, Player]:
    """Compiled once for all runs of a world."""
    world, world_params, _ = preset_of(regime, size, split)
    testing = split == Split.TEST
    evaluator = Evaluator(
        world,
        world_params,
        seed=TEST_SEED if testing else VALIDATION_SEED,
        prompts=exam.test_prompts if testing else exam.prompts,
        samples=exam.samples,
        batch=exam.batch,
    )
    return evaluator, learned("", world, new_model(policy), None)
