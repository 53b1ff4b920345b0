"""Weights file formats that need TensorFlow, one module each; from and to bytes."""
