"""The installation itself: whether it is up, who delivers, who a token is."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender
from packetboat.calls import server as calls
from packetboat.models import Fleet, WhoAmI


class AsyncServer:
    """The installation itself: whether it is up, who delivers, who a token is."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def who_am_i(self, *, timeout_s: float | None = None) -> WhoAmI:
        """The tenant and subject of the token, and what it may do."""
        return await self._sender.send(calls.who_am_i(), timeout_s)

    async def forwarders(self, *, timeout_s: float | None = None) -> Fleet:
        """Who delivers messages, with which load."""
        return await self._sender.send(calls.list_forwarders(), timeout_s)

    async def alive(self, *, timeout_s: float | None = None) -> None:
        """Returns where a process answers."""
        await self._sender.send(calls.healthz(), timeout_s)

    async def ready(self, *, timeout_s: float | None = None) -> None:
        """Returns where it should be sent requests; raises Unavailable where not."""
        await self._sender.send(calls.readyz(), timeout_s)
