"""Exports, their runs, and what they pin."""
