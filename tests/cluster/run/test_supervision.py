"""Env actors that raise, hang or die are replaced; what a cluster lacks is refused."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import forked
import psutil
import pytest
from processes import start

from xagents_ray.storage.checkpoints import load_checkpoint, newest_valid

_ENVS = Path(__file__).parents[2] / "support" / "failing_envs.py"
_PPO = "ppo --env failing_envs:{} --n-envs 4 --n-actors 2 --n-steps 64 --seed 3"


@pytest.fixture
def failing() -> None:
    """Let the cluster know the failing environments: it imports from here too."""
    shutil.copy(_ENVS, Path.cwd())


def _train(
    words: Sequence[str], seconds: float = 120
) -> "subprocess.CompletedProcess[str]":
    return forked.run(["-m", "xagents_ray", "train", *words], seconds)


@pytest.mark.usefixtures("failing")
def test_environments_that_raise_or_hang_are_replaced(cluster: str) -> None:
    """One of each; Ray brings the traceback here."""
    words = [*_PPO.format("raising_and_hanging").split(), "--address", cluster]
    done = _train([*words, "--max-steps", "4000", "--actor-timeout", "3"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("RuntimeError: the simulator lost its licence") == 1
    assert "failing_envs.py" in done.stdout
    assert re.search(r"Env actor \d failed; it is replaced", done.stdout)
    late = "took longer than 3 s for a rollout (see --actor-timeout); it is replaced"
    assert late in done.stdout
    assert "Lost and replaced: env actors: 2, rollouts: 2\n" in done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("failing")
def test_when_all_fail_the_run_ends_with_their_traceback(cluster: str) -> None:
    """Two rollouts end before each failure, and no episode does."""
    words = [*_PPO.format("raising").split(), "--n-steps", "4", "--name", "failed"]
    words += ["--address", cluster]
    done = _train([*words, "--max-steps", "40000", "--max-actor-restarts", "1"])
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("xagents-ray: No env actor is left: the last one failed at ")
    assert re.search(r"failing_envs.py, line \d+ \(RuntimeError\), 2 times wit", last)
    assert "RuntimeError: the simulator lost its licence" in done.stderr
    assert "ray::" not in done.stderr
    (run,) = Path("runs").rglob("failed")
    assert list((run / "checkpoints").iterdir())


def test_an_environment_that_the_cluster_does_not_know(cluster: str) -> None:
    words = [*_PPO.format("uneven").split(), "--max-steps", "10"]
    done = _train([*words, "--address", cluster])
    assert done.returncode == 2
    assert "module failing_envs can't be imported" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.alone
def test_a_run_saves_itself_when_ray_dies() -> None:
    words = "train ppo --env CartPole-v1 --n-envs 4 --max-steps 10000000".split()
    with start("-m", "xagents_ray", *words, stderr=subprocess.PIPE) as process:
        steps = r"steps: ([1-9]\d*)"
        while not (shown := re.search(steps, process.stdout.readline())):
            assert process.poll() is None
        parts = psutil.Process(process.pid).children(recursive=True)
        (head,) = (part for part in parts if part.name() == "gcs_server")
        head.kill()
        _, err = process.communicate(timeout=50)  # Ray itself would end it after 60 s
    assert process.returncode == 1
    assert err.startswith("xagents-ray: Ray's control process (GCS) or this node's")
    assert err.count("\n") == 1
    _, alive = psutil.wait_procs(parts, timeout=10)
    assert alive == []
    (run,) = Path().glob("runs/ppo/CartPole-v1/*")
    newest = newest_valid(run / "checkpoints")
    assert newest is not None
    assert load_checkpoint(newest).facts["progress"]["env_steps"] >= int(shown[1])
    assert "control process" in json.loads((run / "summary.json").read_text())["reason"]


@pytest.mark.slow
@pytest.mark.usefixtures("failing")
def test_env_actors_see_no_gpu(
    start_cluster: Callable[..., AbstractContextManager[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray counts a GPU that this machine need not have; the learner is kept off it."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with start_cluster("", num_cpus=2, num_gpus=1) as address:
        words = [*_PPO.format("blind").split(), "--max-steps", "1000"]
        done = _train([*words, "--address", address, "--learner-gpus", "1"])
        assert done.returncode == 0, done.stderr + done.stdout
        assert "Lost" not in done.stdout
        for lacking, said in (
            (["--learner-gpus", "2"], "needs 2 GPUs and the cluster has 1"),
            (["--actor-cpus", "64"], "CPUs and the cluster has"),
        ):
            began = time.monotonic()
            done = _train([*words, "--address", address, *lacking], 60)
            assert time.monotonic() - began < 20
            assert done.returncode == 2
            assert said in done.stderr and done.stderr.count("\n") == 1
