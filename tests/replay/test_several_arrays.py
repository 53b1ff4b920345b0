"""Rollouts and replays of observations with several images and vectors."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dict_envs import CAMERA

from xagents_ray.actors.envs.env_state import decode_arrays, encode_arrays
from xagents_ray.actors.envs.make import make_envs
from xagents_ray.actors.envs.vector import Envs
from xagents_ray.actors.policies.base import Actions
from xagents_ray.actors.rollout import (
    EpisodeCounter,
    FrameWindow,
    TrajectoryWriter,
    first_window,
)
from xagents_ray.core.batches import assemble_batch
from xagents_ray.core.spec import VECTOR, EnvSpec
from xagents_ray.core.stacks import network_input
from xagents_ray.core.trajectory import (
    Replayed,
    Trajectory,
    Transitions,
    map_arrays,
    slice_envs,
)
from xagents_ray.learners.frames import stack_rollout, stack_transitions
from xagents_ray.replay.trajectories import TrajectoryReplay
from xagents_ray.replay.transitions import TransitionReplay
from xagents_ray.run.replay_buffer import load_replay, save_replay
from xagents_ray.settings.training import EnvConfig
from xagents_ray.storage.checkpoint_writer import CheckpointWriter

ENVS, LENGTH = 3, 9
IMAGES = ("camera", "map")


def shown(numbers: Any, stack: int) -> dict[str, Any]:
    """Return the inputs at steps with these numbers, int [N], made by hand."""
    steps = np.stack([numbers - i for i in range(stack)][::-1], axis=-1)
    exists = steps // 8 == numbers[:, None] // 8
    camera = np.zeros((len(numbers), *CAMERA[:2], stack, 3), np.uint8)
    camera[:] = np.where(exists, steps, 0)[:, None, None, :, None]
    camera[:, 0, 0] = np.where(exists[..., None], [1, 2, 3], 0)
    maps = np.where(exists, 255 - steps, 0).astype(np.uint8)
    compass = np.eye(4, dtype=np.float32)[numbers % 8 % 4]
    joints = np.repeat(numbers[:, None], 4, axis=1).astype(np.float32)
    return {
        "camera": camera.reshape(len(numbers), *CAMERA[:2], -1),
        "map": np.broadcast_to(maps[:, None, None], (len(numbers), 4, 7, stack)),
        VECTOR: np.concatenate([joints, compass], axis=1),
    }


def check_input(found: Any, stack: int) -> None:
    numbers = found[VECTOR][:, 0].astype(int)
    for name, array in shown(numbers, stack).items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


class Rolling:
    """Rolls environments on as an env actor does, and checks each input."""

    def __init__(self, stack: int) -> None:
        config = EnvConfig(env="dict_envs:compass", frame_stack=stack)
        self.envs: Envs = make_envs(config, ENVS, 1)
        self.window: FrameWindow = first_window(self.envs.reset(0), stack)
        self.counter = EpisodeCounter(ENVS)
        self.random = np.random.default_rng(stack)

    @property
    def spec(self) -> EnvSpec:
        return self.envs.spec

    def rollout(self) -> Trajectory:
        rows, shape = TrajectoryWriter(self.window, LENGTH, False), (LENGTH, ENVS)
        actions = self.random.integers(2, size=shape, dtype=np.int32)
        rewards, ends = np.zeros(shape, np.float32), np.zeros((2, *shape), np.bool_)
        for t, chosen in enumerate(actions):
            check_input(rows.input(t), self.spec.stack)
            step = self.envs.step(chosen)
            rewards[t], ends[:, t] = step.rewards, (step.terminated, step.truncated)
            rows.write(t, Actions(chosen, chosen), step, self.counter.ended)
            self.counter.add(t, step)
        check_input(rows.input(LENGTH), self.spec.stack)
        self.window = rows.last_window()
        valid = ~rows.starts[self.spec.stack :]
        probabilities = self.random.random((*shape, 2), np.float32)
        fields: dict[str, Any] = {"probabilities": probabilities, "valid": valid}
        return Trajectory(
            rows.observations, rows.starts, actions, rewards, *ends, **fields
        )


@pytest.fixture(params=[1, 2, 4])
def rolling(request: pytest.FixtureRequest) -> Iterator[Rolling]:
    made = Rolling(request.param)
    yield made
    made.envs.close()


def test_each_frame_is_stored_once(rolling: Rolling) -> None:
    stack, (first, second) = rolling.spec.stack, [rolling.rollout() for _ in range(2)]
    assert first.starts[stack:].any()
    for name, (dtype, shape) in rolling.spec.arrays.items():
        rows = first.observations[name]
        assert rows.shape == (LENGTH + stack, ENVS, *shape) and rows.dtype == dtype
        np.testing.assert_array_equal(rows[LENGTH:], second.observations[name][:stack])
    for t in (first, second):
        numbers = t.observations[VECTOR][stack - 1 : -1, :, 0].astype(int)
        expected = shown(numbers.ravel(), stack)
        for name in IMAGES:
            stacks = stack_rollout(t.observations[name], t.starts, stack)
            np.testing.assert_array_equal(stacks, expected[name])


def test_windows_are_saved(rolling: Rolling) -> None:
    rolling.rollout()
    frames, _ = rolling.window
    again = decode_arrays(encode_arrays(frames), frames)
    for name in frames:
        np.testing.assert_array_equal(again[name], frames[name])
    with pytest.raises(ValueError, match=r"expected .*camera"):
        decode_arrays({"camera": encode_arrays(frames)["camera"]}, frames)


def transitions_of(spec: EnvSpec, n_step: int, seed: int = 1) -> TransitionReplay:
    return TransitionReplay(spec, 40 * ENVS, ENVS, LENGTH, seed, n_step, 0.9)


@pytest.mark.parametrize("n_step", [1, 3])
def test_transitions_are_those_of_the_rollouts(rolling: Rolling, n_step: int) -> None:
    spec = rolling.spec
    replay = transitions_of(spec, n_step)
    replay.commit()
    for i in range(9):
        t = rolling.rollout()
        if i == 4:  # lost
            continue
        for part in (slice_envs(t, 0, 2), slice_envs(t, 2, 3)):
            assert part is not None
            replay.insert(part)
    drawn = replay.sample(2, 200)
    assert isinstance(assemble_batch([drawn], 200, [1]).sampled, Transitions)
    for k in range(2):
        t = map_arrays(lambda x, k=k: x[k], drawn)
        check_transitions(t, spec.stack, n_step)


def check_transitions(t: Any, stack: int, n_step: int) -> None:
    sides = {name: x for name, x in t.observations.items() if name in IMAGES}
    pairs = {k: stack_transitions(x, t.starts, stack) for k, x in sides.items()}
    vectors = t.observations[VECTOR]
    assert vectors.shape[1] == (2 * stack if n_step > 1 else stack + 1)
    for side, at in ((0, stack - 1), (1, -1)):
        found = {name: np.asarray(pair[side]) for name, pair in pairs.items()}
        check_input({**found, VECTOR: vectors[:, at]}, stack)
    now, after = vectors[:, stack - 1, 0], vectors[:, -1, 0]
    moved, most = after - now, np.minimum(5 - now % 8, n_step)
    assert ((1 <= moved) & (moved <= most)).all()  # fewer before what was lost
    assert (moved == most).mean() > 0.9
    np.testing.assert_array_equal(t.discounts == 0, after % 8 == 5)


def test_whole_trajectories_come_back(rolling: Rolling) -> None:
    spec = rolling.spec
    replay = TrajectoryReplay(spec, 2 * ENVS, ENVS, LENGTH, 1)
    replay.commit()
    given = [rolling.rollout() for _ in range(3)]
    for each in given:
        replay.insert(each)
    drawn = replay.sample(4, 2)
    assert isinstance(drawn, Replayed)
    known = {key(t, column) for t in given[1:] for column in range(ENVS)}
    for k in range(4):
        t = map_arrays(lambda x, k=k: x[k], drawn)
        assert {key(t, column) for column in range(2 * ENVS)} <= known


def key(t: Any, column: int) -> bytes:
    arrays = [t.observations[name] for name in sorted(t.observations)]
    arrays += [t.starts, t.actions, t.valid, t.probabilities]
    return b"".join(np.ascontiguousarray(x[:, column]).tobytes() for x in arrays)


@pytest.mark.parametrize("kind", ["transitions", "trajectories"])
def test_checkpoints_hold_every_array(kind: str, tmp_path: Path) -> None:
    rolling = Rolling(2)

    def empty() -> Any:
        if kind == "transitions":
            return transitions_of(rolling.spec, 2)
        return TrajectoryReplay(rolling.spec, 2 * ENVS, ENVS, LENGTH, 1)

    replay, other = empty(), empty()
    for _ in range(4):
        replay.insert(rolling.rollout())
    rolling.envs.close()
    names = {f"observations/{name}" for name in rolling.spec.arrays}
    assert names <= replay.arrays().keys() and "observations" not in replay.arrays()
    frames = sum(replay.arrays()[name].nbytes for name in names)
    assert frames < replay.nbytes < 1.7 * frames
    save = partial(save_replay, replay)
    path = CheckpointWriter(tmp_path, 1).write(1, {}, {}, write_replay=save)
    load_replay(other, path)
    one, same = replay.sample(3, 8), other.sample(3, 8)
    for name in rolling.spec.arrays:
        np.testing.assert_array_equal(one.observations[name], same.observations[name])


def test_inputs_of_one_array_are_as_before() -> None:
    rows, starts = np.arange(6.0).reshape(2, 3), np.zeros((2, 3), np.bool_)
    np.testing.assert_array_equal(network_input(rows, starts, False), rows[-1])
