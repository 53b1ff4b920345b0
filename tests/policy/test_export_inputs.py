"""Policies of named inputs predict, and are exported, with all of them or fewer."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
from dict_envs import NAMES
from policies import policy_of

from xagents_ray import Policy
from xagents_ray.core.moments import OBSERVATION
from xagents_ray.policy.loading import LoadedPolicy

ENV = {"env": "dict_envs:compass"}


def batch_of(policy: Policy, count: int = 6) -> dict[str, Any]:
    space: Any = policy.make_env().observation_space
    space.seed(3)
    samples = [space.sample() for _ in range(count)]
    return {name: np.stack([x[name] for x in samples]) for name in samples[0]}


def normalizing(policy: Policy, size: int) -> Policy:
    run, weights, source, *_ = vars(policy._trained).values()
    statistics = {
        f"{OBSERVATION}/size": np.array(9.0),
        f"{OBSERVATION}/mean": np.linspace(-1, 1, size),
        f"{OBSERVATION}/variance": np.linspace(1, 9e4, size),
    }
    arrays = {**weights.arrays, **statistics}
    return Policy(LoadedPolicy(run, weights._replace(arrays=arrays), source))


def onnx_outputs(policy: Policy, batch: Any) -> Any:
    policy.export("policy.onnx")
    session = onnxruntime.InferenceSession("policy.onnx")
    given = {f"observation/{name}": x for name, x in batch.items()}
    assert {each.name for each in session.get_inputs()} == {*given}
    return session.run(["action", "output"], given)


@pytest.mark.parametrize("frame_stack", [1, 3])
def test_all_inputs(frame_stack: int) -> None:
    settings = {"frame_stack": frame_stack, "normalize_observations": True}
    plain = policy_of("ppo", **ENV, **settings)
    policy = normalizing(plain, 8)
    batch = batch_of(policy)
    assert set(batch) == {*NAMES}
    actions, logits = onnx_outputs(policy, batch)
    np.testing.assert_array_equal(actions, policy.act(batch))
    assert np.ptp(logits, axis=0).max() > 0.01
    expected = policy.to_keras()(batch)[0]
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
    single = {name: x[2] for name, x in batch.items()}
    assert policy.act(single) == actions[2]


def test_an_input_may_be_named_observation() -> None:
    """The usual names of a critic that sees more."""
    env = "dict_envs:observation_and_state"
    policy = policy_of("ppo", env=env, critic_inputs=["state"])
    batch = {"observation": np.float32(np.random.default_rng(1).normal(size=(6, 3)))}
    actions, _ = onnx_outputs(policy, batch)
    np.testing.assert_array_equal(actions, policy.act(batch))


@pytest.mark.parametrize("agent", ["ppo", "trpo"])
def test_policies_act_without_critic_inputs(agent: str) -> None:
    policy = policy_of(agent, **ENV, critic_inputs=["map", "arm.joints"])
    full = batch_of(policy)
    batch = {name: full[name] for name in ("camera", "compass")}
    actions, _ = onnx_outputs(policy, batch)
    np.testing.assert_array_equal(actions, policy.act(batch))
    np.testing.assert_array_equal(actions, policy.act(full))
