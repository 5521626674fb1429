"""The runner: a small process that claims runs and has a driver process for each.

It imports neither Spark nor lake libraries: idle, it costs one long-poll and a few tens of
megabytes.
"""
