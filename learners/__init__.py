"""The algorithms: pure losses and returns, and one small class each.

This room imports neither Ray nor the actors.
"""

from xagents_ray.learners import runtime  # noqa: F401  quiet, before TensorFlow
