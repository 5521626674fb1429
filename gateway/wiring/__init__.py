"""Composition: the parts of each role of a server process, one module each."""
