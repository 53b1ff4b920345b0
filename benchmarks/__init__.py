"""Benchmarks: speed compared with other libraries, cost of each part, and memory."""
