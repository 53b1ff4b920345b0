"""What there is to know of an algorithm before it learns: settings, models, presets."""
