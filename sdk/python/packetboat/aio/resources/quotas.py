"""What a tenant may use."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncQuotas:
    """What a tenant may use."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
