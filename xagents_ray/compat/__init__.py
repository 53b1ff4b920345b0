"""The names of xagents, for its users' scripts: they collect settings and train."""
