"""The sender that the publisher of a blocking client uses."""

from __future__ import annotations

from packetboat.aio.sender import AsyncSender
from packetboat.options import Options
from packetboat.publisher.thread_transport import ThreadTransport
from packetboat.transport import Transport, open_async_transport


def open_sender(options: Options, given: Transport | None) -> AsyncSender:
    """Open a sender over a network of its own, or over the transport that the client was given."""
    if given is not None:
        return AsyncSender(options, ThreadTransport(given))
    return AsyncSender(options, open_async_transport(options))
