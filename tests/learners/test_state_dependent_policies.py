"""Updates of policies that give their deviations, with finite differences."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from learner_support import fresh, make_learner, publish
from linear import LENGTH, SPECS, gae_of, rollout
from naive import finite_differences

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.trajectory import Trajectory

SPEC = SPECS["continuous"]
HIDDEN, GAMMA, LAM, ENTROPY = 5, 0.9, 0.8, 0.02
TINY = f"[dense-0]\nunits={HIDDEN}\nactivation=tanh\ncommon=1\n[dense-1]\noutput=1\n"
OBSERVED = rollout(SPEC)


def make(agent: str, **settings: Any) -> Any:
    """Return a learner of tiny networks with scattered weights, and these by name."""
    row, files = find_algorithm(agent), {}
    for model in row.models:
        path = Path(f"{model.name}.cfg")
        path.write_text(TINY + "[dense-2]\noutput=1\n" * (len(model.heads) - 1))
        files[model.file] = str(path)
    config = row.config(sde_frequency=4, gamma=GAMMA, lam=LAM, **files, **settings)
    learner, rng = make_learner(agent, config, SPEC), np.random.default_rng(2)
    for name, variable in learner.state.variables.items():
        if name.startswith(tuple(f"{model.name}/" for model in row.models)):
            variable.assign(rng.normal(-0.3, 0.5, variable.shape))
    assert not any(name.endswith("policy/log_std") for name in learner.state.variables)
    return learner


def outputs(arrays: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return features, means and the second output or None, in float64."""
    a = {name: np.float64(array) for name, array in arrays.items()}
    hidden = np.tanh(x @ a["dense-0/kernel"] + a["dense-0/bias"])
    means = hidden @ a["dense-1/kernel"] + a["dense-1/bias"]
    if "dense-2/kernel" not in a:
        return hidden, means, None
    return hidden, means, (hidden @ a["dense-2/kernel"] + a["dense-2/bias"])[..., 0]


def deviations(hidden: Any, log_std: Any) -> Any:
    found = np.zeros((*hidden.shape[:-1], 2))
    for *row, j in np.ndindex(found.shape):
        pairs = zip(hidden[tuple(row)], np.exp(np.float64(log_std))[:, j], strict=True)
        found[(*row, j)] = math.sqrt(sum((h * sigma) ** 2 for h, sigma in pairs) + 1e-6)
    return found


def log_density(actions: Any, means: Any, std: Any) -> Any:
    each = ((actions - means) / std) ** 2 / 2 + np.log(std * math.sqrt(2 * math.pi))
    return -each.sum(-1)


def entropy_of(std: Any) -> Any:
    return (np.log(std) + math.log(2 * math.pi * math.e) / 2).sum(-1)


def divergence(old: tuple[Any, Any], new: tuple[Any, Any]) -> Any:
    """Return KL(old ‖ new) of means and deviations, a row each."""
    (m, s), (n, t) = old, new
    return (np.log(t / s) + (s**2 + (m - n) ** 2) / (2 * t**2) - 0.5).sum(-1)


def test_a2c_takes_the_step_of_finite_differences() -> None:
    """No gradient of the deviations flows into the features."""
    lr = 10.0
    learner = make("a2c", lr=lr, opt_epsilon=1.0, entropy_coef=ENTROPY, grad_norm=1e9)
    before = publish(learner).arrays
    t = OBSERVED._replace(weights_version=learner.version)
    valid, x = t.valid, np.float64(t.observations)
    hidden, _, values = outputs(before, x)
    advantages = gae_of(t, values, GAMMA, LAM)
    targets = advantages + values[:-1][valid]
    features = hidden[:-1][valid]  # as they are, whatever the weights below

    def parts(arrays: Any) -> tuple[float, float, float]:
        _, means, values = outputs(arrays, x[:-1][valid])
        std = deviations(features, arrays["sde/log_std"])
        log_probs = log_density(t.actions[valid], means, std)
        policy_loss = -(advantages * log_probs).mean()
        return policy_loss, ((targets - values) ** 2).mean(), entropy_of(std).mean()

    def loss(arrays: Any) -> float:
        policy_loss, value_loss, entropy = parts(arrays)
        return policy_loss - ENTROPY * entropy + 0.5 * value_loss

    metrics = learner.update(fresh(t), 0)
    policy_loss, value_loss, entropy = parts(before)
    assert metrics["policy_loss"] == pytest.approx(policy_loss, rel=1e-3)
    assert metrics["value_loss"] == pytest.approx(value_loss, rel=1e-3)
    assert metrics["entropy"] == pytest.approx(entropy, rel=1e-3)
    after = publish(learner).arrays
    for name, array in before.items():

        def loss_of(changed: Any, name: str = name) -> float:
            return loss({**before, name: changed})

        gradient = finite_differences(loss_of, np.float64(array), 1e-5)
        expected = array - lr * gradient / (np.abs(gradient) + 1 / 0.001**0.5)
        np.testing.assert_allclose(after[name], expected, atol=2e-4, err_msg=name)
        is_learned = name != "action_scaling"  # which is a record
        assert (np.abs(gradient).max() > 1e-3) == is_learned


def acted_on(learner: Any) -> tuple[Trajectory, Any, Any]:
    """Return a rollout as the newest policy's, and its means and deviations."""
    weights = publish(learner)
    hidden, means, values = outputs(weights.arrays, np.float64(OBSERVED.observations))
    std = deviations(hidden, weights.arrays["sde/log_std"])
    log_probs = log_density(OBSERVED.actions, means[:-1], std[:-1])
    t = OBSERVED._replace(
        log_probs=log_probs.astype(np.float32),
        values=None if values is None else values.astype(np.float32),
        weights_version=weights.version,
    )
    return t, means[:-1][t.valid], std[:-1][t.valid]


def test_trpo_measures_the_divergence_of_the_right_distributions() -> None:
    learner = make("trpo", max_kl=0.01, entropy_coef=0.0, fvp_n_steps=1)
    t, *old = acted_on(learner)
    metrics = learner.update(fresh(t), 0)
    assert metrics["entropy"] == pytest.approx(entropy_of(old[1]).mean(), rel=1e-3)
    _, *new = acted_on(learner)
    kl = divergence(tuple(old), tuple(new)).mean()
    assert metrics["kl"] == pytest.approx(kl, rel=1e-2)
    assert 0.003 < kl < 0.015
    assert np.abs(np.log(old[1] / new[1])).max() > 1e-3


def test_the_first_ratios_of_ppo_are_one() -> None:
    """With one minibatch; its log-probabilities are those that acted."""
    learner = make("ppo", mini_batches=1, ppo_epochs=1, normalize_advantages=False)
    t, _, std = acted_on(learner)
    metrics = learner.update(fresh(t), 0)
    assert metrics["kl"] == pytest.approx(0, abs=1e-5)
    assert metrics["entropy"] == pytest.approx(entropy_of(std).mean(), rel=1e-4)
    advantages = gae_of(t, np.float64(t.values), GAMMA, LAM)
    assert metrics["policy_loss"] == pytest.approx(-advantages.mean(), abs=1e-4)
    assert t.rewards.shape[0] == LENGTH
