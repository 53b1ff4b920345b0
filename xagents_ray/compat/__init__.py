"""The API of xagents, for existing scripts."""
