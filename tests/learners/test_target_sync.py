"""The target network of DQN follows when a sync step is crossed."""

from typing import Any

import numpy as np
import pytest
from learner_support import make_learner, sampled

from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Transitions, map_arrays
from xagents_ray.learners.learner import Learner

SPEC = EnvSpec((3,), "float32", 1, 2)
GAMMA = 0.9


def batch(gamma_matters: bool = True, updates: int = 1) -> Transitions:
    rng = np.random.default_rng(0)
    return Transitions(
        rng.normal(size=(updates, 16, 2, 3)).astype(np.float32),
        np.zeros((updates, 16, 2), bool),
        rng.integers(0, 2, (updates, 16), np.int32),
        rng.normal(size=(updates, 16)).astype(np.float32),
        np.full((updates, 16), GAMMA if gamma_matters else 0, np.float32),
    )


def row(case: Transitions, k: int) -> Transitions:
    """Return batch k alone, as the only one of a phase."""
    return map_arrays(lambda x: x[k : k + 1], case)


def arrays(learner: Learner, model: str) -> list[Any]:
    return [np.array(w) for w in learner.setup.models[model].get_weights()]


def same(one: list[Any], other: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def make(**settings: Any) -> Learner:
    config = DQNConfig(**{"target_sync_steps": 100, "lr": 0.01, **settings})
    return make_learner("dqn", config, SPEC)


def test_the_target_follows_on_crossing() -> None:
    learner = make()
    assert same(arrays(learner, "target"), arrays(learner, "q"))
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
        online, target = arrays(learner, "q"), arrays(learner, "target")
        learner.update(sampled(batch()), env_steps)
        assert not same(arrays(learner, "q"), online)
        expected = online if crossed else target
        assert same(arrays(learner, "target"), expected), env_steps


@pytest.mark.parametrize(
    ("every", "frequency", "gradient_steps", "steps"),
    [
        # The env step that each of six updates answers, the last one the newest.
        (10, 4, 1, [492, 496, 500, 504, 508, 512]),
        (10, 10, 1, [462, 472, 482, 492, 502, 512]),
        (8, 8, 3, [504, 504, 504, 512, 512, 512]),
        (10_000, 4, 1, [492, 496, 500, 504, 508, 512]),
    ],
)
@pytest.mark.parametrize("tau", [1.0, 0.25])
def test_the_target_follows_within_a_phase(
    every: int, frequency: int, gradient_steps: int, steps: list[int], tau: float
) -> None:
    """A phase of six updates ends where six phases of one update would."""
    settings = {
        "target_sync_steps": every,
        "train_frequency": frequency,
        "gradient_steps": gradient_steps,
        "tau": tau,
    }
    whole, single = make(**settings), make(**settings)
    case = batch(updates=6)
    for learner in (whole, single):
        learner.state.variables["count/syncs"].assign((steps[0] - 1) // every)
        halves = [0.5 * w for w in arrays(learner, "target")]
        learner.setup.models["target"].set_weights(halves)
    whole.update(sampled(case), steps[-1])
    for k, step in enumerate(steps):
        before = arrays(single, "target")
        single.update(sampled(row(case, k)), step)
        follows = step // every > (steps[k - 1] if k else steps[0] - 1) // every
        assert same(arrays(single, "target"), before) != follows, step
    assert whole.state.variables["count/syncs"] == single.state.variables["count/syncs"]
    for model in ("q", "target"):
        for a, b in zip(arrays(whole, model), arrays(single, model), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_tau_is_the_part_of_the_way() -> None:
    learner = make(tau=0.25)
    learner.update(sampled(batch()), 16)
    online, target = arrays(learner, "q"), arrays(learner, "target")
    learner.update(sampled(batch()), 100)
    moved = arrays(learner, "target")
    assert not same(target, moved)
    for a, t, o in zip(moved, target, online, strict=True):
        np.testing.assert_allclose(a, t + 0.25 * (o - t), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("double", [False, True])
def test_targets_come_from_the_target_network(double: bool) -> None:
    """The loss of the first update, worked out in NumPy."""
    learner = make(double=double)
    rng, models = np.random.default_rng(3), learner.setup.models
    drawn = [rng.normal(0, 0.5, w.shape) for w in arrays(learner, "target")]
    models["target"].set_weights(drawn)
    case = batch()
    now, after = case.observations[0, :, 0], case.observations[0, :, 1]
    online, target = (models[name](after).numpy() for name in ("q", "target"))
    best = (online if double else target).argmax(axis=-1)
    if double:
        assert (best != target.argmax(axis=-1)).any()
    rows = np.arange(16)
    expected = case.rewards[0] + GAMMA * target[rows, best]
    values = models["q"](now).numpy()[rows, case.actions[0]]
    error = np.abs(expected - values)
    loss = np.where(error <= 1, 0.5 * error**2, error - 0.5).mean()
    metrics = learner.update(sampled(case), 1)
    assert metrics["loss"] == pytest.approx(loss, rel=1e-5)
    assert metrics["q_value"] == pytest.approx(values.mean(), rel=1e-4, abs=1e-6)


def test_terminated_transitions_have_no_target() -> None:
    """Whatever the target network says."""
    losses = []
    for scale in (0.0, 100.0):
        learner = make()
        scaled = [scale * w for w in arrays(learner, "target")]
        learner.setup.models["target"].set_weights(scaled)
        losses.append(learner.update(sampled(batch(gamma_matters=False)), 1)["loss"])
    assert losses[0] == losses[1]
