"""Prioritized replay: its sum tree, what it draws, and what comes back to it."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xagents_ray.core.batches import mix_transitions
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory, Transitions
from xagents_ray.replay.sum_tree import Priorities
from xagents_ray.replay.transitions import TransitionReplay
from xagents_ray.run.replay_buffer import load_replay, save_replay
from xagents_ray.storage.checkpoint_writer import CheckpointWriter

ALPHA = 0.5


def priority(error: float) -> float:
    return float((abs(error) + 1e-6) ** ALPHA)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 5), st.integers(1, 3000), st.integers(0, 2**31 - 1))
def test_sums_are_those_of_a_loop(n_envs: int, length: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    priorities, expected = Priorities(n_envs, length, ALPHA), np.zeros(n_envs * length)
    for _ in range(5):
        places = rng.integers(n_envs * length, size=rng.integers(1, 50))
        errors = rng.normal(size=len(places)).astype(np.float32)
        priorities.update(places, errors)
        for place, error in zip(places, errors.tolist(), strict=True):
            expected[place] = priority(error)
        np.testing.assert_allclose(priorities.rows.ravel(), expected, rtol=1e-6)
        assert priorities.total == pytest.approx(expected.sum())
    drawn = priorities.draw(4, 50, rng)
    assert (expected[drawn] > 0).all()


@pytest.mark.parametrize("length", [40, 9000])
def test_sums_are_added_up_again(length: int) -> None:
    rng = np.random.default_rng(0)
    priorities, same = (Priorities(2, length, ALPHA) for _ in range(2))
    errors = rng.normal(size=2 * length).astype(np.float32)
    priorities.update(np.arange(2 * length), errors)
    same.rows[:] = priorities.rows
    same.add_up()
    assert same.total == pytest.approx(priorities.total)
    drawn = (x.draw(4, 50, np.random.default_rng(1)) for x in (priorities, same))
    np.testing.assert_array_equal(*drawn)


@pytest.mark.parametrize("length", [40, 3000])
def test_draws_are_in_proportion(length: int) -> None:
    """With one level and with several; rows of priority 0 are never drawn."""
    rng = np.random.default_rng(0)
    priorities = Priorities(2, length, 1.0)
    places = rng.choice(2 * length, 30, replace=False)
    errors = np.arange(30, dtype=np.float32)
    priorities.update(places, errors)
    drawn = priorities.draw(10, 10_000, rng)
    counts = np.bincount(drawn, minlength=2 * length)
    expected = 100_000 * errors / errors.sum()
    assert counts[places].sum() == 100_000
    deviations = np.sqrt(np.maximum(expected, 1))
    assert (np.abs(counts[places] - expected) < 5 * deviations).all()


def test_each_batch_has_its_share_of_every_part() -> None:
    """Rows of priorities 1, 2, 3 and 4: a batch of 20 has them 2, 4, 6 and 8 times."""
    priorities = Priorities(1, 4, 1.0)
    priorities.update(np.arange(4), np.float32([1, 2, 3, 4]))
    drawn = priorities.draw(3, 20, np.random.default_rng(0)).reshape(3, 20)
    counts = [np.bincount(batch).tolist() for batch in drawn]
    assert counts == [[2, 4, 6, 8]] * 3


def test_no_batch_of_a_phase_is_nearer_to_the_start_than_others() -> None:
    """Of two batches of one place each, both are of the first half as often."""
    rng, priorities = np.random.default_rng(0), Priorities(1, 2, 1.0)
    priorities.update(np.arange(2), np.float32([1, 1]))
    drawn = np.stack([priorities.draw(2, 1, rng) for _ in range(1000)])
    assert (drawn.sum(axis=1) == 1).all()
    assert 420 < drawn[:, 0].sum() < 580


def test_an_error_that_is_not_finite_changes_nothing() -> None:
    priorities = Priorities(1, 10, ALPHA)
    priorities.update(np.arange(3), np.float32([1, 2, 3]))
    before = priorities.rows.copy()
    priorities.update(np.arange(3), np.float32([np.nan, np.inf, -np.inf]))
    np.testing.assert_array_equal(priorities.rows, before)


class Rounded(np.random.Generator):
    """Draws what it is told to, up to 1, as sums of fractions are rounded to."""

    def __init__(self, *drawn: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.left = [*drawn]

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        return np.full(size, self.left.pop(0))


def test_a_row_without_priority_is_drawn_again_until_it_has_one() -> None:
    """The fraction 1 belongs to the last row, which has none here."""
    priorities = Priorities(1, 3, 1.0)
    priorities.update(np.arange(2), np.float32([1, 1]))
    rng = Rounded(1.0, 1.0, 1.0, 0.75, 0.25)
    assert priorities.draw(1, 1, rng).tolist() == [1]
    assert rng.left == [0.25]


class Stream:
    """One trajectory after another of B environments, each step's reward its number.

    Episodes end after `episode` steps; the step that follows only resets.
    """

    def __init__(self, n_envs: int, episode: int = 7) -> None:
        self._n_envs, self._episode, self._row = n_envs, episode, 0

    def rollout(self, length: int) -> Trajectory:
        rows = self._row + np.arange(length + 1)
        self._row += length
        phase = rows % (self._episode + 1)
        numbers = rows[:, None] * 10 + np.arange(self._n_envs)
        observations = np.repeat(numbers[..., None], 2, axis=-1).astype(np.float32)
        starts = np.repeat((phase == 0)[:, None], self._n_envs, axis=1)
        steps = (length, self._n_envs)
        resets = np.repeat((phase[:-1] == self._episode)[:, None], self._n_envs, 1)
        ends = np.repeat((phase[:-1] == self._episode - 1)[:, None], self._n_envs, 1)
        parts = ends, np.zeros(steps, bool), ~resets, None, None, 1, 0
        rewards = numbers[:-1].astype(np.float32)
        return Trajectory(observations, starts, np.zeros(steps, int), rewards, *parts)


SPEC = EnvSpec((2,), "float32", 1, 2)


def make(capacity: int = 60, n_envs: int = 2, seed: int = 0) -> TransitionReplay:
    return TransitionReplay(SPEC, capacity, n_envs, 8, seed, 1, 0.9, alpha=ALPHA)


def drawn_from(replay: TransitionReplay, count: int = 4000) -> dict[float, Any]:
    """Return the priority and the row of each transition drawn, by its reward."""
    drawn = replay.sample(1, count)
    assert isinstance(drawn, Transitions) and drawn.rows is not None
    columns = drawn.rewards[0], drawn.priorities[0], drawn.rows[0]
    found = {}
    for reward, each, row in zip(*(x.tolist() for x in columns), strict=True):
        assert found.setdefault(reward, (each, row)) == (each, row)
    return found


def test_new_transitions_get_the_largest_priority_so_far() -> None:
    replay, stream = make(), Stream(2)
    replay.insert(stream.rollout(8))
    first = drawn_from(replay)
    assert {each for each, _ in first.values()} == {1.0}
    assert replay.fill.priority == pytest.approx(len(first)) == 14
    rows = np.array([row for _, row in first.values()])
    errors = np.linspace(0.01, 9, len(rows)).astype(np.float32)
    assert replay.update(rows, errors) == 0
    expected = dict(zip(first, map(priority, errors.tolist()), strict=True))
    replay.insert(stream.rollout(8))
    again = drawn_from(replay, 40_000)
    assert len(again) == 28
    for reward, (each, _) in again.items():
        assert each == pytest.approx(expected.get(reward, 3.0), rel=1e-5)
    assert replay.fill.priority == pytest.approx(sum(expected.values()) + 14 * 3)


def test_late_errors_are_ignored_and_counted() -> None:
    """Their rows hold other transitions by then, or none."""
    replay, stream = make(capacity=20), Stream(2)
    replay.insert(stream.rollout(8))
    old = np.array([row for _, row in drawn_from(replay).values()])
    for _ in range(20):  # several times through the rings
        replay.insert(stream.rollout(8))
        held = drawn_from(replay)
        assert replay.fill.size == len(held)
        assert replay.fill.priority == pytest.approx(len(held))
    assert replay.update(old, np.full(len(old), 50, np.float32)) == len(old)
    assert drawn_from(replay) == held
    resets = np.array([[0, 7], [1, 10**6]])  # a step that only resets, one to come
    assert replay.update(resets, np.ones(2, np.float32)) == 2
    assert drawn_from(replay) == held


def test_a_step_whose_next_one_is_lost_is_drawn() -> None:
    replay, stream = make(), Stream(2)
    replay.insert(stream.rollout(6))
    stream.rollout(8)
    replay.insert(stream.rollout(8))
    held = drawn_from(replay)
    assert {50.0, 51.0} <= held.keys()
    assert replay.fill.size == len(held)
    assert replay.fill.priority == pytest.approx(len(held))


def test_a_checkpoint_keeps_priorities(tmp_path: Path) -> None:
    replay, stream = make(), Stream(2)
    replay.insert(stream.rollout(8))
    rows = np.array([row for _, row in drawn_from(replay).values()])
    replay.update(rows, np.linspace(0, 9, len(rows)).astype(np.float32))
    writer = CheckpointWriter(tmp_path, 1)
    save = partial(save_replay, replay)
    checkpoint = writer.write(1, {}, {}, write_replay=save)
    same = make(seed=9)
    load_replay(same, checkpoint)
    more = stream.rollout(8)
    for each in (replay, same):
        each.insert(more)
    assert same.fill == replay.fill
    for one, other in zip(same.sample(3, 50), replay.sample(3, 50), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_shards_drew_is_mixed_with_its_rows() -> None:
    replay = make()
    replay.insert(Stream(2).rollout(8))
    parts = [replay.sample(1, 20), replay.sample(1, 12)]
    mixed = mix_transitions(parts, 16, np.random.default_rng(0))
    assert mixed.rows is not None and mixed.rows.shape == (2, 16, 2)
    # A reward says the step's number and the environment.
    numbers = mixed.rows[..., 1] * 10 + mixed.rows[..., 0]
    np.testing.assert_array_equal(mixed.rewards, numbers)
