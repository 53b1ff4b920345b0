"""What a user passes as an environment: classes, functions, arguments of them."""

import functools
import inspect
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from xagents_ray.actors.envs.make import check, make_envs, make_one
from xagents_ray.actors.envs.vector import Envs
from xagents_ray.core.errors import UserError
from xagents_ray.settings.training import EnvConfig


class Corridor(gym.Env[Any, Any]):
    """Counts the steps up to a length."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, length: int = 3, render_mode: str | None = None) -> None:
        self.length, self.render_mode, self.at = length, render_mode, 0
        self.observation_space = gym.spaces.Box(0, length, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def observation(self) -> Any:
        return np.array([self.at], np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = 0
        return self.observation(), {}

    def step(self, action: Any) -> Any:
        self.at += 1
        return self.observation(), 1.0, self.at == self.length, False, {}

    def render(self) -> Any:
        return np.zeros((8, 8, 3), np.uint8)


def envs_of(count: int = 2, **settings: Any) -> Envs:
    return make_envs(EnvConfig(**settings), count, 1)


def length_of(envs: Envs) -> int:
    """Return the length of the first environment's first episode."""
    envs.reset(0)
    for step in range(1, 100):
        if envs.step(np.zeros(2, np.int32)).ended[0]:
            envs.close()
            return step
    raise AssertionError


@pytest.mark.parametrize("vectorization", ["auto", "async"])
@pytest.mark.parametrize(
    ("env", "arguments", "length"),
    [
        (Corridor, None, 3),
        (Corridor, {"length": 5}, 5),
        (lambda: Corridor(4), None, 4),
        (lambda length=2: Corridor(length), {"length": 6}, 6),
        (functools.partial(Corridor, length=7), None, 7),
        (functools.partial(gym.make, "CartPole-v1"), {"max_episode_steps": 4}, 4),
        ("CartPole-v1", {"max_episode_steps": 4}, 4),
    ],
)
def test_they_are_made_with_their_arguments(
    env: Any, arguments: Any, length: int, vectorization: str
) -> None:
    envs = envs_of(env=env, env_kwargs=arguments, vectorization=vectorization)
    assert length_of(envs) == length


def test_a_spec_is_made_as_it_is() -> None:
    spec = gym.spec("CartPole-v1")
    changed = gym.envs.registration.EnvSpec(
        "CartPole-v1", spec.entry_point, max_episode_steps=4
    )
    assert length_of(envs_of(env=changed)) == 4
    assert length_of(envs_of(env=spec)) > 4
    changed.vector_entry_point = spec.vector_entry_point
    assert length_of(envs_of(env=changed, vectorization="vector")) == 4


@pytest.mark.parametrize("env", [Corridor, lambda **given: Corridor(**given)])
def test_they_give_pictures(env: Any) -> None:
    envs = make_one(EnvConfig(env=env, env_kwargs={"length": 5}), "rgb_array")
    envs.reset(0)
    assert envs.picture().shape == (8, 8, 3)
    with pytest.raises(UserError, match="lambda gives no pictures"):
        envs = make_one(EnvConfig(env=lambda: Corridor()), "rgb_array")
        envs.reset(0)
        envs.picture()


class Raising(Corridor):
    def __init__(self) -> None:
        self.licence = {}["licence"]  # type: ignore[var-annotated]


LINE = inspect.getsourcelines(Raising)[1] + 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"env": Raising}, rf"KeyError: 'licence' \(.*test_own_kinds.py, line {LINE}"),
        ({"env": Corridor, "env_kwargs": {"lenth": 3}}, "unexpected .* 'lenth'"),
        ({"env": "Acrobot-v1", "env_kwargs": {"g": 3}}, "Acrobot-v1 takes no g; leave"),
        ({"env": dict}, r"its factory returned {}"),
        ({"env": lambda size: size}, "missing a required argument: 'size'.*defaults"),
        ({"env": "Gone"}, "Python, as in env=Gone"),
        ({"env": "Xyzzyx-v2"}, r"see gymnasium\.pprint_registry\(\)\."),
    ],
)
def test_what_is_wrong_is_one_sentence(settings: Any, words: str) -> None:
    with pytest.raises(UserError, match=words) as raised:
        check(EnvConfig(**settings))
    assert "\n" not in str(raised.value)
