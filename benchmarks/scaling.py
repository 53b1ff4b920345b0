"""Measures throughput by number of env actors, with environments that sleep."""

import json
import statistics
import sys
import time
from typing import Any, NamedTuple

import click
import gymnasium as gym
import numpy as np

from benchmarks.subprocesses import in_fresh_process

_ENVS_PER_ACTOR = 4
_ROUNDS = {"ppo": 8, "dqn": 60}
_SETTINGS: dict[str, dict[str, Any]] = {
    "ppo": {"n_steps": 128, "ppo_epochs": 4},
    "dqn": {
        "buffer_batch_size": 32,
        "train_frequency": 32,
        "rollout_length": 16,
        "buffer_initial_size": 100,
        "asynchronous": True,
    },
}
_ROWS = {"ppo": 128, "dqn": 16}
_RUN = """
import json, sys, xagents_ray
agent, settings = json.loads(sys.argv[1])
result = xagents_ray.train(agent, quiet=True, tensorboard=False, **settings)
names = "steps_per_second", "policy_lag", "profile"
print(json.dumps({name: getattr(result, name) for name in names}))
"""


class Sleeper(gym.Env[Any, Any]):
    """A simulator that sleeps in each step; episodes have 200 steps."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (8,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def reset(self, **settings: Any) -> Any:
        super().reset(seed=settings.get("seed"))
        self._steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        """Sleep; truncate after 200 steps."""
        time.sleep(self._seconds)
        self._steps += 1
        return self._observe(), float(action == 0), False, self._steps == 200, {}

    def _observe(self) -> Any:
        return self.np_random.uniform(-1, 1, 8).astype(np.float32)


class Run(NamedTuple):
    agent: str
    n_actors: int
    steps_per_second: float
    policy_lag: dict[str, float]
    profile: dict[str, Any]


def measure(
    agents: tuple[str, ...], actors: tuple[int, ...], runs: int, step_ms: float
) -> list[Run]:
    """Run all combinations in turn, `runs` times, and print the table."""
    done = []
    for _ in range(runs):
        for agent in agents:
            done += [_run(agent, count, step_ms) for count in actors]
    _print(done)
    return done


def _run(agent: str, n_actors: int, step_ms: float) -> Run:
    n_envs = _ENVS_PER_ACTOR * n_actors
    settings = {
        **_SETTINGS[agent],
        "env": f"{__name__}:Sleeper",
        "env_kwargs": [f"seconds={step_ms / 1_000}"],
        "vectorization": "sync",
        "n_envs": n_envs,
        "n_actors": n_actors,
        "policy_lag": 1,
        "max_steps": n_envs * _ROWS[agent] * _ROUNDS[agent],
    }
    command = [sys.executable, "-c", _RUN, json.dumps([agent, settings])]
    run = Run(agent, n_actors, **in_fresh_process(command))
    click.echo(f"{agent} {n_actors} actors: {run.steps_per_second:.1f} env steps/s")
    return run


def _print(runs: list[Run]) -> None:
    """Print medians, and the fraction of linear scaling from the fewest actors."""
    speeds: dict[tuple[str, int], list[float]] = {}
    for run in runs:
        speeds.setdefault((run.agent, run.n_actors), []).append(run.steps_per_second)
    fewest = min(count for _, count in speeds)
    click.echo(
        "| agent | env actors | env steps/s (median, smallest–largest) | linear |"
    )
    click.echo("|---|---|---|---|")
    for (agent, count), values in sorted(speeds.items()):
        median = statistics.median(values)
        linear = median / statistics.median(speeds[agent, fewest]) * fewest / count
        spread = f"{median:.0f} ({min(values):.0f}–{max(values):.0f})"
        click.echo(f"| {agent} | {count} | {spread} | {linear:.1%} |")
