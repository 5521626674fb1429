"""Schemas that bodies of a topic must fit."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncSchemas:
    """Schemas that bodies of a topic must fit."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
