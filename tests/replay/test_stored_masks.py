"""Masks in replays: transitions have those of their next observations."""

from dataclasses import replace

import numpy as np
import pytest

from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.replay.trajectories import TrajectoryReplay
from xagents_ray.replay.transitions import TransitionReplay

SPEC = EnvSpec((1,), "float32", 1, 4, has_action_masks=True)
ROWS, ENVS = 6, 2


def rollout(first: int) -> Trajectory:
    """Return a rollout whose observation p has the mask of p in binary."""
    numbers = np.arange(first, first + ROWS + 1)[:, None] + 100 * np.arange(ENVS)
    flags = np.zeros((ROWS, ENVS), np.bool_)
    return Trajectory(
        observations=numbers[..., None].astype(np.float32),
        starts=np.zeros((ROWS + 1, ENVS), np.bool_),
        actions=np.zeros((ROWS, ENVS), np.int32),
        rewards=np.zeros((ROWS, ENVS), np.float32),
        terminated=flags,
        truncated=flags,
        valid=~flags,
        probabilities=np.ones((ROWS, ENVS, 4), np.float32),
        action_masks=in_binary(numbers),
    )


def in_binary(numbers: np.ndarray) -> np.ndarray:
    return (numbers[..., None] >> np.arange(4)) % 2 == 1


@pytest.mark.parametrize("n_step", [1, 3])
def test_transitions_have_the_masks_of_next_observations(n_step: int) -> None:
    replay = TransitionReplay(SPEC, 40, ENVS, ROWS, 1, n_step=n_step, gamma=0.9)
    for begin in range(5):
        replay.insert(rollout(begin * ROWS))
    drawn = replay.sample(3, 16)
    after = drawn.observations[:, :, -1, 0].astype(int)
    np.testing.assert_array_equal(drawn.action_masks, in_binary(after))


def test_trajectories_keep_all_their_masks() -> None:
    replay = TrajectoryReplay(SPEC, 4, ENVS, ROWS, 1)
    replay.insert(rollout(0))
    drawn = replay.sample(2, 1)
    observed = drawn.observations[..., 0].astype(int)
    np.testing.assert_array_equal(drawn.action_masks, in_binary(observed))


def test_nothing_is_kept_without_masks() -> None:
    spec = replace(SPEC, has_action_masks=False)
    replay = TransitionReplay(spec, 40, ENVS, ROWS, 1, n_step=1, gamma=0.9)
    replay.insert(rollout(0)._replace(action_masks=None))
    assert replay.sample(1, 4).action_masks is None
