"""Every environment of a run on Ray is closed, and its end is bounded."""

import json
import shutil
import signal
import time
from pathlib import Path

import forked
import psutil
import pytest
from processes import start

_TRAIN = """
import json, sys, xagents_ray
run = xagents_ray.train("ppo", quiet=True, **json.loads(sys.argv[1]))
print(json.dumps([run.env_steps, run.failures, run.profile]))
"""
_SUPPORT = Path(__file__).parents[2] / "support"
_SIZES = {"n_envs": 2, "n_actors": 2, "n_steps": 32, "jit": "off"}


@pytest.fixture(autouse=True)
def _modules() -> None:
    """Put the environments where Ray's workers import from."""
    for name in ("closing_envs.py", "stepping.py"):
        shutil.copy(_SUPPORT / name, ".")


def _noted(log: Path) -> tuple[list[str], list[str]]:
    """Return the environments that were made, and those that were closed."""
    words = [line.split() for line in log.read_text().splitlines()]
    made, closed = (
        sorted(each[1] for each in words if each[0] == what)
        for what in ("made", "closed")
    )
    return made, closed


def test_all_are_closed_at_the_end_and_no_evaluation_is_endless(
    tmp_path: Path, cluster: str
) -> None:
    """The evaluator's episodes have no end after its first."""
    log = tmp_path / "log"
    settings = {
        "env": "closing_envs:Noting",
        "env_kwargs": {"log": str(log), "endless_from": 30},
        "max_steps": 2_000,
        "eval_every": 1_000,
        "eval_episodes": 31,
        "eval_max_steps": 100,
        "address": cluster,
        "run_dir": str(tmp_path),
        **_SIZES,
    }
    done = forked.run(["-c", _TRAIN, json.dumps(settings)], 200)
    assert done.returncode == 0, done.stderr
    *warnings, last = done.stdout.splitlines()
    steps, failures, profile = json.loads(last)
    assert steps >= 2_000  # it trained on
    assert failures["evaluations"] >= 1
    assert any("has not ended after 100 env steps" in each for each in warnings)
    assert 0 <= profile["snapshot_age"] < 200
    made, closed = _noted(log)
    assert closed == made
    assert len(made) >= 5  # of the probe, two env actors and the evaluator


@pytest.mark.slow
def test_all_are_closed_after_ctrl_c(tmp_path: Path, cluster: str) -> None:
    """One env actor was replaced."""
    log = tmp_path / "log"
    settings = {
        "env": "closing_envs:Noting",
        "env_kwargs": {"log": str(log), "seconds": 0.001},
        "max_steps": 10**9,
        "address": cluster,
        "run_dir": str(tmp_path),
        **_SIZES,
    }
    with start("-c", _TRAIN, json.dumps(settings)) as run:
        until = time.monotonic() + 120
        while not list(tmp_path.glob("*/*/*/history.parquet")):
            assert time.monotonic() < until and run.poll() is None
            time.sleep(0.5)
        lines = log.read_text().splitlines()
        victim = int(lines[-1].split()[2])
        psutil.Process(victim).kill()
        time.sleep(8)
        run.send_signal(signal.SIGINT)
        began = time.monotonic()
        run.communicate(timeout=60)
        assert time.monotonic() - began < 20
    made, closed = _noted(log)
    killed = {
        line.split()[1]
        for line in log.read_text().splitlines()
        if line.split()[2] == str(victim)
    }
    assert set(closed) >= {*made} - killed
