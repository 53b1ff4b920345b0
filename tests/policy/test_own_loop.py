"""An algorithm in a loop of the user's own learns what a run learns."""

from pathlib import Path
from typing import Any

import forked
import pytest

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.policy.own_loop import _config
from xagents_ray.settings.config import Config
from xagents_ray.settings.options import flag

HEAD = """
import gymnasium as gym
import numpy as np
import xagents_ray

def same(agent, directory):
    mine, theirs = (p._trained.weights.arrays for p in (agent, directory))
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        np.testing.assert_array_equal(array, theirs[name], name)

def trained(name, **settings):
    result = xagents_ray.train(
        name, local=True, quiet=True, max_steps=400, vectorization="sync", **settings
    )
    assert result.updates and result.games > 3
    return result.env_steps, xagents_ray.load(result.directory)
"""
SINGLE = """
settings = dict(env="CartPole-v1", seed=3, buffer_initial_size=100)
settings |= dict(normalize_rewards=True, epsilon_decay_steps=300, jit="off")
steps, expected = trained("dqn", **settings)
agent = xagents_ray.Agent("dqn", **settings)
env = gym.make("CartPole-v1")
observation, _ = env.reset(seed=3)
while agent.env_steps < steps:
    action = agent.act(observation)
    assert action in env.action_space
    observation, reward, terminated, truncated, _ = env.step(action)
    agent.observe(observation, reward, terminated, truncated)
    metrics = agent.learn()
    if terminated or truncated:
        observation, _ = env.reset()
assert np.isfinite(metrics["loss"])
same(agent.policy, expected)
agent.policy.save("own.npz")
agent.close()
"""
BATCH = """
settings = dict(env="Pendulum-v1", env_kwargs={"max_episode_steps": 30}, n_envs=2)
settings |= dict(seed=5, n_steps=16, normalize_observations=True, jit="off")
for name in ("ppo", "a2c"):
    steps, expected = trained(name, **settings)
    agent = xagents_ray.Agent(name, **settings)
    envs = gym.make_vec("Pendulum-v1", 2, "sync", max_episode_steps=30)
    observations, _ = envs.reset(seed=5)
    while agent.env_steps < steps:
        actions = agent.act(observations)
        assert actions in envs.action_space
        observations, rewards, terminated, truncated, _ = envs.step(actions)
        agent.observe(observations, rewards, terminated, truncated)
        agent.learn()
    same(agent.policy, expected)

# The row that only resets is the last one of each rollout.
settings = dict(env="CartPole-v1", env_kwargs={"max_episode_steps": 3}, n_steps=4)
settings |= dict(seed=5, jit="off", noisy="independent")
steps, expected = trained("a2c", **settings)
agent, phases = xagents_ray.Agent("a2c", **settings), 0
env = gym.make("CartPole-v1", max_episode_steps=3)
observation, _ = env.reset(seed=5)
while agent.env_steps < steps:
    observation, *rest, _ = env.step(agent.act(observation))
    agent.observe(observation, *rest)
    phases += bool(agent.learn())
    if rest[2]:
        observation, _ = env.reset()
same(agent.policy, expected)
assert phases == steps // 3
"""


MEMORY = """
settings = dict(env="CartPole-v1", seed=3, memory="gru:8", n_steps=16, jit="off")
settings |= dict(mini_batches=1)
steps, expected = trained("ppo", **settings)
agent = xagents_ray.Agent("ppo", **settings)
env = gym.make("CartPole-v1")
observation, _ = env.reset(seed=3)
while agent.env_steps < steps:
    agent.act(observation)  # as often as one likes
    observation, *rest, _ = env.step(agent.act(observation))
    agent.observe(observation, *rest)
    agent.learn()
    if rest[1] or rest[2]:
        observation, _ = env.reset()
same(agent.policy, expected)
agent.close()
"""
CODES = {"single": SINGLE, "batch": BATCH, "memory": MEMORY}


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, id=name, marks=pytest.mark.slow if name == "batch" else [])
        for name, code in CODES.items()
    ],
)
def test_it_learns_what_a_run_learns(code: str) -> None:
    """Bit for bit, with the same environments and seed."""
    done = forked.run(["-c", HEAD + code], 120)
    assert done.returncode == 0, done.stderr


MISTAKES = """
import numpy as np
import pytest
import xagents_ray
agent = xagents_ray.Agent("a2c", env="CartPole-v1")
with pytest.raises(xagents_ray.UserError, match="call act before"):
    agent.observe(np.zeros(4), 0.0, False, False)
with pytest.raises(xagents_ray.UserError, match=r"gives observations of \\(4,\\)"):
    agent.act(np.zeros(3))
for _ in range(2):  # at the beginning, and when an observation follows
    with pytest.raises(xagents_ray.UserError, match="leave action_masks out"):
        agent.act(np.zeros(4), action_masks=[1, 0])
    agent.act(np.zeros(4))
with pytest.raises(xagents_ray.UserError, match="leave action_masks out"):
    agent.observe(np.zeros(4), 0.0, False, False, action_masks=[1, 0])
agent = xagents_ray.Agent("a2c", env="Pendulum-v1", lr=1e30, n_steps=2, seed=1)
observation = np.zeros(3)
with pytest.raises(xagents_ray.Diverged, match="after [0-9]+ env steps: lower lr"):
    for _ in range(20):
        observation = agent.act(observation) * np.ones(3)
        agent.observe(observation, 1.0, False, False)
        agent.learn()
agent.close()
"""


def test_mistakes_are_told() -> None:
    done = forked.run(["-c", MISTAKES], 120)
    assert done.returncode == 0, done.stderr


STRAYING = """
import gymnasium as gym
import numpy as np
import pytest
import xagents_ray
from stepping import Stepping

class Frames(Stepping):
    observation_space = gym.spaces.Box(0, 255, (36, 36), np.uint8)

    def observe(self):
        return np.full((36, 36), self.steps, np.uint8)

def refused(agent, observation):
    with pytest.raises(xagents_ray.UserError, match="doesn't follow .*: call observe"):
        agent.act(observation)

agent, env = xagents_ray.Agent("a2c", env=Frames, n_steps=4, seed=1), Frames()
first, _ = env.reset()
observation = first
for _ in range(20):
    agent.act(observation)
    action = agent.act(observation)
    observation, reward, terminated, truncated, _ = env.step(action)
    refused(agent, observation)  # it wasn't observed
    agent.observe(observation, reward, terminated, truncated)
    if terminated:
        observation, _ = env.reset()
    else:
        refused(agent, first)  # the episode goes on
agent.close()

class Short(Frames):
    length = 3

agent = xagents_ray.Agent("a2c", env=Frames, n_steps=4, n_envs=2, seed=1)
envs = gym.vector.SyncVectorEnv([Frames, Short])
observations, _ = envs.reset()
for _ in range(20):
    observations, rewards, terminated, *rest = envs.step(agent.act(observations))
    agent.observe(observations, rewards, terminated, rest[0])
    if not terminated[0]:
        refused(agent, observations + np.array([1, 0], np.uint8)[:, None, None])
agent.close()
"""


def test_an_observation_that_follows_no_other_is_refused() -> None:
    done = forked.run(["-c", STRAYING], 120)
    assert done.returncode == 0, done.stderr


def config(agent: str, **settings: Any) -> Config:
    return _config(find_algorithm(agent), {"env": "CartPole-v1", **settings})


def test_a_preset_is_applied() -> None:
    made = config("dqn", preset=True, n_envs=1)
    assert made.algorithm.gamma == 0.995 and made.env.n_envs == 1
    assert made.algorithm.lr_decay and made.training.max_steps == 75_000


def test_what_only_runs_have_is_left_out_of_a_preset() -> None:
    Path("own.yaml").write_text("settings: {gamma: 0.5, eval_every: 10, n_actors: 2}")
    made = config("ppo", preset="own.yaml", n_envs=2)
    assert made.algorithm.gamma == 0.5
    assert made.run.eval_every is made.placement.n_actors is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eval_every", 9),
        ("target_reward", 0),
        ("early_stop_patience", 1),
        ("quiet", True),
    ],
)
def test_what_only_runs_have_is_refused(name: str, value: Any) -> None:
    said = f"{flag(name)} is for runs and does nothing in"
    with pytest.raises(UserError, match=said):
        config("dqn", **{name: value})


def test_what_asks_for_nothing_is_allowed() -> None:
    given = {"local": True, "seed": 1, "jit": "off", "learner_threads": 1}
    config("dqn", **given, quiet=False, tensorboard=False, eval_every=None)


def test_what_falls_over_the_steps_needs_them() -> None:
    with pytest.raises(UserError, match="--lr-decay falls to 0 over --max-steps: give"):
        config("ppo", lr_decay=True)
    assert config("ppo", lr_decay=True, max_steps=9).training.max_steps == 9
