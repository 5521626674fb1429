"""The installation itself: whether it is up, who delivers, who a token is."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender


class AsyncServer:
    """The installation itself: whether it is up, who delivers, who a token is."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender
