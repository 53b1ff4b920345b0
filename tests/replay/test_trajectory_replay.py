"""The replay of trajectories against a list: what it holds, draws and costs."""

from collections import defaultdict, deque
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import naive_stacks

from xagents_ray.algorithms.acer import ACERConfig
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Fill, Trajectory, required_fields
from xagents_ray.learners.frames import stack_rollout
from xagents_ray.replay.trajectories import TrajectoryReplay
from xagents_ray.run.replay_buffer import load_replay, replay_for, save_replay
from xagents_ray.storage.checkpoint_writer import CheckpointWriter

N_ACTIONS = 3
SPECS = {
    "vector": EnvSpec((4,), "float32", 1, N_ACTIONS),
    "ram": EnvSpec((5,), "uint8", 1, N_ACTIONS),
    "grey": EnvSpec((2, 3), "uint8", 4, N_ACTIONS),
    "rgb": EnvSpec((1, 2, 3), "uint8", 2, N_ACTIONS),
    "continuous": EnvSpec((4,), "float32", 1, 0, (-1.0,) * 2, (1.0,) * 2),
}
ATARI = EnvSpec((84, 84), "uint8", 4, 6)


def rolled(spec: EnvSpec, length: int, first: int, envs: int, rng: Any) -> Trajectory:
    """Return noise in the shape of a rollout, with log-probs of continuous actions."""
    rows, steps = (length + spec.stack, envs), (length, envs)
    frames = rng.integers(0, 256, (*rows, *spec.observation_shape))
    flags = [rng.random(steps) < 0.3 for _ in range(3)]
    actions = rng.integers(0, N_ACTIONS, steps, np.int32)
    t = Trajectory(
        frames.astype(spec.observation_dtype),
        rng.random(rows) < 0.3,
        actions,
        rng.normal(size=steps).astype(np.float32),
        *flags,
        None,
        None,
        1,
        first,
        rng.random((*steps, N_ACTIONS), np.float32),
    )
    if spec.is_discrete:
        return t
    actions = rng.normal(size=(*steps, 2)).astype(np.float32)
    log_probs = rng.normal(size=steps).astype(np.float32)
    return t._replace(actions=actions, log_probs=log_probs, probabilities=None)


def contents(t: Any, column: int, batch: int | None = None) -> tuple[bytes, ...]:
    """Return one environment's part of a trajectory, to the bit."""
    more = "log_probs", "probabilities", "network_noise"
    own = (*required_fields(Trajectory), *more)
    parts = [getattr(t, name) for name in own]
    parts = [part for part in parts if part is not None]
    parts = parts if batch is None else [part[batch] for part in parts]
    return tuple(part[:, column].tobytes() for part in parts)


class Plan(NamedTuple):
    spec: EnvSpec
    groups: list[tuple[int, int]]
    capacity: int
    length: int
    inserts: list[int]
    seed: int


@st.composite
def plans(draw: Any) -> Plan:
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    ends = np.cumsum(sizes).tolist()
    groups = [(end - size, size) for end, size in zip(ends, sizes, strict=True)]
    inserts = draw(st.lists(st.integers(0, len(groups) - 1), max_size=20))
    return Plan(
        draw(st.sampled_from(list(SPECS.values()))),
        groups,
        ends[-1] + draw(st.integers(0, 12)),
        draw(st.integers(1, 5)),
        [*range(len(groups)), *inserts],
        draw(st.integers(0, 2**31 - 1)),
    )


@settings(deadline=None, max_examples=60)
@given(plans())
def test_draws_exactly_the_newest_that_were_inserted(plan: Plan) -> None:
    """Of every environment, after any number of turns of the rings."""
    spec, rng = plan.spec, np.random.default_rng(plan.seed)
    n_envs = sum(size for _, size in plan.groups)
    quotas = [plan.capacity // n_envs + (e < plan.capacity % n_envs) for e in range(9)]
    held = [deque[Any](maxlen=quotas[env]) for env in range(n_envs)]
    behavior = "probabilities" if spec.is_discrete else "log_probs"
    settings = spec, plan.capacity, n_envs, plan.length, plan.seed, behavior
    units = 2 if spec.is_discrete else 0
    replay = TrajectoryReplay(*settings, units)
    nbytes = replay.nbytes
    for index in plan.inserts:
        first, size = plan.groups[index]
        trajectory = rolled(spec, plan.length, first, size, rng)
        if units:
            noise = rng.normal(size=(1, size, units)).astype(np.float32)
            trajectory = trajectory._replace(network_noise=noise)
        replay.insert(trajectory)
        for column in range(size):
            held[first + column].append(contents(trajectory, column))
    assert replay.fill.size == sum(map(len, held)) <= plan.capacity
    assert replay.fill.is_full == (replay.fill.size == plan.capacity)
    sample = replay.sample(20 * max(map(len, held)), 1)
    for env in range(n_envs):
        drawn = {contents(sample, env, k) for k in range(len(sample.rewards))}
        assert drawn == set(held[env])
    assert replay.nbytes == nbytes


def test_shapes_of_samples() -> None:
    spec, rng = SPECS["rgb"], np.random.default_rng(0)
    replay = TrajectoryReplay(spec, 20, 3, 7, 0)
    replay.insert(rolled(spec, 7, 0, 3, rng))
    sample = replay.sample(4, 2)
    assert sample.observations.shape == (4, 9, 6, 1, 2, 3)
    assert sample.starts.shape == (4, 9, 6)
    assert sample.probabilities.shape == (4, 7, 6, N_ACTIONS)
    arrays = [x for x in sample if isinstance(x, np.ndarray)]
    assert sample.observations.dtype == np.uint8 and sample.actions.dtype == np.int32
    assert len(arrays) == 8 and all(array.flags.c_contiguous for array in arrays)


@pytest.mark.parametrize("name", ["grey", "rgb"])
def test_stacks_are_rebuilt_bit_for_bit(name: str) -> None:
    """Also the first ones, whose older frames come from the rollout before."""
    spec, rng = SPECS[name], np.random.default_rng(0)
    replay = TrajectoryReplay(spec, 6, 2, 5, 0)
    frames = rng.integers(0, 256, (64, 2, *spec.observation_shape), np.uint8)
    starts = rng.random((64, 2)) < 0.3
    starts[0] = True
    stacks = [naive_stacks(frames[:, e], starts[:, e], spec.stack) for e in range(2)]
    known = [defaultdict(list) for _ in range(2)]
    for begin in range(5, 45, 5):
        t = rolled(spec, 5, 0, 2, rng)
        window = slice(begin - spec.stack + 1, begin + 6)
        replay.insert(t._replace(observations=frames[window], starts=starts[window]))
        for env in range(2):
            key = t.rewards[:, env].tobytes()
            known[env][key] = stacks[env][begin : begin + 5]
    sample = replay.sample(8, 1)
    for k in range(8):
        seen = stack_rollout(sample.observations[k], sample.starts[k], spec.stack)
        seen = seen.numpy().reshape(5, 2, *seen.shape[1:])
        for env in range(2):
            expected = known[env][sample.rewards[k, :, env].tobytes()]
            np.testing.assert_array_equal(seen[:, env], expected)


def filled(seed: int) -> TrajectoryReplay:
    rng, spec = np.random.default_rng(4), SPECS["vector"]
    replay = TrajectoryReplay(spec, 40, 2, 3, seed)
    for _ in range(9):
        replay.insert(rolled(spec, 3, 0, 2, rng))
    return replay


def test_environments_are_drawn_independently_and_uniformly() -> None:
    sample = filled(0).sample(9_000, 1)
    counts: dict[Any, int] = defaultdict(int)
    for pair in sample.rewards[:, 0]:
        counts[tuple(pair)] += 1
    assert len(counts) == 81
    expected = 9_000 / 81
    statistic = sum((c - expected) ** 2 / expected for c in counts.values())
    assert abs(statistic - 80) < 5 * (2 * 80) ** 0.5


def test_the_seed_decides_the_draws_and_samples_are_copies() -> None:
    one, same, other = filled(1), filled(1), filled(2)
    first = one.sample(16, 1)
    for a, b in zip(first, same.sample(16, 1), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first.rewards, other.sample(16, 1).rewards)
    assert not np.array_equal(first.rewards, one.sample(16, 1).rewards)
    rewards = one.sample(64, 1).rewards
    rewards[...] = 99
    assert one.sample(64, 1).rewards.max() < 99


def test_an_empty_replay_is_refused() -> None:
    replay = TrajectoryReplay(SPECS["vector"], 4, 2, 3, 0)
    assert replay.fill == Fill(0, False)
    with pytest.raises(ValueError, match="empty"):
        replay.sample(1, 1)


def test_a_loaded_replay_continues_exactly(tmp_path: Path) -> None:
    saved = filled(1)
    saved.sample(3, 1)
    save = partial(save_replay, saved)
    path = CheckpointWriter(tmp_path, 1).write(1, {}, {}, write_replay=save)
    loaded = TrajectoryReplay(SPECS["vector"], 40, 2, 3, 5)
    load_replay(loaded, path)
    assert loaded.fill == saved.fill == Fill(18, False)
    more = rolled(SPECS["vector"], 3, 0, 2, np.random.default_rng(8))
    for replay in (saved, loaded):
        replay.insert(more)
    for a, b in zip(saved.sample(9, 1), loaded.sample(9, 1), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(UserError):
        load_replay(TrajectoryReplay(SPECS["vector"], 50, 2, 3, 5), path)


@pytest.mark.parametrize("n_envs", [1, 8, 16])
def test_memory_of_ten_thousand_atari_trajectories(n_envs: int) -> None:
    """Each of 20 steps, with the frames of its first stack: 24 frames."""
    replay = TrajectoryReplay(ATARI, 10_000, n_envs, 20, 0)
    frames = replay.arrays()["observations"].nbytes
    assert frames == 10_000 * 24 * 84 * 84
    assert (replay.nbytes - frames) < 0.01 * replay.nbytes


def test_refuses_what_memory_cannot_hold() -> None:
    size = 2 * psutil.virtual_memory().available // (24 * 84 * 84)
    kind, config = (
        find_algorithm("acer").replay,
        ACERConfig(buffer_max_size=size).replay,
    )
    assert kind is not None and config is not None
    with pytest.raises(UserError, match=rf"--buffer-max-size {size} needs .*lower it"):
        replay_for(kind, ATARI, config, 1, 0)
