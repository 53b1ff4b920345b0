"""The target network of DQN follows when a sync step is crossed."""

from typing import Any

import numpy as np
import pytest

from xagents_ray.algorithms import find
from xagents_ray.hyperparameters import DQNConfig
from xagents_ray.learners.dqn import DQNLearner
from xagents_ray.spec import EnvSpec
from xagents_ray.trajectory import Transitions

SPEC = EnvSpec((3,), "float32", 1, 2)


def batch(gamma_matters: bool = True) -> Transitions:
    rng = np.random.default_rng(0)
    return Transitions(
        rng.normal(size=(1, 16, 2, 3)).astype(np.float32),
        np.zeros((1, 16, 2), bool),
        rng.integers(0, 2, (1, 16), np.int32),
        rng.normal(size=(1, 16)).astype(np.float32),
        np.full((1, 16), not gamma_matters),
    )


def arrays(model: Any) -> list[Any]:
    return [np.array(w) for w in model.get_weights()]


def same(one: list[Any], other: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def make(**settings: Any) -> DQNLearner:
    config = DQNConfig(target_sync_steps=100, lr=0.01, **settings)
    return DQNLearner(config, SPEC, find("dqn").layout(None, SPEC), 0)


def test_the_target_follows_on_crossing() -> None:
    learner = make()
    initial = arrays(learner._model)
    assert same(arrays(learner._target), initial)
    # Env steps after the batch, and whether a multiple of 100 was crossed before it.
    for env_steps, crossed in (
        (16, False),
        (99, False),
        (104, True),
        (199, False),
        (200, True),
        (450, True),  # two at once
        (499, False),
        (500, True),
    ):
        online, target = arrays(learner._model), arrays(learner._target)
        learner.update(batch(), env_steps)
        assert not same(arrays(learner._model), online)
        expected = online if crossed else target
        assert same(arrays(learner._target), expected), env_steps


@pytest.mark.parametrize("double", [False, True])
def test_targets_come_from_the_target_network(double: bool) -> None:
    """The loss of the first update, worked out in NumPy."""
    learner = make(double=double, gamma=0.9)
    rng = np.random.default_rng(3)
    drawn = [rng.normal(0, 0.5, w.shape) for w in learner._target.get_weights()]
    learner._target.set_weights(drawn)
    case = batch()
    now, after = case.observations[0, :, 0], case.observations[0, :, 1]
    online, target = (m(after).numpy() for m in (learner._model, learner._target))
    best = (online if double else target).argmax(axis=-1)
    if double:
        assert (best != target.argmax(axis=-1)).any()
    rows = np.arange(16)
    wanted = case.rewards[0] + 0.9 * target[rows, best]
    values = learner._model(now).numpy()[rows, case.actions[0]]
    error = np.abs(wanted - values)
    loss = np.where(error <= 1, 0.5 * error**2, error - 0.5).mean()
    metrics = learner.update(case, 1)
    assert metrics["loss"] == pytest.approx(loss, rel=1e-5)
    assert metrics["q_value"] == pytest.approx(values.mean(), rel=1e-4, abs=1e-6)


def test_terminated_transitions_have_no_target() -> None:
    """Whatever the target network says."""
    losses = []
    for scale in (0.0, 100.0):
        learner = make()
        weights = learner._target.get_weights()
        learner._target.set_weights([scale * w for w in weights])
        losses.append(learner.update(batch(gamma_matters=False), 1)["loss"])
    assert losses[0] == losses[1]
