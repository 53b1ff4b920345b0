"""Subclasses of agents that override methods of the training loop."""

import forked
import pytest

SETUP = """
import contextlib, io, math, re, gymnasium as gym, numpy as np, pytest, xagents_ray
from xagents_ray.extend import newest_arrays
from xagents_ray.learners.state import LearnerState
from xagents_ray.utils.common import ModelReader, create_envs

envs = create_envs("CartPole-v1", 2, preprocess=False)

def model(seed=1):
    path = xagents_ray.agents["a2c"]["model"]["ann"][0]
    return ModelReader(path, [2, 1], (4,), "adam", seed).build_model()

def refused(function, words):
    with pytest.raises(xagents_ray.UserError, match=re.escape(words)):
        function()
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
count = len(agent.calls)  # the run goes on without the agent, too
stored = agent.result.directory
other = xagents_ray.train("a2c", resume=stored, max_steps=280, quiet=True)
assert other.env_steps >= 280 and len(agent.calls) == count

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
count = len(seen)
assert count == len(rounds) > 1 and seen[1:] == rounds[:-1]
agent.fit(max_steps=80)  # the callback is part of the run, as it is without overrides
assert len(seen) == len(rounds) > count

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

read, read_arrays = [], LearnerState.arrays
def counting(self, models=None):
    read.append(models)
    return read_arrays(self, models)
LearnerState.arrays = counting
class Sync(xagents_ray.DQN):  # a model that was not given, which the target follows
    def at_step_end(self):
        self.model.set_weights([x + 1 for x in self.model.get_weights()])
        self.kept = self.model.get_weights()
late = {"target_sync_steps": 1_000, "policy_lag": 1, "rollout_length": 2}
agent = Sync(envs, buffer_max_size=64, quiet=True, **late)
agent.fit(max_steps=80)
assert all(map(np.array_equal, agent.kept, agent.model.get_weights()))
arrays = newest_arrays(agent.result.directory)
name = "dense-0/kernel"
np.testing.assert_array_equal(arrays[f"q/{name}"], agent.kept[0])
assert arrays[f"q/{name}"].min() > 5 and np.abs(arrays[f"target/{name}"]).max() < 2
# Not all of the learner is read each time: only checkpoints are made of that.
assert read.count(["q"]) > 10 and read.count(None) < 5
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
refused(lambda: agent.policy, "policy doesn't go through get_states of Half: give")
refused(lambda: Half(envs, quiet=True).fit(max_steps=9, eval_every=9), "eval_every=")
refused(lambda: Half(envs, quiet=True).fit(max_steps=9, monitor_session="a"),
        "monitor_session= doesn't go through get_states of Half")
class Goals(xagents_ray.DDPG):
    get_states = Half.get_states
pendulums = create_envs("Pendulum-v1", 2, preprocess=False)
refused(lambda: Goals(pendulums, quiet=True).fit(max_steps=9, her="future"),
        "her= doesn't go through get_states of Goals: give the agent")

# The same numbers as with state_to_input; in one process or in several, in one session
# or in two, and while the learner computes.
def learned(kind, ends, vectorization="sync", **settings):
    made, settings = model(), {"vectorization": vectorization, **settings}
    agent = kind(envs, made, seed=1, lr=0.01, jit="off", **settings)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for end in ends:
            agent.fit(max_steps=end, local=True)
    note = "A policy that is loaded from this run doesn't go through get_states of "
    assert (f"{note}Half" in " ".join(out.getvalue().split())) == (kind is Half)
    return np.concatenate([x.ravel() for x in made.get_weights()])
usual = {"state_to_input": lambda x: x * 0.5 + np.float64(7)}
plain = learned(xagents_ray.A2C, [200], **usual)
np.testing.assert_array_equal(learned(Half, [100, 200]), plain)
lagging = learned(xagents_ray.A2C, [200], policy_lag=1, **usual)
np.testing.assert_array_equal(learned(Half, [200], "async", policy_lag=1), lagging)
assert not np.array_equal(lagging, plain)

class Pictures(gym.Env):
    observation_space = gym.spaces.Box(0, 255, (36, 36), np.uint8)
    action_space = gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.frame = np.ones((36, 36), np.uint8)
        return self.frame, {}
    def step(self, action):
        self.frame = self.frame + np.uint8(1)
        return self.frame, 1.0, bool(self.frame[0, 0] == 8), False, {}

class Marked(xagents_ray.A2C):
    def get_states(self):
        states = super().get_states()
        assert states.shape == (2, 36, 36) and states.dtype == np.uint8
        return states + np.uint8(100)
    def get_batch(self):
        batch = super().get_batch()
        self.frames = batch.observations
        return batch
with open("small.cfg", "w") as file:
    file.write("[flatten-0]\\ncommon=1\\n[dense-0]\\noutput=1\\n[dense-1]\\noutput=1\\n")
def marked(env):
    envs = create_envs(env, 2, preprocess=False, frame_stack=3)
    agent = Marked(envs, "small.cfg", n_steps=5, quiet=True, jit="off")
    agent.fit(max_steps=40)
    return agent
agent = marked(Pictures)
assert agent.frames.shape == (3 + 5, 2, 36, 36)  # each is once in a rollout
assert {101, 108} <= set(agent.frames[:, 0, 0, 0].tolist())
assert agent.frames.min() > 100 and agent.frames.max() == 108

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
refused(lambda: Broken(envs, quiet=True).fit(max_steps=20),
        "Broken.get_states: ZeroDivisionError: division by zero (<string>, line ")
refused(wrong("get_batch", lambda x: x.missing), "Wrong.get_batch: AttributeError: ")
for name in ("at_step_start", "train_step", "at_step_end"):
    refused(wrong(name, lambda x: 1 / 0), f"Wrong.{name}: ZeroDivisionError: division "
            "by zero (<string>, line ")

def full(ctx):
    raise OSError("no room left")
with pytest.raises(xagents_ray.Broken, match="no room left"):  # not of train_step
    Usual = type("Usual", (xagents_ray.A2C,), {"train_step": lambda self: super(
        Usual, self).train_step()})
    Usual(envs, quiet=True).fit(max_steps=20, callbacks=full)

class Faulty(Pictures):
    def step(self, action):
        raise KeyError("of the environment")
refused(lambda: marked(Faulty), 'env="Faulty": KeyError: ')
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [STEPS, DATA], ids=["steps", "data"])
def test_overridden_methods_work(program: str) -> None:
    done = forked.run(["-c", SETUP + program], 240)
    assert done.returncode == 0, done.stderr
