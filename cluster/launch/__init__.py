"""Files that bring a training to a cluster: templates and what fills them in."""
