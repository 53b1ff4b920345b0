"""Sweeps, with search spaces, Optuna studies and displays; runs with several seeds."""
