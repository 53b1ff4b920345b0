"""Settings that change over a run, and a learning rate that follows the divergence."""

from typing import Any

import numpy as np
import pytest
from learner_support import fresh, make_learner
from linear import SPECS, rollout

from xagents_ray.algorithms.ppo import PPOConfig
from xagents_ray.learners.learner import Learner

SPEC = SPECS["continuous"]


ROUND = rollout(SPEC)
ROUND = ROUND._replace(
    values=np.zeros((len(ROUND.rewards) + 1, ROUND.rewards.shape[1]), np.float32),
    log_probs=np.zeros_like(ROUND.rewards),
)


def make(**settings: Any) -> Learner:
    return make_learner("ppo", PPOConfig(**settings), SPEC, max_steps=100)


def test_a_schedule_between_its_points() -> None:
    learner = make(entropy_coef="0.2:1,0.4:3,0.8:2")
    found = []
    for steps in (0, 20, 30, 40, 60, 80, 100):
        learner.state.variables["count/env_steps"].assign(steps)
        found.append(float(learner.setup.value("0.2:1,0.4:3,0.8:2")))
    np.testing.assert_allclose(found, [1, 1, 2, 3, 2.5, 2, 2], atol=1e-5)


def test_without_an_end_all_of_the_run_remains() -> None:
    learner = make_learner("ppo", PPOConfig(), SPEC)
    learner.state.variables["count/env_steps"].assign(10**9)
    assert learner.remaining == 1


@pytest.mark.parametrize("name", ["clip_norm", "entropy_coef"])
def test_a_schedule_is_its_value_at_this_time(name: str) -> None:
    """Halfway through the run."""
    ends = []
    for value in ("linear:0.25:0", 0.125, "0.4:0.5,0.5:0.125", 0.25):
        learner = make(lr=1e-3, **{name: value})
        learner.state.variables["count/env_steps"].assign(50)
        learner.update(fresh(ROUND), 0)
        ends.append(learner.state.arrays()["policy/dense-0/kernel"])
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-6)
    np.testing.assert_allclose(ends[0], ends[2], atol=1e-6)
    assert np.abs(ends[0] - ends[3]).max() > 1e-4


def test_the_learning_rate_follows_its_schedule() -> None:
    """A plateau's reduction stays."""
    learner = make(lr="0:1e-3,0.5:3e-3,1:0")
    rates = []
    for steps in (0, 25, 50, 100):
        learner.state.variables["count/env_steps"].assign(steps)
        learner.learn(fresh(ROUND), steps, {}, learner.version + 1)
        rates.append(float(learner.setup.optimizers["optimizer"].learning_rate))
    np.testing.assert_allclose(rates, [1e-3, 2e-3, 3e-3, 0], rtol=1e-6)
    learner.state.scale_lr(0.5)
    learner.state.schedule_lr(learner.setup.lr_schedules, 0.25)
    assert learner.state.scale_lr(1.0) == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("desired", "factor"), [(1e-9, 1 / 1.5), (1e9, 1.5)], ids=["far", "close"]
)
def test_the_learning_rate_adapts_to_the_divergence(
    desired: float, factor: float
) -> None:
    """Once for each update; here old log-probabilities are of another policy."""
    learner = make(lr=1e-4, desired_kl=desired, ppo_epochs=2, mini_batches=1)
    learner.update(fresh(ROUND), 0)
    rate = float(learner.setup.optimizers["optimizer"].learning_rate)
    assert rate == pytest.approx(1e-4 * factor**2, rel=1e-5)
