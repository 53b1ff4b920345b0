"""Updates of ACER on linear networks against slow loops and finite differences."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from learner_support import (
    assert_close,
    fresh,
    make_learner,
    publish,
    replayed,
    resumed_states,
)
from linear import (
    ENVS,
    LENGTH,
    SPECS,
    features,
    first_adam_step,
    linear_layout,
    parameters,
    rollout,
)
from naive import assert_same, finite_differences

from xagents_ray.algorithms.acer import ACERConfig
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.learners.learner import Learner
from xagents_ray.networks.forward import bind_network

GAMMA, EPSILON, LARGEST, DELTA = 0.9, 1e-6, 1.2, 0.02
ENTROPY_COEF, VALUE_COEF, ALPHA = 0.1, 0.7, 0.8
KL_WEIGHT = 0.6


def make(spec: EnvSpec, **settings: Any) -> Learner:
    values = {
        "gamma": GAMMA,
        "epsilon": EPSILON,
        "importance_c": LARGEST,
        "delta": DELTA,
        "entropy_coef": ENTROPY_COEF,
        "value_loss_coef": VALUE_COEF,
        "ema_alpha": ALPHA,
        **settings,
    }
    layout = linear_layout(spec, spec.n_actions, spec.n_actions)
    learner = make_learner("acer", ACERConfig(**values), spec, layout)
    rng = np.random.default_rng(5)
    for name, variable in learner.state.variables.items():
        if name.startswith("average/"):  # somewhere else, as later in a run
            variable.assign_add(rng.normal(0, 0.5, variable.shape))
    return learner


def rolled(spec: EnvSpec, seed: int = 1) -> Trajectory:
    """Return a rollout of a policy that was another one."""
    exp = np.exp(np.random.default_rng(seed).normal(size=(LENGTH, ENVS, 3)))
    probabilities = (exp / exp.sum(-1, keepdims=True)).astype(np.float32)
    return rollout(spec, seed)._replace(probabilities=probabilities, log_probs=None)


def softmax(x: Any) -> Any:
    exp = np.exp(x - x.max(-1, keepdims=True))
    return exp / exp.sum(-1, keepdims=True)


def model_of(learner: Learner, name: str) -> Any:
    """Return a model's [D + 1, n] parameters of the policy and of the critic."""
    arrays = find_algorithm("acer").models[0].own(learner.state.arrays())
    if name != "policy":
        whole = learner.state.arrays().items()
        start = f"{name}/"
        arrays = {k.removeprefix(start): v for k, v in whole if k.startswith(start)}
    return np.stack([parameters(arrays, f"dense-{i}") for i in range(2)])


class Frozen:
    """What an update holds fixed while it follows the gradient, row by row."""

    def __init__(self, learner: Learner, spec: EnvSpec, t: Trajectory) -> None:
        self.x, self.t = features(spec, t), t
        theta = model_of(learner, "policy")
        self.policy, self.q = softmax(self.x @ theta[0]), self.x @ theta[1]
        self.values = (self.policy * self.q).sum(-1)
        self.average = softmax(self.x @ model_of(learner, "average")[0])
        self.ratios = self.policy[:-1] / (t.probabilities + EPSILON)
        self.targets = self._retrace()
        self.rows = [tuple(i) for i in np.argwhere(t.valid)]

    def _retrace(self) -> Any:
        t, targets = self.t, np.zeros((LENGTH, ENVS))
        for env in range(ENVS):
            rest = self.values[-1, env]
            for i in reversed(range(LENGTH)):
                if t.truncated[i, env]:
                    rest = self.values[i + 1, env]
                rest = 0 if t.terminated[i, env] else rest
                targets[i, env] = rest = t.rewards[i, env] + GAMMA * rest
                a = t.actions[i, env]
                weight = min(1, self.ratios[i, env, a])
                rest = weight * (rest - self.q[i, env, a]) + self.values[i, env]
        return targets

    def weights(self, i: Any) -> Any:
        """Return how much each action's log-probability is to grow, [n]."""
        ratios, a = self.ratios[i], self.t.actions[i]
        weights = np.maximum(0, 1 - LARGEST / (ratios + EPSILON)) * self.policy[i]
        weights *= self.q[i] - self.values[i]
        weights[a] += min(LARGEST, ratios[a]) * (self.targets[i] - self.values[i])
        return weights

    def projected(self, i: Any) -> tuple[Any, bool]:
        """Return the gradient by the probabilities of row i, within the region."""
        p = self.policy[i]
        gradient = self.weights(i) / (p + EPSILON)
        gradient -= ENTROPY_COEF * (np.log(p + EPSILON) + p / (p + EPSILON))
        slope = -self.average[i] / (p + EPSILON)
        excess = slope @ gradient - DELTA
        return gradient - max(0, excess) / (slope @ slope) * slope, excess > 0

    def loss(self, theta: Any, trust_region: bool, kl_weight: float) -> float:
        """Return what the update descends, as a function of all parameters."""
        total = 0.0
        for i in self.rows:
            p, q = softmax(self.x[i] @ theta[0]), self.x[i] @ theta[1]
            if trust_region:
                gain = p @ self.projected(i)[0]
            else:
                log_p = np.log(p + EPSILON)
                gain = log_p @ self.weights(i) - ENTROPY_COEF * (p @ log_p)
                average = self.average[i]
                gain -= kl_weight * (average @ np.log(average / p))
            error = self.targets[i] - q[self.t.actions[i]]
            total += VALUE_COEF * 0.5 * error**2 - gain
        return total / len(self.rows)

    def metrics(self, trust_region: bool) -> dict[str, float]:
        rows, a = self.rows, self.t.actions
        p = {i: self.policy[i] for i in rows}
        gains = [np.log(p[i] + EPSILON) @ self.weights(i) for i in rows]
        targets = np.array([self.targets[i] for i in rows])
        errors = targets - [self.q[i][a[i]] for i in rows]
        bound = [trust_region and self.projected(i)[1] for i in rows]
        assert not trust_region or 0.2 < np.mean(bound) < 0.9
        return {
            "policy_loss": -np.mean(gains),
            "value_loss": 0.5 * np.mean(np.square(errors)),
            "entropy": -np.mean([p[i] @ np.log(p[i] + EPSILON) for i in rows]),
            "explained_variance": 1 - errors.var() / targets.var(),
            "importance_ratio": np.mean([self.ratios[i][a[i]] for i in rows]),
            "trust_region_bound": np.mean(bound),
        }


@pytest.mark.parametrize(
    ("name", "region", "grad_norm"),
    [
        ("discrete", {}, 1e6),
        ("discrete", {"trust_region": False}, 0.1),
        ("discrete", {"kl_weight": KL_WEIGHT}, 1e6),
        ("frames", {}, 0.1),
        ("frames", {"trust_region": False}, 1e6),
    ],
)
def test_one_update(name: str, region: dict[str, Any], grad_norm: float) -> None:
    """With its large epsilon the first step of Adam is the gradient's, nearly."""
    spec, lr, epsilon = SPECS[name], 0.3, 1.0
    settings = {"lr": lr, "opt_epsilon": epsilon, "grad_norm": grad_norm}
    learner = make(spec, **region, **settings)
    trust_region, kl_weight = not region, region.get("kl_weight", 0.0)
    t = rolled(spec)
    assert t.terminated.any() and t.truncated.any() and not t.valid.all()
    before, average = (model_of(learner, name) for name in ("policy", "average"))
    frozen = Frozen(learner, spec, t)

    def loss(theta: Any) -> float:
        return frozen.loss(theta, trust_region, kl_weight)

    gradient = finite_differences(loss, before, 1e-6)
    got = learner.update(fresh(t), 0)
    assert got.pop("updates") == 1
    norm = np.sqrt((gradient**2).sum())
    assert norm > 0.2  # the norm before it is clipped
    expected = {**frozen.metrics(trust_region), "grad_norm": norm}
    expected["learning_rate"] = lr
    assert got == {k: pytest.approx(v, rel=1e-3) for k, v in expected.items()}
    step = first_adam_step(min(1.0, grad_norm / norm) * gradient, lr, epsilon)
    after = model_of(learner, "policy")
    np.testing.assert_allclose(after - before, step, rtol=5e-3, atol=1e-6)
    expected_average = ALPHA * average + (1 - ALPHA) * after
    np.testing.assert_allclose(
        model_of(learner, "average"), expected_average, atol=1e-6
    )


def test_a_wide_region_is_none() -> None:
    spec = SPECS["discrete"]
    wide = make(spec, delta=1e6)
    plain = make(spec, trust_region=False)
    for learner in (wide, plain):
        assert learner.update(fresh(rolled(spec)), 0)["trust_region_bound"] == 0
    np.testing.assert_allclose(
        model_of(wide, "policy"), model_of(plain, "policy"), rtol=1e-5, atol=1e-6
    )


def test_a_phase_is_its_batches_one_after_another() -> None:
    spec = SPECS["frames"]
    whole, steps = (make(spec, lr=0.01) for _ in range(2))
    rounds = [rolled(spec, seed) for seed in (1, 2, 3)]
    metrics = whole.update(fresh(rounds[0], sampled=replayed(rounds[1:])), 0)
    each = [steps.update(fresh(t), 0) for t in rounds]
    assert metrics.pop("updates") == 3
    for name, value in metrics.items():
        assert value == pytest.approx(np.mean([m[name] for m in each]), rel=1e-5)
    assert_close(whole.state.arrays(), steps.state.arrays(), rtol=1e-6, atol=1e-7)


def test_a_resumed_learner_continues_exactly() -> None:
    spec = SPECS["discrete"]
    learners = (make(spec, lr=0.01) for _ in range(2))
    then = fresh(rolled(spec, 2), sampled=replayed([rolled(spec, 3)]))
    one, other = resumed_states(*learners, fresh(rolled(spec, 1)), then)
    assert_same(one, other)
    assert "average/dense-0/kernel" in one


def test_the_average_begins_as_a_copy() -> None:
    """Of the first weights, and of those that are loaded."""
    spec = SPECS["discrete"]
    layout = linear_layout(spec, 3, 3)
    learner = make_learner("acer", ACERConfig(), spec, layout)
    first = model_of(learner, "policy")
    np.testing.assert_array_equal(model_of(learner, "average"), first)
    arrays = publish(learner).arrays
    learner.load({f"policy/{name}": array + 1 for name, array in arrays.items()})
    np.testing.assert_array_equal(model_of(learner, "policy"), first + 1)
    np.testing.assert_array_equal(model_of(learner, "average"), first + 1)


@pytest.mark.parametrize("agent", ["a2c", "ppo", "impala", "acer"])
@pytest.mark.parametrize("head", ["", "activation=softmax\n"])
def test_a_policy_head_with_and_without_softmax_is_one(
    head: str, agent: str, tmp_path: Path
) -> None:
    """Xagents' .cfg files end the policy in a softmax; both give logits here."""
    path = tmp_path / "own.cfg"
    path.write_text(
        "[dense-0]\nunits=8\nactivation=tanh\ncommon=1\n"
        f"[dense-1]\n{head}output=1\n[dense-2]\noutput=1\n",
        encoding="utf-8",
    )
    spec = SPECS["discrete"]
    row = find_algorithm(agent)
    config = row.config(model=str(path))
    (layout,) = row.layouts(config, spec)
    assert [layer.activation for layer in layout.layers] == ["tanh", "linear", "linear"]
    weights = publish(make_learner(agent, config, spec, layout))
    logits, _ = bind_network(layout, weights.arrays)(np.ones((2, 4), np.float32))
    assert (logits < 0).any() and not np.allclose(logits.sum(-1), 1)


@pytest.mark.parametrize("kind", ["vector", "image"])
def test_the_default_is_xagents(kind: str) -> None:
    shape = (84, 84) if kind == "image" else (4,)
    dtype = "uint8" if kind == "image" else "float32"
    spec = EnvSpec(shape, dtype, 4 if kind == "image" else 1, 6)
    layout = find_algorithm("acer").layout(None, spec)
    assert [layout.layers[i].output_shape[-1] for i in layout.outputs] == [6, 6]
    units = [layer.output_shape[-1] for layer in layout.layers if layer.shapes]
    trunk = [32, 64, 64, 512] if kind == "image" else [64, 64]
    assert units == [*trunk, 6, 6]


@pytest.mark.parametrize("ratio", [0.0, 0.5, 4.0])
def test_the_number_of_replayed_batches_is_poisson(ratio: float) -> None:
    replay = ACERConfig(replay_ratio=ratio).replay
    assert replay is not None
    drawn = [replay.due(160, np.random.default_rng([7, step])) for step in range(4000)]
    assert {rest for _, rest in drawn} == {0}
    counts = np.array([count for count, _ in drawn])
    error = 5 * (ratio / len(counts)) ** 0.5
    assert abs(counts.mean() - ratio) <= error
    assert abs(counts.var() - ratio) <= 5 * ((ratio + 2 * ratio**2) / 4000) ** 0.5
    rows = replay.sampled_rows(8, 4)
    assert rows >= counts.max() * (20 + 4) * 8
