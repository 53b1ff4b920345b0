"""Masks in the graph: probabilities, targets, and what a phase learns."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from acting import run_of, setup_of
from learner_support import fresh, make_learner, sampled

from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Transitions
from xagents_ray.learners.math.distributions import PolicyHead

SPEC = EnvSpec((3,), "float32", 1, 4, has_action_masks=True)
MASKS = np.array([[1, 0, 1, 0], [0, 0, 0, 1], [1, 1, 1, 1]], np.bool_)


def allowed_chances(logits: Any, masks: Any) -> Any:
    weights = np.exp(np.float64(logits)) * masks
    return weights / weights.sum(-1, keepdims=True)


def test_forbidden_actions_have_no_share() -> None:
    logits = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    chances = allowed_chances(logits, MASKS)
    policy = PolicyHead(SPEC)(tf.constant(logits), masks=tf.constant(MASKS))
    actions = np.array([2, 3, 1], np.int32)
    expected = np.log(chances[np.arange(3), actions])
    np.testing.assert_allclose(policy.log_prob(actions), expected, atol=1e-5)
    logs = np.log(np.where(chances > 0, chances, 1))
    entropy = -(chances * logs).sum(-1)
    np.testing.assert_allclose(policy.entropy(), entropy, atol=1e-5)
    other = np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32)
    theirs = np.log(np.maximum(allowed_chances(other, MASKS), 1e-300))
    divergence = (chances * (logs - np.where(chances > 0, theirs, 0))).sum(-1)
    found = policy.kl(PolicyHead(SPEC)(tf.constant(other), masks=tf.constant(MASKS)))
    np.testing.assert_allclose(found, divergence, atol=1e-5)


def test_several_actions_are_masked_one_by_one() -> None:
    spec = EnvSpec((3,), "float32", 1, 0, action_sizes=(2, 2), has_action_masks=True)
    logits = np.array([[3.0, 0.0, 0.0, 3.0]], np.float32)
    masks = tf.constant([[False, True, True, True]])
    policy = PolicyHead(spec)(tf.constant(logits), masks=masks)
    expected = np.log(1 / (1 + np.exp(-3)))
    np.testing.assert_allclose(
        policy.log_prob(np.array([[1, 1]])), [expected], atol=1e-6
    )


@pytest.mark.parametrize("double", [False, True])
def test_targets_take_the_best_allowed_action(double: bool) -> None:
    learner = make_learner("dqn", DQNConfig(double=double), SPEC)
    rng, count = np.random.default_rng(1), 3
    batch = Transitions(
        rng.normal(size=(1, count, 2, 3)).astype(np.float32),
        np.zeros((1, count, 2), np.bool_),
        np.zeros((1, count), np.int32),
        rng.normal(size=(1, count)).astype(np.float32),
        np.full((1, count), 0.9, np.float32),
        action_masks=MASKS[None],
    )
    network = learner.setup.models["q"]
    before, after = (network(batch.observations[0, :, i]).numpy() for i in (0, 1))
    best = np.where(MASKS, after, -np.inf).max(-1)
    errors = batch.rewards[0] + 0.9 * best - before[:, 0]
    size = abs(errors)
    huber = np.where(size <= 1, errors**2 / 2, size - 0.5).mean()
    found = learner.update(sampled(batch), count)["loss"]
    np.testing.assert_allclose(found, huber, rtol=1e-5)


@pytest.mark.parametrize(
    ("agent", "parts"), [("a2c", 1), ("acer", 1), ("ppo", 2), ("trpo", 1)]
)
def test_the_learner_has_the_policy_that_acted(agent: str, parts: int) -> None:
    """The first phase's ratios are 1: no divergence and no clipped share."""
    settings: dict[str, Any] = {"env": "masked_envs:Locks", "n_envs": 2}
    settings["env_kwargs"] = (f"parts={parts}",)
    run = run_of(agent, **settings)
    config = run.config.algorithm
    learner = make_learner(agent, config, run.spec)
    actor = EnvActor(setup_of(agent, **settings))
    trajectory, report = actor.rollout(learner.policy_weights(1), 8, 0)
    metrics = learner.update(fresh(trajectory), int(report.steps.sum()))
    actor.close()
    assert np.isfinite([*metrics.values()]).all()
    if agent == "acer":
        np.testing.assert_allclose(metrics["importance_ratio"], 1, atol=1e-5)
    if agent == "trpo":
        assert abs(metrics["policy_loss"] + metrics["entropy"]) < 10
    if agent in ("a2c", "ppo"):
        assert 0 < metrics["entropy"] <= parts * np.log(2) + 1e-5
