"""Rounds that older weights than the newest acted in, of NumPy's policies."""

import time
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import linear
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from learner_cases import slow_ones
from learner_support import assert_close, fresh, make_learner, publish
from linear import ENVS, LENGTH, linear_layout, rollout

import xagents_ray
from xagents_ray.actors.policies.base import Actions
from xagents_ray.algorithms.table import ALGORITHMS, find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.moments import STD_EPSILON, Moments
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory, Weights
from xagents_ray.networks.layout import Layout
from xagents_ray.storage.checkpoints import all_checkpoints, load_checkpoint

SPECS = {kind: linear.SPECS[kind] for kind in ("discrete", "continuous")}


class Setup:
    """A linear learner, and the policy that acts for it."""

    def __init__(self, agent: str, spec: EnvSpec, **settings: Any):
        self.row, self.spec = find_algorithm(agent), spec
        self.config = self.row.config(gamma=0.9, **settings)
        count = spec.action_units
        heads = {"actions": count, "value": 1, "action_values": count}
        self.layouts: list[Layout] = []
        for model in self.row.models:
            units = [heads[head] for head in model.heads]
            self.layouts.append(linear_layout(spec, *units))

    def learner(self) -> Any:
        return make_learner(self.row.name, self.config, self.spec, *self.layouts)

    def act(self, weights: Weights, seed: int = 1) -> Trajectory:
        """Return a rollout with ends of both kinds, as an env actor writes it."""
        t = rollout(self.spec, seed)
        policy = resolve_name(self.row.policy)(self.config, self.spec, self.layouts[0])
        policy.load(weights)
        noise = policy.noise([np.random.default_rng(i) for i in range(ENVS)], LENGTH)
        chosen = [policy.act(t.observations[i], noise[i], 0) for i in range(LENGTH)]
        rows = Actions.joined(chosen)
        last = policy.values(t.observations[-1])
        values = None if last is None else np.stack([*rows.values, last])
        return t._replace(
            actions=rows.stored,
            log_probs=policy.log_probs(rows, noise),
            probabilities=policy.probabilities(rows),
            values=values,
            weights_version=weights.version,
        )


def cases() -> list[Any]:
    return [
        pytest.param(row.name, spec, id=f"{row.name}-{kind}")
        for row in ALGORITHMS.values()
        for kind, spec in SPECS.items()
        if row.on_policy and (row.discrete if spec.is_discrete else row.continuous)
    ]


@pytest.mark.parametrize("spec", SPECS.values(), ids=list(SPECS))
def test_versions_of_the_same_weights_need_no_correction(spec: EnvSpec) -> None:
    """V-trace is the n-step return: what acted in NumPy has ratios of 1, nearly."""
    setup = Setup("a2c", spec, normalize_observations=True)
    ends = []
    for lag in (0, 2):
        learner = setup.learner()
        shape = spec.observation_shape
        seen = Moments(100, np.full(shape, 0.5), np.full(shape, 4.0))
        learner.normalizer.take({"observation": seen})
        t = setup.act(publish(learner))
        for _ in range(lag):
            publish(learner)
        ends.append((learner.update(fresh(t), 0), publish(learner).arrays))
    for one, other in zip(*ends, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("agent", "spec"),
    slow_ones(cases(), "(?!ppo|acer).*|ppo-discrete"),
)
def test_newer_statistics_are_a_part_of_the_newest_policy(
    agent: str, spec: EnvSpec
) -> None:
    """As if its observations came normalised, with what acted as it was."""
    setup = Setup(agent, spec, normalize_observations=True)
    learner = setup.learner()
    plain = Setup(agent, spec).learner()
    t = setup.act(publish(learner))
    publish(plain)
    mean, variance = np.arange(4) / 2, np.array([4.0, 0.3, 1.0, 2.0])
    learner.normalizer.take({"observation": Moments(1e9, mean, variance)})
    seen = (t.observations - mean) / np.sqrt(variance + STD_EPSILON)
    rounds = {learner: t, plain: t._replace(observations=seen.astype(np.float32))}
    ends = []
    for each, own in rounds.items():
        publish(each)
        ends.append((each.update(fresh(own), 0), publish(each).arrays))
    for got, expected in zip(*ends, strict=True):
        names = expected.keys()
        # Conjugate gradients make more of rounding.
        assert_close({k: got[k] for k in names}, expected, rtol=1e-2, atol=1e-3)


# A bandit with two arms that pay 1 and 3, and a critic that knows nothing yet.


def bandit(weights: Weights, probability: float, spec: EnvSpec) -> Trajectory:
    """Return ten games, whose first arm was pulled as often as it is probable."""
    count = round(10 * probability)
    actions = np.array([[0] * count + [1] * (10 - count)], np.int32)
    shape = actions.shape
    p = np.array([probability, 1 - probability], np.float32)
    return Trajectory(
        np.zeros((2, 10, *spec.observation_shape), np.float32),
        np.ones((2, 10), bool),
        actions,
        np.where(actions == 0, 1, 3).astype(np.float32),
        terminated=np.ones(shape, bool),
        truncated=np.zeros(shape, bool),
        valid=np.ones(shape, bool),
        log_probs=np.log(p)[actions],
        values=np.zeros((2, 10), np.float32),
        weights_version=weights.version,
        first_env=0,
        probabilities=np.broadcast_to(p, (*shape, 2)),
    )


@pytest.mark.parametrize(
    ("agent", "settings"), [("a2c", {}), ("acer", {"trust_region": False})]
)
def test_a_lagging_bandit_learns_the_better_arm(agent: str, settings: Any) -> None:
    """What older weights did often looks good to whom forgets how often they did."""
    spec = EnvSpec((4,), "float32", 1, 2)
    preferences = []
    for lags in (True, False):
        setup = Setup(agent, spec, lr=0.01, entropy_coef=0.0, **settings)
        learner = setup.learner()
        arrays = learner.state.arrays()
        learner.load({k: 0 * x for k, x in arrays.items() if "policy/dense-" in k})
        t = bandit(publish(learner), 0.8, spec)
        if lags:
            publish(learner)
        else:  # the newest policy's own probabilities, for the same actions
            half = np.full_like(t.probabilities, 0.5)
            t = t._replace(probabilities=half, log_probs=np.log(half[..., 0]))
        learner.update(fresh(t), 0)
        bias = publish(learner).arrays["dense-0/bias"]
        preferences.append(bias[1] - bias[0])
    corrected, uncorrected = preferences
    assert corrected > 0.01 > -0.01 > uncorrected


class _Slow(CartPoleEnv):
    """Waits in each step, as simulators do."""

    def step(self, action: Any) -> Any:
        time.sleep(0.003)
        return super().step(action)


class _Breaking(CartPoleEnv):
    """Breaks in the 250th step of an environment."""

    taken = 0

    def step(self, action: Any) -> Any:
        self.taken += 1
        if self.taken == 250:
            raise RuntimeError("a fuse")
        return super().step(action)


def test_a_phase_is_counted_beside_which_acting_ends() -> None:
    """The state that is saved includes it."""
    settings = {"n_envs": 1, "n_steps": 50, "max_steps": 800, "name": "a"}
    settings |= {"tensorboard": False, "jit": "off"}
    with pytest.raises(UserError, match="a fuse"):
        xagents_ray.train(
            "a2c", env=_Breaking, local=True, policy_lag=1, quiet=True, **settings
        )
    (run,) = Path("runs/a2c").glob("*/a")
    saved = load_checkpoint(all_checkpoints(run / "checkpoints")[0])
    assert saved.facts["progress"]["updates"] == saved.arrays["optimizer/0"] > 0
    assert not saved.facts["progress"]["statistics"]


def test_local_acts_while_it_learns() -> None:
    settings = {"n_envs": 1, "n_steps": 100, "ppo_epochs": 40, "jit": "off"}
    result = xagents_ray.train(
        "ppo",
        env=_Slow,
        local=True,
        policy_lag=1,
        max_steps=800,
        quiet=True,
        **settings,
    )
    assert result.policy_lag["max"] == 1
    shares = result.profile["shares"]
    together = shares["stepping"] + shares["learning"]
    assert together > 1.05, shares  # one after the other, at most 1
