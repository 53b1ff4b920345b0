"""Stacks of frames rebuilt from frames stored once, in NumPy and in the graph."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import naive_stacks

from xagents_ray.core.stacks import same_episode, stack_frames
from xagents_ray.core.trajectory import (
    Trajectory,
    merge_trajectories,
)
from xagents_ray.learners.frames import stack_rollout, stack_transitions

CASES = settings(deadline=None, max_examples=60)


class Rollout(NamedTuple):
    frames: Any
    starts: Any
    stack: int


@st.composite
def rollouts(draw: Any, shapes: Any = ((2, 3), (3, 2, 3))) -> Rollout:
    """T + stack rows of B environments; no pixel is 0, so hidden ones show."""
    stack = draw(st.integers(1, 5))
    rows = stack + draw(st.integers(1, 9))
    envs = draw(st.integers(1, 4))
    shape = draw(st.sampled_from(shapes))
    size = rows * envs
    flags = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    frames = rng.integers(1, 256, (rows, envs, *shape), np.uint8)
    return Rollout(frames, np.reshape(flags, (rows, envs)), stack)


def expected_stacks(case: Rollout) -> Any:
    """Return [T + 1, B, H, W, stack * C], row t seen with `stack` frames."""
    envs = range(case.frames.shape[1])
    walks = [
        naive_stacks(case.frames[:, b], case.starts[:, b], case.stack) for b in envs
    ]
    return np.stack(walks, axis=1)[case.stack - 1 :]


@CASES
@given(rollouts())
def test_stack_frames(case: Rollout) -> None:
    expected = expected_stacks(case)
    frames, starts = case.frames.copy(), case.starts.copy()
    for t, row in enumerate(expected):
        window = slice(t, t + case.stack)
        got = stack_frames(case.frames[window], case.starts[window])
        assert got.dtype == np.uint8
        np.testing.assert_array_equal(got, row)
    # It leaves its input alone.
    np.testing.assert_array_equal(case.frames, frames)
    np.testing.assert_array_equal(case.starts, starts)


@CASES
@given(rollouts())
def test_seen(case: Rollout) -> None:
    got = same_episode(case.starts)
    rows, envs = case.starts.shape
    for row in range(rows):
        for env in range(envs):
            hidden = any(case.starts[later, env] for later in range(row + 1, rows))
            assert got[row, env] == (not hidden)


def test_seen_by_hand() -> None:
    starts = np.array([[0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1]], bool)
    shown = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], bool)
    np.testing.assert_array_equal(same_episode(starts), shown)


@CASES
@given(rollouts())
def test_stack_rollout(case: Rollout) -> None:
    expected = expected_stacks(case)[:-1]
    got = stack_rollout(case.frames, case.starts, case.stack).numpy()
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, expected.reshape(-1, *expected.shape[2:]))
    numpy = [
        stack_frames(case.frames[t : t + case.stack], case.starts[t : t + case.stack])
        for t in range(len(expected))
    ]
    np.testing.assert_array_equal(got, np.concatenate(numpy))


@CASES
@given(rollouts())
def test_stack_transitions(case: Rollout) -> None:
    """Every window whose last frame continues the episode is a transition."""
    expected = expected_stacks(case)
    size = case.stack + 1
    windows = range(len(case.frames) - size + 1)
    frames = np.concatenate([case.frames[t : t + size].swapaxes(0, 1) for t in windows])
    starts = np.concatenate([case.starts[t : t + size].T for t in windows])
    held = ~starts[:, -1]
    now, after = (
        x.numpy() for x in stack_transitions(frames[held], starts[held], case.stack)
    )
    np.testing.assert_array_equal(after, np.concatenate(expected[1:])[held])
    np.testing.assert_array_equal(now, np.concatenate(expected[:-1])[held])


def trajectory(envs: int, first_env: int, version: int, values: bool) -> Trajectory:
    rng = np.random.default_rng(first_env)
    length, stack = 3, 2

    def flags() -> Any:
        return rng.random((length, envs)) < 0.5

    return Trajectory(
        rng.integers(0, 256, (length + stack, envs, 4, 5), np.uint8),
        rng.random((length + stack, envs)) < 0.5,
        rng.integers(0, 3, (length, envs), np.int32),
        rng.random((length, envs), np.float32),
        flags(),
        flags(),
        flags(),
        rng.random((length, envs), np.float32) if values else None,
        rng.random((length + 1, envs), np.float32) if values else None,
        version,
        first_env,
    )


@pytest.mark.parametrize("values", [False, True])
def test_merge(values: bool) -> None:
    parts = [trajectory(2, 3, 7, values), trajectory(1, 5, 6, values)]
    merged = merge_trajectories(parts)
    assert (merged.weights_version, merged.first_env, merged.stack) == (6, 3, 2)
    for name, whole in merged._asdict().items():
        if name in ("weights_version", "first_env"):
            continue
        one, other = (getattr(part, name) for part in parts)
        if one is None:
            assert whole is None
            continue
        np.testing.assert_array_equal(whole[:, :2], one)
        np.testing.assert_array_equal(whole[:, 2:], other)
    assert merge_trajectories(parts[:1]) is parts[0]
