"""What the tests of actors share."""

from collections.abc import Iterator

import gymnasium as gym
import pytest


@pytest.fixture(scope="module")
def short_atari() -> Iterator[None]:
    """Register a game that ends after 800 frames."""
    kwargs = dict(gym.spec("SpaceInvadersNoFrameskip-v4").kwargs)
    kwargs["max_num_frames_per_episode"] = 800
    gym.register("ShortInvaders-v0", "ale_py.env:AtariEnv", kwargs=kwargs)
    yield
    del gym.registry["ShortInvaders-v0"]
