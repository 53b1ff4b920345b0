"""The algorithms, one small class each, on pure functions for losses and returns.

This package imports neither Ray nor the actors.
"""

from xagents_ray.learners import runtime  # noqa: F401  before TensorFlow loads
