"""The installation itself: whether it is up, who delivers, who a token is."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender
from packetboat.calls import server as calls
from packetboat.models import Fleet, WhoAmI


class AsyncServer:
    """The installation itself: whether it is up, who delivers, who a token is."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def who_am_i(self) -> WhoAmI:
        """The tenant and subject of the token, and what it may do."""
        return await self._sender.send(calls.who_am_i())

    async def forwarders(self) -> Fleet:
        """Who delivers messages, with which load."""
        return await self._sender.send(calls.list_forwarders())

    async def alive(self) -> None:
        """Returns where a process answers."""
        await self._sender.send(calls.healthz())

    async def ready(self) -> None:
        """Returns where it should be sent requests; raises Unavailable where not."""
        await self._sender.send(calls.readyz())
