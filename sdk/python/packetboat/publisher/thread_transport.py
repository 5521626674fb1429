"""A blocking transport, such as one that a program has made itself, for an event loop."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from packetboat.transport.seam import AsyncStreamResponse, Request, Response, Transport


class ThreadTransport:
    """A transport that runs each request in a thread.

    The maker of the inner transport closes it.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: Request) -> Response:
        return await asyncio.to_thread(self._transport.send, request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncStreamResponse]:
        raise NotImplementedError("publishing reads no streams")

    async def close(self) -> None:
        """Do nothing: the maker of the inner transport closes it."""
