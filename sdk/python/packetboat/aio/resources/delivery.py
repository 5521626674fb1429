"""Consuming: pull or stream messages, and settle them."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncDelivery:
    """Consuming: pull or stream messages, and settle them."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
