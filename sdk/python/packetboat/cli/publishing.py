"""The SDK's publisher, for the command; apart, as nothing else here needs asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from packetboat.aio.sender import AsyncSender
from packetboat.calls import Producer
from packetboat.options import Options
from packetboat.publisher.aio import AsyncPublisher
from packetboat.publisher.settings import PublisherSettings
from packetboat.transport import AsyncTransport, open_async_transport


@asynccontextmanager
async def open_publisher(
    options: Options, transport: AsyncTransport | None, publisher_settings: PublisherSettings
) -> AsyncIterator[AsyncPublisher]:
    """Open the publisher of a command; `transport` is the one of a test."""
    sender = AsyncSender(options, open_async_transport(options, transport))
    publisher = AsyncPublisher(sender, publisher_settings, Producer())
    try:
        yield publisher
    finally:
        await publisher.close()
        await sender.close()
