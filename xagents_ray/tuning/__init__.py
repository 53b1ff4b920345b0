"""Sweeps: what they vary, their Optuna study, what a user sees of them."""
