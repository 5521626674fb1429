"""Locks: bodies, the line of those who wait."""
