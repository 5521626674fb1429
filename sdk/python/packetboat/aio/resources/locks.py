"""Locks: what one of many may do at a time."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncLocks:
    """Locks: what one of many may do at a time."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
