"""What scripts and notebooks define works on Ray as with --local."""

import os
import subprocess
from pathlib import Path

import pytest
from processes import python

SUPPORT = Path(__file__).parents[2] / "support"


def script(
    program: str, address: str, defined: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run a program as a file, after what a module of `support` defines."""
    source = (SUPPORT / defined).read_text() if defined else ""
    Path("script.py").write_text(source + program.replace("ADDRESS", address))
    return python("script.py", timeout=300)


def notebook(defined: str, program: str, address: str) -> str:
    """Run a program whose `__main__` has no file; return what it prints."""
    source = (SUPPORT / defined).read_text() + program.replace("ADDRESS", address)
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    done = python("-", input=source, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


ALGORITHM = """
import threading
from xagents_ray.extend import register_initializer

register_initializer("odd", threading.Lock().acquire)  # no network here uses it
settings = {"env": "CartPole-v1", "model": "own.cfg", "quiet": True, "n_envs": 2}
settings |= {"buffer_max_size": 500, "buffer_initial_size": 50, "seed": 1, "jit": "off"}
for where in ({"local": True}, {"address": "ADDRESS", "n_actors": 1}):
    for file in SEEN.iterdir():
        file.unlink()
    made = xagents_ray.train("own-dqn", max_steps=500, name=f"{len(where)}",
                             checkpoints=["w.npz"], **settings, **where)
    print(sorted(x.name for x in SEEN.iterdir()), made.env_steps, made.failures)
print(sorted(np.load("w.npz").files))
swept = xagents_ray.tune("own-dqn", trial_steps=300, lr=[1e-4, 1e-3], local=True,
                         **settings, address="ADDRESS")
print(swept.counts)
"""


def test_an_algorithm_learns_acts_and_is_tuned(cluster: str) -> None:
    """Its learner, policy, replay and layer travel to processes without them."""
    Path("own.cfg").write_text("[dense-0]\nunits=8\n[scale-0]\n[dense-1]\noutput=1\n")
    Path("seen").mkdir()
    done = script(ALGORITHM, cluster, "script_algorithm.py")
    assert done.returncode == 0, done.stderr
    weights = [f"dense-{i}/{part}" for i in (0, 1) for part in ("bias", "kernel")]
    assert done.stdout.splitlines() == [
        *["['learner', 'policy', 'replay'] 522 {}"] * 2,
        str(["card", *weights, "files/model.cfg", "scale-0/factors"]),
        "{'complete': 1}",
    ]


NETWORKS = """
import os, pathlib
import numpy as np
import xagents_ray
from xagents_ray.extend import named_weights, newest_arrays
from xagents_ray.utils.common import ModelReader, create_envs

settings = {"env": "CartPole-v1", "n_envs": 2, "n_steps": 16, "seed": 1, "quiet": True}
settings["jit"] = "off"
on_ray = {"address": "ADDRESS", "n_actors": 1}
adam = keras.optimizers.AdamW(1e-3)

def train(name, **own):
    given = {**settings, "name": name, "max_steps": 300, **own}
    return xagents_ray.train("ppo", **given).updates

print(train("known", model=known, optimizer=adam, lr_decay=True, local=True) > 0)
print(train("unknown", model=unknown, **on_ray) > 0)

SEEN = pathlib.Path("seen").absolute()
SEEN.mkdir()

class Tiny(keras.initializers.RandomNormal):
    def __init__(self, seed):
        super().__init__(0.0, 1e-6, seed)

    def __call__(self, shape, dtype=None, **more):
        drawn = super().__call__(shape, dtype, **more)
        (SEEN / f"{os.getpid()}").write_text(f"{np.abs(drawn).max()}")
        return drawn

ModelReader.initializers["tiny"] = Tiny
with open("tiny.cfg", "w") as file:
    file.write("[dense-0]\\nunits=8\\ninitializer=tiny\\ncommon=1\\n"
               "[dense-1]\\noutput=1\\n[dense-2]\\noutput=1\\n")
given = ModelReader("tiny.cfg", [2, 1], (4,)).build_model()
before = given.get_weights()
agent = xagents_ray.A2C(create_envs("CartPole-v1", 2, preprocess=False), given,
                        lr=0.01, quiet=True, **on_ray)
directory = agent.fit(max_steps=60).directory
drawn = [float(file.read_text()) for file in SEEN.iterdir()]
print(len(drawn) == 2 and 0 < max(drawn) < 1e-4)  # here and by the learner
newest = newest_arrays(directory)
print(all(np.array_equal(x, newest[f"policy/{name}"])
          for name, x in named_weights(given).items()))
print(any(map(np.array_equal, given.get_weights()[::2], before[::2])))

print(train("features", feature_maker=features, local=True) > 0)
xagents_ray.train("ppo", resume="runs/ppo/CartPole-v1/unknown", max_steps=400,
                  model=unknown, local=True)
acted = [xagents_ray.load(f"runs/ppo/CartPole-v1/{name}").predict(np.ones((2, 4)))[0]
         for name in ("known", "features")]
print(np.shape(acted))
swept = xagents_ray.tune("ppo", model=known, trial_steps=300, gamma=[0.9, 0.99],
                         address="ADDRESS", local=True, **settings)
print(swept.counts)
train("failing", model=failing, **on_ray)
"""


@pytest.mark.slow
def test_networks_act_learn_and_resume(cluster: str) -> None:
    """Those that NumPy can't compute bring TensorFlow to the env actors.

    The learner has an initializer of this script, and its weights come back.
    """
    done = script(NETWORKS, cluster, "script_networks.py")
    expected = "True\n" * 4 + "False\nTrue\n"
    assert done.stdout == expected + "(2, 2)\n{'complete': 1}\n", done.stderr
    trace = done.stderr.split("RemoteTraceback: \n")[1].splitlines()
    assert trace[1].endswith('script.py", line 36, in failing')
    assert trace[-1].endswith("(script.py, line 36); fix it there.")
    assert Path("runs/ppo/CartPole-v1/known/model.keras").is_file()


CORRIDOR = """
import gymnasium, numpy as np, xagents_ray

class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 9, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, length, breaks_at=None):
        self.length, self.breaks_at = length, breaks_at
    def reset(self, *, seed=None, options=None):
        self.at = np.zeros(1, np.float32)
        return self.at, {}
    def step(self, action):
        self.at = self.at + 1
        if self.at == self.breaks_at: raise RuntimeError("the corridor is closed")
        return self.at, 1.0, bool(self.at == self.length), False, {}
"""
IN_A_SCRIPT = """
run = {"env": Corridor, "n_envs": 2, "max_steps": 100, "quiet": True, "seed": 1}
run["jit"] = "off"
broken = {"length": 5, "breaks_at": 4}
on_ray = {"address": "ADDRESS", "n_actors": 2, "max_actor_restarts": 0}
for place in ({"local": True}, on_ray):
    result = xagents_ray.train("a2c", env_kwargs={"length": 5}, **run, **place)
    print(result.mean_reward, result.n_actors, result.directory.split("/")[2])
for place in ({"local": True}, on_ray):
    try:
        xagents_ray.train("a2c", env_kwargs=broken, **run, **place)
    except (xagents_ray.UserError, xagents_ray.Broken) as error:
        print(error.trace.splitlines(), error)
"""
BESIDE_A_SCRIPT = """
import xagents_ray
from beside import Corridor
from xagents_ray.cluster.ray import connection

connection.has_other_machines = lambda ray: True  # here is only one
run = {"env": Corridor, "max_steps": 40, "quiet": True, "n_actors": 1}
result = xagents_ray.train("a2c", address="ADDRESS", env_kwargs={"length": 5}, **run)
print(result.mean_reward)
"""


def test_an_environment_runs_and_its_own_line_is_named(cluster: str) -> None:
    done = script(CORRIDOR + IN_A_SCRIPT, cluster)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    here, remote, *rest = done.stdout.splitlines()
    assert (here, remote) == ("5.0 1 Corridor", "5.0 2 Corridor")
    line = 1 + next(i for i, x in enumerate(CORRIDOR.splitlines()) if "closed" in x)
    failures = [each for each in rest if each.startswith("['Traceback")]
    assert len(failures) == 2
    for failure in failures:
        first = failure.split(", ")[1]
        assert first.endswith('script.py"') and f", line {line}, in step" in failure
        assert "'RuntimeError: the corridor is closed']" in failure


@pytest.mark.slow
def test_a_copy_of_a_module_beside_a_script_is_imported(cluster: str) -> None:
    """And what else lies there, keys and what git ignores, stays here."""
    Path("project").mkdir()
    for name in (".env", "server.key", "ignored.csv"):
        Path("project", name).write_text("secret")
    Path(".git").mkdir()
    Path(".gitignore").write_text("*.csv\n")
    sent = "set(__import__('os').listdir(__file__.rpartition('/')[0]))"
    stays = "{'.env', 'server.key', 'ignored.csv'}"
    is_sent = f"float('working_dir_files' in __file__ and not {stays} & {sent}), bool"
    Path("project/beside.py").write_text(CORRIDOR.replace("1.0, bool", is_sent))
    Path("project/script.py").write_text(BESIDE_A_SCRIPT.replace("ADDRESS", cluster))
    done = python("project/script.py", timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "5.0\n"


ENVIRONMENTS = """
import xagents_ray
where = {"address": "ADDRESS", "n_envs": 4, "n_actors": 2, "quiet": True, "jit": "off"}
made = xagents_ray.train(
    "ppo", env="own/Vector-v0", max_steps=2_000, eval_every=1_000, eval_episodes=2,
    **where,
)
print(made.games > 0, made.best_evaluation is not None, made.failures)
swept = xagents_ray.tune(
    "ppo", env="__main__:factory", trial_steps=1_000, n_trials=1, lr=[1e-4, 1e-3],
    **where,
)
print(swept.counts)

import ray
from examples import complaints, examples_of
ray.init("ADDRESS", log_to_driver=False, logging_level="ERROR")
for name in ("tune", "TuneResult"):
    for example in examples_of(getattr(xagents_ray, name), name).values():
        print(complaints(example, {"xagents_ray": xagents_ray}) or f"{name} runs")
"""


@pytest.mark.slow
def test_environments_of_a_notebook_are_evaluated_and_tuned(cluster: str) -> None:
    """Env actors, the evaluator and a trial know nothing of this `__main__`.

    The examples of `tune` run here too, where there is a Ray.
    """
    out = notebook("own_environments.py", ENVIRONMENTS, cluster)
    expected = "True True {}", "{'complete': 1}", "tune runs", "TuneResult runs"
    assert tuple(out.splitlines()) == expected


GOALS = """
import xagents_ray

settings = dict(
    env=PointReach, her="future", n_envs=2, max_steps=640, buffer_initial_size=100,
    buffer_batch_size=64, normalize_observations=True, seed=3, quiet=True, jit="off",
)
more = dict(prioritized=True, critics=3, train_frequency=4)
for agent, own in ("ddpg", {}), ("sac", more):
    one = xagents_ray.train(agent, local=True, run_dir="local", **settings, **own)
    same = xagents_ray.train(
        agent, address="ADDRESS", n_actors=1, run_dir="remote", **settings, **own
    )
    print(one.updates > 100, one.episodes == same.episodes)
    print(one.success_rate is not None, one.success_rate == same.success_rate)
"""


@pytest.mark.slow
def test_goals_are_relabeled_in_a_shard_as_they_are_here(cluster: str) -> None:
    """The environment is one of `__main__`, which the shard has to be sent."""
    out = notebook("goal_envs.py", GOALS, cluster)
    assert out.splitlines() == ["True True"] * 4


PRINTING = """
import sys
import xagents_ray

class Talking(Stepping):
    length = 10
    number = 0

    def reset(self, **given):
        Talking.number += 1
        if Talking.number == 2:
            print("hello", "[of the second episode]")
            print("an error", file=sys.stderr)
        return super().reset(**given)

settings = {"n_envs": 2, "n_actors": 2, "max_steps": 200, "tensorboard": False}
xagents_ray.train("a2c", env=Talking, address="ADDRESS", **settings)
"""


@pytest.mark.slow
def test_what_an_environment_prints_is_shown_once_with_its_actor(cluster: str) -> None:
    done = script(PRINTING, cluster, "stepping.py")
    assert (done.returncode, done.stderr) == (0, "")
    printed = [line for line in done.stdout.splitlines() if "hello" in line]
    line = "hello [of the second episode]"
    assert sorted(printed) == [f"Env actor {number}: {line}" for number in (0, 1)]
