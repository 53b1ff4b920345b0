"""REINFORCE for xagents-ray."""
