"""Tenants, for operators."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncTenants:
    """Tenants, for operators."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
