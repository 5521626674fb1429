"""Tests and benchmarks start, hang and kill the processes of an installation with these modules.

No wheel has them, and they import neither tests nor benchmarks.
"""
