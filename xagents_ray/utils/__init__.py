"""Modules of xagents by their names there; what they hold lies in `compat`."""
