"""Policies that act in NumPy, one module a kind; an algorithm's row names its own."""
