"""A real Packetboat for tests: the pytest fixture `packetboat`. See docs/guides/testing.md.

The server is a process of its own, and comes with `packetboat-server`; nothing of it is imported.
"""
