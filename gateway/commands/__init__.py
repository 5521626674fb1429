"""The commands that operators type, and their work."""
