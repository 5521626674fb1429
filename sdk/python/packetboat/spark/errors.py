"""What a read by Spark can end in, beside the errors of a call."""

from __future__ import annotations

from packetboat.errors import PacketboatError


class InvalidOption(PacketboatError, ValueError):
    """An option, or a column of a schema, that the data source cannot do anything with."""


class ReadFailed(PacketboatError):
    """What was asked for cannot be had, and asking again will not help."""
