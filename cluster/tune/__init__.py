"""A sweep on Ray."""
