"""Learners of networks that a user makes with Keras: the weights they begin with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.networks import keras_models
from xagents_ray.run.learner_access import make_learner
from xagents_ray.run.prepare import prepare_run
from xagents_ray.settings.config import Config

LARGEST = 1e-3
"""Of a kernel here, so that its initializer is seen."""
layers = keras.layers


@keras.saving.register_keras_serializable("own critics")
class Scaled(layers.Layer):  # type: ignore[misc]
    """Says in its config nothing of how it draws."""

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=shape[-1:], initializer="normal")

    def call(self, x: Any) -> Any:
        return self.kernel * x


def critic(*between: Any, seed: int | None = None) -> Any:
    draw = keras.initializers.RandomUniform(-LARGEST, LARGEST, seed)
    given = keras.Input((4,))  # 3 numbers and an action
    x = layers.Dense(8, "relu", kernel_initializer=draw)(given)
    for each in between:
        x = each(x)
    return keras.Model(given, layers.Dense(1)(x))


def critic_of(env: Any) -> Any:
    assert env.observation_space.shape == (4,)
    return critic()


def actor_critic(env: Any) -> Any:
    given = keras.Input(env.observation_space.shape)
    x = layers.Dense(8)(given)
    return keras.Model(given, [layers.Dense(2)(x), layers.Dense(1)(x)])


def features(env: Any) -> Any:
    return keras.Sequential([keras.Input(env.observation_space.shape), layers.Dense(8)])


def run_of(agent: str, **given: Any) -> RunSpec:
    row = find_algorithm(agent)
    settings = {"max_steps": 1, "local": True, "seed": 1, **given}
    return prepare_run(row, Config.of(row.config, settings))


def weights_of(run: RunSpec) -> dict[str, Any]:
    arrays = make_learner(run)[0].state.arrays()
    return {k: x for k, x in arrays.items() if x.ndim and "optimizer" not in k}


@pytest.mark.parametrize(
    "make",
    [
        critic,
        lambda: critic_of,
        lambda: critic(seed=3),
        lambda: critic(Scaled(), seed=3),
    ],
    ids=["model", "function", "seeded", "unknown to NumPy"],
)
@pytest.mark.parametrize("given", [("td3", {}), ("sac", {"critics": 3})])
def test_critics_of_one_network_begin_differently(
    make: Callable[[], Any], given: tuple[str, dict[str, Any]]
) -> None:
    """By the model's own initializers; the first has the model's own weights."""
    made = make()
    agent, settings = given
    run = run_of(agent, env="Pendulum-v1", critic_model=made, **settings)
    weights, again = weights_of(run), weights_of(run)
    assert all(np.array_equal(array, again[name]) for name, array in weights.items())
    named: dict[str, dict[str, Any]] = {}
    for name, array in weights.items():
        model, _, own = name.partition("/")
        if model.startswith("critic") and "bias" not in own:
            named.setdefault(model, {})[own] = array
    critics = [model for model in named if not model.endswith("-target")]
    assert len(critics) == (3 if settings else 2)
    for own in named["critic"]:
        assert len({named[model][own].tobytes() for model in critics}) == len(critics)
    for model in critics:
        first = next(iter(named[model].values()))
        assert LARGEST / 2 < np.abs(first).max() <= LARGEST
        for own, array in named[model].items():
            np.testing.assert_array_equal(array, named[f"{model}-target"][own])
    if isinstance(made, keras.Model):
        kernel = next(iter(named["critic"].values()))
        np.testing.assert_array_equal(kernel, made.get_weights()[0])


@pytest.mark.parametrize(
    "given",
    [{"model": actor_critic}, {"feature_maker": features}],
    ids=["model", "features"],
)
def test_networks_that_functions_make_repeat_with_a_seed(given: dict[str, Any]) -> None:
    def kernels(seed: int) -> list[Any]:
        weights = weights_of(run_of("ppo", env="CartPole-v1", seed=seed, **given))
        return [array for array in weights.values() if array.ndim == 2]

    one, again, other = kernels(1), kernels(1), kernels(2)
    assert len(one) == 3
    for mine, same, different in zip(one, again, other, strict=True):
        np.testing.assert_array_equal(mine, same)
        assert not np.isclose(mine, different).any()


@pytest.mark.parametrize(
    "given",
    [
        {"model": actor_critic},
        {"model": "own.keras"},
        {"model": f"{__name__}:actor_critic"},
        {"feature_maker": features},
    ],
    ids=["function", "file", "name", "features"],
)
def test_only_layers_of_cfg_files_are_copied(given: dict[str, Any]) -> None:
    given_to = keras.Input((4,))
    outputs = [layers.Dense(n)(given_to) for n in (2, 1)]
    file = keras_models.model_bytes(keras.Model(given_to, outputs), "own")
    Path("own.keras").write_bytes(file)
    with pytest.raises(UserError, match=r"--separate-networks copies the layers of"):
        run_of("ppo", env="CartPole-v1", separate_networks=True, **given)
