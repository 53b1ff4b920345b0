"""Updates of TRPO on linear networks against explicit Fisher matrices."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from learner_support import fresh, make_learner, publish, resumed_states
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
from naive import assert_same

from xagents_ray.algorithms.trpo import TRPOConfig
from xagents_ray.commands import cli
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.learners import trpo
from xagents_ray.learners.learner import Learner

GAMMA, LAM, DAMPING, MAX_KL = 0.9, 0.8, 0.1, 0.01
LOG_STD = np.array([0.3, -0.4])
EVERY = pytest.mark.parametrize("spec", SPECS.values(), ids=list(SPECS))


def make(spec: EnvSpec, **settings: Any) -> Learner:
    values = {
        "gamma": GAMMA,
        "lam": LAM,
        "max_kl": MAX_KL,
        "cg_damping": DAMPING,
        "cg_iterations": 60,
        "fvp_n_steps": 1,
        "mini_batches": 1,
        "critic_iterations": 1,
        **settings,
    }
    layouts = (linear_layout(spec, n) for n in (spec.action_units, 1))
    learner = make_learner("trpo", TRPOConfig(**values), spec, *layouts)
    if not spec.is_discrete:
        learner.load({"actor/log_std": LOG_STD})
    return learner


def critic_of(learner: Learner) -> Any:
    return parameters(learner.state.arrays(), "critic/dense-0")


def advantages_of(learner: Learner, spec: EnvSpec, t: Trajectory) -> Any:
    """Return those by the learner's critic."""
    return gae_of(t, (features(spec, t) @ critic_of(learner))[..., 0], GAMMA, LAM)


class Policy:
    """The same policy in NumPy, on the valid rows."""

    def __init__(self, learner: Learner, spec: EnvSpec, t: Trajectory) -> None:
        arrays = publish(learner).arrays
        self.spec = spec
        self.weights = parameters(arrays, "dense-0")
        self.log_std = arrays.get("log_std", np.zeros(0)).astype(np.float64)
        self.x, self.actions = features(spec, t)[:-1][t.valid], t.actions[t.valid]
        self.old_log_probs = t.log_probs[t.valid]
        self.rows = np.flatnonzero(t.valid)
        self.outputs = self.x @ self.weights

    @property
    def flat(self) -> Any:
        """In the learner's order: kernel, bias, log_std."""
        return np.concatenate([self.weights.ravel(), self.log_std])

    def log_probs(self) -> Any:
        return log_probs_of(self.spec, self.outputs, self.actions, self.log_std)

    def entropies(self) -> Any:
        return entropies_of(self.spec, self.outputs, self.log_std)

    def gain(self, advantages: Any, entropy_coef: float) -> Any:
        ratios = np.exp(self.log_probs() - self.old_log_probs)
        return (ratios * advantages + entropy_coef * self.entropies()).mean()

    def gradient(self, advantages: Any, entropy_coef: float) -> Any:
        weights = np.exp(self.log_probs() - self.old_log_probs) * advantages
        weights = weights[:, None] / len(self.x)
        if self.spec.is_discrete:
            log_p = log_softmax(self.outputs)
            p, entropies = np.exp(log_p), self.entropies()[:, None]
            outer = weights * (np.eye(3)[self.actions] - p)
            outer -= entropy_coef * p * (log_p + entropies) / len(self.x)
            return (self.x.T @ outer).ravel()
        scaled = (self.actions - self.outputs) / np.exp(self.log_std)
        means = self.x.T @ (weights * scaled / np.exp(self.log_std))
        log_std = (weights * (scaled**2 - 1)).sum(0) + entropy_coef
        return np.concatenate([means.ravel(), log_std])

    def fisher(self, every: int) -> Any:
        """Return E[φφᵀ ⊗ M] over every n-th row, M of the outputs alone."""
        chosen = self.rows % every == 0
        x, units = self.x[chosen], self.outputs.shape[-1]
        if self.spec.is_discrete:
            p = np.exp(log_softmax(self.outputs))[chosen]
            m = p[:, :, None] * np.eye(units) - p[:, :, None] * p[:, None, :]
        else:
            m = np.tile(np.diag(np.exp(-2 * self.log_std)), (len(x), 1, 1))
        size = x.shape[1] * units
        block = np.einsum("ni,nj,nab->iajb", x, x, m).reshape(size, size) / len(x)
        whole = 2 * np.eye(size + len(self.log_std))
        whole[:size, :size] = block
        return whole

    def kl_from(self, old: "Policy") -> Any:
        if self.spec.is_discrete:
            log_p, log_q = log_softmax(old.outputs), log_softmax(self.outputs)
            return (np.exp(log_p) * (log_p - log_q)).sum(-1).mean()
        variance, old_variance = np.exp(2 * self.log_std), np.exp(2 * old.log_std)
        moved = (old.outputs - self.outputs) ** 2
        log = self.log_std - old.log_std
        return (log + (old_variance + moved) / (2 * variance) - 0.5).sum(-1).mean()


def normalized(advantages: Any) -> Any:
    return (advantages - advantages.mean()) / advantages.std()


@EVERY
@pytest.mark.parametrize("every", [1, 4])
def test_the_actors_step(spec: EnvSpec, every: int) -> None:
    """Along the damped Fisher matrix's solution; part of it, if that was better."""
    learner = make(spec, fvp_n_steps=every, entropy_coef=0.05)
    t = rollout(spec)
    advantages = normalized(advantages_of(learner, spec, t))
    old = Policy(learner, spec, t)
    metrics = learner.update(fresh(t), 0)
    new = Policy(learner, spec, t)

    gradient = old.gradient(advantages, 0.05)
    matrix = old.fisher(every) + DAMPING * np.eye(len(gradient))
    solution = np.linalg.solve(matrix, gradient)
    step = solution / np.sqrt(0.5 * solution @ matrix @ solution / MAX_KL)
    part = metrics["step_fraction"]
    assert part in (1, 0.5, 0.25)
    np.testing.assert_allclose(new.flat - old.flat, part * step, rtol=0.02, atol=1e-5)

    before, after = (each.gain(advantages, 0.05) for each in (old, new))
    assert after > before
    assert metrics["policy_loss"] == pytest.approx(-before, abs=1e-5)
    assert metrics["kl"] == pytest.approx(new.kl_from(old), rel=1e-3)
    assert 0 < metrics["kl"] <= 1.5 * MAX_KL
    assert metrics["entropy"] == pytest.approx(old.entropies().mean(), rel=1e-5)


@EVERY
def test_the_trust_region_is_about_the_newest_policy(spec: EnvSpec) -> None:
    """Not about an older one that acted, to which the ratios are."""
    learner = make(spec)
    t, kernel = rollout(spec), "actor/dense-0/kernel"
    behaviour = Policy(learner, spec, t)
    log_probs = np.zeros_like(t.log_probs)
    log_probs[t.valid] = behaviour.log_probs()
    t = t._replace(log_probs=log_probs)
    rng = np.random.default_rng(6)
    array = learner.state.arrays()[kernel]
    learner.load({kernel: array + rng.normal(0, 0.3, array.shape).astype(np.float32)})
    advantages = normalized(advantages_of(learner, spec, t))
    start = Policy(learner, spec, t)
    assert start.kl_from(behaviour) > 3 * MAX_KL
    metrics = learner.update(fresh(t), 0)
    end = Policy(learner, spec, t)
    before, after = (each.gain(advantages, 0.0) for each in (start, end))
    assert metrics["policy_loss"] == pytest.approx(-before, abs=1e-5)
    assert after > before
    assert metrics["kl"] == pytest.approx(end.kl_from(start), rel=1e-3)
    assert 0 < metrics["kl"] <= 1.5 * MAX_KL
    assert end.kl_from(behaviour) > 2 * metrics["kl"]


def test_penalties_of_the_users_layers_are_part_of_the_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = SPECS["discrete"]
    free = make(spec).update(fresh(rollout(spec)), 0)["policy_loss"]
    monkeypatch.setattr(trpo, "regularization_loss", lambda variables: tf.constant(5.0))
    loss = make(spec).update(fresh(rollout(spec)), 0)["policy_loss"]
    assert loss == pytest.approx(free + 5, rel=1e-5)


@EVERY
def test_the_critics_step(spec: EnvSpec) -> None:
    """Towards A + V by the critic itself; the norm is that before it is clipped."""
    lr, epsilon, coef, largest = 0.3, 1.0, 0.7, 0.1
    settings = {"opt_epsilon": epsilon, "value_loss_coef": coef, "grad_norm": largest}
    learner = make(spec, lr=lr, **settings)
    t = rollout(spec)
    before, x = critic_of(learner), features(spec, t)
    errors = advantages_of(learner, spec, t)
    metrics = learner.update(fresh(t), 0)
    assert metrics["value_loss"] == pytest.approx((errors**2).mean(), rel=1e-4)
    targets = errors + (x[:-1][t.valid] @ before)[:, 0]
    explained = 1 - errors.var() / targets.var()
    assert metrics["explained_variance"] == pytest.approx(explained, rel=1e-4)
    assert metrics["learning_rate"] == pytest.approx(lr)
    gradient = -2 * coef * x[:-1][t.valid].T @ errors[:, None] / len(errors)
    norm = np.linalg.norm(gradient)
    assert norm > largest
    assert metrics["value_grad_norm"] == pytest.approx(norm, rel=1e-4)
    step = first_adam_step(gradient * largest / norm, lr, epsilon)
    moved = critic_of(learner) - before
    np.testing.assert_allclose(moved, step, rtol=1e-3, atol=1e-6)
    assert metrics["updates"] == 2  # one of each


@EVERY
def test_a_pass_is_over_the_valid_rows(spec: EnvSpec) -> None:
    learner = make(spec, critic_lr=1e-12, critic_iterations=4)
    t = rollout(spec)
    assert t.valid.sum() == 24
    errors = advantages_of(learner, spec, t)
    metrics = learner.update(fresh(t), 0)
    assert metrics["updates"] == 1 + 4
    assert metrics["value_loss"] == pytest.approx((errors**2).mean(), rel=1e-4)


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_a_zero_gradient_is_skipped() -> None:
    """Equal advantages leave the actor alone; the critic learns."""
    spec = SPECS["discrete"]
    learner = make(spec, gamma=0.0)
    arrays = learner.state.arrays()
    learner.load({k: 0 * v for k, v in arrays.items() if k.startswith("critic/dense")})
    t = rollout(spec)
    before = publish(learner).arrays
    metrics = learner.update(fresh(t._replace(rewards=np.ones_like(t.rewards))), 0)
    assert same(before, publish(learner).arrays)
    assert metrics["step_fraction"] == metrics["kl"] == 0
    assert np.abs(critic_of(learner)).max() > 0
    counts = [int(x) for k, x in learner.state.variables.items() if "phases" in k]
    assert counts == [1]


def test_a_step_that_is_not_accepted_is_taken_back() -> None:
    """So long that no action keeps its probability: it gains nothing."""
    spec = SPECS["continuous"]
    learner = make(spec, max_kl=1e4, actor_iterations=1)
    t = rollout(spec)
    advantages = np.zeros_like(t.rewards)
    advantages[t.valid] = normalized(advantages_of(learner, spec, t))
    lucky = t._replace(log_probs=t.log_probs - (advantages > 0).astype(np.float32))
    before = publish(learner).arrays
    metrics = learner.update(fresh(lucky), 0)
    assert metrics["policy_loss"] < 0
    assert metrics["step_fraction"] == metrics["kl"] == 0
    assert same(before, publish(learner).arrays)
    # With more tries a shorter one is.
    patient = make(spec, max_kl=1e4, actor_iterations=40)
    metrics = patient.update(fresh(lucky), 0)
    assert 0 < metrics["step_fraction"] < 1
    assert not same(before, publish(patient).arrays)


@EVERY
def test_a_resumed_learner_continues_exactly(spec: EnvSpec) -> None:
    """Its counters choose the minibatches."""
    settings = {"lr": 0.01, "mini_batches": 3, "critic_iterations": 2}
    learner, other = (make(spec, **settings) for _ in range(2))
    start = learner.state.arrays()
    first, then = (fresh(rollout(spec, seed)) for seed in (1, 2))
    ends, others = resumed_states(learner, other, first, then)
    assert_same(ends, others)
    learner.state.restore(start)
    learner.update(first, 0)
    learner.state.variables["count/phases"].assign_add(1)
    learner.update(then, 0)
    weights = "critic/dense-0/kernel"
    assert not np.array_equal(ends[weights], learner.state.arrays()[weights])


@pytest.mark.parametrize("flag", ["clip-norm", "ppo-epochs"])
def test_flags_of_ppo_are_refused(flag: str, capsys: Any) -> None:
    """With what is there in their place, as `train` refuses them; help has none."""
    assert cli.run(["evaluate", "trpo", "--env", "CartPole-v1", f"--{flag}", "1"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"xagents-ray: --{flag} isn't a setting")
    assert "--critic-iterations" in error
    assert error.count("\n") == error.count(".") == 1
    assert cli.run(["train", "trpo", "--help-all"]) == 0
    assert flag not in capsys.readouterr().out


def test_weights_say_that_actions_are_scaled() -> None:
    assert publish(make(SPECS["continuous"])).arrays["action_scaling"] == 1
