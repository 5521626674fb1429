"""The driver process of a run."""
