"""One run on Ray: its actors, their supervision and placement."""
