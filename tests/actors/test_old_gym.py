"""Environments of gym: the newest interface and those before it."""

import sys
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from xagents_ray.actors.envs.make import check_env, make_envs, make_one
from xagents_ray.core.errors import UserError
from xagents_ray.core.process import quiet_stderr
from xagents_ray.settings.training import EnvConfig

with quiet_stderr():  # its farewell banner
    import gym

limited = gym.wrappers.TimeLimit
BOX = gym.spaces.Box(0, 99, (2,), np.float32)


class New(gym.Env):  # type: ignore[misc]
    """Of gym 0.26; counts its steps, from a number that the seed sets."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 12}  # noqa: RUF012
    observation_space: Any = BOX
    action_space: Any = gym.spaces.Discrete(2)

    def __init__(self, length: int = 5, render_mode: Any = None) -> None:
        self.length, self.render_mode, self.first = length, render_mode, 0

    def seen(self) -> Any:
        return np.array([self.first, self.at], np.float32)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.at, self.first = 0, self.first if seed is None else seed
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.at += 1
        return self.seen(), 1, self.at == self.length, False, {}

    def render(self) -> Any:
        assert self.render_mode == "rgb_array"
        return np.zeros((8, 8, 3), np.uint8)

    def close(self) -> None:
        pass


class Middle(New):
    """Of gym 0.22 to 0.25."""

    def reset(self, *, seed: Any = None, return_info: bool = False) -> Any:  # type: ignore[override]
        return super().reset(seed=seed)[0]

    def step(self, action: Any) -> Any:
        seen, reward, done, _, info = super().step(action)
        return seen, reward, done, info


class Old(Middle):
    """Of gym before 0.22."""

    metadata = {"render.modes": ["rgb_array"], "video.frames_per_second": 12}  # noqa: RUF012

    def __init__(self, length: int = 5) -> None:
        super().__init__(length)

    def seed(self, seed: Any = None) -> None:
        self.first = seed

    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()

    def render(self, mode: str = "human") -> Any:  # type: ignore[override]
        assert mode == "rgb_array"
        return np.zeros((8, 8, 3), np.uint8)


class Cut(Old):
    """Says itself that it was cut off, as gym's TimeLimit does."""

    def step(self, action: Any) -> Any:
        seen, reward, done, _ = super().step(action)
        return seen, reward, done, {"TimeLimit.truncated": done}


class Wrapped(gym.Wrapper):  # type: ignore[misc]
    def __init__(self, **settings: Any) -> None:
        self.env = Old(**settings)
        super().__init__(self.env)

    def reset(self, **given: Any) -> Any:
        return self.env.reset(**given)


class Odd(Old):
    def step(self, action: Any) -> Any:
        return super().step(action)[:3]


class Untold(Old):
    def step(self, action: Any) -> Any:
        return *super().step(action)[:3], None


class Spaces(Old):
    observation_space = gym.spaces.Dict(
        {"a": gym.spaces.Tuple([BOX, gym.spaces.Discrete(3)])}
    )
    action_space = gym.spaces.MultiDiscrete([2, 3])

    def seen(self) -> Any:
        return {"a": (np.zeros(2, np.float32), 2)}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = dict(gym.envs.registry)
    for kind in (New, Middle, Old, Cut, Wrapped, Odd, Untold, Spaces):
        gym.register(f"{kind.__name__}-v0", kind)
    gym.register("Limited-v0", Old, max_episode_steps=3)
    yield
    gym.envs.registry.clear()
    gym.envs.registry.update(before)


KINDS = ["New", "Middle", "Old", "Cut", "Wrapped", "Limited"]


@pytest.mark.parametrize("name", KINDS)
def test_episodes(name: str) -> None:
    config = EnvConfig(env=f"gym:{name}-v0", env_kwargs={"length": 4})  # type: ignore[arg-type]
    envs = make_envs(config, 2, 1)
    np.testing.assert_array_equal(envs.reset(7), [[7, 0], [8, 0]])
    steps = [envs.step(np.zeros(2, np.int32)) for _ in range(5)]
    last = 2 if name == "Limited" else 3
    seen = [[7, last + 1], [8, last + 1]]
    np.testing.assert_array_equal(steps[last].observations, seen)
    assert not any(step.ended.any() for step in steps[:last])
    is_cut = name in ("Limited", "Cut")
    ends = steps[last].terminated[0], steps[last].truncated[0]
    assert ends == (not is_cut, is_cut)
    np.testing.assert_array_equal(steps[last + 1].observations, [[7, 0], [8, 0]])
    assert envs.is_checked
    envs.close()


@pytest.mark.parametrize("name", ["New", "Middle", "Old"])
def test_pictures(name: str) -> None:
    envs = make_one(EnvConfig(env=f"gym:{name}-v0"), "rgb_array")
    envs.reset(0)
    assert (envs.picture().shape, envs.fps) == ((8, 8, 3), 12)


def test_spaces() -> None:
    spec = check_env(EnvConfig(env="gym:Spaces-v0"))
    assert (spec.observation_shape, spec.flattened) == ((5,), "Dict")
    assert spec.action_sizes == (2, 3)


def test_those_of_gym_itself_and_of_a_module() -> None:
    envs = make_envs(EnvConfig(env="gym:CartPole-v1"), 2, 1)
    assert envs.reset(0).shape == (2, 4) and not envs.is_checked
    ends = [envs.step(np.zeros(2, np.int32)).terminated[0] for _ in range(12)]
    assert any(ends)
    assert check_env(EnvConfig(env=f"gym:{__name__}:New-v0")).observation_shape == (2,)


class Doubled(gym.RewardWrapper):  # type: ignore[misc]
    def reward(self, reward: float) -> float:
        return 2 * reward


@pytest.mark.parametrize(
    ("factory", "is_limited", "reward"),
    [
        (New, False, 1),
        (Old, False, 1),
        (lambda length=5: gym.make("New-v0", length=length), False, 1),
        (lambda length=5: gym.make("Limited-v0", length=length), True, 1),
        (lambda length=5: limited(gym.make("Limited-v0", length=length), 9), True, 1),
        (lambda length=5: limited(limited(New(length), 9), 3), True, 1),
        (lambda length=5: Doubled(New(length)), False, 2),
    ],
)
def test_factories_may_make_them(factory: Any, is_limited: bool, reward: int) -> None:
    """As `gym:ID` does, with gym's own wrappers replaced and the user's kept."""
    config = EnvConfig(env=factory, env_kwargs={"length": 4})  # type: ignore[arg-type]
    envs = make_envs(config, 2, 1)
    np.testing.assert_array_equal(envs.reset(7), [[7, 0], [8, 0]])
    steps = [envs.step(np.zeros(2, np.int32)) for _ in range(4)]
    last = steps[2 if is_limited else 3]
    assert (last.terminated[0], last.truncated[0]) == (not is_limited, is_limited)
    assert envs.has_time_limit == is_limited and envs.is_checked
    assert last.raw_rewards[0] == reward
    envs.close()


def test_factories_of_gyms_own() -> None:
    envs = make_envs(EnvConfig(env=lambda: gym.make("CartPole-v1")), 2, 1)  # type: ignore[arg-type]
    assert envs.reset(0).shape == (2, 4) and not envs.is_checked
    assert envs.has_time_limit
    envs.close()
    shown = make_one(EnvConfig(env=New), "rgb_array")  # type: ignore[arg-type]
    shown.reset(0)
    assert shown.picture().shape == (8, 8, 3)
    shown.close()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"env": "gym:Odd-v0"}, r"step\(\) returned 3 values \(.*test_old_gym.py"),
        ({"env": "gym:Untold-v0"}, "one NoneType as the info"),
        ({"env": "gym:CartPol-v1"}, "Did you mean: `CartPole`"),
        ({"env": "gym:New-v0", "env_kwargs": {"lenth": 1}}, "keyword argument 'lenth'"),
        ({"env": "atari-py:pong"}, r"pip install 'xagents-ray\[gym\]'.*zlib"),
    ],
)
def test_what_is_wrong(
    settings: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "atari_py", None)
    with pytest.raises(UserError, match=words):
        envs = make_envs(EnvConfig(**settings), 1, 1)
        envs.reset(0)
        envs.step(np.zeros(1, np.int32))


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gym", None)
    with pytest.raises(UserError, match=r"old gym: pip install 'xagents-ray\[gym\]'"):
        check_env(EnvConfig(env="gym:CartPole-v1"))
    assert "gym:CartPole-v1" not in gymnasium.registry
