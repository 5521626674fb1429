"""What the publisher of a blocking client sends by."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender
from packetboat.options import Options
from packetboat.publisher.thread_transport import ThreadTransport
from packetboat.transport import Transport, open_async_transport


def open_sender(options: Options, given: Transport | None) -> AsyncSender:
    """Over a network of its own, or over a transport that the client was given."""
    if given is not None:
        return AsyncSender(options, ThreadTransport(given))
    return AsyncSender(options, open_async_transport(options))
