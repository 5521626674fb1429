"""Under work."""
