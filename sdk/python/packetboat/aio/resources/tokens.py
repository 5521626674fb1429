"""Access tokens: get, ask about and revoke them."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncTokens:
    """Access tokens: get, ask about and revoke them."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
