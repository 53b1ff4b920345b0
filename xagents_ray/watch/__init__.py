"""Observers of a run: progress, display, trackers, callbacks and result."""
