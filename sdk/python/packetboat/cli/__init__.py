"""The `packetboat` command: `pip install 'packetboat[cli]'`."""
