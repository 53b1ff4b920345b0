"""Observations that hardly vary are normalized to finite numbers."""

import numpy as np
import pytest

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.moments import CLIP_RANGE, STD_EPSILON, Moments
from xagents_ray.core.spec import EnvSpec
from xagents_ray.learners.normalizer import Normalizer


@pytest.mark.parametrize("variance", [0.0, STD_EPSILON, 3 * STD_EPSILON])
def test_a_small_variance_has_a_floor(variance: float) -> None:
    row, spec = find_algorithm("ppo"), EnvSpec((2,), "float32", 1, 2)
    config = row.config(normalize_observations=True)
    normalizer = Normalizer(config, spec)
    mean, other = np.array([5.0, 1.0]), 2.0
    assert not normalizer.has_seen("observation")
    moments = Moments(1e12, mean, np.array([variance, other]))
    normalizer.take({"observation": moments})
    assert normalizer.has_seen("observation")
    layout = row.layouts(config, spec)[0]
    small = 1e-4
    given = np.array([[5.0, 1.0], [5.0 + small, 2.0], [9.0, -9.0]], np.float32)
    got = normalizer.inputs(layout, given)
    rest = (given - mean) / np.sqrt(np.array([variance, other]) + STD_EPSILON)
    np.testing.assert_allclose(got, np.clip(rest, -CLIP_RANGE, CLIP_RANGE), rtol=1e-4)
    assert abs(got[2, 0]) == CLIP_RANGE
