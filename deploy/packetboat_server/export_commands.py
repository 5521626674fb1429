"""The commands that run exports, an entry point of the group `packetboat.commands`."""

from packetboat_server import enter

enter()

from spark_exports.runner.command import app  # noqa: E402

__all__ = ["app"]
