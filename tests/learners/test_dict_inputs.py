"""Learners of several arrays: their inputs by hand, and updates on made-up data."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from learner_cases import assert_finite, differ
from learner_support import fresh, make_learner, publish, replayed, sampled

from xagents_ray.actors.policies.base import Actions
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.moments import OBSERVATION
from xagents_ray.core.plugins import resolve_class
from xagents_ray.core.spec import VECTOR, EnvSpec, InputSpec
from xagents_ray.core.stacks import network_input
from xagents_ray.core.trajectory import Trajectory, Transitions, map_array
from xagents_ray.learners import frames
from xagents_ray.learners.normalizer import Normalizer

INPUTS = (
    InputSpec("compass", (2,), 0),
    InputSpec("map", (6, 7)),
    InputSpec("w", (1,), 2),
)
SPEC = EnvSpec((3,), "float32", 2, 3, inputs=INPUTS)
ENVS, STEPS = 2, 5


def made_up(rng: Any, *shape: int) -> dict[str, Any]:
    return {
        "map": rng.integers(0, 256, (*shape, 6, 7), np.uint8),
        VECTOR: rng.normal(size=(*shape, 3)).astype(np.float32),
    }


def seen(observations: Any, starts: Any, t: int) -> Any:
    """Return what a policy sees at row t."""
    window = map_array(lambda x: x[t : t + SPEC.stack], observations)
    return network_input(window, starts[t : t + SPEC.stack], False)


def begun(rng: Any, rows: int) -> Any:
    return rng.random((rows, ENVS)) < 0.3


def test_inputs_of_a_rollout() -> None:
    rng = np.random.default_rng(0)
    observations = made_up(rng, STEPS + SPEC.stack, ENVS)
    starts = begun(rng, STEPS + SPEC.stack)
    found = frames.rollout_inputs(
        map_array(tf.constant, observations), tf.constant(starts), SPEC
    )
    rows = [seen(observations, starts, t) for t in range(STEPS + 1)]
    for name, array in found.items():
        expected = np.concatenate([row[name] for row in rows])
        np.testing.assert_array_equal(array, expected, err_msg=name)


@pytest.mark.parametrize("more", [1, 2], ids=["one step", "more steps"])
def test_inputs_of_transitions(more: int) -> None:
    rng, count = np.random.default_rng(0), SPEC.stack + more
    observations = made_up(rng, 4, count)
    starts = rng.random((4, count)) < 0.3
    found = frames.transition_inputs(
        map_array(tf.constant, observations), tf.constant(starts), SPEC
    )
    turned = map_array(lambda x: x.swapaxes(0, 1), observations)
    for t, inputs in zip((0, more), found, strict=True):
        for name, array in seen(turned, starts.T, t).items():
            np.testing.assert_array_equal(inputs[name], array, err_msg=name)


def test_only_vectors_are_normalized() -> None:
    config = find_algorithm("ppo").config(normalize_observations=True)
    normalizer, rng = Normalizer(config, SPEC), np.random.default_rng(0)
    normalizer.variables[f"{OBSERVATION}/mean"].assign([1.0, 2.0, 3.0])
    normalizer.variables[f"{OBSERVATION}/variance"].assign([4.0, 4.0, 4.0])
    layout = find_algorithm("ppo").layout(None, SPEC)
    x = seen(made_up(rng, 2, 4), np.zeros((2, 4), bool), 0)
    image, vectors = normalizer.inputs(layout, map_array(tf.constant, x))
    np.testing.assert_allclose(vectors, (x[VECTOR] - [1, 2, 3]) / 2, rtol=1e-5)
    np.testing.assert_allclose(image, x["map"] / 255, rtol=1e-5)


def policy_of(agent: str, config: Any, weights: Any) -> Any:
    row = find_algorithm(agent)
    layout = row.layouts(config, SPEC)[0]
    policy = resolve_class("policy", row.policy)(config, SPEC, layout)
    policy.load(weights)
    return policy


def rollout(policy: Any, weights: Any, seed: int) -> Trajectory:
    rng = np.random.default_rng(seed)
    observations = made_up(rng, STEPS + SPEC.stack, ENVS)
    starts, shape = begun(rng, STEPS + SPEC.stack), (STEPS, ENVS)
    generators = [np.random.default_rng(i) for i in range(ENVS)]
    policy.begin_rollout(generators)
    noise, drawn = policy.noise(generators, STEPS), policy.network_noise
    rows = [seen(observations, starts, t) for t in range(STEPS + 1)]
    actions = Actions.joined([policy.act(rows[t], noise[t], 0) for t in range(STEPS)])
    values = actions.values
    if values is not None:
        values = np.stack([*values, policy.values(rows[-1])])
    return Trajectory(
        observations=observations,
        starts=starts,
        actions=actions.stored,
        rewards=rng.normal(size=shape).astype(np.float32),
        terminated=rng.random(shape) < 0.2,
        truncated=np.zeros(shape, bool),
        valid=np.ones(shape, bool),
        log_probs=policy.log_probs(actions, noise),
        values=values,
        weights_version=weights.version,
        probabilities=policy.probabilities(actions),
        network_noise=None if drawn is None else drawn[None],
    )


def batch_of(agent: str, config: Any, weights: Any, seed: int) -> Any:
    if agent != "dqn":
        policy = policy_of(agent, config, weights)
        rounds = [rollout(policy, weights, 10 * seed + i) for i in range(2)]
        if agent == "acer":
            return fresh(rounds[0], sampled=replayed(rounds[1:]))
        return fresh(*rounds)
    rng, shape = np.random.default_rng(seed), (2, 4)
    return sampled(
        Transitions(
            observations=made_up(rng, *shape, 3),
            starts=rng.random((*shape, 3)) < 0.2,
            actions=rng.integers(0, 3, shape, np.int32),
            rewards=rng.normal(size=shape).astype(np.float32),
            discounts=np.full(shape, 0.9, np.float32),
        )
    )


CASES: dict[str, dict[str, Any]] = {
    "a2c": {"critic_inputs": "w"},
    "acer": {"normalize_observations": True},
    "dqn": {"dueling": True, "double": True},
    "ppo": {"ppo_epochs": 1, "mini_batches": 2, "noisy": "factorised"},
    "trpo": {"critic_inputs": "map", "cg_iterations": 2, "mini_batches": 1},
}


@pytest.mark.parametrize("agent", CASES)
def test_two_phases(agent: str) -> None:
    config = find_algorithm(agent).config(**CASES[agent])
    learner = make_learner(agent, config, SPEC)
    before = weights = publish(learner)
    for seed in range(2):
        batch = batch_of(agent, config, weights, seed)
        metrics, weights, _ = learner.learn(batch, 20, {}, learner.version + 1)
        assert_finite(metrics, weights)
    assert differ(before, weights)


def test_states_of_flattened_images_are_refused() -> None:
    """As of runs from before images in a Dict had convolutions."""
    config = find_algorithm("ppo").config()
    flat = make_learner("ppo", config, EnvSpec((131,), "float32", 1, 3))
    said = "has no .*: it is of another .*; resume with the versions that wrote it"
    with pytest.raises(UserError, match=said):
        make_learner("ppo", config, SPEC).state.restore(flat.state.arrays())


def test_agents_that_read_actions_refuse_images() -> None:
    bounds = {"action_low": (-1.0,), "action_high": (1.0,)}
    spec = EnvSpec((3,), "float32", 2, 0, inputs=INPUTS, **bounds)
    for agent in ("ddpg", "sac", "td3"):
        with pytest.raises(UserError, match="needs observation vectors"):
            find_algorithm(agent).check_spaces(spec)
