"""Push subscriptions: attempts, tests, replay, and signing secrets."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncWebhooks:
    """Push subscriptions: attempts, tests, replay, and signing secrets."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
