"""The sender that the publisher of a blocking client uses, also over a blocking transport."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from packetboat.aio.sender import AsyncSender
from packetboat.options import Options
from packetboat.transport import Transport, open_async_transport
from packetboat.transport.seam import AsyncStreamResponse, Request, Response


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


def open_sender(options: Options, given: Transport | None) -> AsyncSender:
    """Open a sender over a network of its own, or over the transport that the client was given."""
    if given is not None:
        return AsyncSender(options, ThreadTransport(given))
    return AsyncSender(options, open_async_transport(options))
