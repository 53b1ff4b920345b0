"""Relabeled goals against lists of episodes, worked out step by step."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from xagents_ray.core.spec import EnvSpec, Goals, InfoField
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.replay.transitions import TransitionReplay

# The number of an observation is what it achieves; the goal pursued is negative.
SPEC = EnvSpec((4,), "float32", 1, 3, goals=Goals(1, 2, 1))
GAMMA = 0.5


def reward_of(achieved: Any, desired: Any) -> Any:
    """Return a number that tells both goals."""
    return achieved + desired / 1024


def rewards(achieved: Any, desired: Any, info: Any) -> Any:
    """Steps end at goals that are multiples of 7 where these were desired.

    Of the goals pursued the first one, -1, ends its episode.
    """
    found = reward_of(achieved[:, 0], desired[:, 0]).astype(np.float32)
    reached = (achieved[:, 0] == desired[:, 0]) & (achieved[:, 0] % 7 == 0)
    return found, reached | (desired[:, 0] == -1)


class Step(NamedTuple):
    before: int
    after: int
    goal: int
    terminated: bool


class World:
    """One environment: its rollouts, and the episodes that they were part of.

    Args:
        lengths: of its episodes.
    """

    def __init__(self, lengths: list[int], first_id: int = 1) -> None:
        self.episodes: list[list[Step]] = []
        self._rows: list[Any] = []  # observation, is first, step that was taken
        number = first_id
        for count, length in enumerate(lengths):
            goal = -1 - count
            steps = [
                Step(n, n + 1, goal, n + 1 == number + length)
                for n in range(number, number + length)
            ]
            self.episodes.append(steps)
            for i, step in enumerate(steps):
                self._rows.append((step.before, goal, i == 0, step))
            self._rows.append((steps[-1].after, goal, False, None))
            number += length + 1
        self._at = 0

    def rollout(self, length: int, env: int = 0) -> Trajectory:
        rows = self._rows[self._at : self._at + length + 1]
        self._at += length
        assert len(rows) == length + 1
        numbers, goals, first, steps = zip(*rows, strict=True)
        zeros = np.zeros(length + 1)
        observations = np.stack([zeros, numbers, goals, zeros], axis=-1)
        taken = [Step(0, 0, 0, False) if s is None else s for s in steps[:-1]]
        own = [reward_of(step.after, step.goal) for step in taken]
        ends = np.array([[step.terminated] for step in taken])
        return Trajectory(
            observations[:, None].astype(np.float32),
            np.array(first)[:, None],
            np.array([[step.before % 3] for step in taken], np.int32),
            np.array(own, np.float32)[:, None],
            ends,
            np.zeros_like(ends),
            np.array([[step is not None] for step in steps[:-1]]),
            None,
            None,
            1,
            env,
        )


def replay_of(her: str, capacity: int = 100, **more: Any) -> TransitionReplay:
    settings: dict[str, Any] = {
        "n_envs": 1,
        "longest": 30,
        "seed": 3,
        "n_step": 1,
        "gamma": GAMMA,
    }
    settings |= {"relabeling": (her, more.pop("count", 4)), **more}
    replay = TransitionReplay(settings.pop("spec", SPEC), capacity, **settings)
    replay.goal_rewards = rewards
    return replay


def goals_drawn(replay: TransitionReplay) -> dict[int, dict[int, int]]:
    """Return how often each transition came with which goal."""
    counts: dict[int, dict[int, int]] = {}
    drawn = replay.sample(4, 5_000)
    assert (drawn.observations[:, :, 0, 2] == drawn.observations[:, :, 1, 2]).all()
    for number, goal in drawn.observations[:, :, 0, 1:3].reshape(-1, 2).astype(int):
        own = counts.setdefault(int(number), {})
        own[int(goal)] = own.get(int(goal), 0) + 1
    return counts


def expected_goals(world: World, her: str, first: int, end: int) -> Any:
    """Return the goals that each transition may get, of those from first to end."""
    found = {}
    for episode in world.episodes:
        held = [step for step in episode if first <= step.before and step.after <= end]
        for step in held:
            later = [each.after for each in held if each.before >= step.before]
            chosen = {
                "future": later,
                "final": later[-1:],
                "episode": [each.after for each in held],
            }
            found[step.before] = {step.goal, *chosen[her]}
    return found


@pytest.mark.parametrize("her", ["future", "final", "episode"])
def test_goals_are_those_that_the_episode_achieved(her: str) -> None:
    """Two whole episodes, and what is held of one that goes on."""
    world, replay = World([3, 5, 8]), replay_of(her)
    for length in (2, 4, 1, 6):  # an episode continues in the next rollouts
        replay.insert(world.rollout(length))
    drawn = goals_drawn(replay)
    assert {n: set(goals) for n, goals in drawn.items()} == expected_goals(
        world, her, 1, 14
    )
    replay.insert(world.rollout(3))
    assert set(goals_drawn(replay)[13]) == expected_goals(world, her, 1, 17)[13]


@pytest.mark.parametrize("her", ["future", "episode"])
def test_goals_of_what_was_dropped_are_not_drawn(her: str) -> None:
    """The ring holds the second half of an episode."""
    world, replay = World([4, 12, 9]), replay_of(her, capacity=10, longest=5)
    for _ in range(4):
        replay.insert(world.rollout(5))
    assert replay.fill.size == 10
    drawn = goals_drawn(replay)
    first = min(drawn)
    assert first > world.episodes[1][0].before
    assert {n: set(goals) for n, goals in drawn.items()} == expected_goals(
        world, her, first, 21
    )


def test_a_lost_rollout_ends_what_an_episode_can_give() -> None:
    world, replay = World([20, 9]), replay_of("future")
    replay.insert(world.rollout(5))
    world.rollout(4)
    replay.insert(world.rollout(5))
    drawn = goals_drawn(replay)
    assert set(drawn) == {*range(1, 6), *range(10, 15)}
    assert set(drawn[3]) == {-1, 4, 5, 6}
    assert set(drawn[10]) == {-1, *range(11, 16)}


def test_shares_and_uniform_goals() -> None:
    """Of k + 1 transitions k get a goal, each of the later steps as often."""
    world, replay = World([10, 5]), replay_of("future", count=3)
    replay.insert(world.rollout(11))
    drawn = goals_drawn(replay)
    own = sum(goals[-1] for goals in drawn.values())
    assert own / 20_000 == pytest.approx(1 / 4, abs=0.015)
    first = drawn[1]
    others = [first[goal] for goal in range(2, 12)]
    assert sum(others) == sum(first.values()) - first[-1]
    assert np.ptp(others) < 90  # of about 150 each


def test_priorities_choose_steps_and_not_their_goals() -> None:
    """Steps come in proportion to their errors; each one's goals as without these."""
    world = World([6, 4])
    replay, uniform = replay_of("future", alpha=1.0), replay_of("future")
    for each in (replay, uniform):
        each.insert(world.rollout(11))
        world = World([6, 4])
    drawn: Any = replay.sample(1, 2_000)
    numbers = drawn.observations[0, :, 0, 1]
    replay.update(drawn.rows[0], numbers / 8)  # step n has an error of n / 8
    drawn = replay.sample(4, 5_000)
    numbers, goals = drawn.observations[:, :, 0, 1], drawn.observations[:, :, 0, 2]
    np.testing.assert_allclose(drawn.priorities, numbers / 8, rtol=1e-4)
    expected, steps = goals_drawn(uniform), [1, 2, 3, 4, 5, 6, 8, 9, 10, 11]
    assert sorted(expected) == steps
    for step in steps:
        count = int((numbers == step).sum())
        assert count / 20_000 == pytest.approx(step / sum(steps), abs=0.012)
        own = sum(expected[step].values())
        for goal, times in expected[step].items():
            share = float((goals[numbers == step] == goal).mean())
            assert share == pytest.approx(times / own, abs=0.12)
    # Relabeled rows still say which steps they were, for the next errors.
    assert set((drawn.rows[..., 1] - numbers).ravel()) == {-1}


@pytest.mark.parametrize("n_step", [1, 3])
def test_rewards_and_ends_are_those_of_the_goal(n_step: int) -> None:
    """A slow loop, from the numbers of observations; 7 and 14 end where desired.

    The second episode ends whatever its goal.
    """
    world = World([9, 9])
    replay = replay_of("future", n_step=n_step)
    replay.insert(world.rollout(19))
    steps = {s.before: s for episode in world.episodes for s in episode}
    drawn = replay.sample(2, 2_000)
    flat = drawn.observations.reshape(-1, 2, 4)
    numbers = drawn.rewards.ravel(), drawn.discounts.ravel()
    ends = others = 0
    for (before, after), reward, discount in zip(flat, *numbers, strict=True):
        goal, at = int(before[2]), int(before[1])
        total, power, number = 0.0, 1.0, at
        for _ in range(n_step):
            step = steps[number]
            total += power * reward_of(step.after, goal)
            power *= GAMMA
            number = step.after
            over = step.terminated
            if goal > 0:  # relabeled
                over = step.after == goal and goal % 7 == 0
                ends += over
                lost = step.terminated and step.goal == -2
                others += lost
                over = over or lost
            if over:
                power = 0.0
            if over or number not in steps:
                break
        assert int(after[1]) == number
        assert int(after[2]) == goal
        assert reward == pytest.approx(total, rel=1e-6)
        assert discount == pytest.approx(power)
    assert min(ends, others) > 20


@pytest.mark.parametrize("n_step", [1, 3])
def test_rewards_get_the_info_of_their_step(n_step: int) -> None:
    """Each step's own, in a ring that has gone round; none of rows that only reset."""
    spec, asked = replace(SPEC, info=(InfoField("n", "<i8", ()),)), []

    def told(achieved: Any, desired: Any, info: Any) -> Any:
        is_told, numbers = info.T
        assert is_told.all()
        asked.extend(numbers.tolist())
        own = numbers + 1 == achieved[:, 0]
        assert own.all() if n_step == 1 else own.mean() > 0.5
        return rewards(achieved, desired, info)

    replay = replay_of("future", 40, n_step=n_step, spec=spec)
    replay.goal_rewards = told
    world = World([9] * 12)
    for _ in range(10):
        rolled = world.rollout(11)
        numbers = rolled.observations[:-1, :, 1]
        info = np.stack([np.ones((11, 1)), numbers], axis=-1)
        info[~rolled.valid] = 0
        replay.insert(rolled._replace(info=info))
        replay.sample(2, 50)
    assert "info" in replay.arrays() and len(set(asked)) > 80


def test_an_environment_may_not_say_where_its_steps_end() -> None:
    world, replay = World([6, 6]), replay_of("future")
    replay.goal_rewards = lambda *given: (rewards(*given)[0], None)
    replay.insert(world.rollout(12))
    drawn = replay.sample(1, 500)
    ended = drawn.observations[0, :, 1, 1] == 7
    assert (drawn.discounts[0] == np.where(ended, 0, GAMMA)).all()


def test_environments_do_not_share_goals() -> None:
    replay = replay_of("episode", n_envs=3)
    worlds = [World([5, 5], 100 * env + 1) for env in range(3)]
    for env, world in enumerate(worlds):
        replay.insert(world.rollout(6 + env, env))
    drawn = goals_drawn(replay)
    relabeled = [(n, g) for n, goals in drawn.items() for g in goals if g > 0]
    assert {n // 100 for n, _ in relabeled} == {0, 1, 2}
    assert all(number // 100 == goal // 100 for number, goal in relabeled)


def test_nothing_is_stored_twice() -> None:
    """Relabeling costs two positions of each step, and no observation."""
    plain = TransitionReplay(SPEC, 1_000, 1, 30, 3, 1, GAMMA)
    replay = replay_of("future", 1_000)
    names = replay.arrays().keys() - plain.arrays().keys()
    assert names == {"first_steps", "last_steps"}
    world = World([20, 30])
    replay.insert(world.rollout(30))
    before = {name: array.copy() for name, array in replay.arrays().items()}
    replay.sample(2, 500)
    for name, array in replay.arrays().items():
        assert name == "random" or np.array_equal(array, before[name])


def test_a_saved_replay_continues(tmp_path: Any) -> None:
    world, replay, other = World([9, 9]), replay_of("future"), replay_of("future")
    replay.insert(world.rollout(7))
    arrays = replay.arrays()
    for name, array in other.arrays().items():
        array[...] = arrays[name]
    other.restore_generator(arrays)
    following = world.rollout(9)
    for each in (replay, other):
        each.insert(following)
    for one, same in zip(replay.sample(2, 64), other.sample(2, 64), strict=True):
        np.testing.assert_array_equal(one, same)


@pytest.mark.parametrize("n_step", [1, 3])
def test_new_goals_come_with_the_parts_of_a_draw(n_step: int) -> None:
    world = World([12, 9, 11])
    one, other = (replay_of("future", n_step=n_step) for _ in range(2))
    steps = world.rollout(30)
    one.insert(steps)
    other.insert(steps)
    whole, drawn = one.sample(1, 200), other.draw(1, 200)
    assert drawn.relabeled is not None
    order = np.random.default_rng(2).permutation(200)
    for items in np.split(order, 5):
        part = other.fetch(drawn, items[None])
        for name in ("observations", "rewards", "discounts"):
            expected = getattr(whole, name)[:, items]
            np.testing.assert_array_equal(getattr(part, name), expected)
