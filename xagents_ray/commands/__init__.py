"""What a user types or calls first."""
