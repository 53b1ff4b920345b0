"""Vectorized environments, made and checked."""
