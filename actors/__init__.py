"""Stepping environments and acting in them, with NumPy alone.

This room imports neither TensorFlow nor Ray.
"""
