"""Files that outlive a run: checkpoints, weights, histories, run directories."""
