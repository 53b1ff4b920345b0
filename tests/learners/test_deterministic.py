"""What DDPG and TD3 share, against hand-worked tables and slow loops."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from learner_support import make_learner, sampled
from naive import random_arrays
from tensorflow.python.framework.config import disable_op_determinism

from xagents_ray.algorithms.table import find
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory, Transitions
from xagents_ray.learners.deterministic import action_values
from xagents_ray.learners.math import losses
from xagents_ray.learners.math.targets import (
    normal_noise,
    smooth_target_actions,
    update_targets,
)
from xagents_ray.learners.setup import with_target
from xagents_ray.replay.transitions import TransitionReplay

SPEC = EnvSpec((3,), "float32", 1, 0, (-1.0, -1.0), (1.0, 1.0))
RAM = EnvSpec((3,), "uint8", 1, 0, (-1.0, -1.0), (1.0, 1.0))
AGENTS = ["ddpg", "td3"]
TINY = "[dense-0]\nunits=4\nactivation=tanh\n[dense-1]\noutput=1\n"
BETA2, EPSILON, LR, GAMMA, TAU = 0.999, 1.0, 10.0, 0.9, 0.1


def make(name: str, spec: EnvSpec = SPEC, seed: int = 0, **settings: Any) -> Any:
    """Return a learner of tiny networks whose Adam steps are nearly the gradient's."""
    for model in ("actor", "critic"):
        Path(f"{model}.cfg").write_text(TINY)
    return make_learner(name, config_of(name, **settings), spec, seed=seed)


def config_of(name: str, **settings: Any) -> Any:
    values = {
        "actor_model": "actor.cfg",
        "critic_model": "critic.cfg",
        "beta2": BETA2,
        "opt_epsilon": EPSILON,
        "lr": LR,
        "gamma": GAMMA,
        "tau": TAU,
        **settings,
    }
    return find(name).config(**values)


def batch(k: int, n: int = 8, spec: EnvSpec = SPEC, seed: int = 0) -> Transitions:
    rng = np.random.default_rng(seed)
    shape = (k, n, 2, 3)
    observations = rng.normal(size=shape).astype(np.float32)
    if spec.observation_dtype == "uint8":
        observations = rng.integers(0, 256, shape, np.uint8)
    return Transitions(
        observations,
        np.zeros((k, n, 2), bool),
        rng.uniform(-1, 1, (k, n, 2)).astype(np.float32),
        rng.normal(size=(k, n)).astype(np.float32),
        np.arange(k * n).reshape(k, n) % 3 == 1,
    )


def scatter(learner: Any, seed: int = 7) -> dict[str, Any]:
    """Give every network random weights, targets others; return all as float64."""
    rng = np.random.default_rng(seed)
    for name, variable in learner.state.variables.items():
        if "/dense-" in name:
            variable.assign(rng.normal(0, 0.7, variable.shape))
    return networks_of(learner)


def networks_of(learner: Any) -> dict[str, Any]:
    arrays = learner.state.arrays()
    return {k: np.float64(v) for k, v in arrays.items() if "/dense-" in k}


def output(arrays: dict[str, Any], name: str, x: Any) -> Any:
    """Return [units], a tiny network's output for one input."""
    hidden = np.tanh(
        x @ arrays[f"{name}/dense-0/kernel"] + arrays[f"{name}/dense-0/bias"]
    )
    return hidden @ arrays[f"{name}/dense-1/kernel"] + arrays[f"{name}/dense-1/bias"]


def value(arrays: dict[str, Any], critic: str, observation: Any, action: Any) -> float:
    return float(output(arrays, critic, np.concatenate([observation, action]))[0])


def rows(case: Transitions, spec: EnvSpec) -> Iterator[tuple[Any, ...]]:
    """Yield observation, next observation, action, reward, terminated of batch 0."""
    scale = 255 if spec.observation_dtype == "uint8" else 1
    for i in range(case.rewards.shape[1]):
        now, after = np.float64(case.observations[0, i]) / scale
        yield (
            now,
            after,
            np.float64(case.actions[0, i]),
            float(case.rewards[0, i]),
            bool(case.terminated[0, i]),
        )


def descended(
    arrays: dict[str, Any], names: list[str], loss: Callable[[dict[str, Any]], float]
) -> tuple[dict[str, Any], float]:
    """Take Adam's first step along finite differences; return the gradient's norm."""
    stepped, total = dict(arrays), 0.0
    for name in [k for k in arrays if k.partition("/")[0] in names]:
        gradient = np.zeros_like(arrays[name])
        for index in np.ndindex(gradient.shape):
            moved = []
            for step in (1e-6, -1e-6):
                changed = arrays[name].copy()
                changed[index] += step
                moved.append(loss({**arrays, name: changed}))
            gradient[index] = (moved[0] - moved[1]) / 2e-6
        rest = EPSILON / (1 - BETA2) ** 0.5
        stepped[name] = arrays[name] - LR * gradient / (np.abs(gradient) + rest)
        total += (gradient**2).sum()
    return stepped, total**0.5


def followed(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays with each target moved by TAU."""
    moved = dict(arrays)
    for name in arrays:
        model, _, rest = name.partition("/")
        if model.endswith("-target"):
            online = arrays[f"{model.removesuffix('-target')}/{rest}"]
            moved[name] = (1 - TAU) * arrays[name] + TAU * online
    return moved


def assert_close(got: dict[str, Any], expected: dict[str, Any]) -> None:
    assert got.keys() == expected.keys()
    for name, array in got.items():
        np.testing.assert_allclose(
            array, expected[name], rtol=1e-4, atol=1e-5, err_msg=name
        )


# Pure functions


def test_one_step_targets_by_hand() -> None:
    terminated = tf.constant([False, True, False, True])
    got = losses.one_step_targets(
        tf.constant([1.0, 2.0, -3.0, 0.0]), terminated, tf.constant([4.0] * 4), 0.5
    )
    np.testing.assert_array_equal(got, [3.0, 2.0, -1.0, 0.0])


def test_one_step_targets_of_ends() -> None:
    """A truncated step is followed by its real last observation, which has a value."""
    observations = np.arange(21, dtype=np.float32).reshape(7, 1, 3)
    terminated, truncated = np.zeros((2, 6, 1), bool)
    terminated[2], truncated[5] = True, True
    valid, starts = np.ones((6, 1), bool), np.zeros((7, 1), bool)
    valid[3], starts[4] = False, True  # the row that only resets
    rewards = np.arange(6, dtype=np.float32)[:, None]
    actions = np.zeros((6, 1, 2), np.float32)
    flags = terminated, truncated, valid
    replay = TransitionReplay(SPEC, 6, 1, 6, 0)
    replay.insert(
        Trajectory(observations, starts, actions, rewards, *flags, None, None, 1, 0)
    )
    drawn = replay.sample(2, 50)
    after = drawn.observations[:, :, 1]
    got = losses.one_step_targets(drawn.rewards, drawn.terminated, after.sum(-1), 0.5)
    seen = set()
    for row, target in zip(drawn.rewards.flat, got.numpy().flat, strict=True):
        step = int(row)
        seen.add(step)
        bootstrap = 0 if step == 2 else 0.5 * observations[step + 1].sum()
        assert target == step + bootstrap
    assert seen == {0, 1, 2, 4, 5}


def test_squared_by_hand() -> None:
    assert float(losses.squared(tf.constant([1.0, -2.0, 3.0, 0.0]))) == 3.5


def test_polyak_by_hand() -> None:
    online = [tf.Variable([1.0, 2.0]), tf.Variable([[8.0]])]
    target = [tf.Variable([3.0, 2.0]), tf.Variable([[0.0]])]
    pairs = [(SimpleNamespace(weights=target), SimpleNamespace(weights=online))]
    expected = [[2.5, 2.0], [[2.0]]], [[2.125, 2.0], [[3.5]]]
    for each in expected:
        update_targets(pairs, 0.25)
        for variable, numbers in zip(target, each, strict=True):
            np.testing.assert_array_equal(variable, numbers)
    update_targets(pairs, 1.0)
    np.testing.assert_array_equal(target[0], [1.0, 2.0])
    np.testing.assert_array_equal(online[1], [[8.0]])


def test_smooth_target_actions_by_hand() -> None:
    # action, standard normal, scale 0.5, clip 0.75
    table = [
        (0.0, 1.0, 0.5),
        (0.0, 2.0, 0.75),  # the noise is clipped
        (0.0, -9.0, -0.75),
        (0.5, 1.5, 1.0),  # the action is
        (-1.0, -0.1, -1.0),
        (1.0, -0.5, 0.75),
    ]
    actions, normal, expected = np.array(table, np.float32).T.reshape(3, 3, 2)
    got = smooth_target_actions(tf.constant(actions), tf.constant(normal), 0.5, 0.75)
    np.testing.assert_allclose(got, expected)


def test_smooth_target_actions_slowly() -> None:
    rng = np.random.default_rng(0)
    actions, normal = rng.uniform(-1, 1, (50, 2)), 2 * rng.normal(size=(50, 2))
    got = smooth_target_actions(
        tf.constant(actions), tf.constant(normal), 0.2, 0.3
    ).numpy()
    for index in np.ndindex(50, 2):
        noise = min(max(0.2 * normal[index], -0.3), 0.3)
        assert got[index] == pytest.approx(min(max(actions[index] + noise, -1), 1))


def test_normal_noise_is_the_updates_own() -> None:
    def drawn(seed: int, update: int) -> Any:
        return normal_noise(seed, tf.constant(update, tf.int64), [4000, 2]).numpy()

    noise = drawn(3, 5)
    np.testing.assert_array_equal(noise, drawn(3, 5))
    others = [drawn(3, 6), drawn(4, 5), drawn(3, 5 + 2**32), drawn(2**31 - 1, 5)]
    for other in others:
        assert abs(np.corrcoef(noise.flat, other.flat)[0, 1]) < 5 / 8000**0.5
    assert abs(noise.mean()) < 5 / 8000**0.5
    assert noise.std() == pytest.approx(1, rel=5 / 16000**0.5)


def test_action_values_read_the_action_last() -> None:
    def critic(x: Any) -> Any:
        return tf.reduce_sum(x * [1.0, 10.0, 100.0], axis=-1, keepdims=True)

    got = action_values(
        critic, tf.constant([[1.0, 2.0], [0.0, 3.0]]), tf.constant([[4.0], [5]])
    )
    np.testing.assert_array_equal(got, [421.0, 530.0])


def test_a_target_begins_as_a_copy() -> None:
    layout = find("ddpg").layout(None, SPEC)
    model, target = with_target(layout, 0, "actor")
    for one, other in zip(model.weights, target.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    model.weights[0].assign_add(tf.ones_like(model.weights[0]))
    assert (model.weights[0].numpy() != target.weights[0].numpy()).all()


# Both learners


@pytest.fixture
def deterministic() -> Iterator[None]:
    tf.config.experimental.enable_op_determinism()
    yield
    disable_op_determinism()


def cut(case: Transitions, start: int, stop: int) -> Transitions:
    return Transitions._make(x[start:stop] for x in case)


def everything(learner: Any) -> dict[str, Any]:
    return {k: v for k, v in learner.state.arrays().items() if k != "count/version"}


@pytest.mark.parametrize("name", AGENTS)
def test_phases_and_resumption_change_nothing(name: str, deterministic: None) -> None:
    """Six batches at once, or in phases of one to three with a resumption."""
    case = batch(6)
    learner, resumed = make(name, lr=0.01), make(name, lr=0.01)
    begin = learner.state.arrays()
    learner.update(sampled(case), 0)
    expected = everything(learner)
    learner.state.restore(begin)
    learner.update(sampled(cut(case, 0, 1)), 0)
    learner.update(sampled(cut(case, 1, 3)), 0)
    scatter(resumed)
    resumed.state.restore(learner.state.arrays())
    resumed.update(sampled(cut(case, 3, 6)), 0)
    got = everything(resumed)
    assert expected.keys() == got.keys()
    for key, array in expected.items():
        np.testing.assert_array_equal(got[key], array, err_msg=key)


@pytest.mark.parametrize("name", AGENTS)
def test_load_makes_targets_equal(name: str) -> None:
    """Of the model that is loaded; the others stay as they are."""
    learner = make(name)
    layouts = find(name).layouts(config_of(name), SPEC)
    for model, layout in zip(find(name).models, layouts, strict=True):
        before = networks_of(learner)
        arrays = random_arrays(layout, 5)
        learner.load({f"{model.name}/{key}": x for key, x in arrays.items()})
        for key, array in networks_of(learner).items():
            owner, _, own = key.partition("/")
            loaded = owner in (model.name, f"{model.name}-target")
            np.testing.assert_array_equal(array, arrays[own] if loaded else before[key])
    with pytest.raises(UserError, match="critic/dense-0/kernel has shape"):
        learner.load({"critic/dense-0/kernel": np.zeros((1, 1), np.float32)})


@pytest.mark.parametrize("name", AGENTS)
def test_models_begin_with_different_weights(name: str) -> None:
    kernels = {
        key.partition("/")[0]: array[0, 0]
        for key, array in networks_of(make(name)).items()
        if key.endswith("dense-0/kernel")
    }
    models = [model.name for model in find(name).models]
    assert sorted(kernels) == sorted([*models, *(f"{m}-target" for m in models)])
    assert len({kernels[model] for model in models}) == len(models)
    for model in models:
        assert kernels[model] == kernels[f"{model}-target"]


@pytest.mark.parametrize("name", AGENTS)
def test_terminated_transitions_have_no_next_value(name: str) -> None:
    """Whatever the targets say; a transition that goes on has one."""
    learner, found = make(name), []
    begin = learner.state.arrays()
    for terminated in (True, False):
        for scale in (0.0, 100.0):
            learner.state.restore(begin)
            for key, variable in learner.state.variables.items():
                if "-target/" in key:
                    variable.assign(scale * variable)
            case = batch(1)
            case.terminated[:] = terminated
            found.append(learner.update(sampled(case), 0)["value_loss"])
    assert found[0] == found[1]
    assert found[2] != found[3]
