"""Updates of DDPG, TD3 and SAC worked out slowly, with finite differences."""

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import tensorflow as tf
from learner_support import make_learner
from naive import finite_differences

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Transitions, map_arrays

SPEC = EnvSpec((3,), "float32", 1, 0, (-1.0, -1.0), (1.0, 1.0))
RAM = EnvSpec((3,), "uint8", 1, 0, (-1.0, -1.0), (1.0, 1.0))
AGENTS = ["ddpg", "td3", "sac"]
TINY = "[dense-0]\nunits=4\nactivation=tanh\ncommon=1\n[dense-1]\noutput=1\n"
BETA2, EPSILON, LR, GAMMA, TAU = 0.999, 1.0, 10.0, 0.9, 0.1


def quantile(bits: int) -> float:
    """Return the normal number below which lie as many as integers below `bits`."""
    return NormalDist().inv_cdf((bits // 256 + 2**23 + 0.5) / 2**24)


def normals(seed: int, draw: int, shape: tuple[int, ...]) -> Any:
    """Return the standard normal noise of a draw in a run of a seed."""
    own = tf.constant([seed, draw], tf.int64)
    bits = tf.random.stateless_uniform(shape, own, None, None, tf.int32).numpy()
    return np.vectorize(quantile)(bits)


def make(
    name: str,
    spec: EnvSpec = SPEC,
    seed: int = 0,
    compiled: bool = False,
    **settings: Any,
) -> Any:
    """Return a learner of tiny networks whose Adam steps are nearly the gradient's."""
    for model in find_algorithm(name).models[:2]:
        more = "[dense-2]\noutput=1\n" * (len(model.heads) - 1)
        Path(f"{model.file.removesuffix('_model')}.cfg").write_text(TINY + more)
    config = config_of(name, **settings)
    return make_learner(name, config, spec, seed=seed, compiled=compiled)


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
    return find_algorithm(name).config(**values)


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
        np.float32(GAMMA) * (np.arange(k * n).reshape(k, n) % 3 != 1),
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
    layers = "/dense-", "/sde/"
    return {k: np.float64(v) for k, v in arrays.items() if any(x in k for x in layers)}


def output(arrays: dict[str, Any], name: str, x: Any) -> Any:
    """Return [units], a tiny network's output for one input; tanh bounds an actor's."""
    kernels, biases = (
        [arrays[f"{name}/dense-{i}/{part}"] for i in (0, 1)]
        for part in ("kernel", "bias")
    )
    y = np.tanh(x @ kernels[0] + biases[0]) @ kernels[1] + biases[1]
    return np.tanh(y) if name.startswith("actor") else y


def value(arrays: dict[str, Any], critic: str, observation: Any, action: Any) -> float:
    return float(output(arrays, critic, np.concatenate([observation, action]))[0])


def values_of(
    arrays: dict[str, Any], critic: str, case: Transitions, spec: EnvSpec
) -> list[float]:
    """Return what a critic says of the actions of batch 0."""
    return [value(arrays, critic, now, a) for now, _, a, *_ in rows(case, spec)]


def actor_loss(arrays: dict[str, Any], case: Transitions, spec: EnvSpec) -> float:
    """Return what the actor's update descends: minus the critic's mean value of it."""
    return -sum(
        value(arrays, "critic", now, output(arrays, "actor", now)) / 8
        for now, *_ in rows(case, spec)
    )


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
            not case.discounts[0, i],
        )


def descended(
    arrays: dict[str, Any], names: list[str], loss: Callable[[dict[str, Any]], float]
) -> tuple[dict[str, Any], float]:
    """Take Adam's first step along finite differences; return the gradient's norm."""
    stepped, total = dict(arrays), 0.0
    for name in [k for k in arrays if k.partition("/")[0] in names]:

        def loss_of(array: Any, name: str = name) -> float:
            return loss({**arrays, name: array})

        gradient = finite_differences(loss_of, arrays[name], 1e-6)
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


def cut(case: Transitions, start: int, stop: int) -> Transitions:
    return map_arrays(lambda x: x[start:stop], case)
