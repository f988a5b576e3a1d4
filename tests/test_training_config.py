"""What the objective's config refuses: what is no number, and what its choices do not use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from depgpo_jax.errors import ConfigError
from training.config import ObjectiveConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip_low": "0.2"}, "clip_low is '0.2'; it must be a finite number > 0 and <= 1"),
        ({"clip_low": True}, "clip_low is True; it must be a finite number > 0 and <= 1"),
        ({"clip_high": None}, "clip_high is None; it must be a finite number > 0"),
        ({"dual_clip": "x"}, "dual_clip is 'x'; it must be a finite number > 1"),
        ({"delta": 1j}, "delta is 1j; it must be a finite number >= 0 and <= 1"),
        ({"empty": "x"}, "empty is 'x'; it must be a finite number"),
        (
            {"norm_length": 8},
            "norm_length is 8 with aggregation 'token_mean', which does not use it; leave it at "
            "None, or set aggregation to 'sequence_mean_token_sum_norm'",
        ),
        (
            {"surrogate": "dppo", "clip_low": 0.1},
            "clip_low is 0.1 with surrogate 'dppo', which does not use it; leave it at 0.2, or "
            "set surrogate to 'clip' or 'gspo'",
        ),
        (
            {"surrogate": "dppo", "clip_high": 0.28},
            "clip_high is 0.28 with surrogate 'dppo', which does not use it; leave it at 0.2, or "
            "set surrogate to 'clip' or 'gspo'",
        ),
        (
            {"surrogate": "dppo", "dual_clip": 3.0},
            "dual_clip is 3.0 with surrogate 'dppo', which does not use it; leave it at None, or "
            "set surrogate to 'clip'",
        ),
        (
            {"delta": 0.3},
            "delta is 0.3 with surrogate 'clip', which does not use it; leave it at 0.15, or set "
            "surrogate to 'dppo'",
        ),
    ],
)
def test_refused_objectives(options: dict[str, Any], message: str):
    with pytest.raises(ConfigError) as error:
        ObjectiveConfig(**options)
    assert str(error.value) == f"ObjectiveConfig.{message}"


def test_numbers_of_every_real_type_are_taken():
    config = ObjectiveConfig(clip_low=1, clip_high=np.float32(0.5), empty=np.float64(-1))  # pyright: ignore[reportArgumentType]
    assert (config.clip_low, config.clip_high, config.empty) == (1, 0.5, -1)
