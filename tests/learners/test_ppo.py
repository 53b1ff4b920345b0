"""The first update of PPO, worked out in NumPy."""

from typing import Any

import numpy as np
import pytest
from learner_support import fresh, make_learner, publish

from xagents_ray.algorithms.ppo import PPOConfig
from xagents_ray.algorithms.table import find
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.learners.learner import Learner
from xagents_ray.networks.forward import bind

LENGTH, ENVS, GAMMA, LAM = 9, 3, 0.9, 0.8
SPECS = {
    "discrete": EnvSpec((4,), "float32", 1, 3),
    "continuous": EnvSpec((4,), "float32", 1, 0, (-1.0,) * 2, (1.0,) * 2),
}


def log_probs_of(spec: EnvSpec, policy: Any, actions: Any) -> Any:
    """Return those of logits, or of means with a deviation of 1."""
    if spec.is_discrete:
        log_probs = policy - np.log(np.exp(policy).sum(-1, keepdims=True))
        return np.take_along_axis(log_probs, actions[..., None], -1)[..., 0]
    return -0.5 * ((actions - policy) ** 2 + np.log(2 * np.pi)).sum(-1)


def entropy_of(spec: EnvSpec, policy: Any) -> Any:
    if not spec.is_discrete:
        return spec.action_units * 0.5 * np.log(2 * np.pi * np.e)
    p = np.exp(policy) / np.exp(policy).sum(-1, keepdims=True)
    return -(p * np.log(p)).sum(-1)


def rollout(learner: Learner, spec: EnvSpec, noise: float) -> tuple[Trajectory, Any]:
    """Return a rollout of the learner's policy, and the policy's outputs.

    Its stored log-probs are off by noise, as if other weights had acted.
    """
    rng = np.random.default_rng(1)
    observations = rng.normal(size=(LENGTH + 1, ENVS, 4)).astype(np.float32)
    layout = find("ppo").layout(None, spec)
    forward = bind(layout, publish(learner).arrays)
    outputs = [forward(row) for row in observations]
    policy = np.stack([o[0] for o in outputs])[:-1]
    shape = (LENGTH, ENVS)
    if spec.is_discrete:
        actions = rng.integers(0, 3, shape, np.int32)
    else:
        actions = rng.normal(size=(*shape, 2)).astype(np.float32)
    flags = {name: np.zeros(shape, bool) for name in ("terminated", "truncated")}
    valid = np.ones(shape, bool)
    for kind, t, env in (
        ("terminated", 2, 0),
        ("truncated", 4, 1),
        ("truncated", 1, 2),
    ):
        flags[kind][t, env] = True
        valid[t + 1, env] = False
    log_probs = log_probs_of(spec, policy, actions) + noise * rng.normal(size=shape)
    trajectory = Trajectory(
        observations,
        np.zeros((LENGTH + 1, ENVS), bool),
        actions,
        rng.normal(size=shape).astype(np.float32),
        **flags,
        valid=valid,
        log_probs=log_probs.astype(np.float32),
        values=np.stack([o[1][:, 0] for o in outputs]),
        weights_version=1,
        first_env=0,
    )
    return trajectory, policy


def advantages_of(t: Trajectory) -> Any:
    assert t.values is not None
    advantages = np.zeros((LENGTH + 1, ENVS))
    for i in reversed(range(LENGTH)):
        rest = GAMMA * t.values[i + 1] * ~t.terminated[i]
        error = t.rewards[i] + rest - t.values[i]
        goes_on = ~(t.terminated[i] | t.truncated[i])
        advantages[i] = error + GAMMA * LAM * goes_on * advantages[i + 1]
    return advantages[:-1][t.valid]


def make(spec: EnvSpec, **settings: Any) -> Learner:
    # Steps so small that all minibatches see the weights that acted.
    values = {"gamma": GAMMA, "lam": LAM, "lr": 1e-12, "ppo_epochs": 1, **settings}
    return make_learner("ppo", PPOConfig(**values), spec, max_steps=100)


@pytest.mark.parametrize("spec", SPECS.values(), ids=list(SPECS))
def test_one_pass_over_one_batch(spec: EnvSpec) -> None:
    learner = make(spec, mini_batches=1)
    trajectory, policy = rollout(learner, spec, 0.3)
    metrics = learner.update(fresh(trajectory), 0)
    valid = trajectory.valid
    advantages = advantages_of(trajectory)
    # The value's target is A + V, so its error is the advantage.
    assert metrics["value_loss"] == pytest.approx(
        0.5 * np.mean(advantages**2), rel=1e-4
    )
    old = trajectory.log_probs[valid]
    new = log_probs_of(spec, policy, trajectory.actions)[valid]
    ratio = np.exp(new - old)
    scaled = (advantages - advantages.mean()) / advantages.std()
    gain = np.minimum(ratio * scaled, np.clip(ratio, 0.9, 1.1) * scaled)
    assert metrics["policy_loss"] == pytest.approx(-gain.mean(), abs=1e-5)
    assert metrics["kl"] == pytest.approx((old - new).mean(), abs=1e-5)
    entropy = np.mean(entropy_of(spec, policy[valid]))
    assert metrics["entropy"] == pytest.approx(entropy, rel=1e-5)
    assert metrics["updates"] == 1


@pytest.mark.parametrize("spec", SPECS.values(), ids=list(SPECS))
def test_every_valid_row_is_in_one_minibatch_of_a_pass(spec: EnvSpec) -> None:
    """24 valid rows in minibatches of 8: the mean of their means is the whole's."""
    learner = make(spec, mini_batches=3, ppo_epochs=4)
    trajectory, _ = rollout(learner, spec, 0.0)
    assert trajectory.valid.sum() == 24
    advantages = advantages_of(trajectory)
    metrics = learner.update(fresh(trajectory), 0)
    assert metrics["updates"] == 12
    assert metrics["value_loss"] == pytest.approx(
        0.5 * np.mean(advantages**2), rel=1e-4
    )
    # Advantages are normalised in each minibatch, so that nothing is left of them.
    assert metrics["policy_loss"] == pytest.approx(0, abs=1e-5)
    assert metrics["kl"] == pytest.approx(0, abs=1e-5)


def test_coefficients_scale_the_gradient() -> None:
    """Without the policy's loss and entropy the norm is linear in the value's."""
    spec = SPECS["discrete"]
    norms = []
    for coefficient in (0.0, 1.0, 2.0):
        learner = make(
            spec,
            mini_batches=1,
            value_loss_coef=coefficient,
            entropy_coef=0.0,
            grad_norm=0.1,
            advantage_epsilon=1e9,  # advantages are divided by it
        )
        trajectory, _ = rollout(learner, spec, 0.0)
        norms.append(learner.update(fresh(trajectory), 0)["grad_norm"])
    assert norms[0] == pytest.approx(0, abs=1e-6)
    assert norms[1] > 0.2  # the norm before it is clipped
    assert norms[2] == pytest.approx(2 * norms[1], rel=1e-4)


def move(learner: Learner) -> None:
    """Move all weights but log_std, so far that ratios and values are clipped."""
    rng = np.random.default_rng(4)
    arrays = publish(learner).arrays
    learner.load(
        {
            f"policy/{name}": (array + rng.normal(0, 0.1, array.shape)).astype("f4")
            for name, array in arrays.items()
            if name != "log_std"
        }
    )


@pytest.mark.parametrize("spec", SPECS.values(), ids=list(SPECS))
def test_a_lagging_round_is_judged_by_what_acted(spec: EnvSpec) -> None:
    """Ratios are to its log-probs; advantages and clipping are of its values."""
    learner = make(spec, mini_batches=1)
    t, _ = rollout(learner, spec, 0.0)
    move(learner)
    weights = publish(learner)
    assert weights.version > t.weights_version
    forward = bind(find("ppo").layout(None, spec), weights.arrays)
    outputs = [forward(row) for row in t.observations[:-1]]
    policy, values = (np.stack([o[i] for o in outputs])[t.valid] for i in range(2))
    metrics = learner.update(fresh(t), 0)

    ratio = np.exp(
        log_probs_of(spec, policy, t.actions[t.valid]) - t.log_probs[t.valid]
    )
    assert (ratio > 1.1).any() and (ratio < 0.9).any()
    advantages, old = advantages_of(t), t.values[:-1][t.valid]
    scaled = (advantages - advantages.mean()) / advantages.std()
    gain = np.minimum(ratio * scaled, np.clip(ratio, 0.9, 1.1) * scaled)
    assert metrics["policy_loss"] == pytest.approx(-gain.mean(), rel=1e-4)
    assert metrics["kl"] == pytest.approx(-np.log(ratio).mean(), rel=1e-4)
    targets, moved = advantages + old, values[:, 0] - old
    assert (np.abs(moved) > 0.1).any()
    clipped = old + np.clip(moved, -0.1, 0.1)
    errors = np.maximum((values[:, 0] - targets) ** 2, (clipped - targets) ** 2)
    assert metrics["value_loss"] == pytest.approx(0.5 * errors.mean(), rel=1e-4)


@pytest.mark.parametrize("clip_value", [0.0, 0.03, 1e3])
def test_values_are_clipped_by_their_own_setting(clip_value: float) -> None:
    """By none where it is 0; the policy's clipping is not touched."""
    spec = SPECS["discrete"]
    losses, value_losses = [], []
    for settings in ({}, {"clip_value": clip_value}):
        learner = make(spec, mini_batches=1, **settings)
        t, _ = rollout(learner, spec, 0.0)
        move(learner)
        forward = bind(find("ppo").layout(None, spec), publish(learner).arrays)
        metrics = learner.update(fresh(t), 0)
        losses.append(metrics["policy_loss"])
        value_losses.append(metrics["value_loss"])
    assert t.values is not None
    values = np.stack([forward(row)[1][:, 0] for row in t.observations[:-1]])[t.valid]
    old = t.values[:-1][t.valid]
    targets, limit = advantages_of(t) + old, clip_value or np.inf
    clipped = old + np.clip(values - old, -limit, limit)
    errors = np.maximum((values - targets) ** 2, (clipped - targets) ** 2)
    assert value_losses[1] == pytest.approx(0.5 * errors.mean(), rel=1e-4)
    assert value_losses[1] != pytest.approx(value_losses[0], rel=1e-3)
    assert losses[0] == losses[1]


@pytest.mark.parametrize("decays", [False, True])
def test_without_a_setting_values_are_clipped_as_ratios_are(decays: bool) -> None:
    """To the bit, with the decay of --clip-norm."""
    spec, ends = SPECS["continuous"], []
    for clip_value in (None, 0.125 if decays else 0.25, 0.0):
        learner = make(
            spec,
            lr=1e-3,
            ppo_epochs=3,
            clip_norm=0.25,
            clip_decay=decays,
            clip_value=clip_value,
        )
        learner.state.variables["count/env_steps"].assign(50)
        t, _ = rollout(learner, spec, 0.3)
        move(learner)
        learner.update(fresh(t), 0)
        ends.append(learner.state.arrays())
    same = [
        [np.array_equal(ends[0][name], other[name]) for name in other]
        for other in ends[1:]
    ]
    assert all(same[0]) and not all(same[1])
