# Generated from openapi/: `make generate`. Do not edit.
"""The installation: its health, its forwarders, and the caller of a token."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender
from packetboat.calls import tenancy as calls
from packetboat.models import Fleet, WhoAmI


class AsyncServer:
    """The installation: its health, its forwarders, and the caller of a token."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def who_am_i(self, *, timeout_s: float | None = None) -> WhoAmI:
        """Return the tenant and the subject of the token, with what the token allows."""
        return await self._sender.send(calls.who_am_i(), timeout_s)

    async def forwarders(self, *, timeout_s: float | None = None) -> Fleet:
        """Return the processes that deliver messages, and their load."""
        return await self._sender.send(calls.list_forwarders(), timeout_s)

    async def alive(self, *, timeout_s: float | None = None) -> None:
        """Return once a process has answered."""
        await self._sender.send(calls.healthz(), timeout_s)

    async def ready(self, *, timeout_s: float | None = None) -> None:
        """Return where the process takes requests. Raise Unavailable where it does not."""
        await self._sender.send(calls.readyz(), timeout_s)
