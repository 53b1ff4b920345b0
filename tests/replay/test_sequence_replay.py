"""The replay of sequences: what goes in comes out, by its priority."""

from typing import Any

import numpy as np
import pytest

from xagents_ray.core.batches import assemble_batch
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.replay.sequences import SequenceReplay

SPEC = EnvSpec((2,), "float32", 1, 3)
LENGTH, UNITS = 4, 3


def rollout(number: int, envs: int, first: int = 0) -> Trajectory:
    """Return a rollout whose every array tells its number and environment."""
    tags = 100.0 * number + first + np.arange(envs)
    shape = (LENGTH, envs)
    false = np.zeros(shape, bool)
    return Trajectory(
        observations=np.broadcast_to(tags[:, None], (LENGTH + 1, envs, 2)).astype(
            np.float32
        ),
        starts=np.zeros((LENGTH + 1, envs), bool),
        actions=np.zeros(shape, np.int32),
        rewards=np.broadcast_to(tags, shape).astype(np.float32),
        terminated=false,
        truncated=false,
        valid=~false,
        recurrent_state=np.broadcast_to(tags[:, None], (1, envs, UNITS)).astype(
            np.float32
        ),
        first_env=first,
    )


def made(capacity: int, alpha: float | None = None, envs: int = 2) -> SequenceReplay:
    return SequenceReplay(
        SPEC, capacity, envs, LENGTH, 0, 1, 0.9, alpha=alpha, state_units=UNITS
    )


@pytest.mark.parametrize("alpha", [None, 0.6])
def test_rows_name_the_sequences(alpha: float | None) -> None:
    """Also after older ones were overwritten."""
    replay = made(5 * LENGTH, alpha)  # 3 sequences of one environment, 2 of the other
    for number in range(5):
        replay.insert(rollout(number, 2))
        assert replay.fill.size == LENGTH * min(5, 2 * (number + 1))
    assert replay.fill.is_full
    drawn = replay.sample(2, 50)
    assert drawn.rewards.shape == (2, LENGTH, 50)
    assert drawn.recurrent_state is not None and drawn.rows is not None
    assert drawn.recurrent_state.shape == (2, 1, 50, UNITS)
    env, number = np.moveaxis(drawn.rows, -1, 0)
    tags = 100 * number + env
    np.testing.assert_array_equal(drawn.rewards, np.repeat(tags, LENGTH, 1))
    np.testing.assert_array_equal(drawn.recurrent_state[..., 0], tags)
    found = {tuple(x) for x in drawn.rows.reshape(-1, 2).tolist()}
    assert found == {(0, 2), (0, 3), (0, 4), (1, 3), (1, 4)}


def test_sequences_are_drawn_by_their_errors() -> None:
    replay = made(4 * LENGTH, 1.0)
    for number in range(2):
        replay.insert(rollout(number, 2))
    rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert replay.update(rows, np.array([0, 0, 0, 8], np.float32)) == 0
    # Those of a replay that this one has replaced may be newer than all of its own.
    assert replay.update(np.array([[0, 2]]), np.array([9.0], np.float32)) == 1
    drawn = replay.sample(1, 40)
    assert drawn.rows is not None and drawn.priorities is not None
    assert (drawn.rows == [1, 1]).all()
    np.testing.assert_allclose(drawn.priorities, 8, rtol=1e-5)
    replay.insert(rollout(2, 2))  # overwrites the first ones, as probable as any
    assert replay.update(rows, np.ones(4, np.float32)) == 2
    assert replay.fill.priority == pytest.approx(8 + 8 + 1 + 1, rel=1e-4)


def test_contents_survive_a_checkpoint() -> None:
    first, second = made(4 * LENGTH, 0.5), made(4 * LENGTH, 0.5)
    first.insert(rollout(0, 2))
    first.update(np.array([[0, 0]]), np.array([7.0], np.float32))
    kept = second.arrays()
    for name, array in first.arrays().items():
        kept[name][...] = array
    second.restore_generator(first.arrays())
    one, other = (each.sample(2, 3) for each in (first, second))
    for name in ("rewards", "rows", "priorities"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_an_empty_replay_is_refused() -> None:
    with pytest.raises(ValueError, match="replay is empty"):
        made(10).sample(1, 1)


def test_shards_are_mixed() -> None:
    parts: list[Any] = []
    for shard in range(2):
        replay = made(8, envs=1)
        replay.insert(rollout(shard, 1))
        parts.append(replay.sample(1, 5))
    batch = assemble_batch(parts, 3, [1]).sampled
    assert batch is not None and batch.rows is not None
    assert batch.rewards.shape == (3, LENGTH, 3)
    assert batch.rows.shape == (3, 1, 3, 2)
    tags = batch.rewards[:, :1]
    np.testing.assert_array_equal(np.repeat(tags, LENGTH, 1), batch.rewards)
    assert {*tags.ravel().tolist()} == {0.0, 100.0}
    states = batch.recurrent_state
    assert states is not None
    np.testing.assert_array_equal(states[..., 0], tags)
