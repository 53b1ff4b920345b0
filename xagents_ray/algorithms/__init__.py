"""Descriptions of the algorithms: settings, networks and presets."""
