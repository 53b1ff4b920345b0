"""State of env actors: a resumed one continues as if it had never stopped."""

import copy
import functools
import itertools
import json
from typing import Any

import acting
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import TimeLimit
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import random_arrays

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.envs.env_state import decode_array, encode_array, get_envs_state
from xagents_ray.actors.envs.make import make_envs
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import Stopped, UserError
from xagents_ray.core.trajectory import (
    RolloutReport,
    Trajectory,
    Weights,
    paired_arrays,
)
from xagents_ray.settings.training import EnvConfig

N_ENVS = 3
PONG = {"env": "PongNoFrameskip-v4", "preprocess": True, "n_envs": 2}


class Walk(gym.Env[Any, Any]):
    """A random walk: a user's environment whose state can be had."""

    observation_space = gym.spaces.Box(-99, 99, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self._place = [0, 0]
        self._mood = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self._mood = np.random.default_rng(seed)
        self._place[:] = self.np_random.integers(-3, 4, 2).tolist()
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self._place[int(action)] += int(self._mood.integers(-2, 3))
        self._place[0] += int(self.np_random.integers(-1, 2))
        return self._observe(), 0.1, max(self._place) > 9, False, {}

    def get_state(self) -> Any:
        return {"place": self._place, "mood": self._mood.bit_generator.state}

    def set_state(self, state: Any) -> None:
        x, y = state["place"]
        self._place = [int(x), int(y)]
        self._mood.bit_generator.state = state["mood"]

    def _observe(self) -> Any:
        seen = np.array([*self._place, self._mood.random()])
        return seen.clip(-99, 99).astype(np.float32)


class Scene(Walk):
    """The same as pictures, with lives."""

    observation_space = gym.spaces.Box(0, 255, (90, 90, 3), np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._picture(), {"lives": 3}

    def step(self, action: Any) -> Any:
        _, reward, terminated, truncated, _ = super().step(action)
        lives = 3 - np.clip(max(self._place) // 3, 0, 2)
        return self._picture(), reward, terminated, truncated, {"lives": int(lives)}

    def _picture(self) -> Any:
        shades = np.array([*self._place, sum(self._place)], np.int64) * 9 % 256
        return np.broadcast_to(shades.astype(np.uint8), (90, 90, 3)).copy()


class Forgetful(Walk):
    """A user's environment whose state can't be had."""

    get_state = set_state = None  # type: ignore[assignment]


class Unusable(Walk):
    """Its state is nothing that JSON can hold."""

    def get_state(self) -> Any:
        return {"place": np.array(self._place)}


class Kin(CartPoleEnv):
    """May hold more than CartPole does."""


def walk() -> Any:
    return TimeLimit(Walk(), 15)


def scene() -> Any:
    return TimeLimit(Scene(), 60)


def forgetful() -> Any:
    return TimeLimit(Forgetful(), 15)


def kin() -> Any:
    return TimeLimit(Kin(), 500)


@functools.cache
def run_of(n_envs: int = N_ENVS, **values: Any) -> RunSpec:
    return acting.run_of("ppo", n_envs, **values)


def actor_of(run: RunSpec, first_env: int = 0) -> EnvActor:
    return EnvActor(ActorSetup.of(run, run.config.env.n_envs, first_env, 1))


@functools.cache
def weights_of(run: RunSpec) -> Weights:
    arrays = random_arrays(run.layout, 1)
    return Weights(1, {**arrays, "log_std": np.zeros(1, np.float32)})


@functools.cache
def balancing(run: RunSpec) -> Weights:
    """Weights that keep CartPole's pole up, by the sign of one linear feature."""
    arrays = {name: np.zeros_like(x) for name, x in weights_of(run).arrays.items()}
    arrays["dense-0/kernel"][:, 0] = [0.01, 0.03, 0.2, 0.2]
    arrays["dense-1/kernel"][0, 0] = 1
    arrays["dense-2/kernel"][0] = [-1e4, 1e4]
    return Weights(1, arrays)


def roll(
    actor: EnvActor, weights: Weights, cuts: list[int]
) -> list[tuple[Trajectory, RolloutReport]]:
    """Roll out from each cut to the next."""
    return [
        actor.rollout(weights, stop - start, start * N_ENVS)
        for start, stop in itertools.pairwise(cuts)
    ]


def assert_same(one: Any, other: Any) -> None:
    for (a, report_a), (b, report_b) in zip(one, other, strict=True):
        for name, x, y in zip(a._fields, a, b, strict=True):
            np.testing.assert_array_equal(x, y, err_msg=name)
            assert getattr(x, "dtype", None) == getattr(y, "dtype", None)
        assert report_a.episodes == report_b.episodes
        np.testing.assert_array_equal(report_a.steps, report_b.steps)


def through_json(state: Any) -> Any:
    return json.loads(json.dumps(state, allow_nan=False))


def state_after(run: RunSpec, rows: int) -> Any:
    actor = actor_of(run)
    actor.rollout(weights_of(run), rows, 0)
    state = through_json(actor.state())
    actor.close()
    return state


# Cuts at which states are taken: row by row at first, so that some lie right before
# and after an end, and around the time limits of 200, 500 and 999 steps.
STEPS = [0, 5, *range(20, 60)]
EXACT: list[tuple[dict[str, Any], list[int]]] = [
    ({"env": "CartPole-v1"}, [*STEPS, 120, 200]),
    ({"env": "CartPole-v1", "vectorization": "sync"}, [*STEPS, 120, 200]),
    ({"env": "Pendulum-v1"}, [0, 1, 120, 199, 200, 201, 330, 401, 402, 620]),
    ({"env": "Acrobot-v1"}, [0, 1, 120, 499, 500, 501, 620, 1010]),
    ({"env": "MountainCar-v0"}, [0, 1, 120, 199, 200, 201, 330, 401, 402, 620]),
    ({"env": "MountainCarContinuous-v0"}, [0, 1, 120, 998, 999, 1000, 1100, 2010]),
    ({"env": f"{__name__}:walk"}, [*STEPS, 120]),
    ({"env": f"{__name__}:scene", "preprocess": True}, [0, 3, *range(20, 44), 80]),
]


def assert_resumes(run: RunSpec, weights: Weights, cuts: list[int]) -> None:
    """Resume at the first cuts, and at those right after an end or a reset."""
    unbroken, states, ended = actor_of(run), [], []
    parts = []
    for cut in itertools.pairwise(cuts):
        parts += roll(unbroken, weights, [*cut])
        states.append(through_json(unbroken.state()))
        last = parts[-1][0]
        ended.append(bool((last.terminated | last.truncated)[-1].any()))
    assert sum(len(report.episodes) for _, report in parts) >= 2 * N_ENVS
    after = [i for i, end in enumerate(ended[:-1]) if end]
    assert after
    beside = {i + step for i in after[:2] for step in (-1, 0, 1)}
    for i in sorted(({1, after[-1]} | beside) - {-1}):
        resumed = actor_of(run)
        assert resumed.restore(states[i]) == 0
        assert through_json(resumed.state()) == states[i]
        assert_same(roll(resumed, weights, cuts[i + 1 :]), parts[i + 1 :])
        assert through_json(resumed.state()) == states[-1]
        resumed.close()
    unbroken.close()


@pytest.mark.parametrize(("values", "cuts"), EXACT)
def test_resumes_bit_for_bit(values: dict[str, Any], cuts: list[int]) -> None:
    run = run_of(**values)
    assert_resumes(run, weights_of(run), cuts)


@pytest.mark.parametrize("vectorization", ["vector", "sync"])
def test_cartpole_resumes_across_its_time_limit(vectorization: str) -> None:
    run = run_of(env="CartPole-v1", vectorization=vectorization)
    cuts = [0, 250, 499, 500, 501, 620, 1005]
    assert_resumes(run, balancing(run), cuts)
    actor = actor_of(run)
    trajectory, _ = actor.rollout(balancing(run), 501, 0)
    assert trajectory.truncated[499].all() and not trajectory.terminated.any()
    actor.close()


def test_acrobot_keeps_the_width_of_its_numbers() -> None:
    run = run_of(env="Acrobot-v1")
    dtypes = []
    for rows in (500, 501):  # the 501st only resets
        entries = state_after(run, rows)["envs"]["envs"]
        states = [e["values"]["state"] for e in entries if e["type"] == "AcrobotEnv"]
        dtypes.append({state["dtype"] for state in states})
    assert dtypes == [{"<f8"}, {"<f4"}]


def test_a_new_actor_resumes_as_new() -> None:
    run = run_of(env="CartPole-v1")
    state = through_json(actor_of(run).state())
    resumed = actor_of(run)
    assert resumed.restore(state) == 0
    expected = roll(actor_of(run), weights_of(run), [0, 30])
    assert_same(roll(resumed, weights_of(run), [0, 30]), expected)


def test_a_state_is_a_copy() -> None:
    for env in ("CartPole-v1", "Acrobot-v1", f"{__name__}:walk"):
        run = run_of(env=env)
        actor = actor_of(run)
        actor.rollout(weights_of(run), 7, 0)
        state = actor.state()
        before = copy.deepcopy(state)
        actor.rollout(weights_of(run), 7, 0)
        assert state == before


def test_a_stopped_rollout_leaves_no_state_of_environments() -> None:
    run = run_of(env="CartPole-v1")
    actor = actor_of(run)
    actor.rollout(weights_of(run), 7, 0)
    actor.stop()
    assert actor.state()["envs"] is not None
    with pytest.raises(Stopped):
        actor.rollout(weights_of(run), 7, 0)
    state = through_json(actor.state())
    assert state["envs"] is None
    assert actor_of(run).restore(state) == N_ENVS


@pytest.mark.parametrize("values", [PONG, {"env": f"{__name__}:forgetful"}])
def test_what_has_no_state_starts_new_episodes(values: dict[str, Any]) -> None:
    """Twice the same, never the first episodes again; noise continues."""
    run = run_of(**values)
    n_envs, actor = run.config.env.n_envs, actor_of(run)
    new = through_json(actor.state())
    actor.rollout(weights_of(run), 13, 0)
    state = through_json(actor.state())
    actor.close()
    assert state["envs"] is None

    def resume(state: Any, dropped: int) -> tuple[Any, Any]:
        actor = actor_of(run)
        assert actor.restore(state) == dropped
        assert actor.state()["noise"] == state["noise"]
        rolled = roll(actor, weights_of(run), [0, 9, 24])
        after = through_json(actor.state())
        actor.close()
        return rolled, after

    (one, later), (two, _) = resume(state, n_envs), resume(state, n_envs)
    assert_same(one, two)
    trajectory, stack = one[0][0], one[0][0].stack
    assert trajectory.starts[stack - 1].all()
    assert not trajectory.observations[: stack - 1].any()
    # With the same noise, only the environments' seeds can tell them apart.
    dropped = np.count_nonzero(
        decode_array(later["lengths"], np.zeros(n_envs, np.int64))
    )
    first, _ = resume({**new, "noise": state["noise"]}, 0)
    third, _ = resume({**later, "noise": state["noise"]}, dropped)
    for a, b in itertools.combinations([first, one, third], 2):
        frames = [[part.observations for part, _ in rolled] for rolled in (a, b)]
        assert not all(map(np.array_equal, *frames))


def test_dropped_are_games_under_way_and_returns_begin_at_zero() -> None:
    run = run_of(env=f"{__name__}:forgetful")
    unbroken, weights = actor_of(run), weights_of(run)
    counts = set()
    for _ in range(40):
        trajectory, report = unbroken.rollout(weights, 1, 0)
        ended = (trajectory.terminated | trajectory.truncated)[0]
        under_way = int((trajectory.valid[0] & ~ended).sum())
        counts.add(under_way)
        resumed = actor_of(run)
        assert resumed.restore(through_json(unbroken.state())) == under_way
        trajectory, report = resumed.rollout(weights, 15, 0)
        assert trajectory.valid[0].all()
        for episode in report.episodes[:1]:
            assert episode.length == episode.row + 1
            assert episode.episode_return == pytest.approx(0.1 * episode.length)
    assert {0, N_ENVS} <= counts


@pytest.mark.parametrize(
    "values",
    [{"env": "CartPole-v1", "vectorization": "async"}, {"env": f"{__name__}:kin"}],
)
def test_unknown_environments_have_no_state(values: dict[str, Any]) -> None:
    assert state_after(run_of(**values), 2)["envs"] is None


def test_an_unusable_state_is_reported() -> None:
    run = run_of(env=f"{__name__}:Unusable")
    with pytest.warns(UserWarning, match=r"Unusable\.get_state\(\).*JSON.*drops"):
        state = state_after(run, 3)
    assert state["envs"] is None
    assert actor_of(run).restore(state) == N_ENVS


def test_a_wrapper_may_have_a_state_of_its_own() -> None:
    class Counting(gym.Wrapper[Any, Any, Any, Any]):
        steps = 0

        def get_state(self) -> Any:
            return self.steps

        def set_state(self, state: Any) -> None:
            self.steps = state

    envs = gym.vector.SyncVectorEnv([lambda: Counting(walk())])
    state = get_envs_state(envs)
    assert state is not None
    assert [entry["type"] for entry in state[1:]] == ["Counting", "TimeLimit", "Walk"]
    unknown = gym.vector.SyncVectorEnv([lambda: gym.wrappers.Autoreset(walk())])
    assert get_envs_state(unknown) is None


class Sights(Walk):
    """A Dict with masks, and pictures whose channels come first."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind
        shown, bits = Walk.observation_space, gym.spaces.MultiBinary(2)
        picture = gym.spaces.Box(0, 255, (3, 40, 40), np.uint8)
        self.observation_space: gym.Space[Any] = {
            "key": gym.spaces.Dict(observation=shown, action_mask=bits),
            "vectors": gym.spaces.Dict(seen=shown, more=bits),
            "named": gym.spaces.Dict(seen=shown, picture=picture),
            "picture": picture,
        }[kind]

    def _observe(self) -> Any:
        seen, bits = super()._observe(), np.array([1, 0], np.int8)
        picture = np.full((3, 40, 40), abs(seen[0]), np.uint8)
        return {
            "key": {"observation": seen, "action_mask": bits},
            "vectors": {"seen": seen, "more": bits},
            "named": {"seen": seen, "picture": picture},
            "picture": picture,
        }[self._kind]


def sights(num_envs: int, kind: str) -> Any:
    make = functools.partial(Sights, kind)
    return gym.vector.SyncVectorEnv([lambda: TimeLimit(make(), 15)] * num_envs)


@pytest.mark.parametrize("kind", ["key", "vectors", "named", "picture"])
def test_vectors_of_the_user_resume_beneath_wrappers_of_ours(kind: str) -> None:
    config = EnvConfig(env=sights, env_kwargs={"kind": kind})  # type: ignore[arg-type]
    first, second = (make_envs(config, 2, 1) for _ in range(2))
    for envs, seed in ((first, 1), (second, 2)):
        envs.reset(seed)
    actions = np.zeros(2, np.int64)
    for _ in range(14):
        first.step(actions)
    second.restore(through_json(first.state()))
    for _ in range(20):
        expected, found = first.step(actions), second.step(actions)
        pairs = paired_arrays(expected.observations, found.observations)
        assert all(np.array_equal(*each) for each in pairs)
        np.testing.assert_array_equal(found.ended, expected.ended)
    first.close()
    second.close()


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.zeros((0, 2), "?")])
def test_arrays_come_back_as_they_were(array: Any) -> None:
    again = decode_array(through_json(encode_array(array)), array)
    assert again.dtype == array.dtype and again.shape == array.shape
    np.testing.assert_array_equal(again, array)
    again[...] = 1


@pytest.mark.parametrize(
    ("values", "changes"),
    [
        ({"env": "Acrobot-v1"}, {}),
        ({"env": "CartPole-v1", "vectorization": "sync"}, {}),
        ({"env": "CartPole-v1", "n_envs": 2}, {}),
        ({"env": "CartPole-v1"}, {"first_env": 3}),
    ],
)
def test_states_of_others_are_refused(values: Any, changes: Any) -> None:
    state = state_after(run_of(env="CartPole-v1"), 5)
    with pytest.raises(UserError, match=r"^The state of .* another checkpoint\.$"):
        actor_of(run_of(**values), **changes).restore(state)


def paths(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value within a JSON value."""
    items: Any = enumerate(node) if isinstance(node, list) else ()
    if isinstance(node, dict):
        items = node.items()
    return [path, *(p for key, v in items for p in paths(v, (*path, key)))]


def parent_of(path: tuple[Any, ...], state: Any) -> Any:
    return functools.reduce(lambda node, key: node[key], path[:-1], state)


def test_damage_that_would_show_later_is_refused() -> None:
    """The widths fit and nothing but a check sees it."""
    state = state_after(run_of(env="Acrobot-v1"), 5)
    new = {**state, "begun": False}
    limit, acrobot = copy.deepcopy(state), copy.deepcopy(state)
    limit["envs"]["envs"][1]["values"]["_elapsed_steps"] = "5"
    acrobot["envs"]["envs"][4]["values"]["state"]["dtype"] = "<i8"
    for damaged in (limit, acrobot, {**new, "restarts": -1}):
        with pytest.raises(UserError):
            actor_of(run_of(env="Acrobot-v1")).restore(damaged)
    assert actor_of(run_of(env="Acrobot-v1")).restore(new) == 0


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**130), 2**130)
    | st.floats()
    | st.sampled_from(["", "<f8", ">f8", "<f4", "|O", "AAAA", "PCG64", "MT19937"])
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)
FUZZED = ["CartPole-v1", "Acrobot-v1", f"{__name__}:walk", f"{__name__}:forgetful"]


@functools.cache
def fuzzed_state(env: str) -> str:
    return json.dumps(state_after(run_of(env=env), 5))


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_states_are_refused_or_harmless(data: st.DataObject) -> None:
    env = data.draw(st.sampled_from(FUZZED))
    state = json.loads(fuzzed_state(env))
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(paths(state)))
        if not path:
            state = data.draw(JSON)
            continue
        parent = parent_of(path, state)
        if data.draw(st.booleans()):
            parent[path[-1]] = data.draw(JSON)
        else:
            del parent[path[-1]]
    run = run_of(env=env)
    actor = actor_of(run)
    try:
        actor.restore(state)
    except UserError as error:
        assert "\n" not in str(error)
        return
    actor.rollout(weights_of(run), 20, 0)
    actor.state()


@pytest.mark.parametrize("env", FUZZED)
def test_every_key_is_needed(env: str) -> None:
    state = json.loads(fuzzed_state(env))
    unread = {"unfinished"}  # drivers do
    if state["envs"] is None:
        unread |= {"returns", "ended", "history", "discounted", "memory"}
    for path in paths(state)[1:]:
        damaged = copy.deepcopy(state)
        del parent_of(path, damaged)[path[-1]]
        if path[0] not in unread:
            with pytest.raises(UserError):
                actor_of(run_of(env=env)).restore(damaged)
