"""Publishing: by way of a buffer, or in requests of one's own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

from packetboat import calls
from packetboat.aio.resources.delivery import AsyncDelivery
from packetboat.aio.sender import AsyncSender
from packetboat.errors import PacketboatError
from packetboat.models import Data, Durability, EarlyDurability, Outgoing, Receipt
from packetboat.publisher.aio import AsyncPublisher
from packetboat.publisher.pending import pending


class AsyncPublishing(AsyncDelivery):
    """The calls of a client that publish and receive messages."""

    def __init__(self, sender: AsyncSender) -> None:
        super().__init__(sender)
        self._producer = calls.Producer()
        self._publisher = AsyncPublisher(sender, sender.options.publisher, self._producer)

    def publish(
        self,
        topic: str,
        data: Data,
        *,
        key: str | None = None,
        attributes: Mapping[str, str] | None = None,
        content_type: str | None = None,
        priority: int = 0,
        idempotency_key: str | None = None,
        delay_seconds: float | None = None,
        deliver_at: datetime | None = None,
        ttl_seconds: float | None = None,
        publisher_id: str | None = None,
        durability: Durability | None = None,
        timeout_s: float | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
    ) -> asyncio.Future[Receipt]:
        """Publish a message; await the future for the receipt of a durable one.

        You need not await it at once: messages gather in a buffer and are sent in batches, those of
        a key in the order of these calls.

        The client tries the message for `timeout_s`, or `PublisherSettings.deadline_s`; its retries
        store it once. Then the future fails with NotDone (the message is not stored, and will not
        be) or UnknownOutcome (it may be). A caller that publishes the message again with the same
        `idempotency_key` also stores it once, within the topic's dedup window. With a delay or a
        moment it is published then. `traceparent` and `tracestate` are W3C trace context: the
        active span's, unless given.

        Raises BufferFull, ClientClosed, PrecedingFailed where its key is paused, and TypeError or
        ValueError for a value that is no message.
        """
        message = pending(
            data,
            key,
            attributes,
            content_type,
            priority,
            idempotency_key,
            delay_seconds,
            deliver_at,
            ttl_seconds,
            publisher_id,
            durability,
            timeout_s,
            traceparent,
            tracestate,
        )
        return self._publisher.publish(topic, message)

    async def publish_room(self) -> None:
        """Return when the buffer is not full: for a program that publishes without awaiting
        each receipt.
        """
        await self._publisher.room()

    async def flush(self, timeout_s: float | None = None) -> None:
        """Returns when all that was published before has its receipt, or its error. Raises
        TimeoutError."""
        await self._publisher.flush(timeout_s)

    def resume_key(self, topic: str, key: str) -> None:
        """Resume publishes of a key after one failed where `on_key_failure` is "pause"."""
        self._publisher.resume_key(topic, key)

    async def publish_early(
        self,
        topic: str,
        message: Outgoing,
        *,
        durability: EarlyDurability = "leader",
        publisher_id: str | None = None,
        timeout_s: float | None = None,
    ) -> str:
        """Returns a publish id before the message is durable: it may be lost."""
        return await self._sender.send(
            calls.publish_early(topic, message, publisher_id, durability), timeout_s
        )

    async def publish_batch(
        self,
        topic: str,
        messages: Sequence[Outgoing | Data],
        *,
        publisher_id: str | None = None,
        durability: Durability | None = None,
        timeout_s: float | None = None,
    ) -> list[Receipt | PacketboatError]:
        """Publish up to 1,000 messages in one request of their own; return, in order, each one's
        receipt or error.

        Raises when the request as a whole was refused, or its outcome is unknown. The batch is
        stored once however often it is sent again.
        """
        call = calls.publish_batch(topic, messages, publisher_id, durability, self._producer)
        return await self._sender.send(call, timeout_s)
