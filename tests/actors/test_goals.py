"""Goal environments: where goals are, their rewards, and what reached them."""

import contextlib
import re
import sys
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from acting import run_of
from goal_envs import PointReach

from xagents_ray.actors.envs import goals, make, named_inputs
from xagents_ray.actors.envs.vector import EnvStep
from xagents_ray.actors.rollout import EpisodeCounter
from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.core.errors import EnvironmentFault, UserError
from xagents_ray.core.moments import Moments, merge_moments, moments_of, pool_goals
from xagents_ray.core.spec import Goals
from xagents_ray.core.trajectory import Episode
from xagents_ray.settings.config import Config
from xagents_ray.settings.training import EnvConfig


def box(size: int) -> gym.Space[Any]:
    return gym.spaces.Box(-1, 1, (size,))


def test_goals_are_found_in_flattened_observations() -> None:
    """Gymnasium sorts the keys of a Dict, but not of an OrderedDict."""
    sizes = {"observation": 5, "desired_goal": 2, "achieved_goal": 2, "more": 3}
    sorted_space = gym.spaces.Dict({name: box(n) for name, n in sizes.items()})
    ordered = gym.spaces.Dict(OrderedDict((n, box(size)) for n, size in sizes.items()))
    for space in (sorted_space, ordered):
        place = named_inputs.goals_of(space)
        assert place is not None
        sample = space.sample()
        flat = gym.spaces.flatten(space, sample)
        achieved, desired = place.slices
        np.testing.assert_array_equal(flat[achieved], sample["achieved_goal"])
        np.testing.assert_array_equal(flat[desired], sample["desired_goal"])


@pytest.mark.parametrize(
    "space",
    [
        box(3),
        None,
        gym.spaces.Dict({"observation": box(2), "desired_goal": box(2)}),
        gym.spaces.Dict(
            {"observation": box(2), "achieved_goal": box(2), "desired_goal": box(3)}
        ),
    ],
)
def test_other_spaces_have_no_goals(space: Any) -> None:
    assert named_inputs.goals_of(space) is None


def test_the_spec_says_where_goals_are_in_every_vectorization() -> None:
    for mode in ("sync", "auto"):
        config = EnvConfig(env="goal_envs:PointReach", vectorization=mode)
        assert make.check_env(config).goals == Goals(0, 2, 2)
    assert make.check_env(EnvConfig(env="CartPole-v1")).goals is None


def test_rewards_of_many_goals_are_those_of_each() -> None:
    """`compute_terminated` takes one pair only: of many, it says one thing."""
    config = EnvConfig(env="goal_envs:PointReach", env_kwargs=("ends=true",))
    reward = goals.GoalRewards(config)
    rng, env = np.random.default_rng(1), PointReach(ends=True)
    achieved = rng.uniform(-0.2, 0.2, (50, 2)).astype(np.float32)
    desired = rng.uniform(-0.2, 0.2, (50, 2)).astype(np.float32)
    rewards, ends = reward(achieved, desired)
    near = [
        sum((a - d) ** 2) <= 0.15**2 for a, d in zip(achieved, desired, strict=True)
    ]
    assert 0 < sum(near) < 50
    np.testing.assert_array_equal(rewards, np.where(near, 0.0, -1.0))
    assert rewards.dtype == np.float32
    assert ends is not None and ends.tolist() == near
    assert env.compute_terminated(achieved, desired, {}) is False


class Masked(PointReach):
    """Its info has an entry of that name which is no mask."""

    def reset(self, **given: Any) -> Any:
        observation, info = super().reset(**given)
        return observation, {**info, "action_mask": "none"}

    def step(self, action: Any) -> Any:
        *results, info = super().step(action)
        return *results, {**info, "action_mask": "none"}


class Choosing(Masked):
    """It has actions to choose among."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = gym.spaces.Discrete(2)


def test_goals_of_environments_whose_masks_are_ignored() -> None:
    for made in (Masked, Choosing):
        config = EnvConfig(env=f"{__name__}:{made.__name__}", action_masks=False)
        goals.GoalRewards(config, None).close()


def test_masks_of_goal_environments_with_continuous_actions_are_refused() -> None:
    settings = {"her": "future", "env": f"{__name__}:Masked"}
    with pytest.raises(UserError, match="--no-action-masks"):
        run_of("ddpg", 1, **settings)


class WronglyMasked(Choosing):
    """Its masks are right until the third step."""

    def step(self, action: Any) -> Any:
        *results, _ = super().step([action] * 2)
        return *results, {"action_mask": "none" if self._steps > 2 else [1, 0]}

    def reset(self, **given: Any) -> Any:
        return super().reset(**given)[0], {"action_mask": [0, 1]}


def test_wrong_masks_of_goal_environments_are_faults() -> None:
    """Masks of the reset and of the first steps are right."""
    config = EnvConfig(env=f"{__name__}:WronglyMasked")
    said = r"info\['action_mask'\] is 'none' \(.*test_goals.py, line \d+\); give 2 num"
    with pytest.raises(EnvironmentFault, match=said):
        goals.GoalRewards(config, None)


class Endless(PointReach):
    """Says of many goals what it says of one, as robots do."""

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> bool:
        """Some docstring."""
        return False


class Broken(PointReach):
    """Reads no argument, but says something else each time."""

    said = 0

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> bool:
        self.said += 1
        return self.said % 2 == 0


@contextlib.contextmanager
def counted_calls(names: list[str]) -> Iterator[None]:
    """Note the calls of `compute_terminated`."""

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == "compute_terminated":
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def test_what_is_the_same_for_all_goals_is_asked_once() -> None:
    pairs, asked = np.zeros((2, 500, 2), np.float32), []
    for name in ("Endless", "Broken"):
        rewards = goals.GoalRewards(EnvConfig(env=f"test_goals:{name}"))
        with counted_calls(asked):
            ends = rewards(*pairs)[1]
        assert ends is not None and ends.shape == (500,)
        assert ends.sum() == (250 if name == "Broken" else 0)
    assert asked == ["compute_terminated"] * 501


class Simple(PointReach):
    """Takes single goals only, and doesn't say where episodes end."""

    compute_terminated = property()  # type: ignore[assignment]

    def step(self, action: Any) -> Any:
        raise NotImplementedError

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> float:
        return 1.0 if np.abs(achieved - desired).max() < 0.5 else 0.0


def test_a_reward_of_single_goals_is_asked_for_each_row() -> None:
    reward = goals.GoalRewards(EnvConfig(env="test_goals:Simple"))
    achieved = np.zeros((3, 2), np.float32)
    desired = np.array([[0, 0.1], [0, 0.9], [0.4, 0.4]], np.float32)
    rewards, ends = reward(achieved, desired)
    assert rewards.tolist() == [1, 0, 1] and ends is None


class Mute(gym.ObservationWrapper[Any, Any, Any]):
    """A goal environment that keeps its rewards to itself."""

    def __init__(self) -> None:
        super().__init__(gym.Wrapper(Silent()))

    def observation(self, observation: Any) -> Any:
        return observation


class Silent(gym.Env[Any, Any]):
    observation_space = PointReach().observation_space
    action_space = box(2)

    def reset(self, **_: Any) -> Any:
        return self.observation_space.sample(), {}


class Informed(PointReach):
    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return info["bonus"]


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("CartPole-v1", "--her is for goal environments.*CartPole-v1 is not one"),
        ("test_goals:Mute", r"test_goals.py, line \d+.*add compute_reward\("),
        ("test_goals:Informed", r"KeyError: 'bonus' \(.*test_goals.py, line \d+"),
    ],
)
def test_what_hindsight_needs_is_checked_first(env: str, said: str) -> None:
    config = Config.of(DDPGConfig, {"env": env, "max_steps": 1, "her": "future"})
    with pytest.raises(UserError) as error:
        goals.check_goal_rewards(config, make.check_env(config.env))
    assert re.search(said, str(error.value)), str(error.value)
    plain = Config.of(DDPGConfig, {"env": env, "max_steps": 1})
    spec = make.check_env(plain.env)
    assert goals.check_goal_rewards(plain, spec) == (spec, ())
    assert goals.goal_rewards(plain, spec) is None


@pytest.mark.parametrize(
    ("env", "arguments", "place", "distance"),
    [
        ("FetchReach-v4", (), Goals(0, 3, 3), 0.05),
        ("PointMaze_UMaze-v3", ("continuing_task=false",), Goals(0, 2, 2), 0.45),
    ],
)
def test_robots(
    env: str, arguments: tuple[str, ...], place: Goals, distance: float
) -> None:
    """A maze may end at its goal, and says so of one pair only."""
    pytest.importorskip("gymnasium_robotics")
    config = EnvConfig(env=f"gymnasium_robotics:{env}", env_kwargs=arguments)
    assert make.check_env(config).goals == place
    desired = np.random.default_rng(0).normal(size=(20, place.size)).astype("f4")
    away = np.linspace(0, 2 * distance, 20, dtype="f4")
    achieved = desired + away[:, None] * np.eye(place.size, dtype="f4")[0]
    rewards, ends = goals.GoalRewards(config)(achieved, desired)
    near = away <= distance
    assert ends is not None and ends.tolist() == (near & bool(arguments)).tolist()
    np.testing.assert_array_equal(rewards, near if arguments else near - 1.0)


def test_goals_share_their_moments() -> None:
    """So that a relabeled goal is normalized as a desired one."""
    rows = np.random.default_rng(0).normal([1, 2, 3, 4, 5, 6], 2, (40, 6))
    place = Goals(1, 4, 2)
    found = pool_goals(moments_of(rows), place)
    both = np.concatenate([rows[:, 1:3], rows[:, 4:6]])
    for each in place.slices:
        np.testing.assert_allclose(found.mean[each], both.mean(axis=0))
        np.testing.assert_allclose(found.variance[each], both.var(axis=0))
    np.testing.assert_allclose(found.mean[[0, 3]], rows[:, [0, 3]].mean(axis=0))
    again: Moments = merge_moments(found, found)
    np.testing.assert_allclose(again.mean, found.mean)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_success_comes_with_the_episode(mode: str) -> None:
    """One that goes straight to the goal, and one that stays."""
    config = EnvConfig(env="goal_envs:PointReach", vectorization=mode)
    envs = make.make_envs(config, 2, 1)
    assert envs.spec.goals == Goals(0, 2, 2)  # env actors pool the goals' statistics
    rows, counter = envs.reset(3), EpisodeCounter(2)
    ended: list[Episode] = []
    for row in range(20):
        way = (rows[:, 2:4] - rows[:, 0:2]) / 0.2
        way[1] = 0
        step = envs.step(way.clip(-1, 1))
        rows = step.observations
        ended += counter.add(row, step)
    envs.close()
    assert [(each.env, each.success) for each in ended] == [(0, True), (1, False)]


def test_success_is_unknown_elsewhere() -> None:
    nothing = np.zeros(1, np.bool_)
    step = EnvStep(np.zeros(1), np.zeros(1), np.ones(1), ~nothing, nothing, ~nothing)
    (episode,) = EpisodeCounter(1).add(0, step)
    assert episode == Episode(0, 0, 1.0, 1, None)


def tenfold(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    return gym.wrappers.TransformReward(env, lambda reward: 10 * float(reward))


@pytest.mark.parametrize("env", ["goal_envs:PointReach", "FetchReach-v4"])
def test_rewards_that_only_steps_have_are_noted(env: str) -> None:
    settings = {"env": env, "max_steps": 1, "her": "future"}
    plain = Config.of(DDPGConfig, settings)
    spec, noted = goals.check_goal_rewards(plain, make.check_env(plain.env))
    assert (spec.info, noted) == ((), ())
    more = Config.of(DDPGConfig, {**settings, "wrappers": ("test_goals:tenfold",)})
    _, (note,) = goals.check_goal_rewards(more, make.check_env(more.env))
    assert "gave -10 and its compute_reward -1 for the same goals" in note
