"""The distributed driver, with real Ray processes."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import forked
import psutil
import pytest
from processes import python, start

from xagents_ray.core.process import available_cores
from xagents_ray.storage.checkpoints import newest_valid

TrainAll = Callable[[str, Sequence[dict[str, Any]]], list[dict[str, Any]]]
PPO = {"env": "CartPole-v1", "n_envs": 4, "max_steps": 3000, "seed": 7}
REPLAY = {**PPO, "buffer_initial_size": 500, "n_step": 3}
DQN = {**REPLAY, "epsilon_decay_steps": 1000}
RAINBOW = {"max_steps": 1500, "distributional": True, "v_max": 100.0}
RAINBOW |= {"dueling": True, "noisy": "factorised"}
ACER = {**PPO, "n_steps": 10, "buffer_initial_size": 8, "buffer_max_size": 40}
PPO_COMMAND = ["-m", "xagents_ray", "train", "ppo", "--env", "CartPole-v1"]
PONG = {
    "env": "PongNoFrameskip-v4",
    "preprocess": True,
    "n_envs": 2,
    "n_steps": 600,
    "ppo_epochs": 1,
    "max_steps": 2400,
    "seed": 7,
}
SAC = {
    "env": "Pendulum-v1",
    "n_envs": 2,
    "max_steps": 600,
    "seed": 7,
    "buffer_initial_size": 100,
    "buffer_batch_size": 32,
    "train_frequency": 4,
    "critics": 3,
    "layer_norm": True,
    "jit": "off",
}
CHANGING = dict.fromkeys(
    ["normalize_observations", "normalize_rewards", "lr_decay", "clip_decay"], True
)
RUNS = {
    "ppo-continuous": (
        "ppo",
        {**PPO, "env": "Pendulum-v1", **CHANGING, "sde_frequency": 7},
    ),
    "ppo-pong": ("ppo", PONG),
    "dqn": ("dqn", DQN),
    "dqn-rainbow": ("dqn", {**REPLAY, **RAINBOW}),
    "acer": ("acer", ACER),
    "sac": ("sac", SAC),
}


QUICK = {"dqn-rainbow"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in RUNS],
)
def test_local_and_one_remote_actor_agree(
    name: str, train_all: TrainAll, cluster: str
) -> None:
    agent, settings = RUNS[name]
    local = {**settings, "local": True}
    remote = {**settings, "address": cluster, "n_actors": 1}
    runs = train_all(agent, [local, remote])
    assert len(runs[0]["episodes"]) >= 2
    assert runs[0]["updates"] > 0
    # Only convolutions gain from more than one.
    threads = available_cores() if "preprocess" in settings else 1
    assert runs[0]["learner_threads"] == threads
    for run in runs[1:]:
        assert run["policy_lag"] == {"min": 0, "mean": 0, "max": 0}
        assert run["episodes"] == runs[0]["episodes"]
        assert run["updates"] == runs[0]["updates"]
        assert run["learner_threads"] == runs[0]["learner_threads"]


@pytest.fixture(scope="module")
def twins(
    train_all: TrainAll, cluster: str, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """Train twice with two env actors; another cluster's token lies at home."""
    home = tmp_path_factory.mktemp("home")
    (home / ".ray").mkdir()
    (home / ".ray" / "auth_token").write_text("a plain ray.init() leaves one")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HOME", str(home))
        return train_all("ppo", [{**PPO, "address": cluster, "n_actors": 2}] * 2)


def test_actors_leave_the_cluster_when_a_run_ends(twins: list[dict[str, Any]]) -> None:
    deadline = time.monotonic() + 20
    while names := _actors():
        assert time.monotonic() < deadline, names
        time.sleep(0.2)


@pytest.mark.slow
def test_runs_repeat_themselves(
    twins: list[dict[str, Any]], train_all: TrainAll
) -> None:
    """And another seed is another run."""
    local = {**PPO, "local": True}
    first, second, other = train_all("ppo", [local, local, {**local, "seed": 8}])
    assert first["episodes"] == second["episodes"] != other["episodes"]
    assert twins[0]["episodes"] == twins[1]["episodes"]


FAILING = """
import os, time
import gymnasium as gym
import ray
import xagents_ray
HERE = os.getpid()

def make():
    if os.getpid() != HERE:
        raise xagents_ray.UserError("no licence on this machine")
    return gym.make("CartPole-v1")

ray.init("ADDRESS", log_to_driver=False, logging_level="ERROR")
try:
    xagents_ray.train("dqn", env=make, max_steps=100, quiet=True)
except xagents_ray.UserError as error:
    kept = error  # as a notebook does, with all that its traceback refers to
assert "no licence on this machine" in str(kept), kept
end = time.monotonic() + 20
while held := {
    *(g["state"] for g in ray.util.placement_group_table().values()),
    *(a["State"] for a in ray._private.state.actors().values()),
} - {"REMOVED", "DEAD"}:
    assert time.monotonic() < end, held
    time.sleep(0.1)
print(ray.is_initialized())
"""


def test_a_start_that_fails_leaves_the_users_ray_as_it_was(cluster: str) -> None:
    done = python("-c", FAILING.replace("ADDRESS", cluster), timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n"


def _actors() -> list[str]:
    """Return the titles of all env actors and learners below this process."""
    titles = []
    for process in psutil.Process().children(recursive=True):
        try:
            title = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if "ray::EnvActor" in title or "ray::LearnerService" in title:
            titles.append(title)
    return titles


ENDED = "xagents-ray: stopped by %s\n"
ENDING = r"Stopped by %s\nTo continue: xagents-ray train ppo --resume runs/ppo/\S+\n$"


@pytest.mark.alone
@pytest.mark.parametrize(
    ("flags", "delay", "code", "send"),
    [
        (["--local"], None, signal.SIGINT, os.kill),
        pytest.param([], None, signal.SIGINT, os.kill, marks=pytest.mark.slow),
        ([], None, signal.SIGTERM, os.killpg),
        pytest.param([], 3.0, signal.SIGINT, os.kill, marks=pytest.mark.slow),
        pytest.param([], 6.0, signal.SIGTERM, os.kill, marks=pytest.mark.slow),
    ],
)
def test_a_signal_ends_a_run(
    flags: list[str],
    delay: float | None,
    code: signal.Signals,
    send: Callable[[int, int], None],
) -> None:
    """In mid-run, and `delay` seconds after the command, when Ray is starting.

    Batch systems send SIGTERM to the whole process group.
    """
    words = [*PPO_COMMAND, "--n-envs", "4", *flags, "--max-steps", "100000000"]
    process = start(*words, stderr=subprocess.PIPE, start_new_session=True)
    if delay is None:
        while not re.search(r"steps: [1-9]", process.stdout.readline()):
            assert process.poll() is None
    else:
        time.sleep(delay)
    children = psutil.Process(process.pid).children(recursive=True)
    began = time.monotonic()
    send(process.pid, code)
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 5
    assert process.returncode == 128 + code
    checkpoints = Path(next(Path().glob("runs/*/*/*/checkpoints"), "none"))
    assert newest_valid(checkpoints) is not None or delay is not None
    assert re.search(ENDING % code.name, out) or delay is not None
    assert "Stopping...\n" in out or delay is not None
    assert err == "" or (delay is not None and err == ENDED % code.name)
    _, alive = psutil.wait_procs(children, timeout=2)
    assert alive == []


def start_local(*words: str) -> Any:
    """Start a run without Ray; wait until it trains."""
    process = start(*PPO_COMMAND, "--local", *words)
    assert process.stdout.readline() == "Loading TensorFlow...\n"
    assert "1 env actor, seed" in process.stdout.readline()
    assert "add --preset" in process.stdout.readline()
    assert "steps: 0," in process.stdout.readline()
    return process


@pytest.mark.alone
def test_local_starts_within_12_seconds_without_ray() -> None:
    # The 12 s are those of an idle machine, on which TensorFlow alone takes 7 s of
    # them; where it takes longer now, so may the rest.
    began = time.monotonic()
    assert python("-c", "import tensorflow").returncode == 0
    limit = 12 * max(1, (time.monotonic() - began) / 7)
    began = time.monotonic()
    end = ["--n-envs", "8", "--max-steps", "10000000"]
    process = start_local(*end)
    assert time.monotonic() - began < limit
    assert "steps: 0," not in process.stdout.readline()
    assert psutil.Process(process.pid).children(recursive=True) == []
    process.terminate()
    assert re.search(ENDING % "SIGTERM", process.communicate(timeout=10)[0])
    assert process.returncode == 143


def test_a_second_signal_ends_at_once() -> None:
    """In the middle of a learning phase that would take minutes."""
    phase = ["--n-steps", "4096", "--mini-batches", "4096", "--ppo-epochs", "1000"]
    process = start_local("--max-steps", "9999", *phase)
    time.sleep(5)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "Stopping...\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=1) == 130
    assert process.communicate()[0] == ""


@pytest.mark.slow
def test_nothing_but_our_lines_on_the_screen() -> None:
    command = [*PPO_COMMAND, "--n-envs", "2"]
    done = python(*command, "--max-steps", "2000", timeout=120)
    assert done.returncode == 0
    assert done.stderr == ""
    *lines, reached, _, _, _, resume = done.stdout.splitlines()
    assert lines[-1] == "Reached --max-steps"
    assert reached.endswith(". Next:") and "resume runs/ppo/" in resume
    assert lines[0] == "Starting Ray..."
    assert re.fullmatch(r"runs/ppo/CartPole-v1/\S+: 2 env actors, seed \d+", lines[1])
    assert lines[2].startswith("ppo has a preset for CartPole-v1: add --preset.")
    assert all(line.startswith("time: ") for line in lines[3:-1])
    quiet = [*command, "--max-steps", "500", "--quiet", "--local"]
    done = forked.run(quiet, 120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
