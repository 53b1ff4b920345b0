"""Layers of networks: one module for each kind of them."""
