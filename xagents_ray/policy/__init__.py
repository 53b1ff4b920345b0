"""A trained policy, loaded from files."""
