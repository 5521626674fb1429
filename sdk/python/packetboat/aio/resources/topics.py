"""Topics: make, change, grow and delete them, and where their partitions are."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncTopics:
    """Topics: make, change, grow and delete them, and where their partitions are."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
