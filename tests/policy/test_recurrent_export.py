"""Policies with memory as ONNX and Keras models, and their weights in all formats."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
from policies import KINDS, policy_of

from xagents_ray import Policy, UserError
from xagents_ray.run.weights_formats import decode_weights, encode_weights

STEPS, BATCH = 4, 5


def sequence_of(policy: Policy) -> Any:
    space = policy.observation_space
    space.seed(3)
    samples = [[space.sample() for _ in range(BATCH)] for _ in range(STEPS)]
    if not isinstance(samples[0][0], dict):
        return np.array(samples)
    return [
        {name: np.stack([x[name] for x in row]) for name in row[0]} for row in samples
    ]


def actions_of(policy: Policy) -> Any:
    found, state = [], None
    for row in sequence_of(policy):
        actions, state = policy.predict(row, state)
        found.append(actions)
    return np.array(found)


def recurrent(agent: str, settings: dict[str, Any]) -> Policy:
    """Return a policy; PPO's mini-batches are of whole environments."""
    own = {"mini_batches": 1} if agent == "ppo" else {}
    return policy_of(agent, **settings, **own)


def state_units(policy: Policy) -> int:
    return policy._trained.run.layout.state_units


CASES: list[tuple[str, dict[str, Any]]] = [
    ("ppo", {**KINDS["discrete"], "memory": "lstm:6"}),
    ("ppo", {**KINDS["several"], "memory": "gru:6"}),
    ("a2c", {**KINDS["continuous"], "memory": "gru:6", "separate_networks": True}),
    ("ppo", {**KINDS["continuous"], "memory": "lstm:6", "sde_frequency": 4}),
    ("dqn", {**KINDS["discrete"], "memory": "lstm:6", "dueling": True}),
    ("ppo", {"env": "dict_envs:compass", "memory": "lstm:6"}),
]


@pytest.mark.parametrize(("agent", "settings"), CASES)
def test_onnx_takes_and_returns_the_state(agent: str, settings: Any) -> None:
    policy = recurrent(agent, settings)
    policy.export("policy.onnx")
    session = onnxruntime.InferenceSession("policy.onnx")
    names = {each.name for each in session.get_inputs()}
    assert "state" in names
    assert [each.name for each in session.get_outputs()][-1] == "next_state"
    state = np.zeros((BATCH, state_units(policy)), np.float32)
    for row, expected in zip(sequence_of(policy), actions_of(policy), strict=True):
        given = {"observation": row}
        if isinstance(row, dict):
            given = {f"observation/{name}": x for name, x in row.items()}
        actions, state = session.run(
            ["action", "next_state"], {**given, "state": state}
        )
        np.testing.assert_allclose(actions, expected, 1e-5, 1e-5)


def test_the_state_of_values_stays_in_onnx() -> None:
    """Nothing that acts reads it, but its size is that of predict."""
    policy = recurrent(*CASES[2])
    policy.export("policy.onnx")
    session = onnxruntime.InferenceSession("policy.onnx")
    state = np.random.default_rng(0).normal(size=(BATCH, 12)).astype(np.float32)
    given = {"observation": sequence_of(policy)[0], "state": state}
    (after,) = session.run(["next_state"], given)
    np.testing.assert_array_equal(after[:, 6:], state[:, 6:])
    assert not np.isclose(after[:, :6], state[:, :6]).all()


@pytest.mark.parametrize(("agent", "settings"), [CASES[0], CASES[3], CASES[5]])
def test_keras_takes_and_returns_the_state(agent: str, settings: Any) -> None:
    policy = recurrent(agent, settings)
    model = policy.to_keras()
    state = np.zeros((BATCH, state_units(policy)), np.float32)
    ours = None
    for row in sequence_of(policy):
        given = [row, state]
        if isinstance(row, dict):
            given = {**row, "state": state}
        outputs = model.predict(given, verbose=0)
        state = outputs[-1]
        actions, ours = policy.predict(row, ours)
        np.testing.assert_allclose(state, ours, 1e-5, 1e-5)
        if agent == "ppo" and np.issubdtype(actions.dtype, np.integer):
            np.testing.assert_array_equal(outputs[0].argmax(-1), actions)


def test_an_input_named_state_is_not_the_memory() -> None:
    policy = recurrent("ppo", {"env": "dict_envs:with_state", "memory": "lstm:6"})
    model, row = policy.to_keras(), sequence_of(policy)[0]
    state = np.ones((BATCH, 12), np.float32)
    *_, after = model.predict({**row, "memory_state": state}, verbose=0)
    _, expected = policy.predict(row, state)
    np.testing.assert_allclose(after, expected, 1e-5, 1e-5)


@pytest.mark.parametrize("ending", ["npz", "weights.h5", "tf"])
def test_weights_in_all_formats(ending: str) -> None:
    weights = recurrent(*CASES[4])._trained
    layout, path = weights.run.layout, f"policy.{ending}"
    file = encode_weights(weights.weights.arrays, layout, path)
    found, _ = decode_weights(file, layout, {})
    assert "lstm-0/recurrent_kernel" in found
    for name, array in weights.weights.arrays.items():
        np.testing.assert_array_equal(found[name], array)
    with pytest.raises(UserError, match="layers that Keras lacks"):
        encode_weights(found, layout, "policy.keras")
