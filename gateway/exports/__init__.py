"""Exports as their tenants see them, and their runs as runners do."""
