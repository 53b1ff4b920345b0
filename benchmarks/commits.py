"""Two installations of xagents-ray compared: the same numbers, the same speed.

`python -m benchmarks same-numbers BEFORE AFTER` and `same-speed BEFORE AFTER` take two
Python interpreters; each has another commit installed (not from a checkout).
"""

import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from pyarrow import parquet

from benchmarks.works import WORKS

_SHARED = {"n_envs": 4, "max_steps": 3_000, "seed": 7, "quiet": True, "name": "run"}
_REPLAY = {"buffer_initial_size": 500}
_RUNS: Sequence[tuple[str, str, Mapping[str, Any]]] = (
    ("a2c", "CartPole-v1", {}),
    ("a2c", "Pendulum-v1", {}),
    ("acer", "CartPole-v1", {"buffer_initial_size": 10}),
    ("ddpg", "Pendulum-v1", _REPLAY),
    ("dqn", "CartPole-v1", _REPLAY),
    ("ppo", "CartPole-v1", {}),
    ("ppo", "Pendulum-v1", {}),
    ("td3", "Pendulum-v1", _REPLAY),
    ("trpo", "CartPole-v1", {"n_steps": 128}),
    ("trpo", "Pendulum-v1", {"n_steps": 128}),
)
AGENTS = tuple(dict.fromkeys(agent for agent, *_ in _RUNS))
PLACES: Mapping[str, Mapping[str, Any]] = {
    "local": {"local": True},
    "Ray, one actor": {"n_actors": 1},
}
_CODE = """
import json, resource, sys, xagents_ray
agent, settings = json.loads(sys.argv[1])
result = xagents_ray.train(agent, **settings)
used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
seconds = sum(u.ru_utime + u.ru_stime for u in used)
print(json.dumps([result.steps_per_second, seconds]))
"""


class Same(NamedTuple):
    """One run with both installations.

    Attributes:
        agent: that was trained.
        env: id of the environment.
        mode: `local` or `Ray, one actor`.
        episodes: that both have.
        differences: what is not the same; empty when everything is.
    """

    agent: str
    env: str
    mode: str
    episodes: int
    differences: tuple[str, ...]


class Speed(NamedTuple):
    """Medians of pairs of runs, after ÷ before.

    Attributes:
        work: its name in the table of works.
        pairs: of runs, before and after in turn.
        steps_per_second: ratio of medians.
        cpu_per_step: ratio of medians of user and system time of the whole process,
            its start included.
    """

    work: str
    pairs: int
    steps_per_second: float
    cpu_per_step: float


def same_numbers(
    before: str, after: str, agents: Sequence[str] = (), modes: Sequence[str] = ()
) -> Iterator[Same]:
    """Train every agent with a seed; yield what differs of episodes and arrays."""
    for agent, env, own in _RUNS:
        for mode, placement in PLACES.items():
            if (agents and agent not in agents) or (modes and mode not in modes):
                continue
            settings = {**_SHARED, **own, **placement, "env": env}
            with (
                tempfile.TemporaryDirectory() as first,
                tempfile.TemporaryDirectory() as second,
            ):
                for python, runs in ((before, first), (after, second)):
                    _train(python, agent, {**settings, "run_dir": runs})
                found = [
                    _read(Path(runs, agent, env, "run")) for runs in (first, second)
                ]
            yield Same(agent, env, mode, len(found[0][0]), _differences(*found))


def same_speed(
    before: str, after: str, pairs: int, works: Sequence[str] = ()
) -> Iterator[Speed]:
    """Train works with --local in alternation; yield the ratios."""
    for name in works or ("ppo-cartpole", "ppo-pong"):
        work = WORKS[name]
        done: dict[str, list[list[float]]] = {before: [], after: []}
        for number in range(2 * pairs):
            # Each is the first of a pair as often as the other.
            python = (before, after)[(number + number // 2) % 2]
            with tempfile.TemporaryDirectory() as runs:
                own = {**work.settings, "local": True, "max_steps": work.steps}
                done[python].append(
                    _train(python, work.agent, {**own, "quiet": True, "run_dir": runs})
                )
            click.echo(f"{name} {number + 1}/{2 * pairs}", err=True)
        (speed, cpu), (new_speed, new_cpu) = (
            map(statistics.median, zip(*runs, strict=True)) for runs in done.values()
        )
        yield Speed(name, pairs, new_speed / speed, new_cpu / cpu)


def _train(python: str, agent: str, settings: Mapping[str, Any]) -> list[float]:
    """Train in a fresh process; return env steps a second and its CPU seconds."""
    asked = json.dumps([agent, settings])
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [python, "-c", _CODE, asked], capture_output=True, text=True, cwd=elsewhere
        )
    if done.returncode:
        raise click.ClickException(f"A run failed: {asked}\n{done.stderr[-2000:]}")
    numbers: list[float] = json.loads(done.stdout.splitlines()[-1])
    return numbers


Found = tuple[list[tuple[int, float]], dict[str, Any]]


def _read(run: Path) -> Found:
    """Return the episodes of a run, and the arrays of its newest checkpoint."""
    columns = parquet.read_table(run / "history.parquet").to_pydict()
    episodes = list(zip(columns["step"], columns["episode_reward"], strict=True))
    newest = max((run / "checkpoints").iterdir())
    with np.load(newest / "arrays.npz") as file:
        return episodes, dict(file)


def _differences(before: Found, after: Found) -> tuple[str, ...]:
    found = ["episodes"] if before[0] != after[0] else []
    old, new = before[1], after[1]
    found += sorted(f"only in one: {name}" for name in old.keys() ^ new.keys())
    found += sorted(
        name
        for name in old.keys() & new.keys()
        if not np.array_equal(
            old[name], new[name], equal_nan=old[name].dtype.kind == "f"
        )
    )
    return tuple(found)
