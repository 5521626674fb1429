"""Names of operations as they were before they were grouped by area."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from packetboat.aio.sender import AsyncSender
from packetboat.calls import Ids, consuming, messages, subscriptions, topics
from packetboat.models import (
    Page,
    Retention,
    Settled,
    Subscription,
    Topic,
)


class FlatNames:
    """To be replaced by the resources."""

    _sender: AsyncSender

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
        """Raises NotFound."""
        return await self._sender.send(topics.get_topic(name))

    async def list_topics(
        self, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[Topic]:
        """One page of them."""
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
        """Raises NotFound."""
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
