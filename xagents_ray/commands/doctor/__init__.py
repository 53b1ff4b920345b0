"""Checks of everything that `train` requires."""
