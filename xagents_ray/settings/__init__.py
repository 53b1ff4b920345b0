"""Options as data: a flag's default, bounds, unit and help, written once."""
