"""Environments that only the driver's process knows, made in another one."""

from pathlib import Path
from typing import Any

from processes import python

OWN = Path(__file__).parents[1] / "support" / "own_environments.py"

_MAKE = """
import pickle, sys
from dataclasses import replace
from pathlib import Path
from xagents_ray.core.objects import install_definitions
from xagents_ray.actors.envs.make import make_envs, probe
for file in sorted(Path("exported").iterdir()):
    config, definitions = pickle.loads(file.read_bytes())
    install_definitions(definitions)
    for vectorization in ("auto", "async"):
        envs = make_envs(replace(config, vectorization=vectorization), 2, 1)
        assert envs.reset(1).shape == (2, 4)
        for _ in range(20):
            envs.step(envs._envs.action_space.sample())
        envs.close()
    print(config.env)
"""
_EXPORT = """
import copy, functools, pickle
from pathlib import Path
from xagents_ray.actors.envs.registry import export_definitions
from xagents_ray.settings.training import EnvConfig
shorter = copy.deepcopy(gym.spec("own/Text-v0"))
shorter.max_episode_steps = 9
ENVIRONMENTS += [Own, lambda: Own(), functools.partial(factory), shorter]
Path("exported").mkdir()
configs = [EnvConfig(env=env) for env in ENVIRONMENTS]
parts = {"wrappers": (Wrapper,), "state_to_input": lambda seen: seen[:4]}
configs.append(EnvConfig(env="Acrobot-v1", **parts))
for number, config in enumerate(configs):
    pickled = pickle.dumps((config, export_definitions(config)))
    Path(f"exported/{number:02}").write_bytes(pickled)
"""


def run(source: str) -> Any:
    """Run Python on its standard input, as a notebook does: `__main__` has no file."""
    return python("-", input=source, timeout=100)


def test_another_process_makes_what_main_registers_or_holds() -> None:
    exported = run(OWN.read_text() + _EXPORT)
    assert exported.returncode == 0, exported.stderr
    made = run(_MAKE)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.split() == [
        "own/Text-v0",
        "own/Class-v1",
        "own/Wrapped-v0",
        "own/Vector-v0",
        "own/Outer-v0",
        "CartPole-v1",
        "__main__:factory",
        "Own",
        "lambda-Own",
        "factory",
        "spec:own/Text-v0",
        "Acrobot-v1",
    ]


def test_a_process_of_doctor_knows_them_and_does_not_run_the_script_again() -> None:
    looked = run(
        OWN.read_text()
        + """
print("once")
import time
from xagents_ray.actors.envs.registry import export_definitions
from xagents_ray.run.child import Child, Job
from xagents_ray.settings.training import EnvConfig
path, config = "xagents_ray.actors.envs.make:probe", EnvConfig(env="own/Vector-v0")
with Child.start(Job(path, (config, export_definitions(config)))) as child:
    print(child.receive(time.monotonic() + 60).value.observation_shape)
"""
    )
    assert (looked.stdout, looked.stderr) == ("once\n(4,)\n", "")


def test_what_cannot_be_sent_is_refused() -> None:
    refused = run("""
import gymnasium, threading
from xagents_ray.actors.envs.registry import export_definitions
from xagents_ray.core.errors import UserError
from xagents_ray.settings.training import EnvConfig
lock = threading.Lock()
def make(**settings):
    with lock:
        return gymnasium.make("CartPole-v1")
gymnasium.register("Locked-v0", make)
assert export_definitions(EnvConfig(env="CartPole-v1"))
try:
    export_definitions(EnvConfig(env="Locked-v0"))
except UserError as error:
    print(error)
""")
    assert refused.returncode == 0, refused.stderr
    assert "--env Locked-v0 can't be sent to other processes" in refused.stdout
    assert "_thread.lock" in refused.stdout
    assert "--local" in refused.stdout
    assert refused.stdout.count("\n") == 1
