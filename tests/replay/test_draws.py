"""What was drawn at once is fetched in parts, as one sample would have been."""

from typing import Any

import numpy as np
import pytest

from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.replay.transitions import TransitionReplay

SPEC = EnvSpec((2, 3), "uint8", 4, 6)


def steps_of(number: int) -> Trajectory:
    """Return eight steps of three environments, in which some episodes end."""
    random = np.random.default_rng(number)
    shape = 8, 3
    starts = random.random((12, 3)) < 0.2
    starts[3] = True
    return Trajectory(
        observations=random.integers(255, size=(12, 3, 2, 3), dtype=np.uint8),
        starts=starts,
        actions=random.integers(6, size=shape, dtype=np.int32),
        rewards=random.normal(size=shape).astype(np.float32),
        terminated=random.random(shape) < 0.1,
        truncated=np.zeros(shape, np.bool_),
        valid=random.random(shape) < 0.9,
        log_probs=random.normal(size=shape).astype(np.float32),
    )


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("alpha", [None, 0.6], ids=["uniform", "prioritized"])
def test_a_draw_is_fetched_in_parts(n_step: int, alpha: float | None) -> None:
    """It takes the random numbers of a sample."""
    given: Any = (SPEC, 90, 3, 8, 5, n_step, 0.9, None, alpha, True)
    whole, parts = (TransitionReplay(*given) for _ in range(2))
    for replay in (whole, parts):
        for number in range(6):
            replay.insert(steps_of(number))
    expected, drawn = whole.sample(12, 5), parts.draw(12, 5)
    assert np.array_equal(whole.arrays()["random"], parts.arrays()["random"])
    orders = np.arange(60), np.random.default_rng(1).permutation(60)
    for order in (each.reshape(12, 5) for each in orders):
        found = [parts.fetch(drawn, order[k : k + 5]) for k in (0, 5, 10)]
        for name, value in expected._asdict().items():
            if value is None:
                continue
            joined = np.concatenate([getattr(each, name) for each in found])
            flat = value.reshape(60, *value.shape[2:])
            np.testing.assert_array_equal(joined, flat[order], err_msg=name)
