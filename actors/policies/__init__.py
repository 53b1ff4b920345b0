"""Policies that act in NumPy, one module per kind; an algorithm names its own."""
