"""What we measure, with peers beside us in the same run: `python -m benchmarks`."""
