"""Learning from prioritized replay: weights in the loss, and errors that go back."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from learner_support import make_learner, random_transitions, sampled

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Transitions
from xagents_ray.learners.dqn import DQN
from xagents_ray.learners.metrics import AlgorithmOutputs

BOX = EnvSpec((3,), "float32", 1, 0, (-1.0,), (1.0,))
FEW = EnvSpec((3,), "float32", 1, 2)
BETA, REMAINING = 0.4, 0.75
SPECS = {"dqn": FEW, "ddpg": BOX, "td3": BOX, "sac": BOX}


def make(agent: str, compiled: bool = False, **settings: Any) -> Any:
    settings = {"prioritized": True, "priority_beta": BETA, **settings}
    config = find_algorithm(agent).config(**settings)
    return make_learner(agent, config, SPECS[agent], max_steps=100, compiled=compiled)


def values_of(learner: Any, agent: str, case: Transitions) -> list[Any]:
    """Return what each critic says of the first batch's actions, [N]."""
    models, obs = learner.setup.models, case.observations[0, :, 0]
    if agent == "dqn":
        return [models["q"](obs).numpy()[np.arange(len(obs)), case.actions[0]]]
    pairs = np.concatenate([obs, case.actions[0]], axis=-1)
    critics = [model.name for model in find_algorithm(agent).models[1:]]
    return [models[name](pairs).numpy()[:, 0] for name in critics]


def weights_of(priorities: Any, total: float, size: int, beta: float) -> Any:
    """Return (N P)^-beta over the largest, as the paper writes it."""
    weights = (size * priorities / total) ** -beta
    return weights / weights.max()


@pytest.mark.parametrize("agent", SPECS)
def test_the_loss_is_weighted_and_errors_are_returned(agent: str) -> None:
    """No value follows, so that rewards are the targets; 25 of 100 steps are done."""
    learner, case = make(agent), random_transitions(SPECS[agent], 1, discount=0)
    learner.update(sampled(case), 25)  # a phase knows the steps of the one before
    errors = [case.rewards[0] - x for x in values_of(learner, agent, case)]
    outputs = learner.learn(sampled(case), 25, {}, 1)
    beta = BETA + (1 - BETA) * (1 - REMAINING)
    weights = weights_of(case.priorities[0], 1234.5, 1000, beta)
    expected = sum(float(np.mean(weights * x**2)) for x in errors)
    if agent == "dqn":
        (size,) = np.abs(errors)
        huber = np.where(size <= 1, 0.5 * size**2, size - 0.5)
        expected = float(np.mean(weights * huber))
    name = "loss" if agent == "dqn" else "value_loss"
    assert outputs.metrics[name] == pytest.approx(expected, rel=1e-4)
    np.testing.assert_array_equal(outputs.priorities.rows, case.rows[0])
    sizes = np.mean(np.abs(errors), axis=0)
    np.testing.assert_allclose(outputs.priorities.errors, sizes, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("agent", SPECS)
def test_weights_of_equal_priorities_are_1(agent: str) -> None:
    """The updates are then those of a uniform replay."""
    case = random_transitions(SPECS[agent], 2)
    alike = case._replace(priorities=np.full_like(case.priorities, 0.3))
    uniform = alike._replace(priorities=None, rows=None)
    one, other = make(agent), make(agent, prioritized=False, priority_beta=0.4)
    for _ in range(2):
        metrics = one.update(sampled(alike), 50)
        expected = other.learn(sampled(uniform), 50, {}, 1)
    assert metrics == pytest.approx(expected.metrics, rel=1e-5)
    assert expected.priorities is None


def test_compiled_phases_answer_alike() -> None:
    """XLA sees four batches, as three are padded; the fourth answers nothing."""
    case = random_transitions(FEW, 3)
    updates = []
    for compiled in (False, True):
        learner = make("dqn", compiled)
        updates.append(learner.learn(sampled(case), 0, {}, 1).priorities)
    one, other = updates
    assert len(one.errors) == 18
    np.testing.assert_array_equal(one.rows, case.rows.reshape(-1, 2))
    np.testing.assert_array_equal(one.rows, other.rows)
    np.testing.assert_allclose(one.errors, other.errors, rtol=1e-4, atol=1e-5)


def test_batches_that_were_not_learned_from_answer_nothing() -> None:
    learner = make("dqn")
    learner.stop()
    case = random_transitions(FEW, 3)
    metrics, _, priorities = learner.learn(sampled(case), 0, {}, 1)
    assert metrics["updates"] == 0
    assert len(priorities.errors) == len(priorities.rows) == 0


def test_an_algorithm_without_errors_is_refused(monkeypatch: Any) -> None:
    def learn(self: Any, data: Any, phase: Any) -> Any:
        return AlgorithmOutputs({}, tf.constant(0))

    monkeypatch.setattr(DQN, "learn", learn)
    with pytest.raises(UserError, match=r"dqn returns no errors.*--prioritized"):
        make("dqn")
