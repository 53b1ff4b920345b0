"""Updates of A2C, A3C and IMPALA on linear networks, worked out in NumPy."""

from typing import Any

import numpy as np
import pytest
from learner_support import (
    assert_close,
    fresh,
    make_learner,
    publish,
    reused,
)
from linear import (
    SPECS,
    entropies_of,
    features,
    first_adam_step,
    gae_of,
    linear_layout,
    log_probs_of,
    log_softmax,
    parameters,
    rollout,
)
from naive import assert_same, slow_vtrace

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.learners.learner import Learner

GAMMA, LOG_STD = 0.9, np.array([0.3, -0.4])
EVERY = pytest.mark.parametrize("spec", SPECS.values(), ids=list(SPECS))


# What limits V-trace's rho and c.
CLIPS = {"a2c": (1.0, 1.0), "a3c": (1.0, 1.0), "impala": (1.3, 0.8)}
AGENTS = pytest.mark.parametrize(
    "agent", ["a2c", pytest.param("a3c", marks=pytest.mark.slow), "impala"]
)


@reused
def make(spec: EnvSpec, agent: str = "a2c", **settings: Any) -> Learner:
    config = find_algorithm(agent).config(gamma=GAMMA, **settings)
    layout = linear_layout(spec, spec.action_units, 1)
    learner = make_learner(agent, config, spec, layout)
    if not spec.is_discrete:
        learner.load({"policy/log_std": LOG_STD})
    return learner


def all_log_probs(arrays: Any, spec: EnvSpec, t: Trajectory) -> Any:
    """Return those of all rows' actions, [T, B]."""
    policy = features(spec, t)[:-1] @ parameters(arrays, "dense-0")
    return log_probs_of(spec, policy, t.actions, LOG_STD)


def acted_on(learner: Learner, spec: EnvSpec, lag: int, seed: int = 1) -> Trajectory:
    """Return a rollout of the newest policy, or as of one some versions older."""
    weights, t = publish(learner), rollout(spec, seed)
    log_probs = all_log_probs(weights.arrays, spec, t)
    if lag:
        log_probs += np.random.default_rng(seed).normal(0, 0.5, log_probs.shape)
    return t._replace(
        log_probs=log_probs.astype(np.float32), weights_version=weights.version - lag
    )


def expected(
    agent: str,
    arrays: Any,
    spec: EnvSpec,
    t: Trajectory,
    entropy_coef: float,
    coef: float,
    lam: float | None = None,
    is_normalized: bool = False,
) -> tuple[dict[str, float], dict[str, Any]]:
    """Return metrics and the loss's gradient by parameter."""
    x, valid = features(spec, t), t.valid
    values = (x @ parameters(arrays, "dense-1"))[..., 0]
    ratios = np.exp(all_log_probs(arrays, spec, t) - t.log_probs)
    if agent == "a3c":  # it takes the newest policy for the one that acted
        ratios = np.ones_like(ratios)
    if lam is None:
        case = t.rewards, values, t.terminated, t.truncated
        targets, advantages = slow_vtrace(ratios, case, GAMMA, *CLIPS[agent])
        errors, advantages = (targets - values[:-1])[valid], advantages[valid]
    else:  # values aim at themselves plus the advantages
        errors = advantages = gae_of(t, values, GAMMA, lam)
    if is_normalized:
        advantages = (advantages - advantages.mean()) / advantages.std()
    targets = errors + values[:-1][valid]
    x, actions, count = x[:-1][valid], t.actions[valid], valid.sum()
    policy = x @ parameters(arrays, "dense-0")
    log_probs = log_probs_of(spec, policy, actions, LOG_STD)
    entropies, extra = entropies_of(spec, policy, LOG_STD), {}
    if spec.is_discrete:
        log_p = log_softmax(policy)
        p = np.exp(log_p)
        by_policy = (p - np.eye(3)[actions]) * advantages[:, None] / count
        by_policy += entropy_coef * p * (log_p + entropies[:, None]) / count
    else:
        offsets = actions - policy
        by_policy = -offsets / np.exp(2 * LOG_STD) * advantages[:, None] / count
        scaled = offsets**2 / np.exp(2 * LOG_STD) - 1
        extra["log_std"] = -(advantages[:, None] * scaled).mean(0) - entropy_coef
    by_value = -2 * coef * errors[:, None] / count
    gradient = {"dense-0": x.T @ by_policy, "dense-1": x.T @ by_value, **extra}
    return {
        "policy_loss": -(advantages * log_probs).mean(),
        "value_loss": (errors**2).mean(),
        "entropy": entropies.mean(),
        "explained_variance": 1 - errors.var() / targets.var(),
        "grad_norm": np.sqrt(sum((g**2).sum() for g in gradient.values())),
    }, gradient


def measured(learner: Learner) -> dict[str, float]:
    """Return the metrics that don't depend on the data, after an update."""
    own = {"learning_rate": learner.setup.config.lr}
    if (log_std := publish(learner).arrays.get("log_std")) is not None:
        own["std"] = np.exp(log_std).mean()
    return own


@pytest.mark.parametrize("lag", [0, 2])
@EVERY
@AGENTS
@pytest.mark.parametrize("grad_norm", [0.1, 1e6])
def test_one_update(spec: EnvSpec, agent: str, grad_norm: float, lag: int) -> None:
    """Returns by n steps, or V-trace's, and one step down the clipped gradient.

    With its large epsilon the first step of Adam is the gradient's, nearly.
    """
    lr, epsilon, coefs = 0.3, 1.0, (0.1, 0.7)
    names = {"entropy_coef": coefs[0], "value_loss_coef": coefs[1]}
    names |= {"lr": lr, "opt_epsilon": epsilon, "grad_norm": grad_norm}
    if agent == "impala":
        names |= dict(zip(("rho_clip", "c_clip"), CLIPS[agent], strict=True))
    learner = make(spec, agent, **names)
    for _ in range(2):  # versions that acted before
        publish(learner)
    t = acted_on(learner, spec, lag)
    assert t.terminated.any() and t.truncated.any() and not t.valid.all()
    before = learner.state.arrays()
    before = {k.removeprefix("policy/"): array for k, array in before.items()}
    ratios = np.exp(all_log_probs(before, spec, t) - t.log_probs)[t.valid]
    assert lag == 0 or 0.2 < (ratios > 1.1).mean() < 0.8
    metrics, gradient = expected(agent, before, spec, t, *coefs)
    got = learner.update(fresh(t), 0)
    after = publish(learner).arrays
    assert got.pop("updates") == 1
    metrics |= measured(learner)
    assert got == {k: pytest.approx(v, rel=1e-4) for k, v in metrics.items()}
    assert got["grad_norm"] > 0.2  # the norm before it is clipped
    part = min(1.0, grad_norm / got["grad_norm"])
    for name, whole in gradient.items():
        if name == "log_std":
            step = after[name] - before[name]
        else:
            step = parameters(after, name) - parameters(before, name)
        wanted = first_adam_step(part * whole, lr, epsilon)
        np.testing.assert_allclose(step, wanted, rtol=1e-3, atol=1e-6)


def test_a3c_never_corrects_a_fresh_rollout() -> None:
    """Not even one of the first weights, whose version is 0."""
    spec, ends = SPECS["discrete"], []
    for offset in (0.0, 0.5):
        learner = make(spec, "a3c")
        t = acted_on(learner, spec, lag=0)._replace(weights_version=0)
        t = t._replace(log_probs=t.log_probs + offset * t.actions.astype(np.float32))
        learner.update(fresh(t), 0)
        ends.append(publish(learner).arrays)
    for name, array in ends[0].items():
        np.testing.assert_array_equal(array, ends[1][name])


@EVERY
@AGENTS
@pytest.mark.parametrize(
    ("lam", "is_normalized"),
    [
        (0.0, False),
        (0.8, True),
        pytest.param(0.0, True, marks=pytest.mark.slow),
        pytest.param(0.8, False, marks=pytest.mark.slow),
    ],
)
def test_an_update_with_gae(
    spec: EnvSpec, agent: str, lam: float, is_normalized: bool
) -> None:
    names = {"entropy_coef": 0.1, "value_loss_coef": 0.7}
    settings = {"lam": lam, "normalize_advantages": is_normalized}
    learner = make(spec, agent, **names, **settings)
    t = acted_on(learner, spec, 0)
    before = learner.state.arrays()
    before = {k.removeprefix("policy/"): array for k, array in before.items()}
    metrics, _ = expected(agent, before, spec, t, *names.values(), lam, is_normalized)
    got = learner.update(fresh(t), 0)
    assert got.pop("updates") == 1
    metrics |= measured(learner)
    assert got == {k: pytest.approx(v, rel=1e-4) for k, v in metrics.items()}


@EVERY
def test_a_lagging_round_with_a_lam(spec: EnvSpec) -> None:
    """With the ratios of 1 it is that of a round that doesn't lag, nearly."""
    ends = []
    for lag in (0, 1):
        learner = make(spec, lr=0.01, lam=0.5)
        t = acted_on(learner, spec, 0)
        t = t._replace(weights_version=t.weights_version - lag)
        learner.update(fresh(t), 0)
        ends.append(publish(learner).arrays)
    assert_close(*ends, rtol=1e-3, atol=1e-5)


@EVERY
def test_without_a_lag_ratios_are_not_asked_for(spec: EnvSpec) -> None:
    """Bit for bit: two libraries' log-probs of one policy differ by rounding."""
    ends = []
    for lag in (0, 0, 1):
        learner = make(spec, lr=0.01)
        t = acted_on(learner, spec, 0)
        if ends:
            t = t._replace(log_probs=t.log_probs + 1)
        learner.update(fresh(t._replace(weights_version=t.weights_version - lag)), 0)
        ends.append(publish(learner).arrays)
    assert_same(ends[0], ends[1])
    assert any(not np.array_equal(ends[0][k], ends[2][k]) for k in ends[0])


def test_one_lagging_actor_makes_a_round_lag() -> None:
    """Whichever it is; the others' ratios are 1, nearly."""
    spec = SPECS["discrete"]
    ends = []
    for lags in ((0, 1), (1, 0), (1, 1), (0, 0)):
        learner = make(spec, lr=0.01)
        weights = publish(learner)
        parts = []
        for seed, lag in enumerate(lags):
            t = rollout(spec, seed)._replace(weights_version=weights.version - lag)
            log_probs = all_log_probs(weights.arrays, spec, t) + 0.5
            parts.append(t._replace(log_probs=log_probs.astype(np.float32)))
        learner.update(fresh(*parts), 0)
        ends.append(publish(learner).arrays["dense-0/kernel"])
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])
    assert not np.array_equal(ends[0], ends[3])
