"""The command line and the Python functions of the same names."""
