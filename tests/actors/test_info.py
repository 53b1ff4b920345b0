"""The `info` of an environment is the user's own; training reads few entries of it."""

import functools
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from xagents_ray.actors.envs.make import make_envs
from xagents_ray.actors.rollout import EpisodeCounter
from xagents_ray.core import objects
from xagents_ray.core.errors import EnvironmentFault
from xagents_ray.settings.training import EnvConfig

STEPS = 4


class Telling(gym.Env[Any, Any]):
    """An environment whose infos differ between its copies and its steps."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, infos: list[Any], index: int) -> None:
        self._infos, self._info = infos, index

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self._step = 0
        info = {"only at a reset": index_error, "lives": "nine, as a cat"}
        return np.zeros(1, np.float32), info

    def step(self, action: Any) -> Any:
        self._step += 1
        info = self._infos[self._info % len(self._infos)]
        self._info += 1
        return np.zeros(1, np.float32), 1.0, self._step == STEPS, False, info


def index_error() -> None:
    """An object that no array of numbers can hold."""


def played(infos: list[Any], vectorization: str = "sync") -> Iterator[Any]:
    """Return whether the first episode of each of two environments succeeded."""
    makes = [functools.partial(Telling, infos, index) for index in range(2)]
    config = EnvConfig(
        env=objects.keep("env", lambda index: makes[index]()),
        vectorization=vectorization,
    )
    if vectorization == "vector":
        name = objects.keep("env", lambda num_envs: gym.vector.SyncVectorEnv(makes))
        config = EnvConfig(env=name)
    envs, counter = make_envs(config, 2, 1), EpisodeCounter(2)
    try:
        envs.reset(0)
        for row in range(STEPS):
            step = envs.step(np.zeros(2, np.int32))
            for episode in counter.add(row, step):
                yield episode.success
    finally:
        envs.close()


@pytest.mark.parametrize("vectorization", ["sync", "async", "vector"])
@pytest.mark.parametrize(
    "infos",
    [
        [{"path": np.zeros(2)}, {"path": np.zeros(5)}],
        [{"v": "a"}, {"v": 1}],
        [{"v": {"a": 1}}, {"v": 1.0}],
        [{"v": 2**70}, {}],
        [{"v": None}, {"v": np.zeros((2, 2))}],
        [{1: "a key that is no text"}, {"final_obs": 3}],
    ],
)
def test_entries_that_differ_are_left_alone(
    infos: list[Any], vectorization: str
) -> None:
    assert [*played(infos, vectorization)] == [None, None]


@pytest.mark.parametrize(
    ("infos", "expected"),
    [
        # Environment i tells entry i + 3 of the list, cyclic, at its episode's end.
        ([{"is_success": True}, {}], [None, True]),
        ([{"is_success": None}, {"success": False}], [False, None]),
        ([{"is_success": np.True_, "success": False}], [True, True]),
        ([{"success": np.float32(1)}, {"success": 0}], [False, True]),
        ([{"success": np.array([True])}, {"success": np.array(0.0)}], [False, True]),
    ],
)
def test_success_is_what_the_environment_tells(
    infos: list[Any], expected: list[Any]
) -> None:
    assert [*played(infos)] == expected


@pytest.mark.parametrize("told", ["yes", 0.5, 2, float("nan"), [True], np.zeros(2)])
def test_a_success_that_is_no_truth_value_is_a_fault(told: Any) -> None:
    with pytest.raises(EnvironmentFault, match=r"info\['success'\] is .*test_info.py"):
        [*played([{"success": told}])]


@pytest.mark.parametrize("info", [None, 3, [], "text"])
def test_an_info_that_is_no_dict_is_a_fault(info: Any) -> None:
    with pytest.raises(EnvironmentFault, match=r"as the info \(.*test_info.py"):
        [*played([info])]


class Frames(Telling):
    """Frames, whose preprocessing reads the lives."""

    observation_space = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)

    def reset(self, **_: Any) -> Any:
        return np.zeros((8, 8, 3), np.uint8), self._infos[0]


@pytest.mark.parametrize("lives", ["three", [1, 2], np.zeros(2), 2**70])
def test_lives_that_are_no_number_are_a_fault(lives: Any) -> None:
    name = objects.keep("env", lambda: Frames([{"lives": lives}], 0))
    envs = make_envs(EnvConfig(env=name, preprocess=True), 2, 1)
    with pytest.raises(EnvironmentFault, match=r"info\['lives'\] is .*test_info.py"):
        envs.reset(0)
    envs.close()


class Vectors(gym.vector.VectorWrapper):
    """A vector environment of the user's own that gives an info."""

    def __init__(self, num_envs: int, info: Any) -> None:
        makes = [lambda: Telling([{}], 0)] * num_envs
        super().__init__(gym.vector.SyncVectorEnv(makes))
        self._info = info

    def step(self, actions: Any) -> Any:
        *results, _ = self.env.step(actions)
        return *results, self._info


@pytest.mark.parametrize(
    ("info", "words"),
    [
        (None, r"step\(\) returned None as the info"),
        ({"success": True}, r"info\['success'\] is True"),
        ({"success": np.array(True)}, r"info\['success'\] is array\(True\)"),
    ],
)
def test_infos_of_vector_environments_are_checked_too(info: Any, words: str) -> None:
    name = objects.keep("env", lambda num_envs: Vectors(num_envs, info))
    envs = make_envs(EnvConfig(env=name), 2, 1)
    envs.reset(0)
    with pytest.raises(EnvironmentFault, match=rf"{words} \(.*test_info.py"):
        for _ in range(STEPS):
            envs.step(np.zeros(2, np.int32))
    envs.close()
