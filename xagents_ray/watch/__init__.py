"""What can be seen of a run: progress, display, trackers, callbacks and result."""
