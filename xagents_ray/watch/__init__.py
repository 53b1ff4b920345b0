"""What is seen of a run: its progress, display, trackers, callbacks and result."""
