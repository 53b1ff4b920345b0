"""Subclasses of agents that override methods of the training loop."""

from typing import Any

import forked
import pytest

import xagents_ray
from xagents_ray import UserError
from xagents_ray.utils.common import create_envs

SETUP = """
import math, numpy as np, xagents_ray
from xagents_ray.extend import newest_arrays
from xagents_ray.utils.common import ModelReader, create_envs

envs = create_envs("CartPole-v1", 2, preprocess=False)

def model(seed=1):
    path = xagents_ray.agents["a2c"]["model"]["ann"][0]
    return ModelReader(path, [2, 1], (4,), "adam", seed).build_model()

def refused(function, words):
    try:
        function()
    except xagents_ray.UserError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
"""
STEPS = """
class Counted(xagents_ray.A2C):
    def __init__(self, envs, model, **settings):
        super().__init__(envs, model, **settings)
        self.calls, self.seen = [], []

    def at_step_start(self):
        self.calls.append("start")

    def train_step(self):
        before = self.model.get_weights()
        steps = self.steps
        super().train_step()
        self.calls.append("step")
        assert self.steps > steps
        assert not np.array_equal(self.model.get_weights()[0], before[0])

    def at_step_end(self):
        self.calls.append("end")
        self.seen.append((self.steps, self.games, self.mean_reward, self.best_reward))

given = model()
agent = Counted(envs, given, quiet=True, seed=1, reward_buffer_size=2)
assert (agent.steps, agent.games) == (0, 0)
assert agent.mean_reward == agent.best_reward == -math.inf
assert agent.model is given and agent.output_models == [given]
result = agent.fit(max_steps=200)
count = len(agent.calls)
assert count >= 60 and agent.calls == ["start", "step", "end"] * (count // 3)
now = agent.steps, agent.games, agent.mean_reward, agent.best_reward
assert agent.seen[-1] == now
assert agent.steps == result.env_steps and agent.games == result.games > 0
assert agent.mean_reward == result.mean_reward and agent.best_reward > 0

usual = model()
plain = xagents_ray.A2C(envs, usual, quiet=True, seed=1, reward_buffer_size=2)
plain.fit(max_steps=200, local=True)  # the same numbers as without the loop
assert all(map(np.array_equal, usual.get_weights(), given.get_weights()))
agent.fit(max_steps=240)
assert agent.calls[count:][:3] == ["start", "step", "end"]

class Twice(xagents_ray.A2C):
    count = 0
    def train_step(self):
        super().train_step()
        super().train_step()
        self.count += 2
agent = Twice(envs, quiet=True)
updates = agent.fit(max_steps=60).updates
assert agent.count - updates in (0, 1) and updates > 4  # none once it is over

agent = xagents_ray.A2C(envs, quiet=True)  # a method of the object alone
usual, seen, rounds = agent.train_step, [], []
agent.train_step = lambda: (seen.append(agent.steps), usual())
agent.fit(max_steps=40, callbacks=lambda ctx: rounds.append(ctx.env_steps))
assert len(seen) == len(rounds) > 1 and seen[1:] == rounds[:-1]

class Mixin:
    def at_step_end(self):
        self.ended = self.steps
class Mixed(Mixin, xagents_ray.A2C):
    pass
agent = Mixed(envs, quiet=True)
agent.fit(max_steps=40)
assert agent.ended == agent.steps > 30

class Never(xagents_ray.A2C):
    def train_step(self):
        pass
refused(lambda: Never(envs, quiet=True).fit(max_steps=40),
        "Never.train_step doesn't call super().train_step(), which does the update")
refused(lambda: Twice(envs, quiet=True).fit(max_steps=40, local=False),
        "in this process only: give local=True")
refused(lambda: plain.get_states(), "get_states is part of the loop of fit")

class Resets(xagents_ray.A2C):  # what it does to its model is what acts and learns
    def at_step_end(self):
        self.model.set_weights([np.full_like(x, 0.5) for x in self.model.get_weights()])
agent = Resets(envs, model(), lr=1e-30, quiet=True)
agent.fit(max_steps=40)
arrays = newest_arrays(agent.result.directory)
assert all((arrays[f"policy/{name}/kernel"] == 0.5).all()
           for name in ("dense-0", "dense-1", "dense-2", "dense-3"))

class Sync(xagents_ray.DQN):  # a model that was not given
    def at_step_end(self):
        self.kept = self.model.get_weights()
agent = Sync(envs, buffer_max_size=64, quiet=True)
agent.fit(max_steps=80)
assert all(map(np.array_equal, agent.kept, agent.model.get_weights()))
name = "q/dense-0/kernel"
arrays = newest_arrays(agent.result.directory)
np.testing.assert_array_equal(arrays[name], agent.kept[0])
"""
DATA = """
class Half(xagents_ray.A2C):
    def get_states(self):
        states = super().get_states()
        assert states.shape == (2, 4) and states.dtype == np.float32
        return states * 0.5 + np.float64(7)  # is converted

    def get_batch(self):
        batch = super().get_batch()
        self.states = batch.observations
        return batch

agent = Half(envs, model(), quiet=True, seed=1)
agent.fit(max_steps=100)
assert (agent.states > 5).all()  # what the learner got
refused(agent.play, "play doesn't go through get_states of Half: give the agent")
refused(lambda: Half(envs, quiet=True).fit(max_steps=9, eval_every=9), "eval_every=")
refused(lambda: Half(envs, quiet=True).fit(max_steps=9, monitor_session="a"),
        "monitor_session= doesn't go through get_states of Half")

class Zero(xagents_ray.A2C):
    def get_batch(self):
        batch = super().get_batch()
        zero = np.zeros_like(batch.rewards)
        assert batch.values is None or batch.values.shape[1] == 2
        return batch._replace(rewards=zero)

usual, silent = model(), model()
settings = {"quiet": True, "seed": 1, "lr": 0.01}
xagents_ray.A2C(envs, usual, **settings).fit(max_steps=60, local=True)
Zero(envs, silent, **settings).fit(max_steps=60)
assert not np.array_equal(usual.get_weights()[0], silent.get_weights()[0])

def wrong(name, change):
    def method(self):
        return change(getattr(super(kind, self), name)())
    kind = type("Wrong", (xagents_ray.A2C,), {name: method})
    return lambda: kind(envs, quiet=True).fit(max_steps=20)
refused(wrong("get_states", lambda x: x[:, :2]), "Wrong.get_states is float32 (2, 2)")
refused(wrong("get_states", lambda x: x.astype(str)), "return an array of that form")
refused(wrong("get_batch", lambda x: x[:5]), "Wrong.get_batch returned tuple: return")
refused(wrong("get_batch", lambda x: x._replace(rewards=x.rewards[0])),
        "Wrong.get_batch: rewards is float32 (2,) and must be float32 (5, 2)")

class Without(xagents_ray.A2C):
    def get_batch(self):
        return None
refused(lambda: Without(envs, quiet=True).fit(max_steps=20),
        "Without.get_batch doesn't call super().get_batch(), which steps")

class Twice(xagents_ray.A2C):
    def get_batch(self):
        super().get_batch()
        return super().get_batch()
refused(lambda: Twice(envs, quiet=True).fit(max_steps=20), "get_batch() twice")

class Broken(xagents_ray.A2C):
    def get_states(self):
        return 1 / 0
refused(lambda: Broken(envs, quiet=True).fit(max_steps=20), "division by zero")
"""


@pytest.mark.parametrize("program", [STEPS, DATA], ids=["steps", "data"])
def test_overridden_methods_work(program: str) -> None:
    done = forked.run(["-c", SETUP + program], 240)
    assert done.returncode == 0, done.stderr


def subclass(agent: str, name: str, value: Any = lambda self: None) -> Any:
    return type("Mine", (getattr(xagents_ray, agent),), {name: value})


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("PPO", "calculate_returns"),
        ("DQN", "get_actions"),
        ("ACER", "update_gradients"),
        ("TD3", "concat_buffer_samples"),
        ("A2C", "model"),
        ("A2C", "_train"),
    ],
)
def test_other_overrides_are_refused(agent: str, name: str) -> None:
    envs = create_envs("CartPole-v1", 2, preprocess=False)
    words = rf"Mine overrides {name}, .* use callbacks=.* an algorithm of your own"
    with pytest.raises(UserError, match=words):
        subclass(agent, name)(envs)


def test_methods_of_one_object_are_refused_too() -> None:
    agent: Any = xagents_ray.PPO(create_envs("CartPole-v1", 2, preprocess=False))
    agent.get_actions = lambda: None
    with pytest.raises(UserError, match=r"PPO overrides get_actions, .* callbacks="):
        agent.fit(max_steps=9, local=True)


def test_what_is_no_override_is_left_alone() -> None:
    envs = create_envs("CartPole-v1", 2, preprocess=False)
    kind = subclass("PPO", "my_own", lambda self: 3)
    assert kind(envs).my_own() == 3
    kind = subclass("PPO", "play", lambda self: super(kind, self).policy)
    with pytest.raises(UserError, match="learned nothing yet"):
        kind(envs).play()


def test_functions_of_tensorflow_are_refused() -> None:
    class Function:
        def get_concrete_function(self) -> None:
            """Be what a tf.function has."""

    envs = create_envs("CartPole-v1", 2, preprocess=False)
    with pytest.raises(UserError, match=r"Mine.train_step is a tf.function, .* leave"):
        subclass("PPO", "train_step", Function())(envs)


def test_unknown_settings_are_refused_by_the_constructor() -> None:
    envs = create_envs("CartPole-v1", 2, preprocess=False)
    for settings, words in (
        ({"learning_rat": 1}, "There is no setting 'learning_rat'"),
        ({"epsilon_start": 1.0}, "ppo has no setting epsilon_start, which is one of"),
        ({"verbose": 1}, "--verbose isn't a setting of this agent"),
    ):
        with pytest.raises(UserError, match=words):
            xagents_ray.PPO(envs, **settings)
    xagents_ray.PPO(envs, lr=0.1, seed=3, quiet=True, checkpoints=["a.tf"])
