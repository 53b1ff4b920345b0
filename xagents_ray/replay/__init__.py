"""Data that is learnt from again."""
