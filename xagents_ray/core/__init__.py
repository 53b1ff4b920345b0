"""What every room uses: errors, trajectories, specs, signals."""
