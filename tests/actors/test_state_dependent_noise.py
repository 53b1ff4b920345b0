"""Noise that depends on the state: matrices of environments, and what they do."""

import itertools
import json
import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from acting import actions_shared_and_alone, run_of, setup_of
from naive import random_arrays

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.plugins import resolve_class
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Weights
from xagents_ray.networks.forward import bind_network
from xagents_ray.policy.loading import LoadedPolicy, load_policy
from xagents_ray.policy.policy import Policy
from xagents_ray.run.prepare import prepare_run
from xagents_ray.settings.config import Config

LOW, HIGH = (-3.0, -0.5), (1.0, 4.0)
SPEC = EnvSpec((3,), "float32", 1, 0, LOW, HIGH)
TRAINED, EVERY = 10**9, 3
AGENTS = pytest.mark.parametrize("agent", ["ppo", "trpo", "sac"])
PENDULUM: dict[str, Any] = {"env": "Pendulum-v1", "sde_frequency": EVERY}


def loaded(agent: str, every: int = EVERY, **settings: Any) -> tuple[Any, Any]:
    """Return a policy, and its network's outputs as a function."""
    row = find_algorithm(agent)
    config = row.config(sde_frequency=every, **settings)
    layout = row.layouts(config, SPEC)[0]
    arrays = random_arrays(layout, 3)
    arrays["sde/log_std"] -= 3.0
    policy = resolve_class("policy", row.policy)(config, SPEC, layout)
    policy.load(Weights(1, arrays))
    return policy, bind_network(layout, arrays)


def observations(count: int) -> Any:
    return np.random.default_rng(1).normal(size=(count, 3)).astype(np.float32)


def drawn(policy: Any, steps: int, envs: int) -> Any:
    return policy.noise([np.random.default_rng([7, i]) for i in range(envs)], steps)


def within_bounds(inside: Any) -> Any:
    """Return actions from -1 to 1 in the environment's units."""
    low, high = np.array(LOW), np.array(HIGH)
    return low + (inside + 1) / 2 * (high - low)


def offsets(agent: str, policy: Any, forward: Any, x: Any, noise: Any) -> Any:
    """Return what noise adds to the means, before SAC squashes them."""
    actions = policy.act(x, noise, TRAINED).stored
    if agent == "sac":
        actions = np.arctanh(actions.astype(np.float64))
    return actions - forward(x)[0]


@AGENTS
def test_a_matrix_lasts_for_some_steps_and_is_an_environments_own(agent: str) -> None:
    """In one state the noise stays until a new matrix is due, or an episode begins."""
    policy, forward = loaded(agent)
    x, found = np.repeat(observations(1), 4, axis=0), []
    for t, noise in enumerate(drawn(policy, 8, 4)):
        found.append(offsets(agent, policy, forward, x, noise))
        policy.reset_memory(np.array([False, False, False, t == 3]))
    steady, restarted = np.array(found)[:, :3], np.array(found)[:, 3]
    for begin in (0, 3):
        np.testing.assert_allclose(
            steady[begin : begin + 3], np.stack([steady[begin]] * 3), atol=1e-4
        )
    firsts = steady[::3].reshape(-1, 2)  # of 3 matrices of 3 environments
    gaps = np.abs(firsts[:, None] - firsts).max(-1)
    assert (gaps[~np.eye(9, dtype=bool)] > 1e-3).all()
    same = [np.abs(a - b).max() < 1e-4 for a, b in itertools.pairwise(restarted)]
    assert same == [True, True, False, False, True, True, False]


def test_the_steps_of_a_rollout() -> None:
    """-1 means those, of A2C 5; noise outlives new weights."""
    policy, _ = loaded("a2c", -1)
    x, seeds = observations(2), []
    for noise in drawn(policy, 12, 2):
        policy.act(x, noise, TRAINED)
        seeds.append(tuple(policy.memory[:, 0]))
        policy.load(Weights(2, dict(policy._arrays)))
    lasting = [seeds.count(each) for each in dict.fromkeys(seeds)]
    assert lasting == [5, 5, 2]


@AGENTS
def test_actions_vary_as_the_distribution_says(agent: str) -> None:
    policy, forward = loaded(agent, 1)
    x = observations(4)
    log_std = forward(x)[-1]
    found = [
        offsets(agent, policy, forward, x, noise) for noise in drawn(policy, 4000, 4)
    ]
    np.testing.assert_allclose(np.mean(found, 0) / np.exp(log_std), 0, atol=0.06)
    np.testing.assert_allclose(np.std(found, 0), np.exp(log_std), rtol=0.05)
    # Matrices are the environments' own, and components of an action independent.
    apart = np.corrcoef(np.reshape(found, (4000, -1)).T)
    np.testing.assert_allclose(apart, np.eye(8), atol=0.07)


@pytest.mark.parametrize("agent", ["ppo", "trpo"])
def test_log_probs_slowly(agent: str) -> None:
    policy, forward = loaded(agent)
    x, noise = observations(4), drawn(policy, 1, 4)
    rows = policy.act(x, noise[0], TRAINED)
    means, log_std = forward(x)[0], forward(x)[-1]
    assert (rows.values is not None) == (agent == "ppo")
    joined = type(rows).joined([rows])
    got = policy.log_probs(joined, noise)
    assert got.shape == (1, 4) and got.dtype == np.float32
    for i in range(4):
        chances = [
            NormalDist(means[i, j], math.exp(log_std[i, j])).pdf(rows.stored[i, j])
            for j in range(2)
        ]
        assert got[0, i] == pytest.approx(math.log(math.prod(chances)), abs=1e-3)
    stepped = within_bounds(np.clip(rows.stored, -1, 1))
    np.testing.assert_allclose(rows.stepped, stepped, atol=1e-5)
    if agent == "ppo":
        np.testing.assert_allclose(rows.values, forward(x)[1][:, 0], rtol=1e-5)
        np.testing.assert_allclose(policy.values(x), rows.values, rtol=1e-5)
    else:
        assert policy.values(x) is None


def test_log_probs_of_squashed_actions_slowly() -> None:
    policy, forward = loaded("sac", n_step=3)
    x, noise = observations(4), drawn(policy, 1, 4)
    rows = policy.act(x, noise[0], TRAINED)
    means, log_std = forward(x)[0], forward(x)[-1]
    got = policy.log_probs(type(rows).joined([rows]), noise)
    for i in range(4):
        density = 1.0
        for mean, scale, action in zip(
            means[i], log_std[i], np.float64(rows.stored[i]), strict=True
        ):
            normal = NormalDist(mean, math.exp(scale)).pdf(math.atanh(action))
            density *= normal / (1 - action**2)
        assert got[0, i] == pytest.approx(math.log(density), abs=1e-2)


@AGENTS
def test_greedy_actions_have_no_noise(agent: str) -> None:
    policy, forward = loaded(agent)
    x = observations(6)
    means = forward(x)[0]
    inside = np.tanh(means) if agent == "sac" else np.clip(means, -1, 1)
    np.testing.assert_allclose(policy.greedy(x), within_bounds(inside), atol=1e-5)
    assert not policy.memory.size


def test_sac_acts_at_random_at_the_beginning() -> None:
    policy, _ = loaded("sac")
    noise = drawn(policy, 1, 4)[0]
    begun = policy.act(observations(4), noise, 10)
    np.testing.assert_array_equal(begun.stored, noise[:, 1])
    assert not policy.memory.size


def weights_of(setup: ActorSetup) -> Weights:
    arrays = random_arrays(setup.layout, 0, gain=0.5)
    arrays["sde/log_std"] -= 3.0
    return Weights(1, arrays)


@AGENTS
def test_environments_act_alike_whoever_shares_their_actor(agent: str) -> None:
    weights = weights_of(setup_of(agent, 2, **PENDULUM))
    # Beyond the end of an episode.
    both, alone = actions_shared_and_alone(agent, weights, 110, **PENDULUM)
    np.testing.assert_allclose(both, alone, atol=1e-4)


@AGENTS
def test_an_actor_resumes_with_its_matrices(agent: str) -> None:
    setup = setup_of(agent, 2, **{**PENDULUM, "sde_frequency": 1000})
    weights, actor, other = weights_of(setup), EnvActor(setup), EnvActor(setup)
    actor.rollout(weights, 7, 10**6)
    state = json.loads(json.dumps(actor.state()))
    assert other.restore(state) == 0
    ends = [each.rollout(weights, 7, 10**6)[0].actions for each in (actor, other)]
    np.testing.assert_array_equal(*ends)
    seeds = [each._policy.memory[:, 0].tolist() for each in (actor, other)]
    assert seeds[0] == seeds[1] and min(seeds[0]) > 0
    actor.close()
    other.close()


def test_predict_keeps_the_noise_in_its_state() -> None:
    """Without the state, each call draws another matrix."""
    weights = weights_of(setup_of("ppo", 1, **PENDULUM))
    trained = LoadedPolicy(run_of("ppo", 1, **PENDULUM), weights, "random weights")
    policy = Policy(trained, 5)
    x, state, found = np.zeros((2, 3), np.float32) + 0.3, None, []
    for _ in range(EVERY):
        actions, state = policy.predict(x, state, deterministic=False)
        found.append(actions)
    assert (found[0] == found[1]).all() and (found[1] == found[2]).all()
    assert (found[0][0] != found[0][1]).all()
    assert (policy.predict(x, deterministic=False)[0] != found[0]).all()
    actions, _ = policy.predict(
        x, state, episode_start=[True, False], deterministic=False
    )
    assert (actions[0] != found[0][0]).all()


def test_discrete_actions_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "ppo.npz", weights=np.zeros(3, np.float32))
    row, env = find_algorithm("ppo"), {"env": "CartPole-v1", "sde_frequency": 4}
    config = Config.of(row.config, {**env, "max_steps": 1})
    given = {**env, "weights": (str(tmp_path / "ppo.npz"),)}
    for check in (lambda: prepare_run(row, config), lambda: load_policy(row, given)):
        with pytest.raises(UserError) as error:
            check()
        assert str(error.value) == (
            "--sde-frequency 4 is for continuous actions and this environment's are "
            "discrete: leave it out."
        )
