"""Sweeps on Ray Tune: real trials, real databases, real kills."""

import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import cloudpickle
import forked
import optuna
import psutil
import pytest
import yaml
from optuna.trial import FrozenTrial
from processes import has_ended, python, start, wait_for

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.cluster.tune.trial import Trial
from xagents_ray.run.child import Child

_TUNE = ["-m", "xagents_ray", "tune"]
_PPO = "ppo --env CartPole-v1 --local --study s --jit off"
_RANGE = "--lr 1e-5 1e-2 --n-envs 4 8"
_GAP_SECONDS = 3.0
_MORE_MEMORY = 1.1


def tuned(words: str) -> "subprocess.CompletedProcess[str]":
    return forked.run([*_TUNE, *words.split()], 600)


def started(words: str, **more: Any) -> "subprocess.Popen[str]":
    return start(*_TUNE, *words.split(), stderr=subprocess.STDOUT, **more)


def study(folder: Path = Path()) -> optuna.Study:
    path = (folder / "runs/tune/s/study.db").resolve()
    return optuna.load_study(study_name="s", storage=f"sqlite:///{path}")


def states(trials: list[FrozenTrial]) -> list[str]:
    """Return each trial's state; those that were only interrupted apart."""
    return [
        "INTERRUPTED" if "interrupted" in trial.user_attrs else trial.state.name
        for trial in trials
    ]


def trainees(above: int) -> list[psutil.Process]:
    """Return the processes in which trials train: those below a fork server."""
    found = []
    for child in psutil.Process(above).children(recursive=True):
        try:
            above = child.parent()
            words = above.cmdline() if above else []
            if any("forkserver" in w for w in words) and child.cpu_times().user > 0.5:
                if any("forkserver" in word for word in child.cmdline()):
                    found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def gaps(trials: list[FrozenTrial], jobs: int) -> list[float]:
    """Return the seconds from a trial's last env step to the next one's first."""
    found = []
    for i, trial in enumerate(trials[jobs:], jobs):
        began = trial.user_attrs["began"]
        ends = [t.user_attrs["ended"] for t in trials[:i]]
        found.append(began - max(end for end in ends if end <= began))
    return found


def follow_at_once(trials: list[FrozenTrial], jobs: int) -> bool:
    """Return if trials follow each other within 3 s, or a quarter of the first start.

    The first start imports TensorFlow, and is as slow as this machine is now.
    """
    first = trials[0]
    assert first.datetime_start is not None
    start = first.user_attrs["began"] - first.datetime_start.timestamp()
    return statistics.median(gaps(trials, jobs)) <= max(_GAP_SECONDS, start / 4)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Run a sweep of 10 trials, two at a time; yield where, and what it printed."""
    folder = tmp_path_factory.mktemp("sweep")
    words = f"{_PPO} {_RANGE} --n-trials 10 --n-jobs 2 --trial-steps 15000"
    done = tuned(f"{words} --warmup-trials 3 --seed 5 --run-dir {folder}/runs")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    yield folder, done.stdout


def test_all_trials_end_and_some_are_pruned(swept: tuple[Path, str]) -> None:
    folder, out = swept
    trials = study(folder).trials
    ends = [trial.state.name for trial in trials]
    assert len(ends) == 10 and set(ends) == {"COMPLETE", "PRUNED"}
    assert ends[:3] == ["COMPLETE"] * 3  # --warmup-trials
    for trial in trials:
        assert f"Trial {trial.number} {trial.state.name.lower()}, steps: " in out
        if trial.state.name == "COMPLETE":
            assert trial.value == pytest.approx(_newest_mean(folder, trial.number))
        else:
            assert trial.user_attrs["env_steps"] < 15_000
            assert trial.value == list(trial.intermediate_values.values())[-1]


def _newest_mean(folder: Path, number: int) -> float:
    """Return the mean of the last returns that a trial's run has written."""
    path = folder / f"runs/tune/s/ppo/CartPole-v1/trial-{number}/summary.json"
    return float(json.loads(path.read_text("utf-8"))["last_reward"])


def test_a_trial_is_a_run_like_any_other(swept: tuple[Path, str]) -> None:
    """Its own command is in its directory, and it can be played from there."""
    best = study(swept[0]).best_trial
    run = swept[0] / f"runs/tune/s/ppo/CartPole-v1/trial-{best.number}"
    (start,) = json.loads((run / "run.json").read_text("utf-8"))
    words = shlex.split(start["command"])
    assert words[:3] == ["xagents-ray", "train", "ppo"]
    assert words[words.index("--lr") + 1] == str(best.params["lr"])
    assert words[words.index("--name") + 1] == f"trial-{best.number}"
    command = ["evaluate", "ppo", "--run", str(run), "--episodes", "2", "--json"]
    done = forked.run(["-m", "xagents_ray", *command], 120)
    assert done.returncode == 0 and json.loads(done.stdout)["mean"] > 20, done.stderr


def test_trials_follow_each_other_at_once(swept: tuple[Path, str]) -> None:
    assert follow_at_once(study(swept[0]).trials, 2)


def test_pictures_and_a_preset_are_left(swept: tuple[Path, str]) -> None:
    folder, out = swept
    sweep = folder / "runs/tune/s"
    for name in ("history.png", "importances.png", "parallel.png"):
        assert (sweep / name).stat().st_size > 5_000 and name in out
    best = study(folder).best_trial
    settings = yaml.safe_load((sweep / "best.yaml").read_text("utf-8"))["settings"]
    assert settings["lr"] == best.params["lr"]
    assert str(sweep / "best.yaml") in out


@pytest.mark.slow
def test_the_best_is_better_than_the_defaults(swept: tuple[Path, str]) -> None:
    """As one copies it from the screen, on seeds that it wasn't chosen by."""
    _, out = swept
    line = next(s for s in out.splitlines() if "train ppo" in s and "--lr" in s)
    words = shlex.split(line)
    at = words.index("--seed")
    del words[at : at + 2]
    defaults = "train ppo --env CartPole-v1 --local --max-steps 15000".split()

    def mean(command: list[str], name: str) -> float:
        total = 0.0
        for seed in ("21", "22"):
            run = [*command, "--seed", seed, "--name", f"{name}-{seed}"]
            assert forked.run(["-m", "xagents_ray", *run], 300).returncode == 0
            found = Path(f"runs/ppo/CartPole-v1/{name}-{seed}/summary.json")
            total += json.loads(found.read_text("utf-8"))["last_reward"]
        return total / 2

    with ThreadPoolExecutor(2) as pool:
        best = pool.submit(mean, words[1:], "best")
        assert best.result() > mean(defaults, "defaults")


def test_the_preset_trains(swept: tuple[Path, str]) -> None:
    best = swept[0] / "runs/tune/s/best.yaml"
    words = ["train", "ppo", "--preset", str(best), "--max-steps", "2000", "--local"]
    done = forked.run(["-m", "xagents_ray", *words], 120)
    assert done.returncode == 0 and "Reached --max-steps" in done.stdout


@pytest.mark.slow
def test_a_killed_sweep_continues(cluster: str) -> None:
    """Finished trials are not repeated; the broken ones are, with their parameters."""
    words = f"{_PPO} {_RANGE} --n-trials 3 --trial-steps 8000 --address {cluster}"
    sweep = started(words)
    wait_for(lambda: _ended() >= 1 and _count("RUNNING"))
    sweep.kill()
    sweep.communicate()
    before = study().trials
    running = [t for t in before if t.state.name == "RUNNING"]
    assert running
    done = tuned(words)
    assert done.returncode == 0, done.stderr
    after = study().trials
    assert tuned(words).returncode == 0 and study().trials == after  # nothing to do
    found = states(after)
    assert found.count("COMPLETE") + found.count("PRUNED") + found.count("FAIL") == 3
    assert found.count("INTERRUPTED") == len(running)
    for trial in before:
        if trial.state.is_finished():
            assert after[trial.number] == trial
    for trial in running:
        again = [t for t in after if t.user_attrs.get("repeats") == trial.number]
        # One that was killed while it got its parameters had not begun.
        assert len(again) == 1 and trial.params.items() <= again[0].params.items()
        assert again[0].state.is_finished()


def _ended() -> int:
    return _count("COMPLETE", "PRUNED", "FAIL")


def _count(*names: str) -> int:
    """Count trials in these states; it only reads, for the sweep is at work."""
    path = Path("runs/tune/s/study.db")
    if not path.is_file():
        return 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        with suppress(sqlite3.OperationalError):  # it is only being made
            places = ", ".join("?" * len(names))
            query = f"SELECT count(*) FROM trials WHERE state IN ({places})"
            return int(database.execute(query, names).fetchone()[0])
    return 0


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(
    ("number", "send", "own_ray"),
    [(signal.SIGINT, os.kill, False), (signal.SIGTERM, os.killpg, True)],
)
def test_a_signal_ends_a_sweep_in_order(
    number: signal.Signals,
    send: Callable[[int, int], None],
    own_ray: bool,
    cluster: str,
) -> None:
    """Batch systems send SIGTERM to the whole process group."""
    words = f"{_PPO} {_RANGE} --n-trials 4 --n-jobs 2 --trial-steps 500000"
    where = "" if own_ray else f" --address {cluster}"
    sweep = started(words + where, start_new_session=True)
    above = sweep.pid if own_ray else os.getpid()  # the cluster is below this process
    below = wait_for(lambda: len(found := trainees(above)) == 2 and found)
    if own_ray:
        below = psutil.Process(sweep.pid).children(recursive=True)
    clock = time.monotonic()
    send(sweep.pid, number)
    out, _ = sweep.communicate(timeout=30)
    assert time.monotonic() - clock < 8
    assert sweep.returncode == 128 + number
    assert "2 interrupted, 2 waiting" in out and "Traceback" not in out
    assert out.endswith("The same command with --study s runs the rest\n")
    _, alive = psutil.wait_procs(below, timeout=3)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []
    assert states(study().trials) == ["INTERRUPTED"] * 2 + ["WAITING"] * 2


@pytest.mark.slow
def test_trials_that_crash_are_failures_and_the_sweep_continues() -> None:
    """Once the process that trains, once the one of Ray that looks after it."""
    sweep = started(f"{_PPO} --lr 1e-5 1e-2 --n-trials 3 --trial-steps 60000")
    wait_for(lambda: trainees(sweep.pid))[0].kill()
    wait_for(_ended)
    trainee = wait_for(lambda: trainees(sweep.pid))[0]
    trainee.parent().parent().kill()
    out, _ = sweep.communicate(timeout=200)
    assert sweep.returncode == 0, out
    trials = study().trials
    assert states(trials) == ["FAIL", "FAIL", "COMPLETE"]
    assert "ended with SIGKILL" in trials[0].user_attrs["reason"]
    assert "the trial's process died" in trials[1].user_attrs["reason"]
    assert "Trial 0 failed: the process ended with SIGKILL" in out
    assert "Traceback" not in out
    assert has_ended(trainee)


@pytest.mark.slow
def test_a_trial_waits_at_a_point_until_the_one_before_was_compared() -> None:
    """So one that is to be pruned leaves the cores to the others."""
    settings = {"env": "CartPole-v1", "local": True, "n_envs": 4, "quiet": True}
    settings["max_steps"] = 10_000_000
    trial = object.__new__(Trial)  # Tune makes others
    trial.setup(
        {
            "algorithm": cloudpickle.dumps(find_algorithm("ppo")),
            "settings": settings,
            "claims": [{"CPU": 1}],
            "definitions": (),
            "variables": {},
            "points": [2000, 4000, 6000],
        }
    )
    points: list[int] = []
    spent = []
    while len(points) < 2:
        report = trial.step()
        assert "failure" not in report, report
        if report["point"] is not None:
            points.append(report["point"])
            time.sleep(2)
            assert isinstance(trial._training, Child)
            child = trial._training.process
            before = psutil.Process(child.pid).cpu_times().user
            time.sleep(1)
            spent.append(psutil.Process(child.pid).cpu_times().user - before)
    began = time.monotonic()
    trial.cleanup(10)
    assert points == [2000, 4000] and max(spent) < 0.1
    assert time.monotonic() - began < 8
    assert child.exitcode == 0


def test_what_a_trial_raises_is_in_the_study(cluster: str) -> None:
    where = Path("failing_envs.py")  # Ray's workers get this folder
    shutil.copy(Path(__file__).parents[2] / "support" / where.name, where)
    words = f"ppo --env failing_envs:raising --n-envs 2 --local --address {cluster}"
    done = tuned(f"{words} --study s --n-trials 2 --trial-steps 2000 --lr 1e-4 1e-3")
    assert done.returncode == 1
    reason = f"RuntimeError: the simulator lost its licence ({where.name}, line "
    start = "xagents-ray: No trial completed; 2 failed, the last one: "
    assert f"{start}--env failing_envs:raising: {reason}" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    for trial in study().trials:
        assert trial.state.name == "FAIL" and reason in trial.user_attrs["reason"]
        assert trial.user_attrs["traceback"].startswith("Traceback")


@pytest.mark.slow
def test_a_seeded_sweep_repeats_itself(cluster: str) -> None:
    """Settings that don't fit together fail alone, and are no reason to stop."""
    words = f"{_PPO} --address {cluster} --n-trials 4 --trial-steps 1500 --n-envs 1"
    words += " --scheduler none --n-steps 8 64 --mini-batches 4 16 --lr 1e-5 1e-2"
    results = []
    for name in ("one", "two"):
        done = tuned(f"{words} --seed 1 --storage sqlite:///{name}.db")
        assert done.returncode == 0, done.stderr
        assert "--mini-batches 16 is more than the batch of 8" in done.stdout
        made = optuna.load_study(study_name="s", storage=f"sqlite:///{name}.db")
        results.append([(t.params, t.value, t.state.name) for t in made.trials])
    assert results[0] == results[1]
    sizes = [(each["n_steps"], each["mini_batches"]) for each, _, _ in results[0]]
    is_misfit = [pair == (8, 16) for pair in sizes]
    states = [state for _, _, state in results[0]]
    assert states == ["FAIL" if misfit else "COMPLETE" for misfit in is_misfit]
    assert 0 < sum(is_misfit) < 3
    values = [value for _, value, state in results[0] if state == "COMPLETE"]
    assert len(set(values)) == len(values)


_FROM_PYTHON = """
import json, os, subprocess
import ray  # it reads the environment now
import xagents_ray
own = subprocess.Popen(["sleep", "600"])
result = xagents_ray.tune(
    "dqn", env="CartPole-v1", n_envs=4, n_actors=2, study="s", n_trials=2, n_jobs=2,
    trial_steps=1500, buffer_initial_size=500, quiet=True,
    lr=xagents_ray.log_uniform(1e-4, 1e-3), double=True,
    train_frequency=xagents_ray.categorical(4, 8))
trained = xagents_ray.train("dqn", **{**result.best, "max_steps": 1000})
print(json.dumps([result.best, result.best_reward, result.counts, result.directory,
                  result.trials.to_dict("records"), trained.env_steps,
                  own.poll(), os.environ["RAY_AUTH_TOKEN"]], default=str))
own.kill()
"""


@pytest.mark.slow
def test_from_python_with_env_actors() -> None:
    """In a program that uses Ray itself; what is the program's own stays as it is."""
    token = "mine" * 16
    Path("empty").mkdir()
    own = {"RAY_AUTH_TOKEN": token, "TMPDIR": str(Path("empty").resolve())}
    own["RAY_TMPDIR"] = "/tmp"  # the names of Ray's sockets may not be longer
    done = python("-c", _FROM_PYTHON, env={**os.environ, **own})
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and done.stdout.count("\n") == 1
    best, reward, counts, directory, rows, steps, *rest = json.loads(done.stdout)
    assert rest == [None, token]
    assert list(Path("empty").iterdir()) == []
    assert counts == {"complete": 2} and steps >= 1000
    assert directory == str(Path("runs/tune/s").resolve())
    assert reward == max(row["value"] for row in rows) == study().best_value
    assert {row["params_lr"] for row in rows} >= {best["lr"]}
    for i in range(2):
        path = Path(directory) / f"dqn/CartPole-v1/trial-{i}/summary.json"
        assert json.loads(path.read_text("utf-8"))["n_actors"] == 2


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--local --learner-gpus 1", "and the cluster has 0: lower --learner-gpus"),
        ("--n-envs 2 --actor-cpus 64", "lower --actor-cpus or --n-actors"),
    ],
)
def test_what_no_node_has_is_refused_at_once(
    flags: str, said: str, cluster: str
) -> None:
    words = f"ppo --env CartPole-v1 --study s --lr 1e-4 1e-3 --address {cluster}"
    done = tuned(f"{words} {flags}")
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.count("\n") == 1
    assert study().trials == []


@pytest.mark.slow
def test_a_trial_starts_from_the_weights_and_says_what_a_run_says() -> None:
    """Four thousand steps alone don't get beyond a mean of 40.

    On a Ray of its own: the cluster that the tests share has no log monitor, so it
    doesn't forward what workers print.
    """
    weights = Path(__file__).parents[2] / "data" / "xagents-1.0.1" / "a2c-cartpole.tf"
    words = f"{_PPO} --weights {weights} --lr 1e-5 --n-envs 4"
    done = tuned(f"{words} --n-trials 1 --trial-steps 4000 --non-silent")
    assert done.returncode == 0, done.stderr
    assert study().best_value > 50
    text = done.stdout + done.stderr
    assert re.search(r"trial-0: 1 env actor, seed \d+", text)
    assert "Nothing varies and there is one trial" in text
    assert "Reached --max-steps" in text


@pytest.mark.slow
@pytest.mark.alone
def test_memory_stays_flat_over_fifty_trials() -> None:
    """Of the trials' processes, and of the sweep with all below it."""
    sweep = started(f"{_PPO} {_RANGE} --n-trials 50 --trial-steps 4000")
    wholes: dict[int, float] = {}
    while sweep.poll() is None:
        time.sleep(0.5)
        ended = _ended()
        wholes[ended] = max(_memory(sweep), wholes.get(ended, 0.0))
    out, _ = sweep.communicate()
    assert sweep.returncode == 0, out
    trials = study().trials
    assert len(trials) == 50
    own = [trial.user_attrs["memory"] for trial in trials]
    print("memory of trials 5 and 50:", own[4], own[-1])
    print("of everything:", {n: round(wholes[n] / 2**20) for n in sorted(wholes)})
    print("gaps:", sorted(round(gap, 2) for gap in gaps(trials, 1)))
    assert own[-1] <= own[4] * _MORE_MEMORY
    assert follow_at_once(trials, 1)
    late = [size for ended, size in wholes.items() if ended >= 45]
    early = [size for ended, size in wholes.items() if 4 <= ended <= 8]
    assert statistics.median(late) <= statistics.median(early) * _MORE_MEMORY
    assert all(a.number < b.number for a, b in pairwise(trials))


def _memory(sweep: "subprocess.Popen[str]") -> float:
    """Return the bytes that a sweep and all below it hold, shared ones once."""
    total = 0.0
    try:
        whole = psutil.Process(sweep.pid)
        for process in (whole, *whole.children(recursive=True)):
            total += process.memory_full_info().pss
    except psutil.Error:
        pass
    return total
