"""Checks what `train` needs before it trains."""
