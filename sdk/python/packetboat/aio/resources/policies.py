"""Who may do what."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncPolicies:
    """Who may do what."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
