"""The settings of each algorithm. A default is written here and nowhere else."""

from xagents_ray.hyperparameters.acer import ACERConfig
from xagents_ray.hyperparameters.common import AlgorithmConfig
from xagents_ray.hyperparameters.off_policy import (
    DDPGConfig,
    DQNConfig,
    OffPolicyConfig,
    ReplayConfig,
    TD3Config,
)
from xagents_ray.hyperparameters.on_policy import A2CConfig, PPOConfig, TRPOConfig

__all__ = [
    "A2CConfig",
    "ACERConfig",
    "AlgorithmConfig",
    "DDPGConfig",
    "DQNConfig",
    "OffPolicyConfig",
    "PPOConfig",
    "ReplayConfig",
    "TD3Config",
    "TRPOConfig",
]
