"""Works: the trainings of the benchmarks, with the same settings for all libraries."""

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.settings.config import Config

Settings = Mapping[str, Any]
"""Settings by flat name, as for `xagents_ray.train`."""

MODES: Mapping[str, Settings] = {
    "local": {"local": True},
    "local-lag-1": {"local": True, "policy_lag": 1},
    "ray": {},
    "ray-lag-1": {"policy_lag": 1},
}
"""Settings of our library's modes."""

PEERS = ("sb3", "sbx", "rlox", "contrib")
"""Stable-Baselines3; SBX, its version on JAX; rlox, with environments in Rust; and
sb3-contrib, whose RecurrentPPO has memory.
"""


@dataclass(frozen=True)
class Work:
    """A training to measure.

    Attributes:
        title: title of the work in tables.
        agent: name of the agent.
        settings: settings of all libraries.
        steps: default number of env steps of a run.
        warmup: env steps before the measurement, in addition to the first learning
            phase; covers later compilations.
        modes: modes in which our library runs.
        peers: libraries to compare with.
        variants: settings of further runs of ours, as for `--variant`.
    """

    title: str
    agent: str
    settings: Settings
    steps: int
    warmup: int = 0
    modes: Sequence[str] = tuple(MODES)
    peers: Sequence[str] = PEERS[:2]
    variants: Sequence[str] = ()

    def config(self, **others: Any) -> tuple[Algorithm, Config]:
        """Return the algorithm, and the config with additional settings."""
        algorithm = find_algorithm(self.agent)
        values = {**self.settings, "max_steps": self.steps, "quiet": True, **others}
        return algorithm, Config.of(algorithm.config, values)


PONG = {
    "env": "PongNoFrameskip-v4",
    "preprocess": True,
    "max_frame": True,  # same as the peers
}
# SBX has no A2C, and trains on images at a tenth of Stable-Baselines3's speed on CPUs.
_SB3 = ("sb3",)
# On CPUs without fast bfloat16, this shows its cost.
_BFLOAT16 = ("precision=bfloat16,allow-slow-precision=true",)
# If EnvPool is installed, it is the default.
_GYMNASIUM = ("vectorization=sync",) if importlib.util.find_spec("envpool") else ()
_LOCAL = ("local", "local-lag-1")
# A round with Pong takes minutes, so one mode is left out; `--mode ray` runs it.
_GAME = (*_LOCAL, "ray-lag-1")
_CARTPOLE = {"env": "CartPole-v1"}
_PPO = {"n_envs": 16, "n_steps": 128, "ppo_epochs": 4, "mini_batches": 4}
_A2C = {"n_envs": 16, "n_steps": 5}
# Some libraries skip the forward pass for random actions, so explore little.
_DQN = {
    "n_envs": 4,
    "train_frequency": 4,
    "epsilon_start": 0.05,
    "epsilon_end": 0.05,
    "buffer_initial_size": 1_000,
}
_PENDULUM = {"env": "Pendulum-v1", "train_frequency": 1, "buffer_initial_size": 1_000}


def _pendulum(agent: str, batch: int) -> Work:
    title = f"{agent.upper()} Pendulum, batch {batch}"
    settings = {**_PENDULUM, "buffer_batch_size": batch}
    # The first episodes end within the warm-up, after which no phase has a new size.
    return Work(title, agent, settings, 4_500, 1_500, ("local",))


WORKS = {
    "ppo-cartpole": Work(
        "PPO CartPole, 16 × 128 × 4",
        "ppo",
        {**_PPO, **_CARTPOLE},
        327_680,
        modes=_LOCAL,
        peers=PEERS[:3],
    ),
    "ppo-cartpole-lstm": Work(
        "PPO CartPole, LSTM 64, 16 × 128 × 4",
        "ppo",
        {**_PPO, **_CARTPOLE, "memory": "lstm:64"},
        81_920,
        modes=_LOCAL,
        peers=PEERS[3:],
    ),
    "a2c-cartpole": Work(
        "A2C CartPole, 16 × 5",
        "a2c",
        {**_A2C, **_CARTPOLE},
        200_000,
        modes=_LOCAL,
        peers=_SB3,
    ),
    "dqn-cartpole": Work(
        "DQN CartPole, batch 64",
        "dqn",
        {**_DQN, **_CARTPOLE, "buffer_batch_size": 64},
        50_000,
        5_000,
        _LOCAL,
    ),
    "td3-pendulum": _pendulum("td3", 100),
    "td3-pendulum-256": _pendulum("td3", 256),
    "ddpg-pendulum": _pendulum("ddpg", 100),
    "ddpg-pendulum-256": _pendulum("ddpg", 256),
    "sac-pendulum-256": _pendulum("sac", 256),
    "ppo-bipedalwalker": Work(
        "PPO BipedalWalker, 16 × 128 × 4",
        "ppo",
        {**_PPO, "env": "BipedalWalker-v3"},
        81_920,
        modes=("local", "ray", "ray-lag-1"),
        variants=_GYMNASIUM,
    ),
    "ppo-pong": Work(
        "PPO Pong, 16 × 128 × 4",
        "ppo",
        {**_PPO, **PONG},
        10_240,
        modes=_GAME,
        peers=_SB3,
        variants=_BFLOAT16,
    ),
    "a2c-pong": Work(
        "A2C Pong, 16 × 5",
        "a2c",
        {**_A2C, **PONG},
        12_000,
        modes=_GAME,
        peers=_SB3,
        variants=_BFLOAT16,
    ),
    "dqn-pong": Work(
        "DQN Pong, batch 32",
        "dqn",
        {**_DQN, **PONG, "buffer_batch_size": 32},
        4_000,
        modes=_GAME,
        peers=_SB3,
        variants=_BFLOAT16,
    ),
}


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Parse settings like `n-envs=8`; UserError for any other form."""
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"{text!r} is no setting: write one as n-envs=8.")
        try:
            settings[name.replace("-", "_")] = json.loads(value)
        except ValueError:
            settings[name.replace("-", "_")] = value
    return settings


def settings_option(help: str) -> Callable[[Any], Any]:
    """Return the option `--set`, which passes `settings` by flat name to a command."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        callback=lambda context, option, texts: parse_settings(texts),
        help=help,
    )
