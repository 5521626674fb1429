"""Dead letters of a subscription, and publishing them again."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncDeadLetters:
    """Dead letters of a subscription, and publishing them again."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
