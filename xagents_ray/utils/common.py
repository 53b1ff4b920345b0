"""`xagents.utils.common`: networks from files, environments, and curves."""

from xagents_ray import plot_history
from xagents_ray.compat.envs import create_envs
from xagents_ray.compat.lazy_frames import LazyFrames
from xagents_ray.compat.model_reader import ModelReader

__all__ = ["LazyFrames", "ModelReader", "create_envs", "plot_history"]
