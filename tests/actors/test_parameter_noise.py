"""Noise on the weights of a deterministic actor."""

from typing import Any

import numpy as np
import pytest
from acting import actions_shared_and_alone, setup_of
from naive import random_arrays

from xagents_ray.actors.policies.exploring import DeterministicPolicy
from xagents_ray.actors.policies.parameter_noise import ParameterNoise
from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Weights
from xagents_ray.networks.forward import bind_network
from xagents_ray.networks.keras_layers import LayerNorm
from xagents_ray.networks.layers import Dense
from xagents_ray.networks.layout import Layout

SPEC = EnvSpec((3,), "float32", 1, 0, (-2.0, -2.0), (2.0, 2.0))
TRAINED, TARGET = 10**9, 0.2
PENDULUM = {"env": "Pendulum-v1", "noise": "parameter", "buffer_initial_size": 10}


def dense(name: str, source: int, inputs: int, units: int) -> Dense:
    shapes = {"output_shape": (units,), "kernel_shape": (inputs, units)}
    values = {"activation": "tanh", "initializer": "zeros", "gain": 1.0, **shapes}
    return Dense(name=name, source=source, **values)  # type: ignore[arg-type]


def loaded(version: int = 1) -> tuple[Any, Layout, dict[str, Any]]:
    config = DDPGConfig(noise="parameter", step_noise_coef=TARGET)
    layers = (dense("a-0", -1, 3, 16), dense("a-1", 0, 16, 2))
    layout = Layout(layers, (1,), (3,), 1.0)
    arrays = random_arrays(layout, version)
    policy = DeterministicPolicy(config, SPEC, layout)
    policy.load(Weights(version, arrays))
    return policy, layout, arrays


def observations(count: int = 4) -> Any:
    return np.random.default_rng(1).normal(size=(count, 3)).astype(np.float32)


def by_hand(
    layout: Layout, arrays: dict[str, Any], seed: float, deviation: float, x: Any
) -> Any:
    """Return the actions of a perturbed actor."""
    generator, noisy = np.random.default_rng(int(seed)), {}
    for name, array in arrays.items():
        noise = generator.standard_normal(array.size, np.float32)
        noisy[name] = array + np.float32(deviation) * noise.reshape(array.shape)
    return np.clip(bind_network(layout, noisy)(x)[0], -1, 1)


def drawn(policy: Any, steps: int, envs: int = 4) -> Any:
    return policy.noise([np.random.default_rng([7, i]) for i in range(envs)], steps)


def test_each_environment_has_an_actor_of_its_own_for_an_episode() -> None:
    """Others' ends, and new weights, leave its direction as it is."""
    policy, layout, arrays = loaded()
    x, noise = observations(), drawn(policy, 3)
    first = policy.act(x, noise[0], TRAINED).stored
    seeds = policy.memory[:, 0].copy()
    assert len(set(seeds)) == 4 and (seeds > 0).all()
    for env in range(4):
        row = x[env : env + 1]
        wanted = by_hand(layout, arrays, seeds[env], TARGET, row)
        np.testing.assert_allclose(first[env : env + 1], wanted, atol=1e-5)
    policy.reset_memory(np.array([True, False, False, False]))
    deviations = policy.memory[:, 1].copy()
    newer = random_arrays(layout, 2)
    policy.load(Weights(2, newer))
    second = policy.act(x, noise[1], TRAINED).stored
    assert policy.memory[0, 0] != seeds[0]
    np.testing.assert_array_equal(policy.memory[1:, 0], seeds[1:])
    for env in range(4):
        row, seed = x[env : env + 1], policy.memory[env, 0]
        wanted = by_hand(layout, newer, seed, deviations[env], row)
        np.testing.assert_allclose(second[env : env + 1], wanted, atol=1e-5)
    means = bind_network(layout, newer)(x)[0]
    np.testing.assert_allclose(policy.greedy(x), 2 * np.clip(means, -1, 1), rtol=1e-5)


def test_the_deviation_adapts_to_the_distance_of_actions() -> None:
    """From far above what is asked for, and from far below."""
    rng = np.random.default_rng(0)
    for start in (0.02, 2.0):
        policy, layout, arrays = loaded()
        squares = []
        for t, noise in enumerate(drawn(policy, 2500)):
            x = rng.normal(size=(4, 3)).astype(np.float32)
            if t == 1:
                policy.memory[:, 1] = start
            actions = policy.act(x, noise, TRAINED).stored
            off = actions - np.clip(bind_network(layout, arrays)(x)[0], -1, 1)
            squares.append((off**2).mean(-1))
        distance = np.sqrt(np.mean(squares[1500:], axis=0))
        np.testing.assert_allclose(distance, TARGET, rtol=0.2)
        assert np.sqrt(np.mean(squares[1:20])) != pytest.approx(TARGET, rel=0.5)


def test_one_step_of_the_adaptation() -> None:
    noise = ParameterNoise(find_algorithm("ddpg").layout(None, SPEC), TARGET)
    actions = np.array([[0.3, 0.3], [0.1, 0.0]], np.float32)
    memory = np.array([[5, 1.0, TARGET**2], [6, 1.0, TARGET**2]], np.float32)
    after = noise.adapted(memory, actions, np.zeros((2, 2), np.float32))
    np.testing.assert_allclose(after[:, 1], [1 / 1.005, 1.005], rtol=1e-6)
    # 0.04 moves by 2 % of the way to 0.09, and to 0.005
    np.testing.assert_allclose(after[:, 2], [0.041, 0.0393], rtol=1e-5)
    np.testing.assert_array_equal(after[:, 0], memory[:, 0])


def test_statistics_and_layer_normalization_are_left_alone() -> None:
    norm = LayerNorm(name="norm-0", source=0, output_shape=(4,), epsilon=1e-3)
    layers = (dense("dense-0", -1, 3, 4), norm, dense("dense-1", 1, 4, 2))
    layout = Layout(layers, (2,), (3,), 1.0)
    assert "norm-0/gamma" in layout.shapes
    noise = ParameterNoise(layout, TARGET)
    assert noise._names == [
        f"dense-{i}/{p}" for i in (0, 1) for p in ("kernel", "bias")
    ]


def test_environments_act_alike_whoever_shares_their_actor() -> None:
    weights = Weights(1, random_arrays(setup_of("ddpg", 2, **PENDULUM).layout, 0))
    both, alone = actions_shared_and_alone("ddpg", weights, 30, **PENDULUM)
    np.testing.assert_allclose(both, alone, atol=1e-5)
