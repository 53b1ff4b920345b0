"""What a user passes as an environment: classes, functions, arguments of them."""

import functools
import inspect
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stepping import Stepping

from xagents_ray.actors.envs.make import check_env, make_envs, make_one
from xagents_ray.actors.envs.notes import env_notes
from xagents_ray.actors.envs.vector import Envs
from xagents_ray.core.errors import UserError
from xagents_ray.settings.training import EnvConfig

BIT, BITS = gym.spaces.Discrete(2), gym.spaces.MultiBinary(5)


class Corridor(Stepping):
    """Counts the steps up to a length."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = gym.spaces.Box(0, 99, (1,), np.float32)

    def __init__(self, length: int = 3, render_mode: str | None = None) -> None:
        self.length, self.render_mode = length, render_mode

    def observe(self) -> Any:
        return np.array([self.steps], np.float32)

    def render(self) -> Any:
        return np.zeros((8, 8, 3), np.uint8)


def envs_of(count: int = 2, **settings: Any) -> Envs:
    return make_envs(EnvConfig(**settings), count, 1)


def length_of(envs: Envs) -> int:
    """Return the length of the first environment's first episode."""
    envs.reset(0)
    for step in range(1, 100):
        if envs.step(np.zeros(2, np.int32)).ended[0]:
            envs.close()
            return step
    raise AssertionError


@pytest.mark.parametrize("vectorization", ["auto", "async"])
@pytest.mark.parametrize(
    ("env", "arguments", "length"),
    [
        (Corridor, None, 3),
        (Corridor, {"length": 5}, 5),
        (lambda: Corridor(4), None, 4),
        (lambda length=2: Corridor(length), {"length": 6}, 6),
        (functools.partial(Corridor, length=7), None, 7),
        (functools.partial(gym.make, "CartPole-v1"), {"max_episode_steps": 4}, 4),
        ("CartPole-v1", {"max_episode_steps": 4}, 4),
    ],
)
def test_they_are_made_with_their_arguments(
    env: Any, arguments: Any, length: int, vectorization: str
) -> None:
    envs = envs_of(env=env, env_kwargs=arguments, vectorization=vectorization)
    assert length_of(envs) == length


def test_a_spec_is_made_as_it_is() -> None:
    spec = gym.spec("CartPole-v1")
    changed = gym.envs.registration.EnvSpec(
        "CartPole-v1", spec.entry_point, max_episode_steps=4
    )
    assert length_of(envs_of(env=changed)) == 4
    assert length_of(envs_of(env=spec)) > 4
    changed.vector_entry_point = spec.vector_entry_point
    assert length_of(envs_of(env=changed, vectorization="vector")) == 4


@pytest.mark.parametrize("env", [Corridor, lambda **given: Corridor(**given)])
def test_they_give_pictures(env: Any) -> None:
    envs = make_one(EnvConfig(env=env, env_kwargs={"length": 5}), "rgb_array")
    envs.reset(0)
    assert envs.picture().shape == (8, 8, 3)
    with pytest.raises(UserError, match="lambda-Corridor gives no pictures"):
        envs = make_one(EnvConfig(env=lambda: Corridor()), "rgb_array")
        envs.reset(0)
        envs.picture()


class Plus(gym.ObservationWrapper[Any, Any, Any]):
    def observation(self, observation: Any) -> Any:
        return observation + 1


def doubled(env: Any) -> Any:
    def double(observation: Any) -> Any:
        return 2 * observation

    return gym.wrappers.TransformObservation(env, double, env.observation_space)


FIVE = functools.partial(gym.wrappers.TimeLimit, max_episode_steps=5)


@pytest.mark.parametrize("vectorization", ["auto", "async"])
def test_the_first_wrapper_is_innermost(vectorization: str) -> None:
    settings = {"env": Corridor, "vectorization": vectorization}
    for wrappers, first in (((Plus, doubled), 2), ((doubled, Plus), 1)):
        envs = envs_of(**settings, wrappers=wrappers)
        np.testing.assert_array_equal(envs.reset(0), [[first]] * 2)
        envs.close()


def test_wrappers_are_named_or_passed() -> None:
    """An environment's own vector form is left aside; two of one name are two."""
    names = (
        "gymnasium.wrappers:RecordEpisodeStatistics",
        f"{__name__}.Plus",
        FIVE,
        FIVE,
    )
    config = EnvConfig(env="CartPole-v1", wrappers=names)  # type: ignore[arg-type]
    assert config.wrappers == (*names[:2], "TimeLimit", "TimeLimit-2")
    assert length_of(make_envs(config, 2, 1)) == 5
    assert envs_of(env="CartPole-v1", wrappers=Plus).reset(0).min() > 0.9
    hundred = functools.partial(gym.wrappers.TimeLimit, max_episode_steps=100)
    pong = envs_of(env="PongNoFrameskip-v4", preprocess=True, wrappers=hundred)
    assert length_of(pong) < 25  # steps of 4 frames, after the no-ops


@pytest.mark.parametrize(
    ("function", "shape", "dtype"),
    [
        (lambda seen: np.append(seen, 7).astype(np.float64), (2,), "float32"),
        (lambda seen: [1, 2, True], (3,), "float32"),
        (lambda seen: np.zeros((8, 8, 3), np.uint8), (8, 8, 3), "uint8"),
        ("numpy:negative", (1,), "float32"),
    ],
)
def test_a_function_of_observations(function: Any, shape: Any, dtype: str) -> None:
    envs = envs_of(env=Corridor, state_to_input=function)
    first = envs.reset(0)
    assert (first.shape, first.dtype) == ((2, *shape), dtype)
    step = envs.step(np.zeros(2, np.int32))
    assert (step.observations.shape, step.observations.dtype) == (first.shape, dtype)
    envs.close()


def test_a_function_of_preprocessed_frames() -> None:
    settings = {"env": "PongNoFrameskip-v4", "preprocess": True}
    envs = envs_of(**settings, state_to_input=lambda frame: frame[::2, ::2])
    assert envs.reset(0).shape == (2, 42, 42)


@pytest.mark.parametrize(("keeps", "shape"), [(False, "210, 160"), (True, ".*, 1")])
def test_only_colors_are_preprocessed(keeps: bool, shape: str) -> None:
    gray = functools.partial(gym.wrappers.GrayscaleObservation, keep_dim=keeps)
    with pytest.raises(UserError, match=rf"colors, .* PongNo.* are \[{shape}\]: leave"):
        envs_of(env="PongNoFrameskip-v4", preprocess=True, wrappers=gray)


@pytest.mark.parametrize("vectorization", ["auto", "async"])
def test_a_function_of_the_index(vectorization: str) -> None:
    """It counts all environments of the run; arguments with defaults are not it."""
    for env in (
        lambda index: Corridor(index + 1),
        lambda rank, i=0: Corridor(rank + 1),
    ):
        config = EnvConfig(env=env, vectorization=vectorization)  # type: ignore[arg-type]
        envs = make_envs(config, 2, 1, first_index=4)
        envs.reset(0)
        ends = [envs.step(np.zeros(2, np.int32)).ended for _ in range(6)]
        assert np.argmax(ends, axis=0).tolist() == [4, 5]
        envs.close()


SPACES: list[tuple[gym.Space[Any], int]] = [
    (gym.spaces.Dict({"at": gym.spaces.Box(0, 9, (2, 3)), "b": BIT}), 8),
    (gym.spaces.Tuple((BIT, gym.spaces.Box(0, 9, (3,), np.uint8))), 5),
    (gym.spaces.Dict({"in": gym.spaces.Dict({"b": BIT}), "m": BITS}), 7),
    (gym.spaces.Discrete(4, start=2), 4),
    (gym.spaces.MultiDiscrete([2, 3]), 5),
    (BITS, 5),
]


@pytest.mark.parametrize("vectorization", ["auto", "async", "own"])
@pytest.mark.parametrize(("space", "size"), SPACES)
def test_observations_are_flattened(
    space: gym.Space[Any], size: int, vectorization: str
) -> None:
    seen = space.sample()

    class Observing(Corridor):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = space

        def observe(self) -> Any:
            return seen

    kind: Any = Observing
    if vectorization == "own":
        kind = lambda num_envs: gym.vector.SyncVectorEnv([Observing] * num_envs)  # noqa: E731
        vectorization = "auto"
    config = EnvConfig(env=kind, vectorization=vectorization)
    envs = make_envs(config, 2, 1)
    assert (envs.spec.observation_shape, envs.spec.stack) == ((size,), 1)
    flat = gym.spaces.flatten(space, seen)
    for found in (envs.reset(0), envs.step(np.zeros(2, np.int32)).observations):
        np.testing.assert_array_equal(found, np.stack([flat] * 2))  # type: ignore[list-item]
        assert found.dtype == envs.spec.observation_dtype
    envs.close()
    (note,) = env_notes(config, check_env(config))
    assert f"has {type(space).__name__} observations, flattened" in note
    assert f"of {size} numbers" in note


def test_library_ones_too() -> None:
    """Also one that keeps to a Dict by its own wrapper."""
    for env in ("FrozenLake-v1", "Blackjack-v1"):
        assert check_env(EnvConfig(env=env)).flattened in ("Discrete", "Tuple")
    own = EnvConfig(env="Blackjack-v1", wrappers=gym.wrappers.FlattenObservation)  # type: ignore[arg-type]
    assert env_notes(own, check_env(own)) == ()


class Changing(Corridor):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Box(0, index, (1,), np.float32)


class Choosing(Corridor):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.action_space = gym.spaces.Discrete(2 + index)


@pytest.mark.parametrize("kind", [Changing, Choosing])
@pytest.mark.parametrize("vectorization", ["auto", "async"])
def test_all_have_the_same_spaces(kind: Any, vectorization: str) -> None:
    with pytest.raises(UserError, match="spaces differ: give all"):
        envs_of(env=kind, vectorization=vectorization)


def own_vectors(num_envs: int, length: int = 3, render_mode: Any = None) -> Any:
    make = functools.partial(Corridor, length, render_mode)
    return gym.vector.SyncVectorEnv([make] * num_envs)


def test_a_factory_of_vector_environments() -> None:
    settings = {"env": own_vectors, "env_kwargs": {"length": 6}}
    assert length_of(envs_of(**settings)) == 6
    envs = make_one(EnvConfig(**settings), "rgb_array")  # type: ignore[arg-type]
    envs.reset(0)
    assert envs.picture().shape == (8, 8, 3)


class Speaking(Corridor):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Text(5)


class Raising(Corridor):
    def __init__(self) -> None:
        self.licence = {}["licence"]  # type: ignore[var-annotated]


LINE = inspect.getsourcelines(Raising)[1] + 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"env": Raising}, rf"KeyError: 'licence' \(.*test_own_kinds.py, line {LINE}"),
        ({"env": Corridor, "env_kwargs": {"lenth": 3}}, "unexpected .* 'lenth'"),
        ({"env": dict}, r"its factory returned {}"),
        ({"env": lambda size: size}, "missing a required argument: 'size'.*defaults"),
        (
            {"env": Corridor, "wrappers": "Gone"},
            "wrappers Gone is not of the form mod",
        ),
        ({"env": Corridor, "wrappers": "math:pi"}, r"math:pi is 3\.14.*: name a class"),
        (
            {"env": Corridor, "wrappers": gym.wrappers.TimeLimit},
            "TimeLimit: .* missing a required argument: 'max_episode_steps'.*partial",
        ),
        (
            {"env": Corridor, "wrappers": lambda env: 3},
            "wrappers lambda: it returned 3",
        ),
        ({"env": Corridor, "state_to_input": str}, "str: it returned '.*numbers"),
        (
            {"env": Corridor, "state_to_input": lambda seen: {}[0]},
            rf"^--state-to-input lambda: KeyError: 0 \(.*{Path(__file__).name}, line",
        ),
        (
            {"env": Corridor, "wrappers": lambda env: {}[0]},
            rf"^--wrappers lambda: KeyError: 0 \(.*{Path(__file__).name}, line",
        ),
        (
            {"env": own_vectors, "wrappers": Plus},
            "--wrappers changes environments one by one, .* test_own_kinds:own_vectors",
        ),
        (
            {"env": "CartPole-v1", "wrappers": Plus, "vectorization": "vector"},
            "one by one, which --vectorization vector doesn't",
        ),
        ({"env": own_vectors, "vectorization": "sync"}, "leave --vectorization out"),
        ({"env": lambda: Speaking()}, "has Text observations.*--state-to-input"),
        ({"env": lambda: own_vectors(2)}, "returned SyncVec.*argument num_envs"),
        ({"env": lambda num_envs: Corridor()}, r"a gymnasium\.vector\.VectorEnv"),
        ({"env": lambda num_envs: own_vectors(9)}, "made 9 environments of 1"),
        ({"env": "Gone"}, "Python, as in env=Gone"),
    ],
)
def test_what_is_wrong_is_one_sentence(settings: Any, words: str) -> None:
    with pytest.raises(UserError, match=words) as raised:
        check_env(EnvConfig(**settings))
    assert "\n" not in str(raised.value)
