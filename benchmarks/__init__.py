"""Our benchmarks, which measure peers in the same run: `python -m benchmarks`."""
