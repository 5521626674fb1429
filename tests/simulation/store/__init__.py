"""Simulated clusters of the product's own store nodes: `python -m tests.simulation.store`."""
