"""The asyncio client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any

from packetboat import calls, settings
from packetboat.aio.sender import AsyncSender
from packetboat.calls import Ids, consuming, messages, subscriptions, topics
from packetboat.errors import PacketboatError
from packetboat.models import (
    Data,
    Durability,
    EarlyDurability,
    Message,
    Outgoing,
    Page,
    Receipt,
    Retention,
    Settled,
    Subscription,
    Topic,
)
from packetboat.options import Options
from packetboat.transport import AsyncTransport, open_async_transport


class AsyncClient:
    """The same calls as `Client`, to be awaited.

    `url` and `token` default to the environment's PACKETBOAT_URL and PACKETBOAT_TOKEN. A call that
    did not take effect is sent again for up to `retry_for_s` seconds; 0 turns that off.
    """

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        token: str | None = None,
        *,
        options: Options | None = None,
        retry_for_s: float | None = None,
        transport: AsyncTransport | None = None,
    ) -> None:
        told = settings.merged(options, url, token, retry_for_s, networked=transport is None)
        self._sender = AsyncSender(told, open_async_transport(told, transport))
        self._producer = calls.Producer()

    @classmethod
    def from_options(cls, options: Options) -> AsyncClient:
        """Of these options alone; nothing of the environment."""
        return cls(options=options)

    @property
    def options(self) -> Options:
        """How it behaves; another client of the same options behaves alike."""
        return self._sender.options

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = 4,
        retention: Retention | None = None,
        dedup_window_seconds: int | None = None,
        labels: Mapping[str, str] | None = None,
        priorities: int | None = None,
    ) -> Topic:
        """Raises Conflict where the name is taken."""
        given = {
            "partitions": partitions,
            "retention": retention,
            "dedup_window_seconds": dedup_window_seconds,
            "labels": labels,
            "priorities": priorities,
        }
        call = topics.create_topic(name, {k: v for k, v in given.items() if v is not None})
        return await self._sender.send(call)

    async def get_topic(self, name: str) -> Topic:
        return await self._sender.send(topics.get_topic(name))

    async def list_topics(
        self, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[Topic]:
        return await self._sender.send(topics.list_topics(page_size, page_token))

    async def delete_topic(self, name: str, *, force: bool = False) -> None:
        """With all its messages and subscriptions."""
        await self._sender.send(topics.delete_topic(name, force, None))

    async def create_subscription(
        self,
        topic: str,
        name: str,
        *,
        ack_deadline_seconds: float | None = None,
        start: str | Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Subscription:
        """`start` is "latest", "earliest", {"time": …} or {"offset": …}."""
        given = {
            "ack_deadline_seconds": ack_deadline_seconds,
            "start": start,
            "labels": labels,
        }
        settings = {k: v for k, v in given.items() if v is not None}
        call = subscriptions.create_subscription(topic, name, settings)
        return await self._sender.send(call)

    async def get_subscription(self, name: str) -> Subscription:
        return await self._sender.send(subscriptions.get_subscription(name))

    async def list_subscriptions(
        self, topic: str | None = None, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[Subscription]:
        """Of a topic, or all."""
        if topic is None:
            return await self._sender.send(subscriptions.list_subscriptions(page_size, page_token))
        call = subscriptions.list_topic_subscriptions(topic, page_size, page_token)
        return await self._sender.send(call)

    async def delete_subscription(self, name: str, *, force: bool = False) -> None:
        """With its ack state; `force` also while messages are undelivered."""
        await self._sender.send(subscriptions.delete_subscription(name, force, None))

    async def publish(
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
    ) -> Receipt:
        """Returns when the message is durable. Raises NotDone, or UnknownOutcome: it may be.

        With an idempotency key it is stored once however often it is sent, so it is sent again
        also after an unknown outcome. With a delay or a moment it is published then.
        """
        message = Outgoing(
            data=data,
            key=key,
            attributes=attributes,
            content_type=content_type,
            priority=priority,
            idempotency_key=idempotency_key,
            delay_seconds=delay_seconds,
            deliver_at=deliver_at,
            ttl_seconds=ttl_seconds,
        )
        return await self._sender.send(calls.publish(topic, message, publisher_id, durability))

    async def publish_early(
        self,
        topic: str,
        message: Outgoing,
        *,
        durability: EarlyDurability = "leader",
        publisher_id: str | None = None,
    ) -> str:
        """Returns a publish id before the message is durable: it may be lost."""
        return await self._sender.send(
            calls.publish_early(topic, message, publisher_id, durability)
        )

    async def publish_batch(
        self,
        topic: str,
        messages: Sequence[Outgoing | Data],
        *,
        publisher_id: str | None = None,
        durability: Durability | None = None,
    ) -> list[Receipt | PacketboatError]:
        """Up to 1,000 messages; for each, in order, its receipt or its error.

        Raises when the request as a whole was refused, or its outcome is unknown. The batch is
        stored once however often it is sent again.
        """
        call = calls.publish_batch(topic, messages, publisher_id, durability, self._producer)
        return await self._sender.send(call)

    async def cancel(self, topic: str, message_id: str) -> None:
        """A message published with a delay is never published. Raises Conflict if it is already."""
        await self._sender.send(messages.cancel_message(topic, message_id))

    async def reschedule(
        self,
        topic: str,
        message_id: str,
        *,
        delay_seconds: float | None = None,
        deliver_at: datetime | None = None,
    ) -> datetime:
        """When a message with a delay is published now. Raises Conflict if it is already."""
        return await self._sender.send(
            messages.reschedule_message(topic, message_id, delay_seconds, deliver_at)
        )

    async def pull(
        self,
        subscription: str,
        *,
        max_messages: int = 10,
        wait_seconds: float = 0,
        max_bytes: int | None = None,
    ) -> list[Message]:
        """Leases messages; waits up to `wait_seconds` (at most 60) for the first."""
        call = consuming.pull(subscription, max_messages, wait_seconds, max_bytes)
        return await self._sender.send(call)

    async def ack(self, subscription: str, ids: Ids, *, by_message_id: bool = False) -> Settled:
        """One or many messages, or ack ids (message ids if said so). Durable when it returns."""
        return await self._sender.send(consuming.ack(subscription, ids, by_message_id))

    async def nack(
        self,
        subscription: str,
        ids: Ids,
        *,
        by_message_id: bool = False,
        delay_seconds: float | None = None,
        reason: str | None = None,
    ) -> Settled:
        """Failed: to be delivered again, after a delay."""
        call = consuming.nack(subscription, ids, by_message_id, delay_seconds, reason)
        return await self._sender.send(call)

    async def release(self, subscription: str, ids: Ids, *, by_message_id: bool = False) -> Settled:
        """Not processed: to be delivered again at once; the attempt does not count."""
        return await self._sender.send(consuming.release(subscription, ids, by_message_id))

    async def modify_ack_deadline(
        self,
        subscription: str,
        ids: Ids,
        deadline_seconds: float,
        *,
        by_message_id: bool = False,
    ) -> Settled:
        """The leases end that much from now."""
        call = consuming.modify_ack_deadline(subscription, ids, by_message_id, deadline_seconds)
        return await self._sender.send(call)

    async def close(self) -> None:
        await self._sender.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
