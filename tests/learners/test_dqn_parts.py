"""First updates of DQN's parts, worked out in NumPy."""

from typing import Any

import numpy as np
import pytest
from learner_support import assert_same, make_learner, resumed_states, sampled

from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Transitions, map_arrays
from xagents_ray.learners.learner import Learner

SPEC = EnvSpec((3,), "float32", 1, 2)
ATOMS, LOW, HIGH = 7, -3.0, 3.0
C51 = {"distributional": True, "atoms": ATOMS, "v_min": LOW, "v_max": HIGH}


def batch(seed: int = 0, updates: int = 1) -> Transitions:
    rng = np.random.default_rng(seed)
    return Transitions(
        rng.normal(size=(updates, 16, 2, 3)).astype(np.float32),
        np.zeros((updates, 16, 2), bool),
        rng.integers(0, 2, (updates, 16), np.int32),
        rng.normal(size=(updates, 16)).astype(np.float32),
        rng.choice([0, 0.9], (updates, 16)).astype(np.float32),
    )


def make(**settings: Any) -> Learner:
    settings = {"target_sync_steps": 100, "lr": 0.01, **settings}
    return make_learner("dqn", DQNConfig(**settings), SPEC)


def softmax(x: Any) -> Any:
    exp = np.exp(x - x.max(-1, keepdims=True))
    return exp / exp.sum(-1, keepdims=True)


@pytest.mark.parametrize("double", [False, True])
def test_distributional_targets_come_from_the_target_network(double: bool) -> None:
    learner, case = make(double=double, **C51), batch()
    rng, models = np.random.default_rng(3), learner.setup.models
    shapes = [w.shape for w in models["target"].get_weights()]
    models["target"].set_weights([rng.normal(0, 0.5, shape) for shape in shapes])
    now, after = case.observations[0, :, 0], case.observations[0, :, 1]
    online, target = (models[name](after) for name in ("q", "target"))
    best = np.argmax((online if double else target)[0], axis=-1)
    if double:
        assert (best != np.argmax(target[0], axis=-1)).any()
    support, rows = np.linspace(LOW, HIGH, ATOMS), np.arange(16)
    following = softmax(np.reshape(target[1], [16, 2, ATOMS]))[rows, best]
    expected = np.zeros((16, ATOMS))
    for i in rows:
        for j, share in enumerate(following[i]):
            value = case.rewards[0, i] + case.discounts[0, i] * support[j]
            place = np.clip(value, LOW, HIGH) - LOW  # atoms are 1 apart
            expected[i, int(place)] += share * (1 - place % 1)
            expected[i, min(int(place) + 1, ATOMS - 1)] += share * (place % 1)
    logits = np.reshape(models["q"](now)[1], [16, 2, ATOMS])[rows, case.actions[0]]
    loss = -(expected * np.log(softmax(logits))).sum(-1).mean()
    values = (softmax(logits) * support).sum(-1)
    metrics = learner.update(sampled(case), 1)
    assert metrics["loss"] == pytest.approx(loss, rel=1e-4)
    assert metrics["q_value"] == pytest.approx(values.mean(), rel=1e-3, abs=1e-5)
    assert 0 < metrics["clipped"] < 1


def test_only_distributions_are_clipped() -> None:
    assert "clipped" not in make(dueling=True).update(sampled(batch()), 1)


@pytest.mark.parametrize("noise", ["factorised", "independent"])
def test_each_update_has_noise_of_its_own(noise: str) -> None:
    """Of a learning rate that changes nothing, losses differ by their noise alone."""
    learner, other = make(noisy=noise, lr=1e-30), make(noisy=noise, lr=1e-30)
    losses = [learner.update(sampled(batch()), 1)["loss"] for _ in range(3)]
    assert len(set(losses)) == 3
    # The same updates as one phase.
    three = map_arrays(lambda x: np.repeat(x, 3, axis=0), batch())
    mean = other.update(sampled(three), 1)["loss"]
    assert mean == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize(
    ("noise", "is_shared"), [("factorised", 1), ("independent", 0)]
)
def test_all_rows_share_factorised_noise(noise: str, is_shared: bool) -> None:
    """It is that of the weights; rows that are equal have equal errors then."""
    alike = map_arrays(lambda x: np.repeat(x[:, :1], 16, axis=1), batch())
    priorities, places = np.ones((1, 16), np.float32), np.zeros((1, 16, 2), np.int64)
    drawn = alike._replace(priorities=priorities, rows=places)
    learner = make(noisy=noise, prioritized=True)
    priorities = learner.learn(sampled(drawn), 1, {}, 1).priorities
    assert priorities is not None
    assert (np.ptp(priorities.errors) < 1e-5) == is_shared


def test_deviations_are_learned() -> None:
    learner = make(noisy="factorised")
    before = learner.state.arrays()
    learner.update(sampled(batch()), 1)
    after = learner.state.arrays()
    for name in before:
        if name.startswith("q/"):
            assert not np.array_equal(before[name], after[name]), name


def test_a_resumed_learner_continues_with_the_same_noise() -> None:
    parts = {"noisy": "factorised", "dueling": True, "double": True, **C51}
    one, other = make(**parts), make(**parts)
    other.update(sampled(batch(5)), 1)
    states = resumed_states(one, other, sampled(batch(1)), sampled(batch(2)))
    assert_same(*states)


def test_without_parts_the_state_is_what_it_was() -> None:
    names = {name.partition("/")[0] for name in make().state.arrays()}
    assert names == {"q", "target", "optimizer", "count", "lr-scale"}
