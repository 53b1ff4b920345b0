"""Runs that end, are killed, and are resumed; each session in a process of its own."""

import json
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import forked
import pyarrow.parquet as parquet
import pytest
from disks import mounted
from processes import wait_for

from xagents_ray.storage.checkpoints import (
    all_checkpoints,
    load_checkpoint,
    newest_valid,
)

Train = Callable[..., dict[str, Any]]
TrainAll = Callable[[str, Sequence[dict[str, Any]]], list[dict[str, Any]]]
CARTPOLE = {"env": "CartPole-v1", "n_envs": 4, "seed": 7, "local": True}
PENDULUM = {**CARTPOLE, "env": "Pendulum-v1"}
PPO = {**CARTPOLE, "mini_batches": 2}
NORMALIZED = {"normalize_observations": True, "normalize_rewards": True}
REPLAY = {"checkpoint_replay": True}
RUNS = {
    "ppo": ("ppo", PPO),
    "ppo-pendulum": ("ppo", {**PENDULUM, "mini_batches": 2, **NORMALIZED}),
    "dqn": (
        "dqn",
        {
            **CARTPOLE,
            **REPLAY,
            "buffer_initial_size": 200,
            "buffer_max_size": 1500,
            "epsilon_decay_steps": 3000,
        },
    ),
    "acer": (
        "acer",
        {
            **CARTPOLE,
            **REPLAY,
            "n_steps": 10,
            "buffer_initial_size": 8,
            "buffer_max_size": 40,
        },
    ),
    "sac": (
        "sac",
        {
            **PENDULUM,
            **REPLAY,
            "critics": 3,
            "train_frequency": 32,
            "buffer_initial_size": 400,
        },
    ),
}


def games(run: Path) -> list[tuple[int, float]]:
    table = parquet.read_table(run / "history.parquet")
    steps, returns = (table[c].to_pylist() for c in ("step", "episode_reward"))
    return list(zip(steps, returns, strict=True))


def arrays_of(run: Path) -> dict[str, Any]:
    path = newest_valid(run / "checkpoints")
    assert path is not None
    return load_checkpoint(path).arrays


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two learners' states are one, but for how often weights were taken."""
    keys = one.keys() - {"count/version"}
    assert keys == other.keys() - {"count/version"}
    return all((one[k] == other[k]).all() for k in keys)


@pytest.mark.parametrize(
    "name",
    [
        "dqn",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("ppo-pendulum", "acer", "sac")
        ),
    ],
)
def test_a_run_in_two_sessions_is_one(
    name: str, train: Train, train_all: TrainAll, tmp_path: Path
) -> None:
    agent, settings = RUNS[name]
    settings = {**settings, "run_dir": str(tmp_path)}
    ends = ({"name": "whole", "max_steps": 4000}, {"name": "half", "max_steps": 2000})
    whole, half = train_all(agent, [{**settings, **end} for end in ends])
    assert 2000 <= half["env_steps"] < 4000
    rest = train(agent, resume=half["directory"], max_steps=4000)
    assert rest["directory"] == half["directory"]
    assert rest["dropped"] == 0
    for key in ("env_steps", "games", "updates", "mean_reward", "best_reward"):
        assert rest[key] == whole[key]
    one, other = Path(whole["directory"]), Path(half["directory"])
    assert len(games(one)) == whole["games"] > len(half["episodes"]) > 5
    assert games(other) == games(one)
    assert same(arrays_of(one), arrays_of(other))
    summary = json.loads((other / "summary.json").read_text())
    assert summary["env_steps"] == whole["env_steps"]
    assert summary["reason"] == "Reached --max-steps"


def start(*words: str) -> BaseProcess:
    """Start a run that prints into the file `output`."""
    for name in ("output", "errors"):
        Path(name).touch()
    command = ["-m", "xagents_ray", "train", *words]
    return forked.start(command, "output", "errors")


def end(process: BaseProcess, number: signal.Signals) -> int | None:
    """Send a signal; return the exit code."""
    assert process.pid is not None
    os.kill(process.pid, number)
    process.join(20)
    return process.exitcode


@pytest.mark.slow
@pytest.mark.parametrize(
    "kills",
    [
        [signal.SIGKILL] * 3,
        pytest.param([signal.SIGTERM], marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_continues_as_if_unbroken(
    kills: list[signal.Signals], train: Train
) -> None:
    run = Path("runs/ppo/CartPole-v1/killed")
    settings = {"env": "CartPole-v1", "local": True, "n_envs": 4, "seed": 5}
    settings |= {"jit": "auto"}  # as the command has it
    flags = "--env CartPole-v1 --local --n-envs 4 --seed 5 --name killed".split()
    step = 0
    for kill in kills:
        every = ["--checkpoint-every", "2000", "--max-steps", "10000000"]
        process = start("ppo", *flags, *every)
        while step_of(run) <= step:
            assert process.is_alive()
            time.sleep(0.05)
        time.sleep(random.random() / 4)
        assert end(process, kill) == (-9 if kill == signal.SIGKILL else 143)
        assert step_of(run) > step
        step, flags = step_of(run), ["--resume", str(run)]
    last = step + 3000
    train("ppo", resume=str(run), max_steps=last, jit="auto")
    whole = train("ppo", **settings, max_steps=last)
    assert games(run) == games(Path(whole["directory"]))
    assert same(arrays_of(run), arrays_of(Path(whole["directory"])))


def step_of(run: Path) -> int:
    """Return the step of the newest valid checkpoint, 0 without one."""
    path = newest_valid(run / "checkpoints")
    # Not from its files: a run that continues may be removing it.
    return int(path.name.strip("~").removeprefix("step-")) if path else 0


PONG = {
    "env": "PongNoFrameskip-v4",
    "preprocess": True,
    "n_envs": 2,
    "n_steps": 300,
    "ppo_epochs": 1,
    "seed": 7,
    "local": True,
}


@pytest.mark.slow
def test_two_resumes_of_one_checkpoint_are_the_same(
    train: Train, train_all: TrainAll
) -> None:
    """Atari's unfinished games are dropped and counted."""
    first = train("ppo", **PONG, run_dir="runs", name="one", max_steps=600)
    one = Path(first["directory"])
    other = shutil.copytree(one, one.with_name("other"))
    more = {"max_steps": 3000, "run_dir": "runs"}
    resumed = train_all("ppo", [{**more, "resume": str(x)} for x in (one, other)])
    assert [each["dropped"] for each in resumed] == [2, 2]
    assert resumed[0]["episodes"] == resumed[1]["episodes"]
    assert len(resumed[0]["episodes"]) >= 2
    assert same(arrays_of(one), arrays_of(other))


@pytest.mark.parametrize(
    ("agent", "sessions"),
    [
        ("ppo", [({"n_actors": 1}, True), ({"local": True}, False)]),
        pytest.param("dqn", [({}, False)], marks=pytest.mark.slow),
    ],
)
def test_a_run_on_ray_is_resumed(
    agent: str, sessions: list[tuple[dict[str, Any], bool]], train: Train, cluster: str
) -> None:
    """With fewer actors, then without Ray; with its actors as they were."""
    _, settings = RUNS[agent]
    settings = {k: v for k, v in settings.items() if k != "local"}
    settings |= {"address": cluster, "n_actors": 2, "max_steps": 2000}
    first = train(agent, **settings, run_dir="runs")
    run = Path(first["directory"])
    last, env_steps, updates = 4000, first["env_steps"], first["updates"]
    dropped = 0
    for more, drops in sessions:
        result = train(agent, resume=str(run), max_steps=last, **more)
        assert result["env_steps"] >= last > env_steps
        assert result["updates"] > updates
        assert (result["dropped"] > dropped) == drops
        last, env_steps, updates = last + 2000, result["env_steps"], result["updates"]
        dropped = result["dropped"]
    steps = [step for step, _ in games(run)]
    assert steps == sorted(steps)
    assert len(json.loads((run / "run.json").read_text())) == 1 + len(sessions)


def refused(*words: str) -> str:
    done = forked.run(["-m", "xagents_ray", "train", *words], 120)
    assert done.returncode == 2, done.stdout
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_what_resume_refuses(train: Train) -> None:
    first = train("ppo", **PPO, run_dir="runs", name="a", max_steps=1000)
    run = first["directory"]
    assert "can't change" in refused("ppo", "--resume", run, "--env", "Acrobot-v1")
    again = ["--env", "CartPole-v1", "--max-steps", "9", "--name", "a", "--local"]
    assert f"--resume {run}" in refused("ppo", *again)
    for checkpoint in all_checkpoints(Path(run) / "checkpoints"):
        arrays = checkpoint / "arrays.npz"
        data = bytearray(arrays.read_bytes())
        data[len(data) // 2] ^= 1
        arrays.write_bytes(data)
    assert "arrays.npz" in refused("ppo", "--resume", run)
    shutil.rmtree(Path(run) / "checkpoints")
    assert "no checkpoint" in refused("ppo", "--resume", "last")


def test_early_stop_by_plateau(train: Train) -> None:
    result = train(
        "ppo",
        **{**PPO, "lr": 1e-9},
        run_dir="runs",
        max_steps=100_000,
        reward_buffer_size=5,
        divergence_monitoring_steps=500,
        plateau_reduce_patience=3,
        early_stop_patience=2,
    )
    assert result["reason"].startswith("Stopped early at")
    arrays = arrays_of(Path(result["directory"]))
    # Adam's second variable is its learning rate, reduced twice.
    assert arrays["optimizer/1"] == pytest.approx(1e-9 * 0.9**2)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    with mounted(tmp_path / "small", "1m") as path:
        yield path


def printed_steps() -> list[int]:
    return [int(n) for n in re.findall(r"steps: (\d+)", Path("output").read_text())]


def test_a_full_disk_costs_one_warning_of_each_kind(small_disk: Path) -> None:
    """Training continues, and the checkpoint from before stays valid."""
    words = "ppo --env CartPole-v1 --local --n-envs 4 --name full --seed 1"
    words += f" --max-steps 9000000 --checkpoint-every 1000 --run-dir {small_disk}"
    process = start(*words.split())
    run = small_disk / "ppo" / "CartPole-v1" / "full"
    while step_of(run) == 0:
        assert process.is_alive()
        time.sleep(0.05)
    fill = small_disk / "fill"
    with suppress(OSError), fill.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    before = step_of(run)
    wait_for(lambda: printed_steps()[-1:] > [before + 10_000])
    assert end(process, signal.SIGTERM) == 143
    out = Path("output").read_text()
    warnings = [line for line in out.splitlines() if line.startswith("Warning: ")]
    *warnings, last = warnings
    assert 1 <= len(warnings) == len(set(warnings)) <= 4
    assert any("A checkpoint can't be written" in line for line in warnings)
    assert step_of(run) >= before > 0
    assert last == out.splitlines()[-1]
    assert re.match(r"Warning: Not saved \(.*No space left .*\): the newest s", last)
    assert f"The newest checkpoint is of {step_of(run):,} env steps. To co" in last
    fill.unlink()
    command = ["train", "ppo", "--resume", str(run), "--max-steps", "1"]
    again = forked.run(["-m", "xagents_ray", *command], 60)
    assert "raise --max-steps" in again.stdout
    assert again.returncode == 0
