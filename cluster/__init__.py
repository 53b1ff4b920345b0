"""The only room that imports Ray: remote actors and the distributed driver."""
