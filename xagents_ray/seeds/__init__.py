"""Runs with several seeds: side by side, and what they reach together."""
