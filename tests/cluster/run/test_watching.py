"""What can be watched of a run: events, Weights & Biases, evaluations, weights."""

import http.client
import json
import os
import re
import stat
import struct
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import forked
import psutil
import pyarrow.parquet as parquet
import pytest
from processes import start, wait_for
from tensorboardX.proto import event_pb2

from xagents_ray.storage.checkpoints import best_checkpoint, best_evaluation

Train = Callable[..., dict[str, Any]]
PPO = {"env": "CartPole-v1", "n_envs": 4, "seed": 7, "run_dir": "runs"}


OURS_OF_PPO = {"train/policy_loss", "train/kl", "reward/mean", "length/mean"}
# What Stable-Baselines3 writes for PPO with an EvalCallback and discrete actions.
SB3_OF_PPO = {
    "eval/mean_ep_length",
    "eval/mean_reward",
    "rollout/ep_len_mean",
    "rollout/ep_rew_mean",
    "time/fps",
    "train/approx_kl",
    "train/clip_fraction",
    "train/clip_range",
    "train/entropy_loss",
    "train/explained_variance",
    "train/learning_rate",
    "train/loss",
    "train/policy_gradient_loss",
    "train/value_loss",
}


def scalars(run: Path) -> dict[str, list[int]]:
    """Return the steps of every scalar in a run's event files."""
    found: dict[str, list[int]] = {}
    (file,) = (run / "tensorboard").iterdir()
    data, at = file.read_bytes(), 0
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        event = event_pb2.Event.FromString(data[at + 12 : at + 12 + size])
        at += 12 + size + 4
        for value in event.summary.value:
            found.setdefault(value.tag, []).append(event.step)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("local", [True, False])
def test_evaluations_and_events(local: bool, train: Train, cluster: str) -> None:
    where = {"local": True} if local else {"address": cluster, "n_actors": 2}
    names = {"tensorboard_names": "sb3" if local else "xagents"}
    ends = {"max_steps": 3000, "eval_every": 1000, "eval_episodes": 6}
    files = {"checkpoints": ["w/a.weights.h5"]}
    result = train("ppo", **PPO, **where, **ends, **files, **names)
    run = Path(result["directory"])
    found = scalars(run)
    assert (SB3_OF_PPO if local else OURS_OF_PPO) <= found.keys()
    # On Ray, the end of the run skips what waits behind the newest one.
    evaluated = found["eval/mean_reward" if local else "reward/evaluation"]
    assert 3 - (not local) <= len(evaluated) <= 3
    history = parquet.read_table(run / "history.parquet")
    # CartPole's rewards are 1.
    assert history["mean_length"].to_pylist() == history["mean_reward"].to_pylist()
    column = history["evaluation_reward"]
    assert 1 <= len(column.drop_null()) <= 3
    assert all(1 <= mean <= 500 for mean in column.drop_null().to_pylist())
    chosen = best_checkpoint(run / "checkpoints")
    assert chosen is not None
    assert best_evaluation(chosen) == result["best_evaluation"] > 0
    words = "evaluate ppo --env CartPole-v1 --weights w/a.weights.h5 --seed 1"
    done = forked.run(["-m", "xagents_ray", *words.split(), "--episodes", "2"], 120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("mean ")


def test_what_xagents_trained_plays() -> None:
    """Its network has PPO's layout; a random one gets about 22."""
    file = Path(__file__).parents[2] / "data" / "xagents-1.0.1" / "a2c-cartpole.tf"
    words = "evaluate ppo --env CartPole-v1 --n-envs 4 --seed 1 --json --weights"
    done = forked.run(["-m", "xagents_ray", *words.split(), str(file)], 120)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["mean"] > 150


def session(environment: pytest.MonkeyPatch, **variables: str) -> str:
    for name, value in variables.items():
        environment.setenv(name, value)
    words = "train ppo --env CartPole-v1 --local --max-steps 300 --name w"
    more = ["--monitor-session", "mine", "--no-tensorboard"]
    done = forked.run(["-m", "xagents_ray", *words.split(), *more], 180)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_wandb_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    out = session(monkeypatch, WANDB_MODE="offline")
    assert "Warning" not in out
    assert "episode 1:" not in out  # of the video
    run = Path("runs/ppo/CartPole-v1/w")
    (offline,) = (run / "wandb").glob("offline-run-*")
    assert list(offline.glob("*.wandb"))
    assert list((run / "video").glob("*.mp4"))
    assert not (run / "tensorboard").exists()


@pytest.mark.slow
def test_a_run_continues_without_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is logged in."""
    nobody = {"WANDB_API_KEY": "", "HOME": os.getcwd()}
    out = session(monkeypatch, WANDB_MODE="online", **nobody)
    assert out.count("Warning: ") == 1
    assert "Warning: --monitor-session can't be written" in out
    assert "\nReached --max-steps\n" in out


@pytest.mark.slow
def test_prometheus_reads_a_run_and_nothing_survives_its_driver() -> None:
    words = "train dqn --env CartPole-v1 --n-envs 4 --max-steps 10000000".split()
    words += ["--n-actors", "2", "--replay-shards", "2", "--dashboard"]
    with start("-m", "xagents_ray", *words) as process:
        link = ""
        while "steps: 0," not in (line := process.stdout.readline()):
            assert process.poll() is None
            link = line.partition("dashboard: ")[2].strip() or link
        _open_dashboard(link)
        text, deadline = "", time.monotonic() + 60
        while "xagents_ray_env_steps" not in text:
            assert time.monotonic() < deadline
            time.sleep(0.5)
            text = _scraped(psutil.Process(process.pid))
        parts = psutil.Process(process.pid).children(recursive=True)
        assert len(parts) > 5
        folder = _private_folder(parts)
        process.kill()
    _, alive = psutil.wait_procs(parts, timeout=30)
    assert alive == []
    wait_for(lambda: not folder.exists())
    for gauge, label in (
        ("share", "learning"),
        ("policy_lag", "max"),
        ("weights_version", "actor 1"),
        ("env_steps_per_second", "env_steps_per_second"),
    ):
        line = rf'^ray_xagents_ray_{gauge}{{.*agent="dqn",of="{label}".*}} \d'
        assert re.search(line, text, re.MULTILINE), gauge


def _private_folder(parts: Sequence[psutil.Process]) -> Path:
    """Return the folder that only this user can enter, with Ray's folder in it."""
    words = [word for each in parts for word in each.cmdline()]
    names = ("--raylet_socket_name=", "--store_socket_name=")
    sockets = [word.partition("=")[2] for word in words if word.startswith(names)]
    assert sockets and max(map(len, sockets)) < 107
    (folder,) = {Path(each).parents[3] for each in sockets}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    raylets = [each for each in parts if each.name() == "raylet"]
    (token,) = {each.environ()["RAY_AUTH_TOKEN"] for each in raylets}
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files and not any(token.encode() in path.read_bytes() for path in files)
    return folder


def _open_dashboard(link: str) -> None:
    """Use a link to Ray's dashboard as a browser does; without it there is no use."""
    browser = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(CookieJar())
    )
    with browser.open(link, timeout=20) as page:
        assert page.status == 200
        nodes = f"{page.url}nodes?view=summary"
    assert nodes.startswith("http://127.0.0.1:")
    with browser.open(nodes, timeout=20) as page:
        assert json.load(page)["result"]
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        urllib.request.urlopen(nodes, timeout=20)
    refused.value.close()


def _scraped(driver: psutil.Process) -> str:
    """Return what Ray's agent on this machine serves to Prometheus."""
    for child in driver.children(recursive=True):
        if child.name() != "ray::DashboardAgent":
            continue
        for link in child.net_connections(kind="tcp"):
            if link.status == psutil.CONN_LISTEN:
                address = f"http://127.0.0.1:{link.laddr.port}/metrics"
                with suppress(OSError, http.client.HTTPException):
                    with urllib.request.urlopen(address, timeout=2) as answer:
                        return str(answer.read().decode())
    return ""
