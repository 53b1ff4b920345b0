"""Updates of A2C on linear networks, worked out in NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from learner_support import fresh, make_learner, publish
from linear import (
    LENGTH,
    SPECS,
    features,
    gaussian_log_probs,
    linear_layout,
    log_softmax,
    parameters,
    rollout,
)

from xagents_ray.algorithms.a2c import A2CConfig
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.learners.learner import Learner

GAMMA, LOG_STD = 0.9, np.array([0.3, -0.4])
EVERY = pytest.mark.parametrize("spec", SPECS.values(), ids=list(SPECS))


def make(folder: Path, spec: EnvSpec, **settings: Any) -> Learner:
    config = A2CConfig(gamma=GAMMA, **settings)
    layout = linear_layout(folder, spec, spec.action_units, 1)
    learner = make_learner("a2c", config, spec, layout)
    if not spec.is_discrete:
        learner.load({"policy/log_std": LOG_STD})
    return learner


def log_probs_of(arrays: Any, spec: EnvSpec, t: Trajectory) -> Any:
    """Return those of all rows' actions, [T, B]."""
    policy = features(spec, t)[:-1] @ parameters(arrays, "dense-0")
    if not spec.is_discrete:
        return gaussian_log_probs(policy, LOG_STD, t.actions)
    return np.take_along_axis(log_softmax(policy), t.actions[..., None], -1)[..., 0]


def acted_on(learner: Learner, spec: EnvSpec, lag: int, seed: int = 1) -> Trajectory:
    """Return a rollout of the newest policy, or as of one some versions older."""
    weights, t = publish(learner), rollout(spec, seed)
    log_probs = log_probs_of(weights.arrays, spec, t)
    if lag:
        log_probs += np.random.default_rng(seed).normal(0, 0.5, log_probs.shape)
    return t._replace(
        log_probs=log_probs.astype(np.float32), weights_version=weights.version - lag
    )


def judged(t: Trajectory, values: Any, ratios: Any) -> tuple[Any, Any]:
    """Return V-trace targets and advantages [T, B], from the last row to the first."""
    targets, advantages = np.array(values), np.zeros_like(ratios)
    rho = np.minimum(ratios, 1)
    for i in reversed(range(LENGTH)):
        later = np.where(t.truncated[i], values[i + 1], targets[i + 1])
        later = GAMMA * later * ~t.terminated[i]
        advantages[i] = rho[i] * (t.rewards[i] + later - values[i])
        # Sums of rho[i] and c[i] times what follows, whose clips are both 1.
        targets[i] += advantages[i]
    return targets[:-1], advantages


def expected(
    arrays: Any, spec: EnvSpec, t: Trajectory, entropy_coef: float, coef: float
) -> tuple[dict[str, float], dict[str, Any]]:
    """Return metrics and the loss's gradient by parameter."""
    x, valid = features(spec, t), t.valid
    values = (x @ parameters(arrays, "dense-1"))[..., 0]
    ratios = np.exp(log_probs_of(arrays, spec, t) - t.log_probs)
    targets, advantages = judged(t, values, ratios)
    errors, advantages = (targets - values[:-1])[valid], advantages[valid]
    x, actions, count = x[:-1][valid], t.actions[valid], valid.sum()
    policy = x @ parameters(arrays, "dense-0")
    extra = {}
    if spec.is_discrete:
        log_p = log_softmax(policy)
        log_probs, p = log_p[np.arange(count), actions], np.exp(log_p)
        entropies = -(p * log_p).sum(-1)
        entropy = entropies.mean()
        by_policy = (p - np.eye(3)[actions]) * advantages[:, None] / count
        by_policy += entropy_coef * p * (log_p + entropies[:, None]) / count
    else:
        log_probs = gaussian_log_probs(policy, LOG_STD, actions)
        entropy = (LOG_STD + 0.5 * np.log(2 * np.pi * np.e)).sum()
        offsets = actions - policy
        by_policy = -offsets / np.exp(2 * LOG_STD) * advantages[:, None] / count
        scaled = offsets**2 / np.exp(2 * LOG_STD) - 1
        extra["log_std"] = -(advantages[:, None] * scaled).mean(0) - entropy_coef
    by_value = -2 * coef * errors[:, None] / count
    gradient = {"dense-0": x.T @ by_policy, "dense-1": x.T @ by_value, **extra}
    return {
        "policy_loss": -(advantages * log_probs).mean(),
        "value_loss": (errors**2).mean(),
        "entropy": entropy,
        "grad_norm": np.sqrt(sum((g**2).sum() for g in gradient.values())),
    }, gradient


@EVERY
@pytest.mark.parametrize("lag", [0, 2])
@pytest.mark.parametrize("grad_norm", [0.1, 1e6])
def test_one_update(spec: EnvSpec, grad_norm: float, lag: int, tmp_path: Path) -> None:
    """Returns by n steps, or V-trace's, and one step down the clipped gradient.

    With its large epsilon the first step of Adam is the gradient's, nearly.
    """
    lr, epsilon, coefs = 0.3, 1.0, (0.1, 0.7)
    names = {"entropy_coef": coefs[0], "value_loss_coef": coefs[1]}
    learner = make(
        tmp_path, spec, lr=lr, opt_epsilon=epsilon, grad_norm=grad_norm, **names
    )
    for _ in range(2):  # versions that acted before
        publish(learner)
    t = acted_on(learner, spec, lag)
    assert t.terminated.any() and t.truncated.any() and not t.valid.all()
    before = learner.state.arrays()
    before = {k.removeprefix("policy/"): array for k, array in before.items()}
    ratios = np.exp(log_probs_of(before, spec, t) - t.log_probs)[t.valid]
    assert lag == 0 or 0.2 < (ratios > 1.1).mean() < 0.8
    metrics, gradient = expected(before, spec, t, *coefs)
    got = learner.update(fresh(t), 0)
    after = publish(learner).arrays
    assert got.pop("updates") == 1
    assert got == {k: pytest.approx(v, rel=1e-4) for k, v in metrics.items()}
    assert got["grad_norm"] > 0.2  # the norm before it is clipped
    part = min(1.0, grad_norm / got["grad_norm"])
    spread = np.sqrt(1 - 0.999)
    for name, whole in gradient.items():
        if name == "log_std":
            step = after[name] - before[name]
        else:
            step = parameters(after, name) - parameters(before, name)
        g = spread * part * whole
        np.testing.assert_allclose(
            step, -lr * g / (np.abs(g) + epsilon), rtol=1e-3, atol=1e-6
        )


@EVERY
def test_a_resumed_learner_goes_on_exactly(spec: EnvSpec, tmp_path: Path) -> None:
    learner, other = (make(tmp_path, spec, lr=0.01) for _ in range(2))
    learner.update(fresh(rollout(spec, 1)), 0)
    kept = learner.state.arrays()
    other.state.restore(kept)
    for each in (learner, other):
        each.update(fresh(rollout(spec, 2)), 0)
    ends = learner.state.arrays(), other.state.arrays()
    assert ends[0].keys() == ends[1].keys()
    assert any(not np.array_equal(kept[k], ends[0][k]) for k in kept)
    for name, array in ends[0].items():
        np.testing.assert_array_equal(array, ends[1][name])


@EVERY
def test_without_a_lag_ratios_are_not_asked_for(spec: EnvSpec, tmp_path: Path) -> None:
    """Bit for bit: two libraries' log-probs of one policy differ by rounding."""
    ends = []
    for lag in (0, 0, 1):
        learner = make(tmp_path, spec, lr=0.01)
        t = acted_on(learner, spec, 0)
        if ends:
            t = t._replace(log_probs=t.log_probs + 1)
        learner.update(fresh(t._replace(weights_version=t.weights_version - lag)), 0)
        ends.append(publish(learner).arrays)
    for name, array in ends[0].items():
        np.testing.assert_array_equal(array, ends[1][name])
    assert any(not np.array_equal(ends[0][k], ends[2][k]) for k in ends[0])


def test_one_lagging_actor_makes_a_round_lag(tmp_path: Path) -> None:
    """Whichever it is; the others' ratios are 1, nearly."""
    spec = SPECS["discrete"]
    ends = []
    for lags in ((0, 1), (1, 0), (1, 1), (0, 0)):
        learner = make(tmp_path, spec, lr=0.01)
        weights = publish(learner)
        parts = []
        for seed, lag in enumerate(lags):
            log_probs = log_probs_of(weights.arrays, spec, rollout(spec, seed)) + 0.5
            version = weights.version - lag
            t = rollout(spec, seed)._replace(weights_version=version)
            parts.append(t._replace(log_probs=log_probs.astype(np.float32)))
        learner.update(fresh(*parts), 0)
        ends.append(publish(learner).arrays["dense-0/kernel"])
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])
    assert not np.array_equal(ends[0], ends[3])
