"""Dict and Tuple observations: images stay images, and the rest are vectors."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from dict_envs import CAMERA, MAP, Compass, image
from stepping import Stepping

from xagents_ray.actors.envs import make
from xagents_ray.actors.envs.named_inputs import input_specs
from xagents_ray.actors.envs.notes import env_notes
from xagents_ray.core.errors import EnvironmentFault, UserError
from xagents_ray.core.spec import VECTOR, EnvSpec, InputSpec
from xagents_ray.settings.training import EnvConfig

Box, Dict, Discrete = gym.spaces.Box, gym.spaces.Dict, gym.spaces.Discrete
NO_ACTIONS = np.zeros(2, np.int32)


def number_of(env: Compass) -> int:
    return int(8 * (env.episode % 30) + env.steps)


def expected_of(env: Compass, names: tuple[str, str]) -> dict[str, Any]:
    """Return the arrays of an environment's observation, made by hand."""
    number = number_of(env)
    camera = np.full(CAMERA, number, np.uint8)
    camera[0, 0] = 1, 2, 3
    compass = np.eye(4, dtype=np.float32)[env.steps % 4]
    vector = np.concatenate([np.full(4, number, np.float32), compass])
    frames = np.full(MAP, 255 - number, np.uint8)
    return {names[0]: camera, names[1]: frames, VECTOR: vector}


@pytest.mark.parametrize("env", ["compass", "vector_compass"])
@pytest.mark.parametrize(
    ("kwargs", "names"),
    [
        ((), ("arm.joints", "camera", "compass", "map")),
        (("is_tuple=true",), ("0.joints", "1", "2", "3")),
        (("first=true",), ("arm.joints", "camera", "compass", "map")),
    ],
)
def test_parts_have_names(env: str, kwargs: tuple[str, ...], names: Any) -> None:
    config = EnvConfig(env=f"dict_envs:{env}", env_kwargs=kwargs)
    envs, twin = make.make_envs(config, 2, 1), Compass()
    joints, camera, compass, frames = names
    assert envs.spec.inputs == (
        InputSpec(joints, (4,), 0),
        InputSpec(camera, CAMERA),
        InputSpec(compass, (4,), 4),
        InputSpec(frames, MAP),
    )
    assert envs.spec.has_several_arrays and not envs.spec.is_image
    assert (envs.spec.observation_shape, envs.spec.stack) == ((8,), 4)
    twin.reset(seed=0)
    seen = envs.reset(0)
    for _ in range(8):
        for name, array in expected_of(twin, (camera, frames)).items():
            np.testing.assert_array_equal(seen[name][0], array)
            assert seen[name].dtype == envs.spec.arrays[name][0]
            assert seen[name][0].shape == envs.spec.arrays[name][1]
        assert seen.keys() == envs.spec.arrays.keys()
        over = twin.steps == twin.length
        seen = envs.step(NO_ACTIONS).observations
        twin.reset() if over else twin.step(0)
    envs.close()


def test_other_processes_give_the_same() -> None:
    steps = {}
    for mode in ("sync", "async"):
        config = EnvConfig(env="dict_envs:compass", vectorization=mode)
        envs = make.make_envs(config, 2, 1)
        envs.reset(3)
        steps[mode] = [envs.step(NO_ACTIONS).observations for _ in range(7)]
        envs.close()
    for one, other in zip(*steps.values(), strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [("camera", CAMERA, "uint8"), ("map", MAP, "uint8"), ("compass", (4,), "float32")],
)
def test_the_only_part_is_an_array_alone(name: str, shape: Any, dtype: str) -> None:
    config = EnvConfig(env="dict_envs:OnePart", env_kwargs=(f'name="{name}"',))
    envs = make.make_envs(config, 2, 1)
    spec, first = envs.spec, envs.reset(0)
    assert first.shape == (2, *shape) and first.dtype == dtype
    assert (spec.observation_shape, spec.observation_dtype) == (shape, dtype)
    assert spec.is_image == (dtype == "uint8") and not spec.has_several_arrays
    assert [each.name for each in spec.inputs] == [name]
    assert bool(spec.flattened) == (dtype == "float32")
    envs.close()


def test_only_vectors_are_one_array_as_before() -> None:
    envs = make.make_envs(EnvConfig(env="goal_envs:PointReach"), 2, 1)
    names = "achieved_goal", "desired_goal", "observation"
    sizes = [InputSpec(name, (2,), 2 * i) for i, name in enumerate(names)]
    assert envs.spec.inputs == (*sizes,) and not envs.spec.has_several_arrays
    assert envs.spec.goals is not None and envs.spec.flattened == "Dict"
    assert envs.reset(0).shape == (2, 6)
    envs.close()


def test_inputs_are_in_the_order_of_gymnasium() -> None:
    space = Dict(
        b=gym.spaces.Tuple([Box(-1, 1, (2,)), Discrete(3)]),
        a=Dict(z=gym.spaces.MultiDiscrete([2, 3]), y=gym.spaces.MultiBinary(2)),
    )
    sample, found = space.sample(), input_specs(space)
    assert [each.name for each in found] == ["b.0", "b.1", "a.z", "a.y"]
    flat = gym.spaces.flatten(space, sample)
    assert sum(each.shape[0] for each in found) == len(flat)
    parts = [*sample["b"], *sample["a"].values()]
    spaces = [*space["b"], *space["a"].values()]
    for each, part, own in zip(found, parts, spaces, strict=True):
        np.testing.assert_array_equal(flat[each.place], gym.spaces.flatten(own, part))


def test_two_images_alone() -> None:
    spec = make.check_env(EnvConfig(env="dict_envs:OnlyImages"))
    assert spec.observation_shape == (0,) and spec.has_several_arrays
    assert [*spec.arrays] == ["camera", "map"]


def test_the_parts_are_said() -> None:
    config = EnvConfig(env="dict_envs:compass", env_kwargs=("first=true",))
    first, second = env_notes(config, make.check_env(config))
    assert "images camera, map and the vectors arm.joints, compass" in first
    assert "[C, H, W] with the channels first" in second


class Odd(Stepping):
    """Shows samples of a space."""

    def __init__(self, space: Any) -> None:
        self.observation_space = space

    def observe(self) -> Any:
        return self.observation_space.sample()


CAMERA_SPACE = image(CAMERA)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"log": gym.spaces.Text(5)}, "has Text observations log, .*--state-to-input"),
        (
            {"log": gym.spaces.Sequence(Discrete(3))},
            "has Sequence observations log, .*--state-to-input",
        ),
        (
            {"in": Dict(net=gym.spaces.Graph(Discrete(3), Discrete(2)))},
            r"has Graph observations in\.net, .*--state-to-input",
        ),
        ({"_vector": CAMERA_SPACE}, "has an image _vector, .*name its key otherwise"),
        (
            {"a.b": Discrete(2), "a": Dict(b=Discrete(2))},
            r"two observations of the name a\.b",
        ),
    ],
)
def test_other_parts_are_refused(parts: Any, words: str) -> None:
    space = Dict(camera=CAMERA_SPACE, **parts)
    with pytest.raises(UserError, match=words):
        make.probe(EnvConfig(env=lambda: Odd(space)))  # type: ignore[arg-type]


def test_frames_are_stacked_but_not_preprocessed() -> None:
    env = "dict_envs:compass"
    assert make.probe(EnvConfig(env=env, frame_stack=2)).stack == 2
    with pytest.raises(UserError, match=r"--preprocess .* parts arm\.joints, cam"):
        make.probe(EnvConfig(env=env, preprocess=True))
    with pytest.raises(UserError, match="--frame-stack is for images"):
        make.probe(EnvConfig(env="goal_envs:PointReach", frame_stack=2))


class Wrong(Compass):
    """Changes a part of its observations after the first step."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self._change = change

    def observe(self) -> Any:
        return super().observe() | (self._change if self.steps else {})


class Without(Compass):
    def observe(self) -> Any:
        found = super().observe()
        return {k: x for k, x in found.items() if k != "map" or not self.steps}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"extra": 1}, "gave an observation with 'extra'"),
        ({"camera": np.zeros((6, 5), np.uint8)}, r"\['camera'\] of shape \(6, 5\)"),
        ({"camera": np.zeros(CAMERA)}, r"\['camera'\] of float64 numbers"),
        ({"compass": 0}, r"\['compass'\] of 0 .*Discrete\(4, start=1\)"),
        ({"compass": None}, r"\['compass'\] of None"),
        ({"arm": {"joints": np.full((2, 2), np.inf)}}, r"\['arm'\]\['joints'\] of inf"),
        ({"arm": 3}, r"\['arm'\] of one int .*a Dict of joints"),
    ],
)
def test_a_wrong_part_is_a_fault(change: Any, words: str) -> None:
    envs = make.make_envs(EnvConfig(env=lambda: Wrong(change)), 2, 1)  # type: ignore[arg-type]
    envs.reset(0)
    with pytest.raises(EnvironmentFault, match=words) as raised:
        envs.step(NO_ACTIONS)
    assert "stepping.py, line" in str(raised.value)
    envs.close()


def test_a_missing_part_is_a_fault() -> None:
    envs = make.make_envs(EnvConfig(env=lambda: Without()), 2, 1)  # type: ignore[arg-type]
    envs.reset(0)
    with pytest.raises(EnvironmentFault, match="gave an observation without 'map'"):
        envs.step(NO_ACTIONS)
    envs.close()


class WrongVector(gym.vector.VectorEnv):  # type: ignore[type-arg]
    """A vector environment of the user's whose camera shrinks."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.single_observation_space = Dict(camera=CAMERA_SPACE, compass=Discrete(4))
        self.observation_space = gym.vector.utils.batch_space(
            self.single_observation_space, num_envs
        )
        self.single_action_space = Discrete(2)
        self.action_space = gym.spaces.MultiDiscrete([2] * num_envs)

    def seen(self, *shape: int) -> Any:
        camera = np.zeros((self.num_envs, *shape), np.uint8)
        return {"camera": camera, "compass": np.arange(self.num_envs) % 4}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.seen(*CAMERA), {}

    def step(self, actions: Any) -> Any:
        flags = np.zeros((3, self.num_envs))
        return self.seen(6, 4, 3), flags[0], *(flags[1:] > 0), {}


def test_a_wrong_vector_environment_is_a_fault() -> None:
    def makes(num_envs: int) -> Any:
        return WrongVector(num_envs)

    envs = make.make_envs(EnvConfig(env=makes), 2, 1)  # type: ignore[arg-type]
    assert envs.reset(0)[VECTOR].tolist() == np.eye(4)[:2].tolist()
    with pytest.raises(EnvironmentFault, match=r"\['camera'\] of shape \(2, 6, 4, 3\)"):
        envs.step(NO_ACTIONS)


def split(observation: Any) -> Any:
    """Return a dict of an image and a vector."""
    position = np.asarray(observation)[:1]
    return {"view": np.full((8, 8), 7, np.uint8), "at": {"x": position}}


def halves(observation: Any) -> Any:
    return {"view": np.full((8, 8), 7, np.uint8), "name": "left"}


def test_a_function_of_observations_may_return_a_dict() -> None:
    config = EnvConfig(env="CartPole-v1", state_to_input=split)  # type: ignore[arg-type]
    envs = make.make_envs(config, 2, 1)
    assert envs.spec.inputs == (InputSpec("view", (8, 8)), InputSpec("at.x", (1,), 0))
    first, after = envs.reset(0), envs.step(NO_ACTIONS).observations
    for each in (first, after):
        assert each["view"].shape == (2, 8, 8) and (each["view"] == 7).all()
        assert each[VECTOR].shape == (2, 1) and each[VECTOR].any()
    envs.close()
    config = EnvConfig(env="CartPole-v1", state_to_input=halves)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"returned .*return an array of"):
        make.probe(config)


def test_make_env_gives_inputs_by_name() -> None:
    """Images are stacked, with zeros first; vectors are not."""
    config = EnvConfig(env="dict_envs:compass", frame_stack=3)
    env = make.make_stacked(config, 3, None)
    first, _ = env.reset(seed=1)
    second = env.step(0)[0]
    for each in (first, second):
        assert env.observation_space.contains(each)
    assert first["camera"].shape == (3, *CAMERA) and not first["camera"][:2].any()
    np.testing.assert_array_equal(second["camera"][1], first["camera"][2])
    assert first["arm.joints"].shape == (4,) and first["compass"].tolist() == [
        1,
        0,
        0,
        0,
    ]


def test_a_spec_of_one_array_has_no_parts() -> None:
    spec = make.probe(EnvConfig(env="CartPole-v1"))
    assert spec == EnvSpec((4,), "float32", 1, 2)
