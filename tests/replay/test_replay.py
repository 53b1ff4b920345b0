"""The replay against a list: what it holds, what it draws, what it costs."""

import statistics
import time
from collections import deque
from typing import Any, NamedTuple

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Trajectory,
    Transitions,
    map_arrays,
    required_fields,
)
from xagents_ray.learners.frames import stack_transitions
from xagents_ray.replay.transitions import TransitionReplay
from xagents_ray.run.replay_buffer import replay_for

GREY, RGB, VECTOR = (2, 3), (1, 2, 3), (4,)
ATARI = EnvSpec((84, 84), "uint8", 4, 6)
GAMMA = 0.75
KIND = "xagents_ray.replay.transitions:TransitionReplay"


class Step(NamedTuple):
    """One transition; observations are ids, 0 for zeros."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    action: Any
    reward: float
    terminated: bool
    log_prob: float


class Drawn(NamedTuple):
    """What should be drawn, or was, of a step and those that follow it."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    action: Any
    reward: Any
    discount: Any
    log_probs: Any  # of the later steps


def spec_of(shape: tuple[int, ...], stack: int, discrete: bool) -> EnvSpec:
    dtype = "float32" if shape == VECTOR else "uint8"
    actions = (6,) if discrete else (0, (-1.0, -1.0), (1.0, 1.0))
    return EnvSpec(shape, dtype, stack, *actions)


def encode(ids: Any, spec: EnvSpec) -> Any:
    """Return observations that hold their id in their first four bytes."""
    size = int(np.prod(spec.observation_shape))
    if not spec.is_image:
        return np.repeat(ids[..., None], size, axis=-1).astype(np.float32)
    data = np.repeat(ids[..., None].astype(np.uint32).view(np.uint8), 2, axis=-1)
    return data[..., :size].reshape(*ids.shape, *spec.observation_shape)


def decode(observations: Any, spec: EnvSpec) -> Any:
    """Return [N, stack] ids of what the network sees, [N, H, W, stack * C]."""
    n = len(observations)
    if not spec.is_image:
        return observations[:, :1].astype(np.int64)
    height, width, *channels = spec.observation_shape
    parts = observations.reshape(n, height, width, spec.stack, *channels)
    flat = np.moveaxis(parts, 3, 1).reshape(n, spec.stack, -1)[..., :6:2]
    return flat.astype(np.int64) @ (1 << np.arange(0, 24, 8))


class World:
    """Environments and, of each, the list of steps that the replay should hold."""

    def __init__(self, spec: EnvSpec, n_envs: int, capacity: int, seed: int) -> None:
        self.spec, self.rng = spec, np.random.default_rng(seed)
        self.rows: list[deque[Step | None]] = [deque() for _ in range(n_envs)]
        self.quotas = [
            capacity // n_envs + (env < capacity % n_envs) for env in range(n_envs)
        ]
        self._next = 0

    def new_id(self) -> int:
        self._next += 1
        return self._next

    def keep(self, replay: TransitionReplay) -> None:
        """Forget what a replay has no room for."""
        longest = ring_rows(replay, self.spec, len(self.rows))
        for rows, quota in zip(self.rows, self.quotas, strict=True):
            while len(rows) > longest or count(rows) > quota:
                rows.popleft()

    @property
    def held(self) -> dict[int, Step]:
        return {s.before[-1]: s for rows in self.rows for s in rows if s is not None}


def count(rows: Any) -> int:
    return sum(row is not None for row in rows)


class Actor:
    """Steps environments that end at random; it begins with their first episodes."""

    def __init__(self, world: World, first_env: int, envs: int, p_end: float) -> None:
        self.world, self.first_env = world, first_env
        self.envs, self.p_end = envs, p_end
        stack = world.spec.stack
        self.shown = [[world.new_id()] for _ in range(envs)]
        self.ended = [False] * envs
        self.ids = np.zeros((stack, envs), np.int64)
        self.starts = np.zeros((stack, envs), bool)
        self.ids[-1], self.starts[-1] = [s[0] for s in self.shown], True
        self.is_new, self.is_cut_off = True, False

    def lose(self, length: int) -> None:
        """Roll out, for nobody: neither the world nor the replay sees it."""
        envs = range(self.first_env, self.first_env + self.envs)
        kept = [self.world.rows[env].copy() for env in envs]
        self.rollout(length)
        self.world.rows[self.first_env : self.first_env + self.envs] = kept
        self.is_cut_off = True

    def stack(self, column: int) -> tuple[int, ...]:
        stack = self.world.spec.stack
        return tuple(([0] * stack + self.shown[column])[-stack:])

    def rollout(self, length: int) -> Trajectory:
        spec, rng, shape = self.world.spec, self.world.rng, (length, self.envs)
        ids = np.concatenate([self.ids, np.zeros(shape, np.int64)])
        starts = np.concatenate([self.starts, np.zeros(shape, bool)])
        terminated, truncated, valid = (np.zeros(shape, bool) for _ in range(3))
        if spec.is_discrete:
            actions = rng.integers(0, 6, shape, np.int32)
        else:
            actions = rng.normal(size=(*shape, 2)).astype(np.float32)
        rewards = rng.normal(size=shape).astype(np.float32)
        log_probs = np.zeros(shape, np.float32)
        for column in range(self.envs):
            rows = self.world.rows[self.first_env + column]
            if (self.is_new or self.is_cut_off) and rows and rows[-1] is not None:
                rows.append(None)  # what the last step led to
            if self.is_cut_off:
                # Older frames of the first stack take rows, but are no transitions.
                rows.extend([None] * min(len(self.shown[column]) - 1, spec.stack - 1))
            for t in range(length):
                new, before = self.world.new_id(), self.stack(column)
                ids[t + spec.stack, column] = new
                if self.ended[column]:
                    self.ended[column] = False
                    self.shown[column] = [new]
                    starts[t + spec.stack, column] = True
                    rows.append(None)
                    continue
                self.shown[column].append(new)
                ends = rng.random() < self.p_end
                kind = rng.choice(["terminated", "truncated"]) if ends else "on"
                lost_life = rng.random() < 0.1
                valid[t, column] = True
                terminated[t, column] = kind == "terminated" or lost_life
                truncated[t, column] = kind == "truncated"
                self.ended[column] = kind != "on"
                action, reward = actions[t, column].tolist(), float(rewards[t, column])
                end, log_probs[t, column] = bool(terminated[t, column]), np.sin(new)
                step = before, self.stack(column), action, reward, end
                rows.append(Step(*step, float(log_probs[t, column])))
        self.is_new = self.is_cut_off = False
        self.ids, self.starts = ids[length:], starts[length:]
        steps = actions, rewards, terminated, truncated, valid
        last = log_probs, None, 1, self.first_env
        return Trajectory(encode(ids, spec), starts, *steps, *last)


def ring_rows(replay: TransitionReplay, spec: EnvSpec, n_envs: int) -> int:
    """Rows of each environment that fit, with a whole stack before the oldest."""
    size = np.dtype(spec.observation_dtype).itemsize * np.prod(spec.observation_shape)
    frames = replay.arrays()["observations"].nbytes
    return int(frames / size / n_envs) - spec.stack


def steps_of(sample: Any, spec: EnvSpec) -> list[Drawn]:
    """Return sampled transitions as the learner rebuilds them."""
    flat = map_arrays(lambda x: x.reshape(-1, *x.shape[2:]), sample)
    if spec.is_image:
        stacks = stack_transitions(flat.observations, flat.starts, spec.stack)
        now, after = (x.numpy() for x in stacks)
    else:
        now, after = flat.observations[:, 0], flat.observations[:, 1]
    states = decode(now, spec), decode(after, spec)
    log_probs = np.zeros(len(now)) if flat.log_probs is None else flat.log_probs
    columns = (*states, flat.actions, flat.rewards, flat.discounts, log_probs)
    steps = zip(*(column.tolist() for column in columns), strict=True)
    return [Drawn(tuple(a), tuple(b), *rest) for a, b, *rest in steps]


def expected(held: dict[int, Step], first: Step, n_step: int) -> Drawn:
    """Return what a transition of up to so many steps should be, step by step."""
    last, reward, discount, log_probs = first, first.reward, GAMMA, 0.0
    for _ in range(n_step - 1):
        if last.terminated or last.after[-1] not in held:
            break
        last = held[last.after[-1]]
        reward += discount * last.reward
        log_probs += discount * last.log_prob
        discount *= GAMMA
    return Drawn(
        first.before,
        last.after,
        first.action,
        pytest.approx(reward, rel=1e-5, abs=1e-6),
        0 if last.terminated else pytest.approx(discount, rel=1e-6),
        pytest.approx(log_probs, rel=1e-5, abs=1e-6),
    )


def assert_draws_what_is_held(
    replay: TransitionReplay, world: World, n_step: int = 1
) -> None:
    """Each held transition is drawn, and nothing else; 60 draws for each one."""
    held = world.held
    assert replay.fill.size == len(held)
    if not held:
        with pytest.raises(ValueError, match="empty"):
            replay.sample(1, 1)
        return
    drawn = steps_of(replay.sample(4, 15 * len(held)), world.spec)
    assert len(drawn) == 60 * len(held)
    should = {key: expected(held, step, n_step) for key, step in held.items()}
    for step in drawn:
        assert step == should.get(step.before[-1])
    assert {step.before[-1] for step in drawn} == held.keys()


class Plan(NamedTuple):
    spec: EnvSpec
    groups: list[tuple[int, int]]
    capacity: int
    p_end: float
    inserts: list[tuple[int, int, Any]]
    seed: int
    n_step: int

    def replay(self) -> TransitionReplay:
        n_envs = sum(size for _, size in self.groups)
        return TransitionReplay(
            self.spec,
            self.capacity,
            n_envs,
            7,
            self.seed,
            self.n_step,
            GAMMA,
            has_log_probs=self.n_step > 1,
        )


@st.composite
def plans(draw: Any, events: list[list[str]]) -> Plan:
    shape = draw(st.sampled_from([GREY, RGB, VECTOR]))
    stack = 1 if shape == VECTOR else draw(st.integers(1, 5))
    sizes = draw(st.lists(st.integers(1, 2), min_size=1, max_size=3))
    ends = np.cumsum(sizes).tolist()
    groups = [(end - size, size) for end, size in zip(ends, sizes, strict=True)]
    insert = st.tuples(
        st.integers(0, len(groups) - 1),
        st.integers(1, draw(st.sampled_from([1, 2, 7]))),
        st.sampled_from(draw(st.sampled_from(events))),
    )
    return Plan(
        spec_of(shape, stack, draw(st.booleans())),
        groups,
        draw(st.integers(1, 30)),
        draw(st.sampled_from([0.02, 0.2, 0.7, 1.0])),
        draw(st.lists(insert, max_size=25)),
        draw(st.integers(0, 2**31 - 1)),
        draw(st.sampled_from([1, 1, 2, 5, 30])),
    )


LOSSES = ["insert"] * 3 + ["lose", "replace actor", "replace replay"]
FEW, SOME = ["insert"], ["insert"] * 3 + ["replace actor"]


@settings(deadline=None, max_examples=300)
@given(plans([FEW, SOME, LOSSES, LOSSES]))
def test_holds_and_draws_the_newest_of_every_environment(plan: Plan) -> None:
    """Every stack is whole, whatever is lost: rollouts, actors, the replay itself."""
    n_envs = sum(size for _, size in plan.groups)
    replay, world = plan.replay(), World(plan.spec, n_envs, plan.capacity, plan.seed)
    assert ring_rows(replay, plan.spec, n_envs) >= max(world.quotas)
    actors = [Actor(world, *group, plan.p_end) for group in plan.groups]
    for index, length, event in plan.inserts:
        if event == "replace actor":
            actors[index] = Actor(world, *plan.groups[index], plan.p_end)
        if event == "replace replay":
            replay, world.rows = plan.replay(), [deque() for _ in range(n_envs)]
            for actor in actors:
                actor.is_cut_off = True
        if event == "lose":
            actors[index].lose(length)
            continue
        replay.insert(actors[index].rollout(length))
        world.keep(replay)
        assert replay.fill.size == len(world.held) <= plan.capacity
    assert_draws_what_is_held(replay, world, plan.n_step)


def empty(stack: int, capacity: int, n_envs: int, longest: int) -> Any:
    """Return a replay of grey frames and a world for it."""
    spec = spec_of(GREY, stack, True)
    replay = TransitionReplay(spec, capacity, n_envs, longest, 1, 1, GAMMA)
    return replay, World(spec, n_envs, capacity, 3)


@pytest.mark.parametrize("length", [1, 2, 8])
def test_a_new_replay_in_the_middle_of_an_episode(length: int) -> None:
    """The first stacks show what came before, which no replay has seen."""
    replay, world = empty(4, 100, 1, 8)
    actor = Actor(world, 0, 1, 0.0)
    actor.lose(9)
    for inserted in (1, 2):
        replay.insert(actor.rollout(length))
        assert replay.fill.size == inserted * length
    assert_draws_what_is_held(replay, world)
    assert all(0 not in step.before for step in world.held.values())


def test_an_actor_that_dies_early_again_and_again() -> None:
    """Half of its first rows are no transitions."""
    replay, world = empty(2, 300, 1, 16)
    for _ in range(6):
        actor = Actor(world, 0, 1, 0.0)
        replay.insert(actor.rollout(1))
    for _ in range(310):
        replay.insert(actor.rollout(1))
        world.keep(replay)
        assert replay.fill.size == len(world.held)
    assert_draws_what_is_held(replay, world)


def test_a_replaced_actor_leaves_no_transition_across_the_gap() -> None:
    replay, world = empty(3, 100, 2, 8)
    replay.insert(Actor(world, 0, 2, 0.0).rollout(8))
    assert replay.fill.size == 16
    replay.insert(Actor(world, 0, 2, 0.0).rollout(8))
    assert replay.fill.size == 32
    assert_draws_what_is_held(replay, world)
    firsts = [s for s in world.held.values() if s.before[:-1] == (0, 0)]
    assert len(firsts) == 4


def test_fewer_transitions_than_environments() -> None:
    replay, world = empty(2, 2, 3, 4)
    for _ in range(3):
        replay.insert(Actor(world, 0, 3, 0.0).rollout(4))
        world.keep(replay)
        assert_draws_what_is_held(replay, world)


def test_draws_are_uniform() -> None:
    """Over environments of unequal pace and episodes of all lengths."""
    replay, world = empty(2, 60, 3, 40)
    for env, length in enumerate((3, 14, 40)):
        replay.insert(Actor(world, env, 1, 0.2).rollout(length))
        world.keep(replay)
    held = world.held
    drawn = steps_of(replay.sample(100, 20 * len(held)), world.spec)
    counts = dict.fromkeys(held, 0)
    for step in drawn:
        counts[step.before[-1]] += 1
    expected = len(drawn) / len(held)
    statistic = sum((c - expected) ** 2 / expected for c in counts.values())
    freedom = len(held) - 1
    assert freedom > 20
    assert statistic < freedom + 5 * (2 * freedom) ** 0.5
    assert statistic > freedom - 5 * (2 * freedom) ** 0.5  # and no lottery wheel


def filled(seed: int) -> TransitionReplay:
    spec = spec_of(VECTOR, 1, True)
    replay = TransitionReplay(spec, 60, 2, 20, seed, 1, GAMMA)
    replay.insert(Actor(World(spec, 2, 60, 0), 0, 2, 0.1).rollout(20))
    return replay


def test_the_seed_decides_the_draws() -> None:
    one, same, other = filled(1), filled(1), filled(2)
    for again in (False, True):
        first = one.sample(2, 16)
        for a, b in zip(first, same.sample(2, 16), strict=True):
            np.testing.assert_array_equal(a, b)
        assert not np.array_equal(first.rewards, other.sample(2, 16).rewards), again
    assert not np.array_equal(one.sample(2, 16).rewards, first.rewards)


def test_samples_are_copies() -> None:
    replay = filled(1)
    first = replay.sample(1, 64)
    for name in required_fields(Transitions):
        getattr(first, name)[...] = 1
    assert replay.sample(1, 64).rewards.min() != 1


@pytest.mark.parametrize("n_envs", [1, 8, 64])
def test_memory_of_a_million_atari_transitions(n_envs: int) -> None:
    replay = TransitionReplay(ATARI, 1_000_000, n_envs, 16, 0, 1, GAMMA)
    frames = replay.arrays()["observations"].nbytes
    assert 7.056e9 < frames <= 7.3e9
    assert (replay.nbytes - frames) / 1e6 <= 365


def test_vectors_are_stored_once() -> None:
    spec = EnvSpec((17,), "float32", 1, 0, (-1.0,) * 6, (1.0,) * 6)
    replay = TransitionReplay(spec, 100_000, 4, 16, 0, 1, GAMMA)
    frames = replay.arrays()["observations"].nbytes
    assert frames <= 1.04 * 100_000 * 17 * 4


@pytest.mark.parametrize("times", [2, 10**6])
def test_refuses_what_memory_cannot_hold(times: int) -> None:
    size = times * psutil.virtual_memory().available // (84 * 84)
    config = DQNConfig(buffer_max_size=size).replay
    assert config is not None
    with pytest.raises(UserError, match=rf"--buffer-max-size {size} needs .*lower it"):
        replay_for(KIND, ATARI, config, 1, 0)


def test_a_batch_of_256_stacks_takes_10_ms() -> None:
    replay = TransitionReplay(ATARI, 20_000, 8, 500, 0, 1, GAMMA)
    rng = np.random.default_rng(0)
    starts, no = np.zeros((504, 8), bool), np.zeros((500, 8), bool)
    frames = rng.integers(0, 256, (504, 8, 84, 84), np.uint8)
    frames[-4:] = frames[:4]  # each rollout follows the one before
    steps = np.zeros((500, 8), np.int32), np.zeros((500, 8), np.float32), no, no, ~no
    for _ in range(5):
        replay.insert(Trajectory(frames, starts, *steps, None, None, 1, 0))
    assert replay.fill.size == 20_000

    def seconds() -> float:
        began = time.perf_counter()
        assert replay.sample(1, 256).observations.shape == (1, 256, 5, 84, 84)
        return time.perf_counter() - began

    # Of several medians the best: the machine may be busy with other things.
    assert min(statistics.median(seconds() for _ in range(5)) for _ in range(8)) <= 0.01


def test_a_ring_is_full_once_it_drops_a_row() -> None:
    """Not when each of its rows is taken: some of them only reset."""
    replay = TransitionReplay(spec_of(VECTOR, 1, True), 10, 1, 12, 0, 1, GAMMA)
    filled_by = []
    for length in (12, 1, 1):
        no, zeros = np.zeros((length, 1), bool), np.zeros((length, 1), np.float32)
        rows = np.zeros((length + 1, 1, 4), np.float32), np.zeros((length + 1, 1), bool)
        steps = zeros.astype(np.int32), zeros, no, no, no
        replay.insert(Trajectory(*rows, *steps, None, None, 1, 0))
        filled_by.append(replay.fill.is_full)
    assert filled_by == [False, False, True]
