"""What the names of xagents collect, and what they do with it."""

import pickle
from pathlib import Path
from typing import Any

import forked
import gymnasium as gym
import keras
import numpy as np
import policies
import pytest
from keras.optimizers import SGD, Adam

import xagents_ray
from xagents_ray.compat.model_reader import CfgModel, optimizer_settings
from xagents_ray.core.errors import UserError
from xagents_ray.utils.buffers import ReplayBuffer1, ReplayBuffer2
from xagents_ray.utils.common import ModelReader, create_envs


def model(agent: str, name: str, optimizer: Any = None) -> CfgModel:
    path = xagents_ray.agents[agent][name]["ann"][0]
    return ModelReader(path, [1], 4, optimizer).build_model()


def test_settings_of_an_agent_with_all_parts() -> None:
    envs = create_envs("Pendulum-v1", 3, preprocess=False)
    adam = Adam(name="adam_2", learning_rate=2**-7, beta_1=0.8, epsilon=1e-5)
    actor = model("ddpg", "actor_model", adam)
    critic = model("ddpg", "critic_model", "adam")
    parts = [ReplayBuffer2(50, slots=5, initial_size=4, batch_size=8) for _ in envs]
    agent = xagents_ray.DDPG(envs, actor, critic, parts, seed=3, tau=0.01)
    assert agent.settings == {
        "env": "Pendulum-v1",
        "n_envs": 3,
        "preprocess": False,
        "max_frame": False,
        "optimizer": "adam",
        "lr": 2**-7,
        "beta1": 0.8,
        "beta2": 0.999,
        "opt_epsilon": 1e-5,
        "critic_lr": 1e-3,
        "buffer_max_size": 150,
        "buffer_initial_size": 12,
        "buffer_batch_size": 24,
        "actor_model": actor.cfg_file,
        "critic_model": critic.cfg_file,
        "seed": 3,
        "tau": 0.01,
    }


def test_parts_may_be_given_by_their_names() -> None:
    envs = create_envs("CartPole-v1", 2, preprocess=False)
    buffers = [ReplayBuffer1(5, batch_size=1) for _ in envs]
    settings = xagents_ray.ACER(envs=envs, buffers=buffers, lr=0.1).settings
    assert settings["buffer_initial_size"] == settings["buffer_max_size"] == 10
    assert settings["buffer_batch_size"] == 1  # of each environment
    assert settings["lr"] == 0.1
    assert "model" not in settings


def test_every_agent_has_a_class_and_networks() -> None:
    for name, row in xagents_ray.agents.items():
        kind = row.pop("agent")
        assert kind is getattr(xagents_ray, name.upper())
        assert pickle.loads(pickle.dumps(kind)) is kind
        for files in row.values():
            assert files["ann"] and all(Path(f).is_file() for f in files["ann"])
    assert xagents_ray.agents["ppo"]["model"]["cnn"]
    assert not xagents_ray.agents["td3"]["critic_model"]["cnn"]
    with pytest.raises(AttributeError, match="no attribute 'SARSA'"):
        _ = xagents_ray.SARSA


def test_a_list_of_environments_travels() -> None:
    envs = create_envs("PongNoFrameskip-v4", 2, max_frame=True)
    first, second = pickle.loads(pickle.dumps(envs))
    assert first is not second
    assert envs[0] is envs[-2] and envs[:1] == [envs[0]]
    with pytest.raises(IndexError):
        _ = envs[2]
    space = envs[0].observation_space
    assert space.shape == (84, 84, 4)
    assert envs[0].action_space.n == 6
    assert first.reset(seed=1)[0] in space
    frames = first.step(0)[0]
    assert frames in space
    assert np.any(frames[..., -1]) and not np.any(frames[..., 0])  # the newest is last


def test_colors_are_the_channels_that_a_network_reads() -> None:
    env = create_envs(policies.COLORED, preprocess=False)[0]
    picture = env.unwrapped.reset(seed=1)[0]
    frames = env.reset(seed=1)[0]
    assert frames.shape == (40, 40, 12)
    assert np.array_equal(frames[..., 9:], picture)  # the newest is last


def test_environments_that_are_made_already() -> None:
    """What they were made from is known; they are not stepped themselves."""
    made = [gym.make("CartPole-v1", max_episode_steps=7) for _ in range(2)]
    settings = xagents_ray.PPO(made).settings
    assert settings["n_envs"] == 2
    assert settings["env"].max_episode_steps == 7
    for own, given in (({}, {"seeds": [1, 2]}), ({"seeds": [1, 2]}, {})):
        with pytest.raises(UserError, match="seeds= trains several agents, and this"):
            xagents_ray.PPO(made, **own).fit(max_steps=10, **given)
    with pytest.raises(UserError, match="give create_envs"):
        xagents_ray.PPO([made[0].unwrapped.__class__])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {}),
        ("adam", {"optimizer": "adam", "lr": 1e-3, "opt_epsilon": 1e-7}),
        (
            "RMSprop",
            {"optimizer": "rmsprop", "lr": 1e-3, "opt_epsilon": 1e-7, "beta2": 0.9},
        ),
    ],
)
def test_names_of_optimizers_mean_what_keras_means(
    given: Any, expected: dict[str, Any]
) -> None:
    assert optimizer_settings(given) == expected


def test_other_optimizers_are_passed_on() -> None:
    decaying = Adam(keras.optimizers.schedules.ExponentialDecay(0.1, 100, 0.5))
    for each in (SGD(learning_rate=0.1), decaying):
        assert optimizer_settings(each) == {"optimizer": each}


def test_mistakes_are_told_with_a_remedy() -> None:
    envs = create_envs("CartPole-v1", 2, preprocess=False)
    with pytest.raises(UserError, match="1 buffers for 2 environments"):
        xagents_ray.DQN(envs, None, [ReplayBuffer1(5)])
    with pytest.raises(UserError, match="model by position, got 3 arguments"):
        xagents_ray.PPO(envs, None, None)
    with pytest.raises(UserError, match="leave out frame_skips"):
        create_envs("PongNoFrameskip-v4", frame_skips=2)
    with pytest.raises(UserError, match="call fit, or load_weights"):
        xagents_ray.PPO(envs).play()
    for settings in ({}, {"max_steps": None}, {"local": True}):
        with pytest.raises(UserError, match="fit needs an end: give target_reward=, m"):
            xagents_ray.PPO(envs).fit(**settings)
    with pytest.raises(UserError, match="optimizer='adm' is none of Keras: give ada"):
        model("ddpg", "actor_model", "adm")
    with pytest.raises(UserError, match="no such weights file"):
        model("ddpg", "actor_model").load_weights("missing.tf")


def test_a_critic_of_bounded_values_is_told() -> None:
    envs = create_envs("Pendulum-v1", preprocess=False)
    actor = model("td3", "actor_model")
    with pytest.warns(UserWarning, match=r"ends in tanh.*\['td3'\]\['critic_model'\]"):
        xagents_ray.TD3(envs, actor, actor)


def test_an_actor_that_training_bounds_is_told() -> None:
    envs = create_envs("Pendulum-v1", preprocess=False)
    Path("actor.cfg").write_text("[dense-0]\nunits=4\n[dense-1]\noutput=1\n")
    actor = ModelReader("actor.cfg", [1], 3).build_model()
    with pytest.warns(UserWarning, match=r"adds a tanh to actor\.cfg, which this mod"):
        xagents_ray.DDPG(envs, actor)


PROGRAM = """
import optuna, pickle, xagents_ray
from xagents_ray.utils.common import ModelReader, create_envs

class Always(optuna.pruners.BasePruner):
    def prune(self, study, trial):
        return len(trial.intermediate_values) == 2

def make(**settings):
    envs = create_envs("CartPole-v1", 2, preprocess=False)
    path = xagents_ray.agents["a2c"]["model"]["ann"][0]
    model = ModelReader(path, [2, 1], (4,), "adam").build_model()
    assert model.count_params() == 4 * 64 + 64 + 64 * 64 + 64 + 65 * 3
    return xagents_ray.A2C(envs, model, quiet=True, reward_buffer_size=4, **settings)

agent = make(seed=1, checkpoints=["best.npz"])
agent.fit(max_steps=400, local=True, history_checkpoint="rows.parquet")
assert 400 <= agent.result.env_steps < 420 and len(agent.total_rewards) == 4
agent.fit(max_steps=600)
assert 600 <= agent.result.env_steps < 620
learned = agent.play(seed=1).returns
other = make()
other.model.load_weights("best.npz").expect_partial()
assert len(other.play(seed=1).returns) == len(learned) == 1

study = optuna.create_study(pruner=Always())
def objective(trial):
    global agent
    agent = make(trial=trial)
    agent.fit(max_steps=2_000, local=True)
study.optimize(objective, n_trials=1)
(trial,) = study.trials
assert trial.state == optuna.trial.TrialState.PRUNED, trial
assert list(trial.intermediate_values) == [0, 1]
# The run doesn't report to that trial any more.
stored, end = agent.result.directory, agent.result.env_steps + 200
assert xagents_ray.train("a2c", resume=stored, max_steps=end).env_steps >= end
"""


def test_an_agent_trains_goes_on_plays_and_is_pruned() -> None:
    done = forked.run(["-c", PROGRAM], 120)
    assert done.returncode == 0, done.stderr
