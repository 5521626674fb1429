"""Schemas: versions, compatibility, checks."""
