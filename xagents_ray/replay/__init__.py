"""Data to learn from more than once."""
