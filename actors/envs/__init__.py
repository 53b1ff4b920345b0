"""Creation and validation of vectorized environments."""
