"""The server that the pytest fixture starts. The fixture is `packetboat.testing`, of the SDK."""
