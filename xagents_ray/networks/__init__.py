"""Networks from .cfg files: the layout, a NumPy forward pass, a Keras model."""
