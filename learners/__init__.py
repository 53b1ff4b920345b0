"""The algorithms: pure losses and returns, and one small class each.

This room imports neither Ray nor the actors.
"""
