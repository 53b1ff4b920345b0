"""Ray itself: connecting, calling, and what its processes need."""
