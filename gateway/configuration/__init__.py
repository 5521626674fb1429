"""The settings and bounds of a process, those of all its parts together."""
