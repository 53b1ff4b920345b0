"""Noisy layers of policies: the learner computes with the noise that acted."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from learner_cases import STEADY, Case, assert_finite, deterministic, trajectory
from learner_support import (
    assert_close,
    fresh,
    publish,
    replayed,
    resumed_states,
    reused,
)
from naive import assert_same

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import map_arrays
from xagents_ray.learners.frames import network_inputs
from xagents_ray.learners.math.distributions import PolicyHead

ENVS = 4
SPEC = EnvSpec((4,), "float32", 1, 3)
SEVERAL = EnvSpec((4,), "float32", 1, 0, action_sizes=(3, 2))
KINDS = {
    "a2c": "factorised",
    "a3c": "independent",
    "acer": "independent",
    "impala": "factorised",
    "ppo": "factorised",
    "trpo": "independent",
}
NETWORKS: list[tuple[str, dict[str, Any]]] = [
    *((agent, {}) for agent in KINDS),
    ("ppo", {"separate_networks": True}),
]
# A rate that changes nothing, and passes in which each row counts once.
STILL = {"lr": 1e-30, "ppo_epochs": 1, "mini_batches": 4, "clip_value": 0.0}
# Steps in proportion to the gradient.
LINEAR = {"lr": 0.1, "opt_epsilon": 1.0, "grad_norm": 1e9}


def case_of(agent: str, spec: EnvSpec = SPEC, **settings: Any) -> Case:
    given = {"noisy": "factorised", "noisy_sigma": 2.0, **settings}
    return Case(find_algorithm(agent), spec, given)


@reused
def learner_of(case: Case, **settings: Any) -> Any:
    return case.learner(**settings)


def acted(case: Case, seed: int = 1) -> Any:
    """Return a rollout that a new learner's weights acted in."""
    return trajectory(case, publish(learner_of(case)), 8, ENVS, seed)


def exchanged(t: Any) -> Any:
    """Return a rollout with each environment's noise given to the next one."""
    assert t.network_noise.shape[:2] == (1, ENVS)
    return t._replace(network_noise=np.roll(t.network_noise, 1, axis=1))


def learned(learner: Any) -> dict[str, Any]:
    arrays = learner.state.arrays().items()
    return {k: x for k, x in arrays if k.startswith(("policy/", "actor/"))}


@pytest.mark.parametrize(("agent", "settings"), NETWORKS)
def test_networks_agree_on_what_acted(agent: str, settings: dict[str, Any]) -> None:
    """Keras on all rows at once, NumPy step by step; also when rows are shuffled."""
    spec = SPEC if agent == "acer" else SEVERAL
    case = case_of(agent, spec, noisy=KINDS[agent], **settings)
    t, learner = acted(case), learner_of(case)
    count = t.rewards.size
    rows = tf.constant(np.random.default_rng(0).permutation(count), tf.int32)
    inputs = tf.constant(t.observations.reshape(-1, 4)[:count])
    model = learner.setup.models[case.row.models[0].name]
    whole, some = (
        tf.nest.flatten(model(given))[0]
        for given in (
            network_inputs(inputs, t, spec),
            network_inputs(tf.gather(inputs, rows), t, spec, rows),
        )
    )
    np.testing.assert_allclose(some, tf.gather(whole, rows), atol=1e-6)
    if agent == "acer":
        expected, found = tf.nn.softmax(whole), t.probabilities.reshape(count, -1)
    else:
        actions = tf.constant(t.actions.reshape(count, -1))
        expected = PolicyHead(spec, None)(whole).log_prob(actions)
        found = t.log_probs.ravel()
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("agent", "metric"),
    [("acer", "importance_ratio"), ("ppo", "kl"), ("trpo", "policy_loss")],
)
def test_ratios_to_what_acted_begin_at_1(agent: str, metric: str) -> None:
    """In each minibatch; not with another environment's noise.

    The mean of TRPO's advantages is 0, and then its objective's too.
    """
    case, errors = case_of(agent), list[float]()
    t, expected = acted(case), 1 if agent == "acer" else 0
    for each in (t, exchanged(t)):
        learner = learner_of(case, **STILL)
        publish(learner)
        errors.append(abs(learner.update(fresh(each), 0)[metric] - expected))
    assert errors[0] < 1e-4 < 1e-3 < errors[1]


@pytest.mark.parametrize(
    ("settings", "widths"),
    [
        pytest.param({}, (), marks=pytest.mark.slow),
        ({"replay_ratio": 1}, ()),
        pytest.param({"replay_share": 0.5}, (), marks=pytest.mark.slow),
        ({"replay_share": 0.5}, (ENVS + 3,)),
    ],
)
def test_vtrace_corrects_nothing_of_what_acted(
    settings: Any, widths: tuple[int, ...]
) -> None:
    """IMPALA always corrects, A2C only older rounds; replayed ones likewise.

    Rounds that are widened by copies learn the same.
    """
    case = case_of("impala", **LINEAR, **settings)
    t, old = acted(case), acted(case, 2)
    sampled = replayed([old]) if settings else None
    ends = []
    for each in (t, exchanged(t)):
        learner = learner_of(case)
        learner._widths = widths
        publish(learner)
        learner.update(fresh(each, sampled=sampled), 0)
        ends.append(learned(learner))
    plain = case_of("a2c", **LINEAR).learner()
    publish(plain)
    if "replay_share" in settings:
        plain.update(fresh(t, old), 0)
    else:
        plain.update(fresh(t), 0)
    if "replay_ratio" in settings:
        plain.update(fresh(old._replace(weights_version=-1)), 0)
    assert_close(ends[0], learned(plain), atol=1e-5)
    assert max(np.abs(ends[0][name] - ends[1][name]).max() for name in ends[0]) > 1e-4


def test_ppo_corrects_replayed_rounds_with_their_noise() -> None:
    """And those of older weights: the newest policy's divergence from itself is 0."""
    replays = case_of("ppo", replay_ratio=1.0)
    lags = case_of("ppo", decoupled_loss=True)
    t = acted(lags)
    for case in (replays, lags):
        learner = case.learner(**STILL)
        for _ in range(3):
            publish(learner)
        for each in (t, exchanged(t)):
            metrics = learner.update(fresh(each), 0)
            assert abs(metrics["kl"]) < 1e-5


@pytest.mark.slow
def test_trpo_measures_divergence_with_the_noise_that_acted() -> None:
    """On every second row, where pairs of environments are alike."""
    case = case_of("trpo", **STEADY)
    columns = np.array([0, 0, 1, 1])
    twins = map_arrays(lambda x: np.take(x, columns, axis=1), acted(case))
    ends = []
    for every in (1, 2):
        learner = case.learner(fvp_n_steps=every)
        publish(learner)
        assert learner.update(fresh(twins), 0)["step_fraction"] > 0
        ends.append(learned(learner))
    assert_close(*ends, atol=1e-4)


@pytest.mark.parametrize(
    ("agent", "settings"),
    [
        pytest.param(
            *each, marks=[] if each[0] in ("acer", "trpo") else pytest.mark.slow
        )
        for each in NETWORKS
    ],
)
def test_deviations_are_learned_and_learning_resumes(
    agent: str, settings: dict[str, Any]
) -> None:
    case = case_of(agent, noisy=KINDS[agent], noisy_sigma=None, **settings)
    with deterministic():
        learner, other = case.learner(), case.learner()
        before, weights = learned(learner), publish(learner)
        batches = [fresh(trajectory(case, weights, 8, ENVS, i)) for i in (1, 2)]
        assert_same(*resumed_states(learner, other, *batches))
    after = learned(learner)
    assert sum(name.endswith("_sigma") for name in after) >= 4
    for name, array in before.items():
        assert not np.array_equal(array, after[name]), name
    assert_finite({}, publish(learner))
