"""A real Packetboat for tests: the pytest fixture `packetboat`. See docs/guides/testing.md."""
