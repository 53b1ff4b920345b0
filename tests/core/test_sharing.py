"""Parts of trajectories, and batches from several shards of a replay."""

import numpy as np
import pytest

from xagents_ray.core.batches import assemble_batch, mix_transitions, side_by_side
from xagents_ray.core.trajectory import (
    Replayed,
    Trajectory,
    Transitions,
    required_fields,
    slice_envs,
)
from xagents_ray.run.replay_buffer import shard_bounds


def _trajectory(first: int, envs: int) -> Trajectory:
    """Return three steps; every number says of which environment it is."""
    columns = np.arange(first, first + envs)

    def rows(count: int, dtype: type) -> np.ndarray:
        return np.tile(columns, (count, 1)).astype(dtype)

    return Trajectory(
        rows(4, np.float32)[..., None],
        rows(4, np.bool_),
        rows(3, np.int32),
        rows(3, np.float32),
        *(rows(3, np.bool_) for _ in range(3)),
        rows(3, np.float32),
        None,
        7,
        first,
    )


@pytest.mark.parametrize(
    ("first", "end", "columns"),
    [(0, 8, [2, 3, 4]), (2, 5, [2, 3, 4]), (3, 8, [3, 4]), (0, 3, [2]), (3, 4, [3])],
)
def test_part_keeps_the_columns_within(
    first: int, end: int, columns: list[int]
) -> None:
    own = slice_envs(_trajectory(2, 3), first, end)
    assert own is not None
    assert own.first_env == columns[0]
    assert own.rewards.tolist() == [columns] * 3
    assert own.observations[..., 0].tolist() == [columns] * 4
    assert own.actions.tolist() == [columns] * 3
    assert own.values is None
    assert own.weights_version == 7


@pytest.mark.parametrize(("first", "end"), [(0, 2), (5, 9)])
def test_part_is_none_without_a_column(first: int, end: int) -> None:
    assert slice_envs(_trajectory(2, 3), first, end) is None


def test_shards_share_all_environments() -> None:
    for total in range(1, 20):
        for shards in range(1, total + 1):
            bounds = shard_bounds(total, shards)
            sizes = np.diff(bounds)
            assert (bounds[0], bounds[-1], len(sizes)) == (0, total, shards)
            assert sizes.min() >= 1
            assert sizes.max() - sizes.min() <= 1


def _transitions(numbers: list[int]) -> Transitions:
    each = np.array([numbers])
    frames = each[..., None, None].astype(np.float32)
    return Transitions(
        frames, frames[..., 0] > 0, each, each.astype(np.float32), each / 4
    )


def test_mix_keeps_every_transition_whole() -> None:
    parts = [_transitions([0, 1, 2]), _transitions([3, 4, 5, 6, 7]), _transitions([8])]
    mixed = mix_transitions(parts, 3, np.random.default_rng(1))
    assert mixed.rewards.shape == (3, 3)
    assert sorted(mixed.rewards.ravel()) == list(range(9))
    assert mixed.rewards.ravel().tolist() != list(range(9))
    assert np.array_equal(mixed.rewards, mixed.actions)
    assert np.array_equal(mixed.rewards, mixed.observations[..., 0, 0])
    assert np.array_equal(mixed.discounts, mixed.actions / 4)


def test_mix_leaves_out_what_fills_no_batch() -> None:
    mixed = mix_transitions(
        [_transitions([0, 1]), _transitions([2])], 2, np.random.default_rng(1)
    )
    assert mixed.rewards.shape == (1, 2)


def test_one_shard_of_several_that_draws_alone_fills_all_batches() -> None:
    """The others are empty, or were given a share of 0; see `Shards.sample`."""
    drawn = assemble_batch([_transitions([*range(12)])], 3, [1]).sampled
    assert drawn is not None and drawn.rewards.shape == (4, 3)
    assert sorted(drawn.rewards.ravel()) == list(range(12))
    whole = _transitions([0, 1, 2])
    assert assemble_batch([whole], 3, [1]).sampled is whole
    both = assemble_batch([whole, whole], 3, [1]).sampled
    assert both is not None and both.rewards.shape == (2, 3)


def test_each_place_of_a_batch_is_drawn_from_all_shards() -> None:
    generator, seen = np.random.default_rng(3), set()
    for _ in range(100):
        mixed = mix_transitions(
            [_transitions([0, 1]), _transitions([2, 3])], 2, generator
        )
        seen |= {(int(n), at) for at, n in enumerate(mixed.rewards.ravel())}
    assert len(seen) == 16


def test_trajectories_of_shards_lie_side_by_side() -> None:
    one, other = (
        Replayed(**{x: np.full((2, 5, width), n) for x in required_fields(Replayed)})
        for n, width in ((1, 3), (2, 4))
    )
    both = side_by_side([one, other])
    assert both.rewards.shape == (2, 5, 7)
    assert both.rewards[1, 4].tolist() == [1, 1, 1, 2, 2, 2, 2]
    assert side_by_side([one]) is one
