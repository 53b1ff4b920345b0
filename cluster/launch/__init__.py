"""Deployment files for clusters: templates and the code that renders them."""
