"""The errors of a read by Spark, beside those of a call."""

from __future__ import annotations

from packetboat.errors import PacketboatError


class InvalidOption(PacketboatError, ValueError):
    """An option, or a column of a schema, that the data source cannot do anything with."""


class ReadFailed(PacketboatError):
    """Raised when the messages cannot be read, and a retry will not help."""
