"""`xagents.utils.buffers`: replay buffers."""

from xagents_ray.compat.buffers import ReplayBuffer1, ReplayBuffer2

__all__ = ["ReplayBuffer1", "ReplayBuffer2"]
