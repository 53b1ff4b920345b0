"""Trained policies: loading, prediction, playing, evaluation and export."""
