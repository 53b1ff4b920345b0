"""Policies in NumPy, one module per kind; each algorithm names its policy."""
