"""Formats of weights files that need TensorFlow, from and to bytes; one a module."""
