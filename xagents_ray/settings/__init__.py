"""Options as data: each flag's default, bounds, unit and help."""
