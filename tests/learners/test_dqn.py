"""DQN: when its target network follows, and first updates worked out in NumPy."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from learner_support import make_learner, resumed_states, sampled
from naive import assert_same

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


def row(case: Transitions, k: int) -> Transitions:
    """Return batch k alone, as the only one of a phase."""
    return map_arrays(lambda x: x[k : k + 1], case)


def arrays(learner: Learner, model: str) -> list[Any]:
    return [np.array(w) for w in learner.setup.models[model].get_weights()]


def same(one: list[Any], other: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def with_scattered_target(**settings: Any) -> Learner:
    """Return a learner whose target network has random weights of its own."""
    learner, rng = make(**settings), np.random.default_rng(3)
    drawn = [rng.normal(0, 0.5, w.shape) for w in arrays(learner, "target")]
    learner.setup.models["target"].set_weights(drawn)
    return learner


def softmax(x: Any) -> Any:
    exp = np.exp(x - x.max(-1, keepdims=True))
    return exp / exp.sum(-1, keepdims=True)


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
    learner, case = with_scattered_target(double=double), batch()
    models = learner.setup.models
    now, after = case.observations[0, :, 0], case.observations[0, :, 1]
    online, target = (models[name](after).numpy() for name in ("q", "target"))
    best = (online if double else target).argmax(axis=-1)
    if double:
        assert (best != target.argmax(axis=-1)).any()
    rows = np.arange(16)
    expected = case.rewards[0] + case.discounts[0] * target[rows, best]
    values = models["q"](now).numpy()[rows, case.actions[0]]
    error = np.abs(expected - values)
    loss = np.where(error <= 1, 0.5 * error**2, error - 0.5).mean()
    metrics = learner.update(sampled(case), 1)
    assert metrics["loss"] == pytest.approx(loss, rel=1e-5)
    assert metrics["q_value"] == pytest.approx(values.mean(), rel=1e-4, abs=1e-6)


def test_terminated_transitions_have_no_target() -> None:
    """Whatever the target network says."""
    losses, case = [], batch()
    case.discounts[:] = 0
    for scale in (0.0, 100.0):
        learner = make()
        scaled = [scale * w for w in arrays(learner, "target")]
        learner.setup.models["target"].set_weights(scaled)
        losses.append(learner.update(sampled(case), 1)["loss"])
    assert losses[0] == losses[1]


@pytest.mark.parametrize("double", [False, True])
def test_distributional_targets_come_from_the_target_network(double: bool) -> None:
    learner, case = with_scattered_target(double=double, **C51), batch()
    models = learner.setup.models
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


def test_each_pass_of_an_update_has_noise_of_its_own() -> None:
    """That of the target, of the choice of actions, and of what is learned."""
    dqn: Any = make(noisy="factorised", double=True).algorithm
    rows: Any = map_arrays(lambda x: tf.constant(x[0]), batch())
    seen = []

    def predict(model: Any, own: Any) -> Any:
        seen.append((model.name, own.numpy().ravel()[0]))
        return dqn._predicted(model, rows.observations[:, 0], own)

    noise = dqn._noise(16)
    dqn._take_step(rows, None, noise, before=predict, after=predict)
    drawn = [each.numpy().ravel()[0] for each in noise]
    assert seen == [*zip(["q-target", "q", "q"], drawn, strict=True)]
    assert len(set(drawn)) == 3


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
