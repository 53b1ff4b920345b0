"""Shared by all packages: errors, trajectories, specs, signals."""
