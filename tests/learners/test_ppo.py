"""The first update of PPO, worked out in NumPy."""

from typing import Any

import numpy as np
import pytest
from learner_support import fresh, make_learner, publish
from linear import SPECS, entropies_of, gae_of, log_probs_of
from linear import rollout as random_rollout
from naive import assert_same

from xagents_ray.algorithms.ppo import PPOConfig
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.learners.learner import Learner
from xagents_ray.networks.forward import bind_network

GAMMA, LAM = 0.9, 0.8
EVERY = pytest.mark.parametrize("kind", ["discrete", "continuous"])


def outputs_of(learner: Learner, spec: EnvSpec, observations: Any) -> tuple[Any, Any]:
    """Return the logits or means of rows, and their values."""
    forward = bind_network(
        find_algorithm("ppo").layout(None, spec), publish(learner).arrays
    )
    policy, values = zip(*(forward(row) for row in observations), strict=True)
    return np.stack(policy), np.stack(values)[..., 0]


def rollout(learner: Learner, spec: EnvSpec, noise: float) -> tuple[Trajectory, Any]:
    """Return a rollout of the learner's policy, and the policy's outputs.

    Its stored log-probs are off by noise, as if other weights had acted.
    """
    t, rng = random_rollout(spec), np.random.default_rng(1)
    policy, values = outputs_of(learner, spec, t.observations)
    log_probs = log_probs_of(spec, policy[:-1], t.actions)
    log_probs += noise * rng.normal(size=log_probs.shape)
    return t._replace(log_probs=log_probs.astype(np.float32), values=values), policy[
        :-1
    ]


def advantages_of(t: Trajectory) -> Any:
    return gae_of(t, t.values, GAMMA, LAM)


def gain_of(ratio: Any, advantages: Any) -> float:
    scaled = (advantages - advantages.mean()) / advantages.std()
    return float(np.minimum(ratio * scaled, np.clip(ratio, 0.9, 1.1) * scaled).mean())


def clipped_loss(t: Trajectory, values: Any, limit: float) -> float:
    """Return the loss of the valid rows' values, which move by no more than a limit."""
    old = t.values[:-1][t.valid]
    targets, clipped = (
        advantages_of(t) + old,
        old + np.clip(values - old, -limit, limit),
    )
    errors = np.maximum((values - targets) ** 2, (clipped - targets) ** 2)
    return float(0.5 * errors.mean())


def make(spec: EnvSpec, **settings: Any) -> Learner:
    # Steps so small that all minibatches see the weights that acted.
    values = {"gamma": GAMMA, "lam": LAM, "lr": 1e-12, "ppo_epochs": 1, **settings}
    return make_learner("ppo", PPOConfig(**values), spec, max_steps=100)


@EVERY
def test_one_pass_over_one_batch(kind: str) -> None:
    spec = SPECS[kind]
    learner = make(spec, mini_batches=1)
    t, policy = rollout(learner, spec, 0.3)
    metrics = learner.update(fresh(t), 0)
    advantages = advantages_of(t)
    # The value's target is A + V, so its error is the advantage.
    loss = 0.5 * np.mean(advantages**2)
    assert metrics["value_loss"] == pytest.approx(loss, rel=1e-4)
    old, new = t.log_probs[t.valid], log_probs_of(spec, policy, t.actions)[t.valid]
    gain = gain_of(np.exp(new - old), advantages)
    assert metrics["policy_loss"] == pytest.approx(-gain, abs=1e-5)
    assert metrics["kl"] == pytest.approx((old - new).mean(), abs=1e-5)
    entropy = entropies_of(spec, policy[t.valid]).mean()
    assert metrics["entropy"] == pytest.approx(entropy, rel=1e-5)
    assert metrics["loss"] == pytest.approx(-gain - 0.01 * entropy + 0.5 * loss, 1e-4)
    targets = advantages + t.values[:-1][t.valid]
    explained = 1 - advantages.var() / targets.var()
    assert metrics["explained_variance"] == pytest.approx(explained, rel=1e-4)
    assert metrics["updates"] == 1


@EVERY
def test_a_pass_is_over_the_valid_rows(kind: str) -> None:
    learner = make(SPECS[kind], mini_batches=1, ppo_epochs=4)
    t, _ = rollout(learner, SPECS[kind], 0.0)
    assert t.valid.sum() == 24
    loss = 0.5 * np.mean(advantages_of(t) ** 2)
    metrics = learner.update(fresh(t), 0)
    assert metrics["updates"] == 4
    assert metrics["value_loss"] == pytest.approx(loss, rel=1e-4)
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


@EVERY
def test_a_lagging_round_is_corrected_to_what_acted(kind: str) -> None:
    """Ratios are to its log-probs; advantages and clipping are of its values."""
    spec = SPECS[kind]
    learner = make(spec, mini_batches=1)
    t, _ = rollout(learner, spec, 0.0)
    move(learner)
    policy, values = (
        x[t.valid] for x in outputs_of(learner, spec, t.observations[:-1])
    )
    assert learner.version > t.weights_version
    metrics = learner.update(fresh(t), 0)

    log_ratio = log_probs_of(spec, policy, t.actions[t.valid]) - t.log_probs[t.valid]
    ratio = np.exp(log_ratio)
    assert (ratio > 1.1).any() and (ratio < 0.9).any()
    gain = gain_of(ratio, advantages_of(t))
    assert metrics["policy_loss"] == pytest.approx(-gain, rel=1e-4)
    assert metrics["kl"] == pytest.approx(-log_ratio.mean(), rel=1e-4)
    divergence = (ratio - 1 - log_ratio).mean()
    assert metrics["approximate_kl"] == pytest.approx(divergence, rel=1e-3)
    is_clipped = np.abs(ratio - 1) > metrics["clip_norm"]
    assert metrics["clip_fraction"] == pytest.approx(is_clipped.mean())
    assert (np.abs(values - t.values[:-1][t.valid]) > 0.1).any()
    loss = clipped_loss(t, values, 0.1)
    assert metrics["value_loss"] == pytest.approx(loss, rel=1e-4)


@pytest.mark.parametrize("clip_value", [0.0, 0.03, 1e3])
def test_values_are_clipped_by_their_own_setting(clip_value: float) -> None:
    """By none where it is 0; the policy's clipping is not touched."""
    spec = SPECS["discrete"]
    losses, value_losses = [], []
    for settings in ({}, {"clip_value": clip_value}):
        learner = make(spec, mini_batches=1, **settings)
        t, _ = rollout(learner, spec, 0.0)
        move(learner)
        values = outputs_of(learner, spec, t.observations[:-1])[1][t.valid]
        metrics = learner.update(fresh(t), 0)
        losses.append(metrics["policy_loss"])
        value_losses.append(metrics["value_loss"])
    loss = clipped_loss(t, values, clip_value or np.inf)
    assert value_losses[1] == pytest.approx(loss, rel=1e-4)
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
        metrics = learner.update(fresh(t), 0)
        assert metrics["clip_norm"] == (0.125 if decays else 0.25)
        ends.append(learner.state.arrays())
    assert_same(ends[0], ends[1])
    assert any(not np.array_equal(ends[0][name], ends[2][name]) for name in ends[0])


@EVERY
def test_advantages_that_are_not_normalized(kind: str) -> None:
    spec = SPECS[kind]
    learner = make(spec, mini_batches=1, normalize_advantages=False)
    t, _ = rollout(learner, spec, 0.0)
    metrics = learner.update(fresh(t), 0)
    assert metrics["policy_loss"] == pytest.approx(-advantages_of(t).mean(), rel=1e-4)


def second_update(spec: EnvSpec, **settings: Any) -> tuple[Any, Any, Any, Any]:
    """Return a lagging round, its log-probs before and after an update, and metrics.

    Metrics are those of the first and the second update on the same batch.
    """
    means = []
    for passes in (1, 2):
        settings |= {"lr": 0.01, "mini_batches": 1, "ppo_epochs": passes}
        learner = make(spec, **settings)
        t, _ = rollout(learner, spec, 0.0)
        move(learner)
        newest = outputs_of(learner, spec, t.observations[:-1])[0]
        means.append(learner.update(fresh(t), 0))
        if passes == 1:
            log_std = publish(learner).arrays.get("log_std", 0.0)
            then = outputs_of(learner, spec, t.observations[:-1])[0]
    log_probs = [
        log_probs_of(spec, x[t.valid], t.actions[t.valid], own)
        for x, own in ((newest, 0.0), (then, log_std))
    ]
    assert [m["updates"] for m in means] == [1, 2]
    second = {k: 2 * v - means[0][k] for k, v in means[1].items()}
    return t, *log_probs, (means[0], second)


@EVERY
def test_the_decoupled_loss_of_a_lagging_round(kind: str) -> None:
    """Equation 4: weights to what acted, clipping about the newest weights."""
    spec = SPECS[kind]
    t, newest, then, metrics = second_update(spec, decoupled_loss=True)
    weights = np.exp(newest - t.log_probs[t.valid])
    assert weights.std() > 0.1
    scaled = advantages_of(t)
    scaled = (scaled - scaled.mean()) / scaled.std()
    for log_probs, found in zip((newest, then), metrics, strict=True):
        ratio = np.exp(log_probs - newest)
        gains = np.minimum(ratio * scaled, np.clip(ratio, 0.9, 1.1) * scaled)
        gain = (weights * gains).mean()
        assert found["policy_loss"] == pytest.approx(-gain, rel=1e-3, abs=1e-4)
        assert found["kl"] == pytest.approx((newest - log_probs).mean(), abs=1e-4)
    assert (np.abs(np.exp(then - newest) - 1) > 0.1).any()


@EVERY
def test_without_a_lag_the_decoupled_loss_is_the_usual_one(kind: str) -> None:
    """To the bit: no weights are computed that rounding would keep from being 1."""
    ends = []
    for decoupled in (False, True):
        learner = make(SPECS[kind], lr=1e-3, ppo_epochs=3, decoupled_loss=decoupled)
        t, _ = rollout(learner, SPECS[kind], 0.3)
        move(learner)
        t = t._replace(weights_version=learner.version)
        learner.update(fresh(t), 0)
        ends.append(learner.state.arrays())
    assert_same(*ends)


@pytest.mark.parametrize(
    "compiled", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_updates_end_before_the_one_that_is_too_far(compiled: bool) -> None:
    """They leave the weights as the updates before it did, and aren't counted."""
    spec, settings = SPECS["discrete"], {"lr": 0.01, "mini_batches": 2}

    def trained(passes: int, target_kl: float | None) -> tuple[Any, Any]:
        config = PPOConfig(
            gamma=GAMMA, lam=LAM, ppo_epochs=passes, target_kl=target_kl, **settings
        )
        learner = make_learner("ppo", config, spec, compiled=compiled)
        t, _ = rollout(learner, spec, 0.0)
        metrics = learner.update(fresh(t), 0)
        return metrics, learner.state.arrays()

    assert trained(2, 1e3)[0]["updates"] == trained(2, None)[0]["updates"] == 4
    metrics, arrays = trained(20, 0.004)
    assert 2 < metrics["updates"] < 38
    # However many passes were left.
    again, same = trained(30, 0.004)
    assert again == metrics
    assert_same(arrays, {k: same[k] for k in arrays})
    # The first minibatch, before any update, has no divergence.
    assert trained(4, 1e-12)[0]["updates"] == 1
