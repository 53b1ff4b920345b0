"""Policies with memory act in rollouts and evaluations, and resume, with their state.

A network that forgets is found out: its logits differ from those of a slow loop.
"""

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from acting import SEED, actors_games, run_of, setup_of, weights_of
from network_cases import model_of

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.evaluator import Evaluator
from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import Trajectory, Weights
from xagents_ray.policy.loading import LoadedPolicy
from xagents_ray.policy.policy import Policy
from xagents_ray.run.local import LocalDriver

LENGTH, ENVS = 12, 2
CARTPOLE = {"env": "CartPole-v1", "env_kwargs": ("max_episode_steps=7",)}
BATCHES = {agent: {"mini_batches": 1} for agent in ("ppo", "trpo")}
AGENTS = ["a2c", "acer", "dqn", "ppo"]


def setup(agent: str, memory: str = "lstm:8", **settings: Any) -> ActorSetup:
    values = {**CARTPOLE, **BATCHES.get(agent, {}), **settings}
    return setup_of(agent, ENVS, memory=memory, **values)


def outputs_of(made: ActorSetup, weights: Weights, trajectory: Trajectory) -> list[Any]:
    """Return the learner's outputs for a trajectory, [T + 1, B, units] each."""
    arrays = {k: x for k, x in weights.arrays.items() if k != "log_std"}
    model = model_of(made.layout, arrays)
    rows = trajectory.observations.reshape(-1, *trajectory.observations.shape[2:])
    assert trajectory.recurrent_state is not None
    more = [trajectory.recurrent_state[0], trajectory.starts]
    if trajectory.network_noise is not None:
        count = len(trajectory.starts)
        more.insert(0, np.tile(trajectory.network_noise[0], (count, 1)))
    found = model([rows, *more])
    found = found if isinstance(found, list) else [found]
    return [np.reshape(x, (*trajectory.starts.shape, -1)) for x in found]


@pytest.mark.parametrize("memory", ["lstm:8", "gru:8"])
@pytest.mark.parametrize("settings", [{}, {"separate_networks": True}])
def test_what_acts_is_what_learns(memory: str, settings: dict[str, Any]) -> None:
    """In the second rollout too, which begins in the middle of episodes."""
    made = setup("ppo", memory, **settings)
    actor, weights = EnvActor(made), weights_of(made)
    for number in range(2):
        trajectory, _ = actor.rollout(weights, LENGTH, 0)
        assert trajectory.starts[1:].any() and not trajectory.valid.all()
        state = trajectory.recurrent_state
        assert state is not None and state.dtype == np.float32
        assert state.shape == (1, ENVS, made.layout.state_units)
        assert state.any() == (number > 0)
        logits, values = outputs_of(made, weights, trajectory)
        np.testing.assert_allclose(trajectory.values, values[..., 0], atol=1e-5)
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        taken = np.take_along_axis(log_probs[:-1], trajectory.actions[..., None], -1)
        np.testing.assert_allclose(trajectory.log_probs, taken[..., 0], atol=1e-5)
    actor.close()


def test_noise_on_weights_and_memory() -> None:
    made = setup("ppo", noisy="factorised")
    actor, weights = EnvActor(made), weights_of(made)
    trajectory, _ = actor.rollout(weights, LENGTH, 0)
    arrays = {k: x for k, x in weights.arrays.items() if k in made.layout.shapes}
    _, values = outputs_of(made, Weights(1, arrays), trajectory)
    np.testing.assert_allclose(trajectory.values, values[..., 0], atol=1e-4)
    actor.close()


@pytest.mark.parametrize("noisy", [None, "factorised"])
def test_random_actions_do_not_stop_the_memory(noisy: str | None) -> None:
    """The state after rows of random actions is that of a sequence."""
    made = setup("dqn", noisy=noisy, epsilon_start=1.0)
    actor, weights = EnvActor(made), weights_of(made)
    actor.rollout(weights, 3, 0)
    trajectory, _ = actor.rollout(weights, 3, 0)
    assert trajectory.recurrent_state is not None
    assert (np.abs(trajectory.recurrent_state).max(-1) > 0.01).all()
    actor.close()


@pytest.mark.parametrize("agent", AGENTS)
def test_a_resumed_actor_continues_with_its_state(agent: str) -> None:
    made = setup(agent)
    first, second = EnvActor(made), EnvActor(made)
    weights = weights_of(made)
    first.rollout(weights, 5, 0)
    second.restore(first.state())
    one, other = (each.rollout(weights, LENGTH, 0)[0] for each in (first, second))
    assert one.recurrent_state is not None and one.recurrent_state.any()
    np.testing.assert_array_equal(one.recurrent_state, other.recurrent_state)
    np.testing.assert_array_equal(one.actions, other.actions)
    first.close()
    second.close()


def test_a_state_of_another_size_is_refused() -> None:
    small, large = EnvActor(setup("ppo", "gru:8")), EnvActor(setup("ppo", "gru:9"))
    small.rollout(weights_of(setup("ppo", "gru:8")), 5, 0)
    with pytest.raises(UserError, match=r"expected shape \[2, 9\]"):
        large.restore(small.state())
    small.close()
    large.close()


def test_a_lost_rollout_begins_new_episodes_without_memory() -> None:
    made = setup("ppo")
    first, second = EnvActor(made), EnvActor(made)
    first.rollout(weights_of(made), 5, 0)
    second.restore({**first.state(), "envs": None})
    trajectory, _ = second.rollout(weights_of(made), 5, 0)
    assert trajectory.starts[0].all()
    assert trajectory.recurrent_state is not None
    assert not trajectory.recurrent_state.any()
    first.close()
    second.close()


@pytest.mark.parametrize("how", ["resumed", "lost", "replaced"])
def test_what_acts_is_what_learns_after_a_failure(how: str) -> None:
    """Or after one actor's state was read from a checkpoint."""
    made = setup("ppo")
    first, second = EnvActor(made), EnvActor(made)
    weights = weights_of(made)
    first.rollout(weights, 5, 0)
    if how == "replaced":
        second.restart(1)
    else:
        state = json.loads(json.dumps(first.state()))
        second.restore(state if how == "resumed" else {**state, "envs": None})
    for number in range(2):
        trajectory, _ = second.rollout(weights, LENGTH, 0)
        assert trajectory.recurrent_state is not None
        assert trajectory.recurrent_state.any() == (how == "resumed" or number > 0)
        _, values = outputs_of(made, weights, trajectory)
        np.testing.assert_allclose(trajectory.values, values[..., 0], atol=1e-5)
    first.close()
    second.close()


def test_what_acted_with_older_weights_is_what_learns() -> None:
    """The state that newer weights left is where the next rollout begins."""
    settings = {**CARTPOLE, **BATCHES["ppo"], "memory": "lstm:8", "n_steps": LENGTH}
    settings |= {"policy_lag": 1, "local": True, "jit": "off", "lr": 0.1}
    driver, made = LocalDriver(run_of("ppo", ENVS, **settings)), setup("ppo")
    weights, lags = dict[int, Weights](), list[int]()
    for number in range(4):
        weights[driver.weights.version] = driver.weights
        lags += driver.collect(number * ENVS * LENGTH).lags
        [trajectory] = driver._round
        assert isinstance(trajectory, Trajectory)
        acted = weights[trajectory.weights_version]
        _, values = outputs_of(made, acted, trajectory)
        np.testing.assert_allclose(trajectory.values, values[..., 0], atol=1e-5)
        driver.learn(1, (number + 1) * ENVS * LENGTH, {})
    driver.close()
    assert lags == [0, 1, 1, 1]
    _, newest = outputs_of(made, driver.weights, trajectory)
    assert np.abs(newest[..., 0] - trajectory.values).max() > 0.01


def test_an_actor_alone_acts_as_among_others() -> None:
    """Columns don't mix, and an actor that takes over has the same state."""
    alone = setup_of("ppo", 1, memory="lstm:8", **CARTPOLE, **BATCHES["ppo"])
    one, two = EnvActor(alone), EnvActor(setup("ppo"))
    weights = weights_of(alone)
    mine, ours = (each.rollout(weights, LENGTH, 0)[0] for each in (one, two))
    np.testing.assert_array_equal(mine.actions[:, 0], ours.actions[:, 0])
    assert mine.values is not None and ours.values is not None
    np.testing.assert_allclose(mine.values[:, 0], ours.values[:, 0], atol=1e-6)
    one.close()
    two.close()


def test_episodes_of_an_evaluation_are_those_of_training() -> None:
    made = setup("ppo")
    evaluator, weights = Evaluator(made), weights_of(made)
    for _ in range(2):  # the second one remembers nothing
        played = evaluator.evaluate(weights, 6, made.seed, greedy=False)
        expected = actors_games(made, 3)
        assert [x.episode_return for x in played] == [
            x.episode_return for x in sorted(expected, key=lambda x: x.env)
        ]
    evaluator.close()


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("agent", ["ppo", "dqn", "trpo"])
def test_predict_with_a_state_is_what_evaluate_plays(
    agent: str, deterministic: bool
) -> None:
    settings: dict[str, Any] = {"vectorization": "sync", "memory": "lstm:8"}
    settings |= {"env": "CartPole-v1", **BATCHES.get(agent, {})}
    run = run_of(agent, 3, **settings)
    weights = weights_of(setup_of(agent, 3, **settings))
    del weights.arrays["log_std"]
    policy = Policy(LoadedPolicy(run, weights, "random weights"), SEED)
    played = policy.evaluate(3, n_envs=3, seed=SEED, deterministic=deterministic)
    envs = gym.vector.SyncVectorEnv([policy.make_env] * 3)
    observations, _ = envs.reset(seed=SEED)
    lengths, going, state = np.zeros(3), np.ones(3, bool), None
    starts = np.ones(3, bool)
    while going.any():
        actions, state = policy.predict(observations, state, starts, deterministic)
        assert state is not None and state.shape == (3, 16)
        observations, _, terminated, truncated, _ = envs.step(actions)
        lengths += going
        starts = terminated | truncated
        going &= ~starts
    envs.close()
    assert lengths.tolist() == played.lengths
    with pytest.raises(UserError, match=r"\(2, 16\), and \(3, 16\) is needed"):
        policy.predict(observations, state[:2])
    with pytest.raises(UserError, match="has memory, which act would forget"):
        policy.act(observations)


def test_the_state_of_predict_holds_lasting_noise_too() -> None:
    """That of the layers first, which greedy actions advance alone."""
    settings: dict[str, Any] = {"env": "Pendulum-v1", "memory": "gru:8"}
    settings |= {"sde_frequency": 4, **BATCHES["ppo"]}
    weights = weights_of(setup_of("ppo", 2, **settings))
    del weights.arrays["log_std"]
    run = run_of("ppo", 2, **settings)
    policy = Policy(LoadedPolicy(run, weights, "random weights"), SEED)
    seen = np.ones((2, 3), np.float32)
    _, first = policy.predict(seen, deterministic=False)
    assert first is not None and first.shape == (2, 8 + 2)
    _, after = policy.predict(seen, first, deterministic=False)
    assert after is not None and (after[:, -1] == 2).all()  # steps with a matrix
    assert not np.isclose(after[:, :8], first[:, :8]).all()
    _, greedy = policy.predict(seen, first)
    assert greedy is not None
    np.testing.assert_array_equal(greedy[:, :8], after[:, :8])
    np.testing.assert_array_equal(greedy[:, 8:], first[:, 8:])
    _, again = policy.predict(seen, first, [True, False])
    assert again is not None and not again[0, 8:].any()
    _, fresh = policy.predict(seen)
    assert fresh is not None
    np.testing.assert_array_equal(again[0, :8], fresh[0])
    np.testing.assert_array_equal(again[1], greedy[1])
