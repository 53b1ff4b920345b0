"""Every learner with every kind of observation and action that it takes."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from learner_support import fresh, make_learner, replayed, sampled
from naive import assert_same
from tensorflow.python.framework.config import disable_op_determinism

from xagents_ray.actors.policies.base import Actions
from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.table import all_algorithms
from xagents_ray.core.batches import Batch
from xagents_ray.core.plugins import resolve_class
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.stacks import stack_frames
from xagents_ray.core.trajectory import (
    Trajectory,
    Transitions,
    Weights,
)

OBSERVATIONS = {
    "vector": ((4,), "float32", 1),
    "ram": ((8,), "uint8", 1),
    "grey": ((36, 36), "uint8", 3),
    "rgb": ((36, 40, 3), "uint8", 2),
}
ACTIONS: dict[str, dict[str, Any]] = {
    "discrete": {"n_actions": 3},
    "continuous": {
        "n_actions": 0,
        "action_low": (-1.0, -1.0),
        "action_high": (1.0, 1.0),
    },
}
# Constant rates, few passes, and clipping that lets a fixed batch be learned.
SETTINGS = {
    "lr": 3e-3,
    "gamma": 0.9,
    "ppo_epochs": 2,
    "mini_batches": 3,
    "clip_norm": 10.0,
    "entropy_coef": 0.0,
    "epsilon_end": 0.0,
    "target_sync_steps": 1,
    "max_kl": 0.02,
}
STEADY = {"cg_iterations": 2}  # more of them only magnify roundings


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """TensorFlow as `--seed` sets it up; other tests want it as it was."""
    tf.config.experimental.enable_op_determinism()
    try:
        yield
    finally:
        disable_op_determinism()


class Case(NamedTuple):
    row: Algorithm
    spec: EnvSpec
    settings: Mapping[str, Any] = {}

    def config(self, **settings: Any) -> Any:
        names = self.row.config.__dataclass_fields__
        values = {**SETTINGS, **self.settings, **settings}
        return self.row.config(**{k: v for k, v in values.items() if k in names})

    def learner(self, seed: int = 0, compiled: bool = False, **settings: Any) -> Any:
        config, name = self.config(**settings), self.row.name
        return make_learner(name, config, self.spec, seed=seed, compiled=compiled)

    def policy(self, weights: Weights) -> Any:
        config = self.config()
        layout = self.row.layouts(config, self.spec)[0]
        policy = resolve_class("policy", self.row.policy)(config, self.spec, layout)
        policy.load(weights)
        return policy


def cases(names: Any, on_policy: Any = (False, True), actions: Any = ACTIONS) -> Any:
    """Return a pytest parameter for every row of the table that takes these."""
    made = []
    for row in all_algorithms().values():
        kinds = {"discrete": row.discrete, "continuous": row.continuous}
        for kind in actions:
            for name in names:
                shape, dtype, stack = OBSERVATIONS[name]
                takes = len(shape) == 1 or not any(m.reads_actions for m in row.models)
                if takes and kinds[kind] and row.on_policy in on_policy:
                    spec = EnvSpec(shape, dtype, stack, **ACTIONS[kind])
                    label = f"{row.name}-{kind}-{name}"
                    made.append(pytest.param(Case(row, spec), id=label))
    return made


def slow_ones(parameters: Any, pattern: str) -> Any:
    """Mark as slow the parameters whose ids match: others take the same path."""
    is_slow = re.compile(pattern).fullmatch
    assert any(is_slow(each.id) for each in parameters)
    return [
        pytest.param(*each.values, id=each.id, marks=[*each.marks, pytest.mark.slow])
        if is_slow(each.id)
        else each
        for each in parameters
    ]


def random_observations(spec: EnvSpec, rng: Any, *shape: int) -> Any:
    """Return noise; frames are bright or dark besides, so that they can be told."""
    full = (*shape, *spec.observation_shape)
    if spec.is_image:
        level = rng.choice([50, 200], (*shape, *[1] * len(spec.observation_shape)))
        return (level + rng.integers(-50, 50, full)).astype(np.uint8)
    if spec.observation_dtype == "uint8":
        return rng.integers(0, 256, full, np.uint8)
    return rng.normal(size=full).astype(np.float32)


def best_actions(spec: EnvSpec, observations: Any) -> Any:
    """Return the actions that are rewarded, from the newest frame's first number."""
    flat = observations.reshape(*observations.shape[: -len(spec.observation_shape)], -1)
    high = flat[..., 0] > (127 if spec.observation_dtype == "uint8" else 0)
    if spec.is_discrete:
        return np.where(high, 2, 0).astype(np.int32)
    return np.stack([np.where(high, 0.8, -0.8)] * 2, axis=-1).astype(np.float32)


def rewards_of(spec: EnvSpec, observations: Any, actions: Any) -> Any:
    best = best_actions(spec, observations)
    if spec.action_sizes:  # the first of several actions
        actions = actions[..., 0]
    if spec.is_discrete:
        return (actions == best).astype(np.float32)
    return -np.abs(actions - best).mean(-1).astype(np.float32)


def seen_at(t: int, spec: EnvSpec, observations: Any, starts: Any) -> Any:
    """Return what a policy sees at a step of a rollout."""
    if not spec.is_image:
        return observations[t]
    return stack_frames(observations[t : t + spec.stack], starts[t : t + spec.stack])


def trajectory(case: Case, weights: Weights, length: int, envs: int, seed: int) -> Any:
    """Return a rollout of the case's policy; every step terminates, as lives do."""
    spec, rng = case.spec, np.random.default_rng(seed)
    observations = random_observations(spec, rng, length + spec.stack, envs)
    starts = rng.random((length + spec.stack, envs)) < 0.2
    policy = case.policy(weights)
    generators = [np.random.default_rng([seed, i]) for i in range(envs)]
    policy.begin_rollout(generators)
    noise, drawn = policy.noise(generators, length), policy.network_noise
    seen = [seen_at(t, spec, observations, starts) for t in range(length + 1)]
    chosen = [policy.act(seen[t], noise[t], 0) for t in range(length)]
    rows = Actions.joined(chosen)
    actions, values = rows.stored, rows.values
    shape = (length, envs)
    newest = observations[spec.stack - 1 : -1]
    if values is not None:
        values = np.stack([*values, policy.values(seen[length])])
    return Trajectory(
        observations=observations,
        starts=starts,
        actions=actions,
        rewards=rewards_of(spec, newest, actions),
        terminated=np.ones(shape, bool),
        truncated=np.zeros(shape, bool),
        valid=np.ones(shape, bool),
        log_probs=policy.log_probs(rows, noise),
        values=values,
        weights_version=weights.version,
        probabilities=policy.probabilities(rows),
        network_noise=None if drawn is None else drawn[None],
    )


def batch(
    case: Case, weights: Weights, k: int = 4, n: int = 32, seed: int = 0
) -> Batch:
    """Return k batches of n transitions, or k trajectories of n / 4 steps.

    Where rounds are learned from and replayed, the last k - 1 are replayed.
    """
    spec, rng = case.spec, np.random.default_rng(seed)
    if case.row.on_policy:
        rolled = [trajectory(case, weights, n // 4, 3, seed * k + i) for i in range(k)]
        if case.config().replay is None or k == 1:
            return fresh(*rolled)
        return fresh(rolled[0], sampled=replayed(rolled[1:]))
    observations = random_observations(spec, rng, k, n, spec.stack + 1)
    starts = rng.random((k, n, spec.stack + 1)) < 0.2
    starts[..., -1] = False
    if spec.is_discrete:
        actions = rng.integers(0, spec.n_actions, (k, n), np.int32)
    else:
        actions = rng.normal(size=(k, n, spec.action_units)).astype(np.float32)
    rewards = rewards_of(spec, observations[:, :, -2], actions)
    discounts = np.zeros((k, n), np.float32)
    return sampled(
        Transitions(
            observations=observations,
            starts=starts,
            actions=actions,
            rewards=rewards,
            discounts=discounts,
        )
    )


def assert_equal(one: Weights, other: Weights) -> None:
    assert_same(one.arrays, other.arrays)


def differ(one: Weights, other: Weights) -> bool:
    return any(
        not np.array_equal(array, other.arrays[name])
        for name, array in one.arrays.items()
        if name.endswith("kernel")
    )


def assert_finite(metrics: dict[str, float], weights: Weights) -> None:
    assert all(np.isfinite(value) for value in metrics.values()), metrics
    assert all(np.isfinite(array).all() for array in weights.arrays.values())


def score(case: Case, weights: Weights) -> float:
    """Return the mean reward of the policy on the batch's kind of observations."""
    rolled = trajectory(case, weights, 32, 8, 99)
    observations = rolled.observations[case.spec.stack - 1 : -1]
    policy = case.policy(weights)
    noise = policy.noise([np.random.default_rng(i) for i in range(8)], 32)
    reward = []
    for t in range(32):
        seen = seen_at(t, case.spec, rolled.observations, rolled.starts)
        actions = policy.act(seen, noise[t], 10**9).stored
        reward.append(rewards_of(case.spec, observations[t], actions))
    return float(np.mean(reward))
