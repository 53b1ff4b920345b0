"""Acting: what is drawn, with which probabilities, and from whose noise."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import tensorflow as tf
from acting import run_of
from naive import random_arrays
from stepping import Stepping

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.policies.actor_critic import (
    ActorCriticPolicy,
    CategoricalPolicy,
)
from xagents_ray.actors.policies.base import (
    Actions,
    categorical_log_probs,
    sample_categorical,
)
from xagents_ray.actors.policies.exploring import (
    DeterministicPolicy,
    EpsilonGreedyPolicy,
    decayed_epsilon,
)
from xagents_ray.algorithms.a2c import A2CConfig
from xagents_ray.algorithms.acer import ACERConfig
from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.algorithms.ppo import PPOConfig
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.algorithms.td3 import TD3Config
from xagents_ray.core.errors import Stopped
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Weights
from xagents_ray.learners.math.distributions import (
    Categorical,
    Gaussian,
    MultiCategorical,
)
from xagents_ray.networks.forward import bind_network
from xagents_ray.settings.algorithm import AlgorithmConfig

DISCRETE = EnvSpec((3,), "float32", 1, 5)
BOUNDS = ((-0.5, -2.0), (0.5, float("inf")))
SEVERAL = EnvSpec((3,), "float32", 1, 0, action_sizes=(3, 1, 2))
CONTINUOUS = EnvSpec((3,), "float32", 1, 0, *BOUNDS)
BOUNDED = EnvSpec((3,), "float32", 1, 0, (-1.0, -1.0), (1.0, 1.0))
LOG_STD = np.array([0.3, -0.7], np.float32)
LARGEST = np.nextafter(1.0, 0.0)
DRAWS = 40_000


def generators(seed: int, envs: Any) -> list[np.random.Generator]:
    return [np.random.default_rng([seed, env]) for env in envs]


def loaded(kind: type, config: Any, spec: EnvSpec) -> tuple[Any, Any]:
    """Return a policy with random weights, and the network's function."""
    names = {EpsilonGreedyPolicy: "dqn", CategoricalPolicy: "acer"}
    names[DeterministicPolicy] = "td3"
    layout = find_algorithm(names.get(kind, "ppo")).layouts(config, spec)[0]
    arrays = {**random_arrays(layout, 2), "log_std": LOG_STD}
    policy = kind(config, spec, layout)
    policy.load(Weights(1, arrays))
    return policy, bind_network(layout, arrays)


def assert_frequencies(counts: Any, probabilities: Any) -> None:
    """Counts lie within five standard deviations of what is expected."""
    n = counts.sum()
    deviation = np.sqrt(n * probabilities * (1 - probabilities))
    assert (np.abs(counts - n * probabilities) <= 5 * deviation + 1e-9).all()


def one_observation(rows: int = 1) -> Any:
    return np.repeat(np.array([[0.5, -1.0, 2.0]], np.float32), rows, axis=0)


def observations(rows: int = 64) -> Any:
    return np.random.default_rng(1).normal(size=(rows, 3)).astype(np.float32)


def acted(policy: Any, rows: int = 64) -> tuple[Any, Any]:
    """Return the noise of a row and the actions for `observations`."""
    noise = policy.noise(generators(0, range(rows)), 1)[0]
    return noise, policy.act(observations(rows), noise, 0)


def test_categorical_frequencies_are_the_softmax() -> None:
    policy, forward = loaded(ActorCriticPolicy, PPOConfig(), DISCRETE)
    noise = policy.noise(generators(0, [0]), DRAWS)[:, 0]
    actions = policy.act(one_observation(DRAWS), noise, 0)
    logits = forward(one_observation())[0][0].astype(np.float64)
    softmax = np.exp(logits) / np.exp(logits).sum()
    assert softmax.min() > 0.02
    assert_frequencies(np.bincount(actions.stored, minlength=5), softmax)
    assert actions.stored.dtype == np.int32
    assert actions.stepped is actions.stored


def test_categorical_log_probs_are_those_that_learners_compute() -> None:
    policy, forward = loaded(ActorCriticPolicy, PPOConfig(), DISCRETE)
    noise, actions = acted(policy)
    logits, values = forward(observations())
    expected = Categorical(tf.constant(logits)).log_prob(tf.constant(actions.stored))
    log_probs = policy.log_probs(Actions.joined([actions] * 3), np.array([noise] * 3))
    np.testing.assert_allclose(log_probs, [expected] * 3, atol=1e-5)
    assert log_probs.dtype == np.float32
    np.testing.assert_array_equal(actions.values, values[:, 0])
    np.testing.assert_array_equal(policy.values(observations()), values[:, 0])


def test_several_actions_are_those_that_learners_compute() -> None:
    policy, forward = loaded(ActorCriticPolicy, PPOConfig(), SEVERAL)
    noise, actions = acted(policy)
    assert (actions.stored.shape, actions.stored.dtype) == ((64, 3), np.int32)
    expected = MultiCategorical(tf.constant(forward(observations())[0]), (3, 1, 2))
    rows, noises = Actions.joined([actions] * 3), np.array([noise] * 3)
    log_probs = policy.log_probs(rows, noises)
    theirs = expected.log_prob(tf.constant(actions.stored))
    np.testing.assert_allclose(log_probs, [theirs] * 3, atol=1e-5)
    assert log_probs.dtype == np.float32
    np.testing.assert_array_equal(policy.greedy(observations()), expected.mode())


def test_several_actions_have_the_frequencies_of_their_parts() -> None:
    policy, forward = loaded(ActorCriticPolicy, PPOConfig(), SEVERAL)
    noise = policy.noise(generators(0, [0]), DRAWS)[:, 0]
    drawn = policy.act(one_observation(DRAWS), noise, 0).stored
    chances = np.exp(forward(one_observation())[0][0].astype(np.float64))
    parts = np.split(chances, [3, 4])
    softmax = np.einsum("i,j,k->ijk", *(part / part.sum() for part in parts)).ravel()
    pairs = np.ravel_multi_index(tuple(drawn.T), (3, 1, 2))
    assert_frequencies(np.bincount(pairs, minlength=6), softmax)


def test_only_who_reads_values_gets_them() -> None:
    for config in (PPOConfig(), A2CConfig()):
        policy, _ = loaded(ActorCriticPolicy, config, DISCRETE)
        found = acted(policy)[1].values, policy.values(observations())
        assert [x is not None for x in found] == [config.reads_values] * 2
    assert not A2CConfig.reads_values


def test_sample_categorical_by_hand() -> None:
    """Probabilities 1/2, 0, 1/4, 1/4: an action's interval holds its lower end."""
    logits = np.log(np.array([2, 1, 1, 1], np.float32)) + np.float32(50)
    logits[1] = -np.inf
    draws = np.array([0, 0.49, 0.5, 0.74, 0.75, LARGEST])
    actions = sample_categorical(np.tile(logits, (6, 1)), draws)
    np.testing.assert_array_equal(actions, [0, 0, 2, 2, 3, 3])
    assert actions.dtype == np.int32
    log_probs = categorical_log_probs(np.tile(logits, (6, 1)), actions)
    np.testing.assert_allclose(np.exp(log_probs), [0.5] * 2 + [0.25] * 4, rtol=1e-5)


@pytest.mark.parametrize("n_actions", [2, 6, 18])
def test_an_environment_draws_the_same_actions_alone(n_actions: int) -> None:
    """Even with numbers at the ends of actions' intervals."""
    logits = np.random.default_rng(2).normal(size=(16, n_actions)).astype(np.float32)
    largest = logits.max(axis=-1, keepdims=True)
    sums = np.exp(logits - largest).cumsum(axis=-1).astype(np.float64)
    for draws in (sums / sums[:, -1:]).T[:-1]:
        pairs = zip(logits[:, None], draws[:, None], strict=True)
        alone = np.concatenate([sample_categorical(*each) for each in pairs])
        np.testing.assert_array_equal(sample_categorical(logits, draws), alone)


@pytest.mark.parametrize("first", [-np.inf, 0.0])
def test_sample_categorical_never_draws_the_impossible(first: float) -> None:
    logits = np.tile(np.array([first, 0, -np.inf], np.float32), (3, 1))
    actions = sample_categorical(logits, np.array([0, 0.7, LARGEST]))
    assert set(actions.tolist()) <= ({1} if first else {0, 1})
    assert np.isfinite(categorical_log_probs(logits, actions)).all()


def test_categorical_says_all_probabilities() -> None:
    """Those of the draws, which are an actor-critic's with the same noise."""
    policy, forward = loaded(CategoricalPolicy, ACERConfig(), DISCRETE)
    noise, actions = acted(policy)
    logits = forward(observations())[0]
    np.testing.assert_array_equal(actions.stored, sample_categorical(logits, noise))
    rows = Actions.joined([actions])
    probabilities = policy.probabilities(rows)
    np.testing.assert_allclose(probabilities[0], tf.nn.softmax(logits), atol=1e-6)
    assert probabilities.dtype == np.float32
    assert (policy.log_probs(rows, noise), rows.values) == (None, None)
    other, _ = loaded(ActorCriticPolicy, PPOConfig(), DISCRETE)
    np.testing.assert_array_equal(noise, acted(other)[0])


def within_bounds(raw: Any, is_scaled: bool = True) -> Any:
    """Return actions as they are stepped; only the first part has two bounds."""
    factor = 0.5 if is_scaled else 1.0
    return np.clip(raw * np.array([factor, 1], np.float32), *BOUNDS)


@pytest.mark.parametrize("is_scaled", [True, False])
def test_gaussian_stores_raw_and_steps_clipped_actions(is_scaled: bool) -> None:
    """And gives the log-probabilities of the raw ones."""
    config = PPOConfig(action_scaling=is_scaled)
    policy, forward = loaded(ActorCriticPolicy, config, CONTINUOUS)
    noise, actions = acted(policy)
    means, values = forward(observations())
    raw = means + np.exp(LOG_STD) * noise
    np.testing.assert_allclose(actions.stored, raw, rtol=1e-6)
    expected = within_bounds(actions.stored, is_scaled)
    np.testing.assert_allclose(actions.stepped, expected, atol=1e-6)
    outside = actions.stepped != actions.stored
    assert outside[:, 0].any() and not outside.all()
    assert actions.stored.dtype == actions.stepped.dtype == np.float32
    np.testing.assert_array_equal(actions.values, values[:, 0])
    gaussian = Gaussian(tf.constant(means), tf.constant(LOG_STD))
    expected = gaussian.log_prob(tf.constant(actions.stored))
    log_probs = policy.log_probs(Actions.joined([actions]), noise[None])
    np.testing.assert_allclose(log_probs[0], expected, atol=1e-5)
    assert log_probs.dtype == np.float32


def test_gaussian_draws_have_the_mean_and_deviation() -> None:
    policy, forward = loaded(ActorCriticPolicy, PPOConfig(), CONTINUOUS)
    noise = policy.noise(generators(0, [0]), DRAWS)[:, 0]
    raw = policy.act(one_observation(DRAWS), noise, 0).stored.astype(np.float64)
    mean, std = forward(one_observation())[0][0], np.exp(LOG_STD)
    assert (np.abs(raw.mean(0) - mean) < 5 * std / DRAWS**0.5).all()
    np.testing.assert_allclose(raw.std(0), std, rtol=5 / (2 * DRAWS) ** 0.5)
    assert abs(np.corrcoef(raw.T)[0, 1]) < 5 / DRAWS**0.5


NOISY = DQNConfig(noisy="factorised", epsilon_start=1, epsilon_end=1)
SCHEDULE = {"epsilon_start": 0.9, "epsilon_end": 0.1, "epsilon_decay_steps": 1000}


@pytest.mark.parametrize(
    ("env_steps", "expected"),
    [(0, 0.9), (250, 0.7), (500, 0.5), (999, 0.1008), (1000, 0.1), (10**9, 0.1)],
)
def test_epsilon(env_steps: int, expected: float) -> None:
    config = DQNConfig(**SCHEDULE)
    assert decayed_epsilon(config, env_steps) == pytest.approx(expected)
    assert config.exploration_rate(env_steps) == pytest.approx(expected)


@pytest.mark.parametrize(
    "config",
    [NOISY, DQNConfig(epsilon_ladder=True), PPOConfig()],
    ids=["noisy", "ladder", "ppo"],
)
def test_agents_without_one_epsilon_for_all(config: AlgorithmConfig) -> None:
    assert config.exploration_rate(10) is None


@pytest.mark.parametrize("env_steps", [0, 500, 2000])
def test_epsilon_greedy_frequencies(env_steps: int) -> None:
    policy, forward = loaded(EpsilonGreedyPolicy, DQNConfig(**SCHEDULE), DISCRETE)
    noise = policy.noise(generators(0, [0]), DRAWS)[:, 0]
    actions = policy.act(one_observation(DRAWS), noise, env_steps)
    chance = decayed_epsilon(DQNConfig(**SCHEDULE), env_steps)
    probabilities = np.full(5, chance / 5)
    probabilities[forward(one_observation())[0][0].argmax()] += 1 - chance
    assert_frequencies(np.bincount(actions.stored, minlength=5), probabilities)
    assert actions.stored.dtype == np.int32
    rows = Actions.joined([actions])
    assert policy.log_probs(rows, noise) is policy.probabilities(rows) is None
    assert rows.values is policy.values(None) is None


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_epsilon_at_its_bounds(chance: float) -> None:
    config = DQNConfig(epsilon_start=chance, epsilon_end=chance)
    policy, forward = loaded(EpsilonGreedyPolicy, config, DISCRETE)
    actions = acted(policy, 200)[1].stored
    greedy = forward(observations(200))[0].argmax(axis=-1)
    assert len(set(greedy.tolist())) > 1
    if chance == 0:
        np.testing.assert_array_equal(actions, greedy)
    else:
        assert_frequencies(np.bincount(actions, minlength=5), np.full(5, 0.2))


def test_every_environment_has_its_own_coin() -> None:
    config = DQNConfig(epsilon_start=0.5, epsilon_end=0.5)
    policy, forward = loaded(EpsilonGreedyPolicy, config, DISCRETE)
    greedy = forward(one_observation())[0][0].argmax()
    explored = []
    for noise in policy.noise(generators(0, range(4)), 3000):
        explored.append(policy.act(one_observation(4), noise, 0).stored != greedy)
    correlation = np.corrcoef(np.array(explored).T)
    assert np.abs(correlation - np.eye(4)).max() < 5 / 3000**0.5


@pytest.mark.parametrize("n", range(1, 20))
def test_random_actions_exist(n: int) -> None:
    spec = EnvSpec((3,), "float32", 1, n)
    config = DQNConfig(epsilon_start=1, epsilon_end=1)
    policy, _ = loaded(EpsilonGreedyPolicy, config, spec)
    noise = np.array([[0.0, 0.0], [0.0, LARGEST]])
    actions = policy.act(one_observation(2), noise, 0)
    np.testing.assert_array_equal(actions.stored, [0, n - 1])


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (ActorCriticPolicy, PPOConfig()),
        (CategoricalPolicy, ACERConfig()),
        (EpsilonGreedyPolicy, DQNConfig()),
    ],
)
def test_greedy_takes_the_largest_output(kind: type, config: Any) -> None:
    policy, forward = loaded(kind, config, DISCRETE)
    actions = policy.greedy(observations())
    expected = [int(np.argmax(row)) for row in forward(observations())[0]]
    assert len(set(expected)) > 1
    np.testing.assert_array_equal(actions, expected)
    assert (actions.dtype, actions.shape) == (np.int32, (64,))


def test_greedy_takes_the_mean_within_bounds() -> None:
    policy, forward = loaded(ActorCriticPolicy, PPOConfig(), CONTINUOUS)
    actions, means = policy.greedy(observations()), forward(observations())[0]
    np.testing.assert_allclose(actions, within_bounds(means), atol=1e-6)
    outside = actions != means
    assert outside.any() and not outside.all()
    assert (actions.dtype, actions.shape) == (np.float32, (64, 2))


@pytest.mark.parametrize(
    ("kind", "config", "spec"),
    [
        (ActorCriticPolicy, PPOConfig(), DISCRETE),
        (ActorCriticPolicy, PPOConfig(), CONTINUOUS),
        (EpsilonGreedyPolicy, DQNConfig(), DISCRETE),
        (CategoricalPolicy, ACERConfig(), DISCRETE),
        (EpsilonGreedyPolicy, NOISY, DISCRETE),
        (DeterministicPolicy, TD3Config(), BOUNDED),
    ],
    ids=["categorical", "gaussian", "epsilon", "acer", "noisy", "deterministic"],
)
def test_noise_depends_on_the_environment_only(
    kind: type, config: Any, spec: EnvSpec
) -> None:
    policy, _ = loaded(kind, config, spec)
    together = generators(7, range(4))
    apart = [generators(7, [0]), generators(7, [1, 2, 3])]
    for steps in (5, 5, 1, 16):
        whole = policy.noise(together, steps)
        parts = [policy.noise(group, steps) for group in apart]
        assert whole.shape[:2] == (steps, 4)
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)
        assert len(np.unique(whole)) > 0.999 * whole.size


def ladder_of(n_envs: int, own: range) -> Any:
    """Return shares of random actions of environments of an actor, by its policy."""
    run = run_of("dqn", n_envs, env="CartPole-v1", epsilon_ladder=True)
    setup = ActorSetup.of(run, len(own), own.start, 1)
    policy, forward = setup.make_policy(run.spec), setup.layout
    arrays = random_arrays(forward, 2)
    policy.load(Weights(1, arrays))
    policy.places = setup.places
    x = np.repeat(np.ones((1, 4), np.float32), len(own), axis=0)
    greedy = bind_network(forward, arrays)(x)[0].argmax(-1)
    noise = policy.noise(generators(0, own), DRAWS)
    others = [policy.act(x, row, 10**9).stored != greedy for row in noise]
    return 2 * np.mean(others, axis=0)  # half of the random actions are greedy


@pytest.mark.parametrize(
    ("n_envs", "own", "expected"),
    [
        (1, range(1), [0.4]),
        # 0.4^1, 0.4^4.5, 0.4^8 by a calculator
        (3, range(3), [0.4, 0.016191, 0.00065536]),
        (3, range(1, 3), [0.016191, 0.00065536]),
    ],
)
def test_each_environment_has_its_step_of_the_ladder(
    n_envs: int, own: range, expected: list[float]
) -> None:
    deviations = np.sqrt(2 * np.array(expected) / DRAWS)
    assert (np.abs(ladder_of(n_envs, own) - expected) <= 5 * deviations).all()


def test_an_actor_knows_its_places_and_an_evaluation_has_none() -> None:
    run = run_of("dqn", 5, env="CartPole-v1", epsilon_ladder=True)
    setup = ActorSetup.of(run, 2, 3, 1)
    actor = EnvActor(setup)
    np.testing.assert_array_equal(actor._policy.places, [0.75, 1])
    actor.close()
    assert setup.make_policy(run.spec).places is None


def test_noisy_layers_explore_in_place_of_epsilon() -> None:
    """With other noise in each row; greedy actions have none."""
    policy, forward = loaded(EpsilonGreedyPolicy, NOISY, DISCRETE)
    noise = policy.noise(generators(0, range(64)), 2)
    units = find_algorithm("dqn").layouts(NOISY, DISCRETE)[0].noise_units
    assert (noise.shape, noise.dtype) == ((2, 64, units + 1), np.float32)
    x = one_observation(64)
    for row in noise:
        actions = policy.act(x, row, NOISY.initial_size).stored
        np.testing.assert_array_equal(actions, forward(x, row[:, :units])[0].argmax(-1))
        assert len(set(actions.tolist())) > 1
    assert len(set(policy.greedy(x).tolist())) == 1
    np.testing.assert_array_equal(policy.greedy(x), forward(x)[0].argmax(-1))


def test_before_learning_a_noisy_network_acts_randomly() -> None:
    """Its first weights may prefer one action by more than their noise."""
    layout = find_algorithm("dqn").layouts(NOISY, DISCRETE)[0]
    arrays = {name: 0 * x for name, x in random_arrays(layout, 2).items()}
    policy = EpsilonGreedyPolicy(NOISY, DISCRETE, layout)
    policy.load(Weights(1, arrays))
    x, noise = one_observation(64), policy.noise(generators(0, range(64)), 100)
    last = NOISY.initial_size - 1
    drawn = np.stack([policy.act(x, row, last).stored for row in noise])
    counts = np.bincount(drawn.ravel(), minlength=DISCRETE.n_actions)
    expected = drawn.size / DISCRETE.n_actions
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()


@pytest.mark.parametrize(
    ("kind", "config", "spec"),
    [
        (ActorCriticPolicy, PPOConfig(noisy="factorised"), DISCRETE),
        (ActorCriticPolicy, PPOConfig(noisy="independent"), SEVERAL),
        (CategoricalPolicy, ACERConfig(noisy="factorised"), DISCRETE),
    ],
    ids=["ppo", "several", "acer"],
)
def test_network_noise_lasts_for_a_rollout(
    kind: type, config: Any, spec: EnvSpec
) -> None:
    """It is the environment's own; greedy actions, and evaluations, have none."""
    policy, forward = loaded(kind, config, spec)
    x = one_observation(4)
    own, plain = generators(0, range(4)), generators(0, range(4))
    assert policy.network_noise is None
    before = policy.act(x, policy.noise(plain, 1)[0], 0)
    np.testing.assert_array_equal(before.logits, forward(x)[0])
    policy.begin_rollout(own)
    noise, held = policy.noise(own, 2), policy.network_noise
    for row in noise:
        actions = policy.act(x, row, 0)
        np.testing.assert_array_equal(actions.logits, forward(x, held)[0])
        if actions.values is not None:
            np.testing.assert_array_equal(actions.values, forward(x, held)[1][:, 0])
            np.testing.assert_array_equal(policy.values(x), actions.values)
    assert len(np.unique(actions.logits[:, 0])) == 4
    np.testing.assert_array_equal(policy.greedy(x), policy.greedy(x[:1]).repeat(4, 0))
    policy.begin_rollout(own)
    assert not np.isin(policy.network_noise, held).any()
    policy.begin_rollout(generators(0, [2]))
    np.testing.assert_array_equal(policy.network_noise, held[2:3])


class Bounded(Stepping):
    """Refuses actions outside its bounds; its reward is the action."""

    action_space = gym.spaces.Box(-0.5, 0.25, (1,), np.float32)
    truncates = True

    def observe(self) -> Any:
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)

    def reward(self, action: Any) -> float:
        assert action in self.action_space
        return float(action[0])


def bounded_actor(envs: range) -> EnvActor:
    run = run_of("ppo", 3, env="test_policies:Bounded")
    return EnvActor(ActorSetup.of(run, len(envs), envs.start, 1))


def rolled(actor: EnvActor) -> Any:
    arrays = random_arrays(actor._setup.layout, 1)
    weights = Weights(4, {**arrays, "log_std": LOG_STD[:1]})
    for _ in range(2):
        trajectory, report = actor.rollout(weights, 10, 0)
    actor.close()
    return trajectory, report


def test_an_actor_steps_clipped_and_stores_raw_actions() -> None:
    trajectory, report = rolled(bounded_actor(range(0, 3)))
    raw = trajectory.actions[..., 0]
    assert (raw < -1).any() and (raw > 1).any()
    stepped = -0.5 + 0.75 * (np.clip(raw, -1, 1) + 1) / 2
    expected = np.where(trajectory.valid, stepped, 0)
    np.testing.assert_allclose(trajectory.rewards, expected, atol=1e-6)
    assert trajectory.weights_version == 4
    # Rows 10 to 19 of games of six steps and a row that only resets.
    np.testing.assert_array_equal(
        trajectory.valid[:, 0], [True] * 3 + [False] + [True] * 6
    )
    np.testing.assert_array_equal(np.flatnonzero(trajectory.truncated[:, 0]), [2, 9])
    assert not trajectory.terminated.any()
    ended = [(episode.env, episode.row, episode.length) for episode in report.episodes]
    assert ended == [(env, row, 6) for row in (2, 9) for env in range(3)]
    np.testing.assert_array_equal(report.steps, trajectory.valid.sum(axis=1))


def test_who_shares_an_actor_changes_nothing() -> None:
    whole = rolled(bounded_actor(range(0, 3)))[0]
    parts = [rolled(bounded_actor(envs))[0] for envs in (range(0, 1), range(1, 3))]
    for name in ("observations", "starts", "rewards", "truncated", "valid", "actions"):
        together = np.concatenate([getattr(part, name) for part in parts], axis=1)
        expected = getattr(whole, name)
        if expected.dtype == np.float32:
            np.testing.assert_allclose(together, expected, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(together, expected)


def test_a_stopped_actor_raises() -> None:
    actor = bounded_actor(range(0, 3))
    actor.stop()
    with pytest.raises(Stopped):
        rolled(actor)
    actor.close()
