"""Networks with memory learn from whole sequences, with the state that acted."""

import itertools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from acting import run_of, setup_of
from learner_cases import assert_finite
from learner_support import fresh, make_learner, publish, replayed, sampled

from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.algorithms.sequence_replay import check_sequences
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import map_arrays
from xagents_ray.learners.frames import network_inputs
from xagents_ray.learners.math.returns import n_step_sums
from xagents_ray.learners.minibatches import update_in_passes
from xagents_ray.learners.padding import widen_rounds
from xagents_ray.learners.priorities import sequence_errors
from xagents_ray.learners.tensors import take_rows
from xagents_ray.networks.keras import final_state_model
from xagents_ray.run.replay_buffer import replay_for

LENGTH, ENVS = 8, 4
CARTPOLE = {"env": "CartPole-v1", "env_kwargs": ("max_episode_steps=5",)}
PENDULUM = {"env": "Pendulum-v1", "env_kwargs": None, "sde_frequency": 4}
ON_POLICY = ["a2c", "a3c", "acer", "impala", "ppo", "trpo"]
# A rate that changes nothing, and passes in which each row counts once.
STILL = {"lr": 1e-30, "ppo_epochs": 1, "mini_batches": 2, "clip_value": 0.0}


FEW = {"mini_batches": 2, "cg_iterations": 2, "critic_iterations": 1}


def settings_of(agent: str, **settings: Any) -> dict[str, Any]:
    length = "rollout_length" if agent == "dqn" else "n_steps"
    others = "policy_lag", "local", "env", "env_kwargs"
    names = {*find_algorithm(agent).config.__dataclass_fields__, *others}
    given = {length: LENGTH, "memory": "lstm:8", **FEW, **settings}
    return {k: v for k, v in given.items() if k in names}


class Made:
    """A learner of CartPole, and rollouts in which its weights act."""

    def __init__(self, agent: str, compiled: bool = False, **settings: Any) -> None:
        given = {**CARTPOLE, **settings_of(agent, **settings)}
        self.run = run_of(agent, ENVS, **given)
        self.config = self.run.config.algorithm
        self.learner = make_learner(
            agent, self.config, self.run.spec, *self.run.layouts, compiled=compiled
        )
        self._actor = EnvActor(setup_of(agent, ENVS, **given))

    def rollout(self, step: int = 10**6) -> Any:
        return self._actor.rollout(publish(self.learner), LENGTH, step)[0]

    def replay(self) -> Any:
        run, config = self.run, self.config.replay
        assert run.replay_kind is not None and config is not None
        units = run.stored_noise_units, run.stored_state_units
        return replay_for(run.replay_kind, run.spec, config, ENVS, 0, 0, None, *units)


@pytest.mark.parametrize(
    ("agent", "kind"),
    [
        # The contract of input kinds has others of them.
        pytest.param(*cell, marks=[] if cell == ("a2c", "lstm") else pytest.mark.slow)
        for cell in itertools.product(ON_POLICY, ["lstm", "gru"])
    ],
)
def test_each_agent_learns_in_two_phases(agent: str, kind: str) -> None:
    made = Made(agent, compiled=(agent, kind) == ("a2c", "lstm"), memory=f"{kind}:8")
    before = publish(made.learner)
    for _ in range(2):
        rolled = made.rollout()
        again = replayed([rolled]) if made.config.replay is not None else None
        metrics = made.learner.update(fresh(rolled, sampled=again), 0)
        assert metrics["updates"] >= 1
    after = publish(made.learner)
    assert_finite(metrics, after)
    changed = [k for k, x in after.arrays.items() if np.any(x != before.arrays[k])]
    if agent == "trpo":
        assert 0 < metrics["kl"] <= 1.5 * made.config.max_kl
    names = "kernel", "recurrent_kernel", "bias"
    assert {f"{kind}-0/{name}" for name in names} <= {*changed}


@pytest.mark.parametrize("settings", [{}, {"separate_networks": True}])
@pytest.mark.parametrize("noisy", [None, "independent"])
def test_the_learner_computes_what_acted(
    settings: dict[str, Any], noisy: str | None
) -> None:
    """Across resets, in the middle of episodes, with columns that only fill up."""
    made = Made("ppo", noisy=noisy, **settings)
    made.rollout()
    rolled = made.rollout()
    assert rolled.recurrent_state.any() and rolled.starts[1:].any()
    wide = widen_rounds(rolled, [ENVS + 2])
    inputs = tf.constant(wide.observations.reshape(-1, 4))
    rolled, wide = (map_arrays(tf.constant, x) for x in (rolled, wide))
    model = made.learner.setup.models["policy"]
    _, values = model(network_inputs(inputs, wide, made.run.spec))
    values, acted = np.reshape(values, (LENGTH + 1, ENVS + 2)), rolled.values.numpy()
    np.testing.assert_allclose(values[:, :ENVS], acted, atol=1e-5)
    np.testing.assert_allclose(values[:, ENVS:], acted[:, :2], atol=1e-5)
    # All rows of some environments, in another order.
    rows = np.arange(LENGTH)[:, None] * ENVS + np.array([3, 1])
    rows = tf.constant(rows.reshape(-1), tf.int32)
    chosen = take_rows(tf.reshape(rolled.observations, [-1, 4]), rows)
    _, some = model(network_inputs(chosen, rolled, made.run.spec, rows))
    expected = acted[:-1, [3, 1]]
    np.testing.assert_allclose(np.reshape(some, (LENGTH, 2)), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("agent", "metric", "expected", "settings"),
    [
        ("acer", "importance_ratio", 1.0, {}),
        ("ppo", "kl", 0.0, {}),
        ("ppo", "kl", 0.0, PENDULUM),
    ],
)
def test_ratios_to_what_acted_begin_at_1(
    agent: str, metric: str, expected: float, settings: dict[str, Any]
) -> None:
    """In each minibatch; not with another environment's state."""
    still = {k: v for k, v in STILL.items() if k != "clip_value"}
    made = Made(agent, **still, **settings)
    made.rollout()
    rolled = made.rollout()
    found = made.learner.update(fresh(rolled), 0)[metric]
    assert found == pytest.approx(expected, abs=1e-5)
    state = rolled.recurrent_state
    other = rolled._replace(recurrent_state=5 * np.roll(state, 1, axis=1))
    found = made.learner.update(fresh(other), 0)[metric]
    assert found != pytest.approx(expected, abs=1e-5)


def test_the_decoupled_loss_reads_sequences() -> None:
    """Ratios to the newest weights, which are those that acted, begin at 1."""
    made = Made("ppo", decoupled_loss=True, policy_lag=1, local=True, **STILL)
    made.rollout()
    rolled = made.rollout()._replace(weights_version=-1)
    metrics = made.learner.update(fresh(rolled), 0)
    assert metrics["kl"] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("parts", [2, 3])
def test_minibatches_of_environments(parts: int) -> None:
    """Each has all steps of its environments, and a pass has each of them once."""
    made = Made("ppo")
    valid = np.ones((3, 5), bool)
    valid[:, 4], valid[1, 2] = False, False  # one only fills up
    seen: list[tuple[Any, Any]] = []

    def update(rows: Any, counted: Any) -> dict[str, Any]:
        seen.append((rows.numpy().reshape(3, -1), counted.numpy().reshape(3, -1)))
        return {}

    update_in_passes(
        update, tf.constant(valid), {}, 1, parts, tf.constant(0), made.learner.setup
    )
    assert len(seen) <= parts
    counts = np.zeros((3, 5), int)
    for rows, counted in seen:
        envs = rows[0]
        np.testing.assert_array_equal(rows, np.arange(3)[:, None] * 5 + envs)
        np.add.at(counts, (slice(None), envs), counted)
    np.testing.assert_array_equal(counts, valid.astype(int))


def test_n_step_sums_by_hand() -> None:
    rewards = tf.constant([[1.0], [2.0], [4.0], [8.0], [16.0]])
    terminated = tf.constant([[False], [True], [False], [False], [False]])
    valid = tf.constant([[True], [True], [False], [True], [True]])
    sums, discounts, steps = n_step_sums(rewards, terminated, valid, 0.5, 3)
    np.testing.assert_allclose(sums[:, 0], [2, 2, 0, 16, 16])
    np.testing.assert_allclose(discounts[:, 0], [0, 0, 1, 0.25, 0.5])
    assert steps[:, 0].numpy().tolist() == [2, 1, 0, 2, 1]


def test_errors_of_sequences_by_hand() -> None:
    errors = tf.constant([[1.0, -3.0], [-2.0, 9.0]])
    valid = tf.constant([[True, True], [True, False]])
    found = sequence_errors(errors, valid)
    np.testing.assert_allclose(found, [[1.8 + 0.15, 3.0]], rtol=1e-6)


DQN: list[dict[str, Any]] = [
    {"double": True, "dueling": True, "n_step": 3, "prioritized": True},
    {"noisy": "factorised", "distributional": True, "prioritized": True},
    {"noisy": "independent", "double": True, "memory": "gru:8"},
]


@pytest.mark.parametrize(
    ("burn_in", "settings"),
    [
        pytest.param(0, DQN[0], id="double", marks=pytest.mark.slow),
        pytest.param(3, DQN[0], id="double-burn"),
        pytest.param(0, DQN[1], id="c51"),
        pytest.param(3, DQN[1], id="c51-burn", marks=pytest.mark.slow),
        pytest.param(0, DQN[2], id="noisy", marks=pytest.mark.slow),
        pytest.param(3, DQN[2], id="noisy-burn"),
    ],
)
def test_dqn_learns_from_sequences(burn_in: int, settings: dict[str, Any]) -> None:
    made = Made("dqn", burn_in=burn_in, buffer_batch_size=6, **settings)
    replay, before = made.replay(), publish(made.learner)
    for _ in range(2):
        replay.insert(made.rollout())
        drawn = replay.sample(2, 6)
        outputs = made.learner.learn(sampled(drawn), 100, {}, 2)
    assert outputs.metrics["updates"] == 2
    assert_finite(outputs.metrics, outputs.weights)
    [name] = (x.name for x in made.run.layout.layers if x.state_units)
    kernel = f"{name}/recurrent_kernel"
    assert np.any(outputs.weights.arrays[kernel] != before.arrays[kernel])
    if not settings.get("prioritized"):
        assert outputs.priorities is None
        return
    assert outputs.priorities.rows.shape == (12, 2)
    assert replay.update(*outputs.priorities) == 0
    assert np.isfinite(outputs.priorities.errors).all()


def values_of(model: Any, layout: Any, r: Any) -> Any:
    """Return a network's values of sequences, one row at a time, [T + 1, N, n]."""
    found, state = list[Any](), tf.constant(r.recurrent_state[0, 0])
    final = final_state_model(layout, model)
    for x, begins in zip(r.observations[0], r.starts[0], strict=True):
        given = [tf.constant(x), state, tf.constant(begins[None])]
        found.append(model(given).numpy())
        state = final(given)
    return np.stack(found)


@pytest.mark.parametrize("burn_in", [pytest.param(0, marks=pytest.mark.slow), 3])
def test_errors_after_the_burn_in_by_hand(burn_in: int) -> None:
    """Of targets from the target network, whose state the same steps bring up."""
    made = Made(
        "dqn", burn_in=burn_in, n_step=2, prioritized=True, double=True, lr=1e-30
    )
    replay = made.replay()
    for _ in range(3):
        replay.insert(made.rollout())
    r = replay.sample(1, 5)
    online, target = (made.learner.setup.models[x] for x in ("q", "target"))
    target.set_weights([1.5 * x for x in target.get_weights()])
    own, other = (values_of(x, made.run.layout, r) for x in (online, target))
    errors = np.zeros((LENGTH, 5))
    for n in range(5):
        for t in range(burn_in, LENGTH):
            if not r.valid[0, t, n]:
                continue
            total, discount, at = 0.0, 1.0, t
            for _ in range(2):
                total += discount * r.rewards[0, at, n]
                discount *= made.config.gamma * (not r.terminated[0, at, n])
                at += 1
                if at == LENGTH or not r.valid[0, at, n] or not discount:
                    break
            best = own[at, n].argmax()
            goal = total + discount * other[at, n, best]
            errors[t, n] = abs(goal - own[t, n, r.actions[0, t, n]])
    held = r.valid[0] & (np.arange(LENGTH) >= burn_in)[:, None]
    mean = errors.sum(0) / held.sum(0)
    expected = 0.9 * errors.max(0) + 0.1 * mean
    # No sync is due.
    outputs = made.learner.learn(sampled(r), 0, {}, 2)
    np.testing.assert_allclose(outputs.priorities.errors, expected, rtol=1e-4)


def test_her_with_memory_is_refused() -> None:
    made = Made("dqn")
    config = type(made.config)(her="future")
    with pytest.raises(UserError, match="leave out --her or the memory"):
        check_sequences(config, made.run.layouts, ENVS)
