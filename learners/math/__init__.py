"""Mathematics of the algorithms: pure functions of tensors, and distributions."""
