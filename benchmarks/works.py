"""What is trained in the benchmark of throughput."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_N_ENVS, _N_STEPS = 16, 128

ROLLOUT = _N_ENVS * _N_STEPS
"""Env steps between two learning phases."""


@dataclass(frozen=True)
class Work:
    """One thing to train.

    Attributes:
        settings: of `xagents_ray.train("ppo", ...)`; Stable-Baselines3 takes its
            hyperparameters from them too.
        rollouts: of a run, unless the user asks for another number.
    """

    settings: Mapping[str, Any]
    rollouts: int


_PPO = {
    "n_envs": _N_ENVS,
    "n_steps": _N_STEPS,
    "ppo_epochs": 4,
    "mini_batches": 4,
    "quiet": True,
}
PONG = {
    "env": "PongNoFrameskip-v4",
    "preprocess": True,
    "max_frame": True,  # as AtariWrapper does
}

WORKS = {
    "ppo-cartpole": Work({**_PPO, "env": "CartPole-v1", "local": True}, 64),
    "ppo-pong-local": Work({**_PPO, **PONG, "local": True}, 5),
    "ppo-pong-ray": Work({**_PPO, **PONG}, 5),
}
