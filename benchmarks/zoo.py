"""Results reported by RL Baselines3 Zoo's benchmark, for comparison.

Each is a single run with deterministic evaluation: mean return, unrounded, and env
steps of training (rl-baselines3-zoo's benchmark.md). Those of ACER are from the zoo for
Stable-Baselines 2, those of goal environments from TQC with hindsight experience
replay.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from gymnasium.envs.registration import parse_env_id


class Reported(NamedTuple):
    """A result of the zoo.

    Attributes:
        mean: mean return, with all digits that the zoo gives.
        env_steps: env steps of training.
        agent: the agent, if it is another one than ours.
    """

    mean: float
    env_steps: int
    agent: str = ""


_LUNAR, _LUNAR_CONTINUOUS = "LunarLander", "LunarLanderContinuous"
_PONG = "PongNoFrameskip"
_REACH, _PUSH = (-1.659, 20_000), (-8.799, 1_000_000)
_TQC = {"FetchReach", "FetchPush"}
_BY_AGENT = {
    "a2c": {
        "CartPole": (500.0, 500_000),
        "Acrobot": (-83.353, 500_000),
        _LUNAR: (155.751, 200_000),
        "Pendulum": (-162.965, 1_000_000),
        "MountainCarContinuous": (91.166, 100_000),
        "BipedalWalker": (299.754, 5_000_000),
        _PONG: (17.292, 10_000_000),
        _LUNAR_CONTINUOUS: (84.225, 5_000_000),
        "MountainCar": (-111.263, 1_000_000),
    },
    "acer": {
        "CartPole": (498.620, 500_000),
        "Acrobot": (-90.850, 500_000),
        _LUNAR: (185.210, 1_000_000),
    },
    "ddpg": {
        _LUNAR_CONTINUOUS: (230.217, 300_000),
        "Pendulum": (-152.099, 20_000),
        "MountainCarContinuous": (93.512, 300_000),
        "BipedalWalker": (197.486, 1_000_000),
        "FetchReach": _REACH,
        "FetchPush": _PUSH,
    },
    "dqn": {
        "CartPole": (500.0, 50_000),
        "Acrobot": (-76.639, 100_000),
        _LUNAR: (154.382, 100_000),
        _PONG: (20.602, 10_000_000),
        "MountainCar": (-100.849, 120_000),
    },
    "ppo": {
        "CartPole": (500.0, 100_000),
        "Acrobot": (-73.506, 1_000_000),
        _LUNAR: (242.119, 1_000_000),
        _LUNAR_CONTINUOUS: (270.863, 1_000_000),
        "Pendulum": (-172.225, 100_000),
        "MountainCarContinuous": (88.343, 20_000),
        "BipedalWalker": (288.0, 5_000_000),  # of a newer agent, known as 288 only
        _PONG: (20.989, 10_000_000),
        "MountainCar": (-110.423, 1_000_000),
        "HalfCheetah": (5819.099, 1_000_000),
        "Hopper": (2410.435, 1_000_000),
        "Walker2d": (3478.798, 1_000_000),
        "Ant": (1327.158, 1_000_000),
        "Swimmer": (281.561, 1_000_000),
    },
    "sac": {
        _LUNAR_CONTINUOUS: (260.390, 500_000),
        "Pendulum": (-156.995, 20_000),
        "MountainCarContinuous": (94.679, 50_000),
        "BipedalWalker": (297.668, 500_000),
        "FetchReach": _REACH,
        "FetchPush": _PUSH,
        "HalfCheetah": (9535.451, 1_000_000),
        "Hopper": (2325.547, 1_000_000),
        "Walker2d": (3863.203, 1_000_000),
        "Ant": (4615.791, 1_000_000),
        "Swimmer": (345.568, 1_000_000),
    },
    "td3": {
        _LUNAR_CONTINUOUS: (207.451, 300_000),
        "Pendulum": (-151.855, 20_000),
        "MountainCarContinuous": (93.483, 300_000),
        "BipedalWalker": (305.990, 1_000_000),
        "FetchReach": _REACH,
        "FetchPush": _PUSH,
        "HalfCheetah": (9655.666, 1_000_000),
        "Hopper": (3606.390, 1_000_000),
        "Walker2d": (4717.823, 1_000_000),
        "Ant": (5813.274, 1_000_000),
        "Swimmer": (359.127, 1_000_000),
    },
    "trpo": {
        "CartPole": (500.0, 100_000),
        "Acrobot": (-83.114, 100_000),
        _LUNAR: (133.166, 200_000),
        _LUNAR_CONTINUOUS: (262.387, 200_000),
        "Pendulum": (-174.631, 100_000),
        "MountainCarContinuous": (92.489, 50_000),
        "BipedalWalker": (182.339, 1_000_000),
        "MountainCar": (-107.278, 100_000),
        "HalfCheetah": (1785.476, 1_000_000),
        "Hopper": (3618.386, 1_000_000),
        "Walker2d": (4933.148, 1_000_000),
        "Ant": (4982.301, 1_000_000),
        "Swimmer": (365.663, 1_000_000),
    },
}
_PARTS = {
    "double": "double",
    "dueling": "dueling",
    "prioritized": "prioritized",
    "noisy": "noisy",
    "distributional": "C51",
}
"""Parts of Rainbow, which none of the zoo's agents has, by their setting."""


def reported(agent: str, env: str) -> Reported | None:
    """Return the zoo's result for an agent and an environment's ID, or None."""
    _, name, _ = parse_env_id(env.rpartition(":")[2])
    found = _BY_AGENT.get(agent, {}).get(name)
    return found and Reported(*found, "TQC" if name in _TQC else "")


def parts_beyond(agent: str, settings: Mapping[str, Any]) -> list[str]:
    """Return the parts of an agent that the zoo's agent of the same name lacks.

    Args:
        agent: name of our algorithm.
        settings: settings of the algorithm, by flat name.
    """
    found = [part for name, part in _PARTS.items() if settings.get(name)]
    if (steps := settings.get("n_step", 1)) > 1:
        found.append(f"{steps}-step")
    if agent != "acer" and settings.get("replay_ratio"):  # ACER replays by itself
        found.append("replay")
    if (critics := settings.get("critics", 2)) > 2:
        found.append(f"{critics} critics")
    return found
