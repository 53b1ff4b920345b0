"""Networks from .cfg and .keras files: layout, NumPy forward pass and Keras model."""
