"""The `packetboat` command: the extra `cli`."""
