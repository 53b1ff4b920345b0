"""Remote actors and the distributed driver; the only package that imports Ray."""
