"""How policies of bounded actions act: noise, bounds, random steps at the beginning."""

import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from acting import SEED, setup_of
from naive import random_arrays
from stepping import Stepping

from xagents_ray import train
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.policies.base import Actions
from xagents_ray.actors.policies.exploring import DeterministicPolicy
from xagents_ray.actors.policies.squashed import SquashedGaussianPolicy
from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.algorithms.sac import SACConfig
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.algorithms.td3 import TD3Config
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Weights
from xagents_ray.networks.forward import bind_network
from xagents_ray.networks.layout import Layout

LOW, HIGH = (-3.0, 1.0, -0.25), (1.0, 4.0, 0.25)
SPEC = EnvSpec((2,), "float32", 1, 0, LOW, HIGH)
CONFIGS = {
    "ddpg": DDPGConfig(step_noise_coef=0.3, buffer_initial_size=100),
    "td3": TD3Config(step_noise_coef=0.3, buffer_initial_size=100),
    "sac": SACConfig(buffer_initial_size=100),
}
TRAINED = 10**9
UNEVEN = {"env": "test_bounded_policies:Uneven"}
both = pytest.mark.parametrize("name", ["ddpg", "td3"])


def loaded(name: str, spec: EnvSpec = SPEC, **given: Any) -> tuple[Any, Any]:
    """Return a policy with random weights, and the network's function."""
    config = type(CONFIGS[name])(**{**vars(CONFIGS[name]), **given})
    layout: Layout = find_algorithm(name).layout(None, spec)
    arrays = random_arrays(layout, 2)
    kind = SquashedGaussianPolicy if name == "sac" else DeterministicPolicy
    if name == "sac":  # deviations on both sides of their bounds
        arrays["dense-3/bias"][:] = (-25, 0.1, 4)
    policy: Any = kind(config, spec, layout)
    policy.load(Weights(1, arrays))
    return policy, bind_network(layout, arrays)


def observations(count: int = 200) -> Any:
    return np.random.default_rng(1).normal(size=(count, 2)).astype(np.float32)


def noise_for(policy: Any, count: int = 200) -> Any:
    return policy.noise([np.random.default_rng([0, i]) for i in range(count)], 1)[0]


def within_bounds(actions: Any) -> Any:
    """Return actions from -1 to 1 in the environment's units, one by one."""
    stepped = np.zeros(actions.shape)
    for index in np.ndindex(actions.shape):
        low, high = LOW[index[1]], HIGH[index[1]]
        stepped[index] = low + (float(actions[index]) + 1) * (high - low) / 2
    return stepped


@both
def test_noise_is_added_and_clipped_before_it_is_scaled(name: str) -> None:
    policy, forward = loaded(name)
    noise = noise_for(policy)
    assert (noise.shape, noise.dtype) == ((200, 2, 3), np.float32)
    actions = policy.act(observations(), noise, 100)
    raw = forward(observations())[0] + 0.3 * noise[:, 0]
    outside = np.abs(raw) > 1
    assert outside.any() and not outside.all()
    np.testing.assert_allclose(actions.stored, np.clip(raw, -1, 1), rtol=1e-6)
    np.testing.assert_allclose(
        actions.stepped, within_bounds(actions.stored), atol=1e-6
    )
    assert actions.stored.dtype == actions.stepped.dtype == np.float32
    rows = Actions.joined([actions])
    assert policy.log_probs(rows, noise) is policy.probabilities(rows) is None
    assert rows.values is policy.values(None) is None


def test_squashed_actions_slowly() -> None:
    policy, forward = loaded("sac")
    x, noise = observations(50), noise_for(policy, 50)
    got, greedy = policy.act(x, noise, 100), policy.greedy(x)
    means, log_stds = forward(x)
    assert (log_stds < -20).any() and (log_stds > 2).any()
    assert ((log_stds > -20) & (log_stds < 2)).any()
    for i, j in np.ndindex(50, 3):
        deviation = math.exp(min(max(log_stds[i, j], -20), 2))
        action = math.tanh(means[i, j] + deviation * noise[i, 0, j])
        assert got.stored[i, j] == pytest.approx(action, abs=1e-5)
    np.testing.assert_allclose(got.stepped, within_bounds(got.stored), atol=1e-5)
    np.testing.assert_allclose(greedy, within_bounds(np.tanh(means)), atol=1e-5)
    for array in (got.stored, got.stepped, greedy):
        assert array.dtype == np.float32
    assert (got.stepped >= LOW).all() and (got.stepped <= HIGH).all()


def test_log_densities_of_squashed_actions_slowly() -> None:
    """By the slope of the tanh; the replay needs them for the steps between."""
    policy, forward = loaded("sac", n_step=3)
    x, noise = observations(50), noise_for(policy, 50)
    rows = Actions.joined([policy.act(x, noise, 100)])
    log_probs = policy.log_probs(rows, noise)
    assert (log_probs.shape, log_probs.dtype) == ((1, 50), np.float32)
    means, log_stds = np.float64(forward(x))
    log_stds = np.clip(log_stds, -20, 2)
    drawn = means + np.exp(log_stds) * noise[:, 0]
    density = np.exp(-(noise[:, 0].astype(float) ** 2) / 2) / np.sqrt(2 * np.pi)
    density *= np.exp(-log_stds) * np.cosh(drawn) ** 2
    np.testing.assert_allclose(log_probs[0], np.log(density).sum(-1), atol=1e-3)

    rows = Actions.joined([policy.act(x, noise, 0)])  # uniform in a cube
    np.testing.assert_allclose(policy.log_probs(rows, noise), np.log(1 / 8), rtol=1e-6)
    plain, _ = loaded("sac", n_step=3, n_step_entropy=False)
    rows = Actions.joined([plain.act(x, noise, 100)])
    assert plain.log_probs(rows, noise) is None


@pytest.mark.parametrize("name", list(CONFIGS))
def test_actions_are_random_until_learning_starts(name: str) -> None:
    policy, _ = loaded(name)
    noise = noise_for(policy, 4000)
    begun = policy.act(observations(4000), noise, 99)
    np.testing.assert_array_equal(begun.stored, noise[:, 1])
    np.testing.assert_allclose(begun.stepped, within_bounds(begun.stored), atol=1e-6)
    for column in begun.stored.T:
        counts, _ = np.histogram(column, 10, (-1, 1))
        assert (np.abs(counts - 400) < 5 * (4000 * 0.1 * 0.9) ** 0.5).all()
    learning = policy.act(observations(4000), noise, 100)
    assert (learning.stored != begun.stored).any(axis=-1).all()


@both
@pytest.mark.parametrize("random_steps", [0, 30, 250])
def test_random_steps_need_not_be_those_before_learning(
    name: str, random_steps: int
) -> None:
    policy, _ = loaded(name, random_steps=random_steps)
    noise = noise_for(policy)
    for env_steps in (0, 29, 30, 99, 100, 249, 250):
        stored = policy.act(observations(), noise, env_steps).stored
        is_random = np.array_equal(stored, noise[:, 1])
        assert is_random == (env_steps < random_steps)


@both
def test_greedy_is_the_actor_itself(name: str) -> None:
    policy, forward = loaded(name)
    means = forward(observations())[0]
    actions = policy.greedy(observations())
    np.testing.assert_allclose(actions, within_bounds(means), atol=1e-6)
    assert (actions.dtype, actions.shape) == (np.float32, (200, 3))
    still, _ = loaded(name, step_noise_coef=0.0)
    noise = noise_for(still)
    np.testing.assert_array_equal(
        still.act(observations(), noise, TRAINED).stepped, actions
    )


def test_the_bounds_are_reached_and_kept() -> None:
    huge = float(np.finfo(np.float32).max)
    spec = EnvSpec((2,), "float32", 1, 0, (-3.3, 0.1, -huge), (0.7, 0.3, huge))
    policy, _ = loaded("td3", spec)
    low, high = (np.array(b, np.float32) for b in (spec.action_low, spec.action_high))
    noise = noise_for(policy)
    noise[0, 1], noise[1, 1], noise[2, 1] = -1, 1, 0
    stepped = policy.act(observations(), noise, 0).stepped
    np.testing.assert_array_equal(stepped[:2], [low, high])
    np.testing.assert_allclose(stepped[2], [-1.3, 0.2, 0], rtol=1e-6)
    assert (stepped >= low).all() and (stepped <= high).all()


def test_normal_noise_has_the_deviation() -> None:
    policy, _ = loaded("ddpg")
    draws = policy.noise([np.random.default_rng(0)], 40_000)[:, 0, 0]
    assert (np.abs(draws.mean(0)) < 5 / 200).all()
    np.testing.assert_allclose(draws.std(0), 1, rtol=5 / 80_000**0.5)


@both
def test_spaces_that_are_refused(name: str) -> None:
    for spec, words in (
        (EnvSpec((2,), "float32", 1, 0, (-1.0, -np.inf), (1.0, 1.0)), "have no bounds"),
        (EnvSpec((2,), "float32", 1, 0, (-1.0, 0.0), (1.0, np.inf)), "have no bounds"),
        (EnvSpec((84, 84), "uint8", 4, 0, LOW, HIGH), "gives images"),
    ):
        with pytest.raises(UserError, match=f"this environment.* {words}") as error:
            find_algorithm(name).check_spaces(spec)
        message = str(error.value)
        assert message.startswith(name) and message.count(".") == 1
    find_algorithm(name).check_spaces(EnvSpec((128,), "uint8", 1, 0, LOW, HIGH))


class Uneven(Stepping):
    """Shows the last action; its reward is best near one corner of the bounds."""

    observation_space = gym.spaces.Box(-4, 4, (3,), np.float32)
    action_space = gym.spaces.Box(np.array(LOW, np.float32), np.array(HIGH, np.float32))
    best = np.array([0.5, 1.5, -0.125])
    length, truncates = 10, True

    def observe(self) -> Any:
        return self.last if self.steps else super().observe()

    def reward(self, action: Any) -> float:
        assert action in self.action_space
        self.last = np.array(action)
        return -float(np.square((action - self.best) / np.subtract(HIGH, LOW)).sum())


@pytest.mark.parametrize("n_envs", [1, 3, 16])
@both
def test_an_actor_steps_within_uneven_bounds(name: str, n_envs: int) -> None:
    setup = setup_of(name, n_envs, **UNEVEN, buffer_initial_size=1)
    actor, weights = EnvActor(setup), Weights(1, random_arrays(setup.layout, 1))
    for env_steps in (0, TRAINED):
        trajectory, _ = actor.rollout(weights, 25, env_steps)
        assert (np.abs(trajectory.actions) <= 1).all()
        shown = trajectory.observations[1:][trajectory.valid]
        stored = trajectory.actions[trajectory.valid]
        np.testing.assert_allclose(shown, within_bounds(stored), atol=1e-6)
    actor.close()


NETWORK = "[dense-0]\nunits=32\nactivation=relu\n[dense-1]\nactivation={}\noutput=1\n"


@both
def test_uneven_bounds_are_learned(name: str) -> None:
    """The best action is neither the middle nor the same part of any range."""
    for model, activation in (("actor", "tanh"), ("critic", "linear")):
        Path(f"{model}.cfg").write_text(NETWORK.format(activation))
    result = train(
        name,
        **UNEVEN,
        n_envs=3,
        seed=1,
        local=True,
        quiet=True,
        max_steps=2500,
        actor_model="actor.cfg",
        critic_model="critic.cfg",
        buffer_initial_size=300,
        buffer_batch_size=64,
        gamma=0.5,
        lr=3e-3,
        tau=0.05,
        step_noise_coef=0.05,
        eval_every=None,
    )
    episodes = [total for _, total in result.episodes]
    assert np.mean(episodes[:20]) < -2
    assert np.mean(episodes[-20:]) > -0.3


def ou_path(name: str, steps: list[int], envs: int = 3) -> Any:
    """Return the Ornstein-Uhlenbeck noise of rollouts of these lengths, joined."""
    policy, _ = loaded(name, noise="ou")
    generators = [np.random.default_rng([0, i]) for i in range(envs)]
    path = []
    for n in steps:
        for noise in policy.noise(generators, n):
            policy.act(observations(envs), noise, TRAINED)
            path.append(policy.memory.copy())
    return np.stack(path)


def test_ou_noise_follows_its_equation() -> None:
    path = ou_path("ddpg", [50])
    plain, _ = loaded("ddpg")
    normal = plain.noise([np.random.default_rng([0, i]) for i in range(3)], 50)[:, :, 0]
    x = np.zeros((3, 3))
    for t in range(50):
        x = x + 0.15 * (0 - x) * 0.01 + 0.1 * normal[t]
        np.testing.assert_allclose(path[t], x, atol=1e-5)
    assert np.abs(path).max() > 0.3


@both
def test_ou_noise_continues_from_rollout_to_rollout(name: str) -> None:
    """Its deviation settles at sigma / sqrt(2 theta)."""
    long = ou_path(name, [500] * 20, envs=20)
    assert long[5000:].std() == pytest.approx(1 / np.sqrt(0.3), rel=0.15)
    jumps = np.abs(np.diff(long, axis=0)).max(axis=(1, 2))
    assert jumps.max() < 0.6  # it restarts nowhere


@both
def test_ou_noise_starts_over_with_each_episode(name: str) -> None:
    """Episodes have 10 steps; rollouts of 7 rows cut them anywhere."""
    sigma = 0.2
    setup = setup_of(name, 2, **UNEVEN, noise="ou", step_noise_coef=sigma)
    actor, arrays = EnvActor(setup), random_arrays(setup.layout, 1)
    rollouts = [actor.rollout(Weights(1, arrays), 7, TRAINED)[0] for _ in range(5)]
    actor.close()
    forward = bind_network(setup.layout, arrays)
    ended = np.zeros(2, int)
    for env in range(2):
        generator, x = np.random.default_rng([SEED, env]), np.zeros(3)
        for t in rollouts:
            normal = generator.standard_normal((7, 3))
            generator.uniform(-1, 1, (7, 3))
            for i, draw in enumerate(normal):
                if not t.valid[i, env]:  # the step that only resets
                    x, ended[env] = np.zeros(3), ended[env] + 1
                    continue
                x = x - 0.15 * x * 0.01 + 0.1 * draw
                mean = forward(t.observations[i, env][None])[0][0]
                wanted = np.clip(mean + sigma * x, -1, 1)
                np.testing.assert_allclose(t.actions[i, env], wanted, atol=1e-5)
    assert ended.tolist() == [3, 3]


@pytest.mark.parametrize("noise", ["ou", "parameter"])
def test_noise_is_resumed_exactly(noise: str) -> None:
    setup = setup_of("ddpg", 2, env="Pendulum-v1", noise=noise)
    weights = Weights(1, random_arrays(setup.layout, 0))
    first, second, third = (EnvActor(setup) for _ in range(3))
    new = third.state()["memory"]
    first.rollout(weights, 5, 10**6)
    second.restore(first.state())
    one, other = (each.rollout(weights, 5, 10**6)[0] for each in (first, second))
    np.testing.assert_array_equal(one.actions, other.actions)
    third.restore({**first.state(), "memory": new})
    assert not np.array_equal(third.rollout(weights, 5, 10**6)[0].actions, one.actions)
