"""Single messages of a topic, and reading a partition again."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncMessages:
    """Single messages of a topic, and reading a partition again."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
