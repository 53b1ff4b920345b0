"""Images of all layouts, sizes and dtypes."""

import itertools
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from xagents_ray.actors.envs import make
from xagents_ray.actors.envs.notes import env_notes
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.policy.conversion import Conversion
from xagents_ray.settings.training import EnvConfig

Box = gym.spaces.Box


class Seen(gym.Env[Any, Any]):
    """Shows pixels that number themselves."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, shape: tuple[int, ...], dtype: str = "uint8") -> None:
        self.observation_space = Box(0, 255, shape, np.dtype(dtype).type)

    def seen(self) -> Any:
        space = self.observation_space
        numbers = np.arange(np.prod(space.shape)).reshape(space.shape)
        return (numbers % 251).astype(space.dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        return self.seen(), 1.0, True, False, {}


class Torn(Seen):
    def step(self, action: Any) -> Any:
        return self.seen()[:, :-1], 1.0, True, False, {}


def vectors(num_envs: int, shape: Any, dtype: str = "uint8") -> Any:
    return gym.vector.SyncVectorEnv([lambda: Seen(tuple(shape), dtype)] * num_envs)


def config_of(*shape: int, dtype: str = "uint8", **settings: Any) -> EnvConfig:
    kwargs = (f"shape={[*shape]}", f'dtype="{dtype}"')
    given = {"env": "test_images:seen", "env_kwargs": kwargs, **settings}
    return EnvConfig(**given)


def seen(shape: list[int], dtype: str) -> Seen:
    return Seen(tuple(shape), dtype)


@pytest.mark.parametrize("kind", ["sync", "async", "own"])
@pytest.mark.parametrize(
    ("shape", "is_first"),
    [
        ((4, 84, 84), True),
        ((3, 7, 8), True),
        ((12, 96, 64), True),
        ((7, 7, 3), False),
        ((2, 84, 3), False),
        ((3, 3, 3), False),
        ((40, 84, 84), False),
        ((84, 4, 84), False),
        ((84, 84), False),
    ],
)
def test_channels_come_last(shape: tuple[int, ...], is_first: bool, kind: str) -> None:
    settings = {"vectorization": kind}
    if kind == "own":
        settings = {"env": "test_images:vectors"}
    config = config_of(*shape, **settings)
    envs = make.make_envs(config, 2, 1)
    expected = Seen(shape).seen()
    if is_first:
        expected = expected.transpose(1, 2, 0)
    step = envs.step(np.zeros(2, np.int32)) if envs.reset(0) is not None else None
    assert step is not None
    for found in (envs.reset(0), step.observations):
        np.testing.assert_array_equal(found, np.stack([expected] * 2))
    envs.close()
    spec = envs.spec
    assert (spec.observation_shape, spec.stack) == (expected.shape, 4)
    assert spec.channels_first == is_first and spec.is_image
    notes = env_notes(config, spec)
    assert [str([*shape]) in each for each in notes] == [True] * is_first


def test_one_channel_first_is_gray() -> None:
    spec = make.check_env(config_of(1, 84, 84))
    assert spec.observation_shape == (84, 84) and not spec.channels_first


@pytest.mark.parametrize("frames", [1, 4])
def test_policies_take_both_layouts(frames: int) -> None:
    """What the environment gives, what `make_env` gives, and batches."""
    config = config_of(3, 40, 50, frame_stack=frames)
    spec = make.probe(config)
    conversion, own = Conversion.of(config, spec), Seen((3, 40, 50)).seen()
    env = make.make_stacked(config, frames, None)
    theirs, _ = env.reset(seed=0)
    if frames > 1:
        own = np.stack([np.zeros_like(own)] * (frames - 1) + [own])
    assert conversion.spaces[0].shape == theirs.shape == (*own.shape[:-3], 40, 50, 3)
    expected, is_single = conversion.rows(theirs)
    assert is_single and expected.shape == (1, 40, 50, 3 * frames)
    for batch in (own, own[None]):
        rows, is_single = conversion.rows(batch)
        np.testing.assert_array_equal(rows, expected)
        assert is_single == (batch is own)


def test_a_fault_shows_the_shapes_of_the_user() -> None:
    envs = make.make_envs(EnvConfig(env=lambda: Torn((4, 84, 80))), 1, 1)  # type: ignore[arg-type]
    envs.reset(0)
    assert envs.is_checked
    with pytest.raises(UserError, match=r"\(4, 83, 80\).*has \(4, 84, 80\)"):
        envs.step(np.zeros(1, np.int32))
    envs.close()


def test_preprocessing_takes_colors_first() -> None:
    envs = make.make_envs(config_of(3, 210, 160, preprocess=True), 1, 1)
    assert envs.reset(0).shape == (1, 84, 84) and not envs.spec.channels_first
    envs.close()


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((36, 36, 3), "float32"),
        ((3, 36, 36), "float64"),
        ((7, 7, 3), "int64"),
        ((4, 84, 84, 3), "uint8"),
        ((5, 2), "float32"),
    ],
)
def test_what_is_flattened_is_said(shape: tuple[int, ...], dtype: str) -> None:
    config = config_of(*shape, dtype=dtype)
    spec = make.probe(config)
    assert spec.observation_shape == (np.prod(shape),)
    (note,) = env_notes(config, spec)
    assert f"has {dtype} {[*shape]} observations, flattened to vectors of" in note
    assert "--state-to-input" in note


def test_vectors_need_no_note() -> None:
    config = config_of(3, dtype="float32")
    assert env_notes(config, make.probe(config)) == ()


@pytest.mark.parametrize("agent", ["a2c", "acer", "dqn", "trpo"])
def test_every_image_has_a_network(agent: str) -> None:
    """Of any proportions; from 36 pixels on, and where it fits, it is the usual one."""
    algorithm = find_algorithm(agent)
    widths = (1, 3, 11, 12, 23, 24, 35, 36, 210)
    for height, width in itertools.product((*range(1, 40), 84), widths):
        spec = EnvSpec((height, width, 3), "uint8", 4, 5)
        for layout in algorithm.layouts(algorithm.config(), spec):
            assert layout.n_weights < 20e6
            sizes = [
                layer.kernel_shape[0]
                for layer in layout.layers
                if layer.name.startswith("convolutional")
            ]
            usual = [8, 4, 3][: len(sizes)]
            fits = min(height, width) >= (36 if len(sizes) == 3 else 20)
            assert (sizes == usual) == fits


@pytest.mark.parametrize(
    "shape",
    [
        (4, 84, 84),
        *(pytest.param(each, marks=pytest.mark.slow) for each in ((7, 7, 3), (2, 3))),
    ],
)
def test_runs(shape: tuple[int, ...], train: Callable[..., dict[str, Any]]) -> None:
    settings = {"env": "test_images:seen", "local": True}
    kwargs = (f"shape={[*shape]}", 'dtype="uint8"')
    for agent, more in (("dqn", {"buffer_initial_size": 40}), ("a2c", {})):
        train(agent, env_kwargs=kwargs, max_steps=60, **settings, **more)
