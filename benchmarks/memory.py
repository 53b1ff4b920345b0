"""Measures an env actor's unshared memory (USS)."""

import importlib
from contextlib import closing

import click
import psutil

from benchmarks.works import PONG
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.signals import Signals
from xagents_ray.run.prepare import prepare_run
from xagents_ray.settings.config import Config

_N_ENVS, _N_STEPS = 8, 128
_ROLLOUTS = 4


def measure() -> None:
    """Start Ray with one env actor, collect rollouts and print the actor's memory."""
    algorithm = find_algorithm("ppo")
    settings = {**PONG, "n_envs": _N_ENVS, "n_steps": _N_STEPS, "n_actors": 1}
    config = Config.of(algorithm.config, {**settings, "max_steps": 1})
    start = importlib.import_module("xagents_ray.cluster.run.driver").start
    run = prepare_run(algorithm, config)
    with Signals() as signals, closing(start(run, signals, click.echo)) as backend:
        for number in range(_ROLLOUTS):
            backend.collect(number * _N_ENVS * _N_STEPS)
        megabytes = _env_actor().memory_full_info().uss / 1e6
    click.echo(f"env actor, {_N_ENVS} x {PONG['env']}: {megabytes:.0f} MB unshared")


def _env_actor() -> psutil.Process:
    """Return the process whose title, set by Ray, is that of an env actor."""
    for process in psutil.Process().children(recursive=True):
        if " ".join(process.cmdline()).startswith("ray::EnvActor"):
            return process
    raise AssertionError("no process is titled ray::EnvActor")
