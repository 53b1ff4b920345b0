"""Dict and Tuple observations as users pass them to policies and own loops."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from xagents_ray.actors.envs import make
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import VECTOR
from xagents_ray.core.trajectory import arrays_of
from xagents_ray.policy.conversion import Conversion
from xagents_ray.settings.training import EnvConfig

KINDS = [(), ("is_tuple=true",), ("first=true",)]


def config_of(stack: int = 1, kwargs: tuple[str, ...] = ()) -> EnvConfig:
    return EnvConfig(env="dict_envs:compass", env_kwargs=kwargs, frame_stack=stack)


def conversion_of(config: EnvConfig, unread: Any = ()) -> Conversion:
    return Conversion.of(config, make.probe(config), unread)


def same(one: Any, other: Any) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name])
        assert array.dtype == other[name].dtype


@pytest.mark.parametrize("kwargs", KINDS)
@pytest.mark.parametrize("stack", [1, 3])
def test_predict_reads_what_make_env_gives(stack: int, kwargs: Any) -> None:
    """One or a batch; and without stacks also what the environment itself gives."""
    config = config_of(stack, kwargs)
    conversion, envs = conversion_of(config), make.make_envs(config, 1, 1)
    env = make.make_stacked(config, stack, None)
    assert conversion.spaces[0] == env.observation_space
    env.reset(seed=0), envs.reset(0)
    for _ in range(2):
        given = env.step(0)[0]
        newest = envs.step(np.zeros(1, np.int32)).observations
        rows, is_single = conversion.rows(given)
        assert is_single
        for name, array in newest.items():
            own = rows[name]
            if name != VECTOR:  # the newest frame's channels are the last
                channels = array.shape[3:] or (1,)
                own = own[..., -channels[0] :].reshape(array.shape)
                assert rows[name].shape[-1] == stack * channels[0]
            np.testing.assert_array_equal(own, array)
        batch = {name: np.stack([x, x]) for name, x in given.items()}
        twice, is_single = conversion.rows(batch)
        assert not is_single
        same(twice, {name: np.repeat(x, 2, axis=0) for name, x in rows.items()})
        raw = env.unwrapped.observe()  # type: ignore[attr-defined]
        same(conversion.frames(raw, 1)[0], newest)
        if stack == 1:
            same(conversion.rows(raw)[0], rows)
    envs.close()


def test_inputs_of_critics_may_be_missing() -> None:
    config = config_of()
    given, _ = make.make_stacked(config, 1, None).reset(seed=0)
    conversion = conversion_of(config, ("compass", "map"))
    less = {name: given[name] for name in ("camera", "arm.joints")}
    rows, whole = conversion.rows(less)[0], conversion.rows(given)[0]
    assert not rows["map"].any() and rows["map"].shape == whole["map"].shape
    assert not rows[VECTOR][:, 4:].any()
    np.testing.assert_array_equal(rows["camera"], whole["camera"])
    np.testing.assert_array_equal(rows[VECTOR][:, :4], whole[VECTOR][:, :4])
    with pytest.raises(UserError, match=r"\['camera'\] is missing: pass all of arm, c"):
        conversion.rows({"arm.joints": given["arm.joints"]})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (None, r"is a dict of arm\.joints, camera, compass, map, and this one is None"),
        (3.0, r"is a dict of arm\.joints, camera"),
        ({"camera": np.zeros((6, 4, 3), np.uint8)}, r"is uint8 \(6, 4, 3\), and"),
        ({"camera": np.zeros((6, 5, 3))}, r"\['camera'\] is float64 \(6, 5, 3\)"),
        ({"camera": np.zeros((2, 6, 5, 3), np.uint8)}, r"\['camera'\] is uint8 \(2, 6"),
        ({"compass": 9}, r"\['compass'\] is 9, .*Discrete\(4, start=1\) there"),
        ({"arm.joints": [1.0]}, r"\['arm\.joints'\] is \[1\.0\]"),
        ({"arm.joints": np.full(4, np.nan)}, "contains NaN"),
    ],
)
def test_what_does_not_fit_is_named(change: Any, words: str) -> None:
    config = config_of()
    given: Any = make.make_stacked(config, 1, None).reset(seed=0)[0]
    given = {**given, **change} if isinstance(change, dict) else change
    with pytest.raises(UserError, match=words):
        conversion_of(config).rows(given)


def test_results_of_reset_are_told() -> None:
    config = config_of(kwargs=("is_tuple=true",))
    result = make.make_stacked(config, 1, None).reset(seed=0)
    with pytest.raises(UserError, match=r"as in env\.reset\(\)\[0\]"):
        conversion_of(config).rows(result)


@pytest.mark.parametrize("n_envs", [1, 2])
def test_own_loops_count_their_environments(n_envs: int) -> None:
    config = config_of(stack=4)
    envs = make.make_envs(config, 2, 1)
    conversion, seen = conversion_of(config), envs.reset(0)
    raw = gym.vector.SyncVectorEnv([lambda: make.make_single(config, None)] * 2)
    batch, _ = raw.reset(seed=0)
    if n_envs == 2:
        same(conversion.frames(batch, 2)[0], seen)
        batch = {name: x[0] for name, x in batch.items()}
    with pytest.raises(UserError, match=rf"n_envs is {n_envs}, and this is a"):
        conversion.frames(batch, n_envs)
    envs.close(), raw.close()


def test_batches_of_vectors_alone() -> None:
    """Also in parts, as a vector environment gives them."""
    config = EnvConfig(env="goal_envs:PointReach")
    conversion, space = conversion_of(config), make.make_one(config, None).own_space
    parts: Any = gym.vector.utils.batch_space(space, 5).sample()  # type: ignore[arg-type]
    rows, is_single = conversion.rows(parts)
    assert rows.shape == (5, 6) and not is_single and len(arrays_of(rows)) == 1
    np.testing.assert_array_equal(rows[:, 2:4], parts["desired_goal"])
    one = {name: x[0] for name, x in parts.items()}
    np.testing.assert_array_equal(conversion.rows(one)[0], rows[:1])
    np.testing.assert_array_equal(conversion.rows(rows)[0], rows)
