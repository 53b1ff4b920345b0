"""Results reported by RL Baselines3 Zoo's benchmark, for comparison.

Each is a single run with deterministic evaluation: mean return and env steps of
training (rl-baselines3-zoo's benchmark.md). Those of ACER are from the zoo for
Stable-Baselines 2, those of goal environments from TQC with hindsight experience
replay.
"""

from typing import NamedTuple

from gymnasium.envs.registration import parse_env_id


class Reported(NamedTuple):
    mean: float
    env_steps: int


_LUNAR, _LUNAR_CONTINUOUS = "LunarLander", "LunarLanderContinuous"
_PONG = "PongNoFrameskip"
_BY_AGENT = {
    "a2c": {
        "CartPole": (500, 500_000),
        "Acrobot": (-83, 500_000),
        _LUNAR: (156, 200_000),
        "Pendulum": (-163, 1_000_000),
        "MountainCarContinuous": (91, 100_000),
        "BipedalWalker": (300, 5_000_000),
        _PONG: (17.3, 10_000_000),
    },
    "acer": {
        "CartPole": (498.6, 500_000),
        "Acrobot": (-91, 500_000),
        _LUNAR: (185, 1_000_000),
    },
    "ddpg": {
        _LUNAR_CONTINUOUS: (230, 300_000),
        "Pendulum": (-152, 20_000),
        "MountainCarContinuous": (94, 300_000),
        "BipedalWalker": (197, 1_000_000),
        "FetchReach": (-1.7, 20_000),
        "FetchPush": (-8.8, 1_000_000),
    },
    "dqn": {
        "CartPole": (500, 50_000),
        "Acrobot": (-77, 100_000),
        _LUNAR: (154, 100_000),
        _PONG: (20.6, 10_000_000),
    },
    "ppo": {
        "CartPole": (500, 100_000),
        "Acrobot": (-74, 1_000_000),
        _LUNAR: (242, 1_000_000),
        _LUNAR_CONTINUOUS: (271, 1_000_000),
        "Pendulum": (-172, 100_000),
        "MountainCarContinuous": (88, 20_000),
        "BipedalWalker": (288, 5_000_000),
        _PONG: (21.0, 10_000_000),
    },
    "sac": {
        _LUNAR_CONTINUOUS: (260, 500_000),
        "Pendulum": (-157, 20_000),
        "MountainCarContinuous": (95, 50_000),
        "BipedalWalker": (298, 500_000),
        "FetchReach": (-1.7, 20_000),
        "FetchPush": (-8.8, 1_000_000),
    },
    "td3": {
        _LUNAR_CONTINUOUS: (207, 300_000),
        "Pendulum": (-152, 20_000),
        "MountainCarContinuous": (93, 300_000),
        "BipedalWalker": (306, 1_000_000),
        "FetchReach": (-1.7, 20_000),
        "FetchPush": (-8.8, 1_000_000),
    },
    "trpo": {
        "CartPole": (500, 100_000),
        "Acrobot": (-83, 100_000),
        _LUNAR: (133, 200_000),
        _LUNAR_CONTINUOUS: (262, 200_000),
        "Pendulum": (-175, 100_000),
        "MountainCarContinuous": (92, 50_000),
        "BipedalWalker": (182, 1_000_000),
    },
}


def reported(agent: str, env: str) -> Reported | None:
    """Return the zoo's result for an agent and an environment's ID, or None."""
    _, name, _ = parse_env_id(env.rpartition(":")[2])
    found = _BY_AGENT.get(agent, {}).get(name)
    return None if found is None else Reported(*found)
