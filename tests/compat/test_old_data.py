"""Replay buffers and lazy frames of xagents hold data and give it back."""

import numpy as np
import pytest

import xagents_ray
from xagents_ray import UserError
from xagents_ray.utils.buffers import ReplayBuffer1, ReplayBuffer2
from xagents_ray.utils.common import LazyFrames, create_envs


def test_a_buffer_of_objects() -> None:
    buffer = ReplayBuffer1(3, batch_size=2)
    for i in range(5):
        buffer.append(np.full(2, i), i, i > 2)
    assert buffer.current_size == 3
    seen = set()
    for _ in range(60):
        states, numbers, flags = buffer.get_sample()
        assert states.shape == (2, 2) and numbers.shape == flags.shape == (2,)
        assert (states[:, 0] == numbers).all() and (flags == (numbers > 2)).all()
        assert numbers[0] != numbers[1]
        seen |= set(numbers.tolist())
    assert seen == {2, 3, 4}  # the oldest are gone
    one = ReplayBuffer1(3, batch_size=1)
    one.append("any", {"object": 1})
    assert one.get_sample() == ("any", {"object": 1})


def test_a_buffer_of_arrays() -> None:
    buffer = ReplayBuffer2(4, slots=2, batch_size=8)
    state = np.zeros(3, np.float32)
    for i in range(6):
        state[:] = i
        buffer.append(state, i)  # is copied
    states, numbers = buffer.get_sample()
    assert states.shape == (8, 3) and states.dtype == np.float32
    assert numbers.shape == (8, 1)
    assert (states[:, :1] == numbers).all()
    drawn = {int(n) for _ in range(60) for n in buffer.get_sample()[1][:, 0]}
    assert drawn == {2, 3, 4, 5}


@pytest.mark.parametrize(("kind", "size"), [(ReplayBuffer1, 3), (ReplayBuffer2, 64)])
@pytest.mark.parametrize("shape", [(), (2,)], ids=str)
def test_items_of_different_shapes_are_objects(
    kind: type[ReplayBuffer1], size: int, shape: tuple[int, ...]
) -> None:
    more = {"slots": 2} if kind is ReplayBuffer2 else {}
    buffer = kind(3, batch_size=size, **more)
    for i in (1, 2, 3):
        buffer.append(np.full((*shape, i), i), i)
    states, numbers = buffer.get_sample()
    assert states.shape == (size,) and states.dtype == object
    assert numbers.shape[0] == size and numbers.dtype != object
    for state, number in zip(states, numbers.ravel(), strict=True):
        np.testing.assert_array_equal(state, np.full((*shape, number), number))


def test_mistakes_with_buffers() -> None:
    with pytest.raises(UserError, match="has 0 entries and a batch has 2: append more"):
        ReplayBuffer1(5, batch_size=2).get_sample()
    buffer = ReplayBuffer2(5, slots=2)
    with pytest.raises(UserError, match="The buffer is empty"):
        buffer.get_sample()
    with pytest.raises(UserError, match="got 3 items and the buffer has slots=2"):
        buffer.append(1, 2, 3)
    buffer.append(1, 2)
    envs = create_envs("CartPole-v1", preprocess=False)
    with pytest.raises(UserError, match="a run collects its own: give the agent empty"):
        xagents_ray.DQN(envs, None, [buffer])


def test_lazy_frames_share_memory() -> None:
    frames = [np.full([3, 2, 1], i, np.uint8) for i in range(5)]
    stacks = [LazyFrames(frames[i : i + 4]) for i in range(2)]
    for i, stack in enumerate(stacks):
        expected = np.concatenate(frames[i : i + 4], axis=-1)
        np.testing.assert_array_equal(stack, expected)
        np.testing.assert_array_equal(stack[1], expected[1])
        assert stack.shape == expected.shape and stack.dtype == np.uint8
        assert len(stack) == 3
        with pytest.raises(ValueError, match="are copied when they are read"):
            stack.__array__(copy=False)
        assert np.asarray(stack, np.float32).dtype == np.float32
    frames[3][:] = 9  # is in both of them
    assert [int(stack[0, 0].max()) for stack in stacks] == [9, 9]
    buffer = ReplayBuffer1(2, batch_size=2)
    for stack in stacks:
        buffer.append(stack, 0.0)
    assert buffer.get_sample()[0].shape == (2, 3, 2, 4)
