"""`xagents-ray doctor` as a user types it; it ends in 20 s whatever happens."""

import importlib.util
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import forked
import psutil
import pytest

from xagents_ray.cluster.run.preflight import ClusterFacts
from xagents_ray.commands.doctor import machine

SECONDS = 20
CARTPOLE = ["--env", "CartPole-v1"]
OWN = """
import threading, time
import gymnasium as gym
import numpy as np

class Odd(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)
    sleeps_in, reward, observation = "", 1.0, 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.sleeps_in == "reset":
            time.sleep(1000)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        if self.sleeps_in == "step":
            time.sleep(1000)
        if self.sleeps_in == 0:
            1 / 0
        observation = np.full(3, self.observation, np.float32)
        return observation, self.reward, False, False, {}

def _made(**changes):
    env = Odd()
    for name, value in changes.items():
        setattr(env, name, value)
    return env

def slow_to_make(): time.sleep(1000)
def slow_to_reset(): return _made(sleeps_in="reset")
def slow_to_step(): return _made(sleeps_in="step")
def nan_reward(): return _made(reward=float("nan"))
def nan_observation(): return _made(observation=float("inf"))
def slow_to_make_more():
    time.sleep(8 if slept else 0)
    slept.append(1)
    return _made()
slept = []
def raises(): raise RuntimeError("the licence has run out")
def raises_in_step(): return _made(sleeps_in=0)
def dies(): import os; os._exit(3)

class Locked:
    def __init__(self): self.lock = threading.Lock()
    def __call__(self): return _made()
locked = Locked()
"""


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    Path("own.py").write_text(OWN, encoding="utf-8")
    forked.run(["-c", ""], 60)  # its server stays
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    left = psutil.Process().children(recursive=True)
    assert {child.pid for child in left} <= before


def doctor(*words: str, **environment: str) -> tuple[int, dict[str, list[str]], str]:
    """Return the exit code, the rows by name, and what follows the table."""
    began = time.perf_counter()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        done = forked.run(["-m", "xagents_ray", "doctor", *words], 2 * SECONDS)
    assert time.perf_counter() - began < SECONDS
    assert "Traceback" not in done.stdout
    assert "--traceback" in words or "Traceback" not in done.stderr
    table, _, rest = done.stdout.partition("\n\n")
    rows: dict[str, list[str]] = {}
    for line in table.splitlines()[3:]:
        name, *cells = (cell.strip() for cell in line.strip("| ").split("|"))
        if len(cells) == 2 and name:
            rows[name] = cells
        elif len(cells) == 2:
            rows[list(rows)[-1]][1] += f" {cells[1]}"
    assert done.stderr == "" or done.returncode == 2
    return done.returncode, rows, " ".join((rest + done.stderr).split())


NEED_AN_ENVIRONMENT = ("spaces", "network", "worker", "step", "rewards", "acting")


@pytest.mark.parametrize("agent, local", [("ppo", []), ("dqn", ["--local"])])
def test_a_run_that_would_work(agent, local) -> None:
    """Load alone may be a warning; no end of training is asked for."""
    code, rows, rest = doctor(agent, *CARTPOLE, "--n-envs", "4", *local)
    assert code == 0
    assert {v for n, (v, _) in rows.items() if n not in ("cores", "GPU")} == {"ok"}
    assert rows["spaces"][1] == "4 float32 numbers; 2 discrete actions"
    assert rows["rewards"][1].startswith("finite, 1 to 1")
    assert "mean return 2" in rows["rewards"][1]  # 22 at random
    assert re.match(r"\d[\d.,]* µs per env step", rows["step"][1])
    steps = re.match(r"about ([\d,]+) env steps/s", rows["acting"][1])
    assert steps and int(steps[1].replace(",", "")) > 1000
    assert ("Ray" in rows, "object store" in rows) == (not local, not local)
    assert "add --preset" in rows["preset"][1]
    if agent == "dqn":
        assert rows["memory"][1].startswith("10,000 transitions take ")
    warned = any(verdict == "warning" for verdict, _ in rows.values())
    assert rest.startswith("What to change:" if warned else "Nothing to change.")


def test_the_replay_of_frames_is_compared_with_the_memory() -> None:
    size = 10**9
    words = ["--env", "PongNoFrameskip-v4", "--preprocess", "--n-envs", "4"]
    code, rows, rest = doctor("dqn", *words, "--buffer-max-size", str(size))
    assert code == 2
    assert rows["spaces"][1] == "84×84 uint8 frames, 4 stacked; 6 discrete actions"
    each = re.match(r"([\d,]+) bytes per transition", rows["transition"][1])
    assert each and 84 * 84 < int(each[1].replace(",", "")) < 1.05 * 84 * 84
    assert rows["memory"][0] == "error"
    assert "1,000,000,000 transitions take 6.6 TiB" in rows["memory"][1]
    most = re.search(r"memory: Lower --buffer-max-size to (\d+) or less", rest)
    assert most and int(most[1]) * 7303 < psutil.virtual_memory().total


MISTAKES = {
    "raises": ("environment", "RuntimeError: the licence has run out (own.py, line "),
    "raises_in_step": ("step", "ZeroDivisionError: division by zero (own.py, line "),
    "nowhere": ("environment", "module own has no nowhere"),
    "dies": ("environment", "the process ended with exit code 3"),
    "slow_to_make": ("environment", "did not be made within 8 s"),
    "slow_to_reset": ("step", "did not reset within"),
    "slow_to_step": ("step", "did not step within"),
    "nan_reward": ("step", "gave a reward of nan"),
    "nan_observation": ("step", "gave an observation of inf"),
}
WAITING = ("slow_to_make", "slow_to_reset", "slow_to_step")
"""These are looked at together, as most of it is waiting."""


@pytest.mark.parametrize(
    "factories",
    [(name,) for name in MISTAKES if name not in WAITING] + [WAITING],
    ids="+".join,
)
def test_an_environment_that_is_not_well(factories) -> None:
    def look(factory: str) -> tuple[int, dict[str, list[str]], str]:
        words = ["--env", f"own:{factory}", "--n-envs", "2", "--traceback"]
        return doctor("ppo", *words)

    with ThreadPoolExecutor(len(factories)) as pool:
        looks = list(pool.map(look, factories))
    for factory, (code, rows, rest) in zip(factories, looks, strict=True):
        name, sentence = MISTAKES[factory]
        assert code == 2
        in_theirs = "Traceback (most recent call last): File" in rest
        in_theirs = in_theirs and "own.py" in rest
        assert in_theirs == factory.startswith("raises")
        assert rows[name][0] == "error"
        assert f"{name}: " in rest and sentence in rest
        later = NEED_AN_ENVIRONMENT[NEED_AN_ENVIRONMENT.index("worker") :]
        if name == "environment":
            later = NEED_AN_ENVIRONMENT
        else:
            later = later[later.index(name) + 1 :]
        assert [rows[each][0] for each in later] == ["-"] * len(later)
        assert rows["disk"][0] == "ok"  # the machine is looked at all the same


def test_environments_that_take_long_to_make_are_not_an_error() -> None:
    words = ["--env", "own:slow_to_make_more", "--n-envs", "6", "--n-actors", "2"]
    code, rows, rest = doctor("ppo", *words)
    assert code == 0 and rows["worker"][0] == "warning"
    assert "lower --n-envs" in rest


def test_a_factory_that_cannot_be_sent() -> None:
    words = ["--env", "own:locked", "--n-envs", "2"]
    code, rows, _ = doctor("ppo", *words)
    assert code == 0 and rows["rewards"][0] == "ok"
    code, rows, rest = doctor("ppo", *words, "--vectorization", "async")
    assert code == 2 and rows["environment"][0] == "error"
    assert "cannot pickle '_thread.lock' object" in rest


@pytest.mark.parametrize(
    ("words", "row", "said"),
    [
        ("dqn --env Pendulum-v1", "spaces", "dqn can't take the continuous actions"),
        ("ppo --env CartPole-v1 --model no.cfg", "network", ".*no.cfg: can't be read"),
        (
            "dqn --env CartPole-v1 --her future --local",
            "goals",
            "--her is for goal env",
        ),
        ("ppo --env CartPole-v1 --run-dir file", "disk", ".*--run-dir"),
    ],
)
def test_a_mistake_is_in_its_row(words: str, row: str, said: str) -> None:
    Path("file").touch()
    code, rows, rest = doctor(*words.split())
    assert code == 2
    assert rows["environment"][0] == "ok" and rows[row][0] == "error"
    assert re.search(f"{row}: {said}", rest)


@pytest.mark.parametrize("place", ["127.0.0.1:1", "no.such.host:6379", "silent"])
def test_a_cluster_that_is_not_there(place: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        if place == "silent":
            place = f"127.0.0.1:{server.getsockname()[1]}"
        code, rows, rest = doctor("ppo", *CARTPOLE, "--address", place)
    assert code == 2
    assert rows["cluster"][0] == "error" and rows["acting"][0] == "ok"
    assert "cluster: " in rest and place in rest


def test_a_cluster_that_is_there(cluster: str) -> None:
    words = [*CARTPOLE, "--n-envs", "8", "--address", cluster]
    code, rows, rest = doctor("ppo", *words, RAY_AUTH_MODE="token")
    assert code == 0
    assert rows["token"] == ["warning", "the cluster requires none"]
    assert rows["Ray's folder"] == ["warning", "others can write to it"]
    assert "token: Start the cluster with RAY_AUTH_MODE=token" in rest
    assert rows["cluster"][1].startswith("1 node, 4 of 4 CPUs and 0 of 0 GPUs free")
    assert "by 4 env actors on 4 cores" in rows["acting"][1]
    assert "GPU" not in rows and rows["object store"][0] == "ok"


def test_what_other_users_can_read_or_write_is_a_warning() -> None:
    facts = dict.fromkeys(("nodes", "cpus", "free_cpus", "gpus", "free_gpus"), 1)
    facts |= dict.fromkeys(("memory", "store"), 2**30)
    versions = {"ray": "2.60.0", "python": "3.11.14"}
    said = {"exposed_token": "chmod 600 it.", "exposed_folder": "Name another."}
    exposed = ClusterFacts(**facts, **versions, requires_token=True, **said)
    row = machine.check_token(exposed)
    assert row is not None and (row.verdict, row.remedy) == ("warning", "chmod 600 it.")
    row = machine.check_ray_folder(exposed)
    assert row is not None and (row.verdict, row.remedy) == ("warning", "Name another.")
    private = replace(exposed, exposed_token="", exposed_folder="")
    row = machine.check_token(private)
    assert row is not None and row.verdict == "ok"
    assert machine.check_ray_folder(private) is None


@pytest.mark.slow
def test_a_cluster_that_requires_a_token(
    start_cluster: Callable[[str], AbstractContextManager[str]],
) -> None:
    with start_cluster("0123456789abcdef" * 4) as address:
        code, rows, rest = doctor("ppo", *CARTPOLE, "--address", address)
        words = ["train", "ppo", *CARTPOLE, "--max-steps", "10", "--address", address]
        began = time.monotonic()
        done = forked.run(["-m", "xagents_ray", *words], 60)
        assert time.monotonic() - began < SECONDS
    assert code == 2 and rows["cluster"][0] == "error"
    assert "requires a token: set RAY_AUTH_TOKEN" in rest
    assert done.returncode == 2
    assert "requires a token" in done.stderr and done.stderr.count("\n") == 1


def test_a_gpu_that_tensorflow_cannot_use(tmp_path) -> None:
    """A driver that shows one where there is none."""
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text("#!/bin/sh\necho 'NVIDIA H200, 143771 MiB'\n", encoding="utf-8")
    smi.chmod(0o755)
    path = f"{smi.parent}{os.pathsep}{os.environ['PATH']}"
    code, rows, rest = doctor(
        "ppo", *CARTPOLE, PATH=path, CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="3"
    )
    assert code == 0 and rows["GPU"][0] == "warning"
    assert rows["GPU"][1].startswith("NVIDIA H200, 143771 MiB")
    assert "GPU: " in rest


def test_tensorflow_without_bytecode(tmp_path, monkeypatch) -> None:
    source = tmp_path / "tensorflow" / "__init__.py"
    bytecode = Path(importlib.util.cache_from_source(str(source)))
    bytecode.parent.mkdir(parents=True)
    spec = SimpleNamespace(origin=str(source))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    row = machine.check_bytecode()
    assert row is not None and row.verdict == "warning"
    assert f"python -m compileall -q {source.parent}." in row.remedy
    bytecode.touch()
    assert machine.check_bytecode() is None


def test_a_preset_is_taken() -> None:
    code, rows, _ = doctor("ppo", *CARTPOLE, "--preset", "--local")
    assert code == 0 and rows["preset"][1] == "used"
    assert "--max-steps takes" in rows["acting"][1]
