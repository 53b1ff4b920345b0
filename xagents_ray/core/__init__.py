"""What every room speaks of: errors, trajectories, specs, signals."""
