"""The commands that run servers, an entry point of the group `packetboat.commands`."""

from packetboat_server import enter

enter()

from gateway.command import app  # noqa: E402

__all__ = ["app"]
