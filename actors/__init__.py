"""Environments, and policies in NumPy that act in them.

This package imports neither TensorFlow nor Ray.
"""
