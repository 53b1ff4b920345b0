"""Data that is learned from repeatedly."""
