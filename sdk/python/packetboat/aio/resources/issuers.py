"""Other issuers whose tokens hold here."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncIssuers:
    """Other issuers whose tokens hold here."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
