# Generated from openapi/: `make generate`. Do not edit.
"""Bases of resources: messages, subscriptions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Unpack

from packetboat.aio.resources.pages import every
from packetboat.aio.sender import AsyncSender
from packetboat.calls import messaging as calls
from packetboat.models import (
    AckState,
    Backlog,
    DelayedMessage,
    FilterPreview,
    Flow,
    Hold,
    Page,
    PartitionOffsets,
    Position,
    Reconciliation,
    SkipRule,
    SkipRules,
    Sought,
    StoredMessage,
    StreamTicket,
    Subscription,
    SubscriptionChanges,
    SubscriptionSettings,
    SubscriptionState,
)


class AsyncMessagesOperations:
    """Single messages of a topic, and reads of its partitions."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def get(
        self, topic: str, message_id: str, *, timeout_s: float | None = None
    ) -> StoredMessage:
        """Return the message as it is stored, also when it is not published yet. Raise NotFound
        where there is none of this id."""
        return await self._sender.send(calls.get_message(topic, message_id), timeout_s)

    def delayed(
        self, topic: str, *, page_size: int = 100, timeout_s: float | None = None
    ) -> AsyncIterator[DelayedMessage]:
        """Iterate over the messages that wait for their time, page by page: by partition, and there
        in the order in which they were accepted."""
        return every(
            self._sender,
            lambda token: calls.list_delayed_messages(topic, page_size, token),
            timeout_s,
        )

    async def delayed_page(
        self,
        topic: str,
        *,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
    ) -> Page[DelayedMessage]:
        """Return one page; `page_token` is that of the page before."""
        return await self._sender.send(
            calls.list_delayed_messages(topic, page_size, page_token), timeout_s
        )

    async def cancel(self, topic: str, message_id: str, *, timeout_s: float | None = None) -> None:
        """Never publish a delayed message. Raise Conflict if it is published already; cancelling it
        twice is no error."""
        await self._sender.send(calls.cancel_message(topic, message_id), timeout_s)

    async def reschedule(
        self,
        topic: str,
        message_id: str,
        *,
        delay_seconds: float | None = None,
        deliver_at: datetime | None = None,
        timeout_s: float | None = None,
    ) -> datetime:
        """Change the time of a delayed message, and return it. Give one of the two; `deliver_at`
        has a zone. Raise Conflict if it is published already."""
        return await self._sender.send(
            calls.reschedule_message(topic, message_id, delay_seconds, deliver_at), timeout_s
        )

    async def ack_states(
        self, topic: str, message_id: str, *, timeout_s: float | None = None
    ) -> dict[str, AckState]:
        """Return the state of the message in each subscription, by its name."""
        return await self._sender.send(calls.get_message_ack(topic, message_id), timeout_s)

    async def offsets(
        self,
        topic: str,
        partition: int,
        time: datetime,
        *,
        lane: int | None = None,
        timeout_s: float | None = None,
    ) -> PartitionOffsets:
        """Return the offset of a time, which has a zone, in a partition."""
        return await self._sender.send(
            calls.offsets_of_partition(topic, partition, time, lane), timeout_s
        )


class AsyncSubscriptionsOperations:
    """Subscriptions: create, change, move and pause them, and look at their backlog."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def create(
        self,
        topic: str,
        name: str,
        *,
        timeout_s: float | None = None,
        **settings: Unpack[SubscriptionSettings],
    ) -> Subscription:
        """Create a subscription; with `push` it is one of type push, and only this answer has the
        signing secrets. Raise Conflict where the name is taken, in any topic."""
        return await self._sender.send(calls.create_subscription(topic, name, settings), timeout_s)

    async def get(self, name: str, *, timeout_s: float | None = None) -> Subscription:
        """Return the subscription. Raise NotFound where there is none of this name."""
        return await self._sender.send(calls.get_subscription(name), timeout_s)

    def list(
        self, topic: str | None = None, *, page_size: int = 100, timeout_s: float | None = None
    ) -> AsyncIterator[Subscription]:
        """Iterate over those of a topic, or over all there are, page by page."""
        return every(
            self._sender,
            lambda token: (
                calls.list_subscriptions(page_size, token)
                if topic is None
                else calls.list_topic_subscriptions(topic, page_size, token)
            ),
            timeout_s,
        )

    async def page(
        self,
        topic: str | None = None,
        *,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
    ) -> Page[Subscription]:
        """Return one page; `page_token` is that of the page before."""
        return await self._sender.send(
            calls.list_subscriptions(page_size, page_token)
            if topic is None
            else calls.list_topic_subscriptions(topic, page_size, page_token),
            timeout_s,
        )

    async def put(
        self,
        name: str,
        *,
        topic: str | None = None,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **settings: Unpack[SubscriptionSettings],
    ) -> Subscription:
        """Create the subscription, which needs `topic`, or change it to this; fields that are not
        given get their defaults, but for topic, delivery, order and start, which cannot be
        changed."""
        return await self._sender.send(
            calls.put_subscription(name, settings, topic, if_match), timeout_s
        )

    async def update(
        self,
        name: str,
        *,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **changes: Unpack[SubscriptionChanges],
    ) -> Subscription:
        """Change the fields that are given; the others stay. The change holds within 2 s, and
        leased messages stay leased."""
        return await self._sender.send(calls.patch_subscription(name, changes, if_match), timeout_s)

    async def delete(
        self,
        name: str,
        *,
        if_match: str | None = None,
        force: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Delete the subscription with its ack state. Raise Conflict while something would be lost
        (`holds` lists it), unless `force` is true."""
        await self._sender.send(calls.delete_subscription(name, if_match, force), timeout_s)

    async def holds(self, name: str, *, timeout_s: float | None = None) -> tuple[Hold, ...]:
        """Return the reasons not to delete it: unacked messages, delayed ones, open dead
        letters."""
        return await self._sender.send(calls.list_subscription_holds(name), timeout_s)

    async def stream_ticket(self, name: str, *, timeout_s: float | None = None) -> StreamTicket:
        """Return a ticket for a browser's EventSource, which opens the subscription's stream for a
        minute. Raise NotFound where the installation gives none."""
        return await self._sender.send(calls.create_stream_ticket(name), timeout_s)

    async def pause(
        self, name: str, reason: str | None = None, *, timeout_s: float | None = None
    ) -> SubscriptionState:
        """Deliver nothing until it is resumed; acks are taken."""
        return await self._sender.send(calls.pause(name, reason), timeout_s)

    async def resume(
        self, name: str, reason: str | None = None, *, timeout_s: float | None = None
    ) -> SubscriptionState:
        """Deliver messages again."""
        return await self._sender.send(calls.resume(name, reason), timeout_s)

    async def drain(
        self, name: str, reason: str | None = None, *, timeout_s: float | None = None
    ) -> SubscriptionState:
        """Deliver again only messages that were delivered before."""
        return await self._sender.send(calls.drain(name, reason), timeout_s)

    async def seek(
        self, name: str, to: Position, *, dry_run: bool = False, timeout_s: float | None = None
    ) -> Sought:
        """Move the subscription; with `dry_run` say where it would be, and change nothing."""
        return await self._sender.send(calls.seek(name, to, dry_run), timeout_s)

    async def backlog(self, name: str, *, timeout_s: float | None = None) -> Backlog:
        """Return the messages that wait, by partition."""
        return await self._sender.send(calls.get_backlog(name), timeout_s)

    async def reconciliation(self, name: str, *, timeout_s: float | None = None) -> Reconciliation:
        """Ask whether every message is accounted for, by the states that are committed."""
        return await self._sender.send(calls.get_reconciliation(name), timeout_s)

    async def preview_filter(
        self, name: str, expression: str, *, messages: int = 1000, timeout_s: float | None = None
    ) -> FilterPreview:
        """Try a CEL expression on the most recent messages, up to 10,000, and compare it with the
        present filter."""
        return await self._sender.send(
            calls.preview_subscription_filter(name, expression, messages), timeout_s
        )

    async def skip_rules(
        self, name: str, *, removed: bool = False, timeout_s: float | None = None
    ) -> SkipRules:
        """Return the rules that hold; with `removed` also those that were removed."""
        return await self._sender.send(calls.list_skip_rules(name, removed), timeout_s)

    async def add_skip_rule(
        self, name: str, expression: str, reason: str, *, timeout_s: float | None = None
    ) -> SkipRule:
        """Settle messages for which the CEL expression is true instead of delivering them, also
        those that wait. `reason` is for readers of the audit."""
        return await self._sender.send(calls.add_skip_rule(name, expression, reason), timeout_s)

    async def remove_skip_rule(
        self, name: str, rule: str, *, timeout_s: float | None = None
    ) -> None:
        """Remove a rule by its id; skipped messages stay skipped. Removing it twice is no error."""
        await self._sender.send(calls.remove_skip_rule(name, rule), timeout_s)

    async def say_flow(
        self,
        name: str,
        *,
        messages_per_second: float | None = None,
        max_outstanding: int | None = None,
        ttl_seconds: float | None = None,
        reason: str | None = None,
        timeout_s: float | None = None,
    ) -> Flow:
        """Say how much its consumers can take now, all together, for `ttl_seconds` (60 unless
        given). A rate of 0 messages a second stops deliveries."""
        return await self._sender.send(
            calls.say_flow(name, messages_per_second, max_outstanding, ttl_seconds, reason),
            timeout_s,
        )

    async def flow(self, name: str, *, timeout_s: float | None = None) -> Flow:
        """Return the flow that was said, if it still holds."""
        return await self._sender.send(calls.get_flow(name), timeout_s)

    async def end_flow(self, name: str, *, timeout_s: float | None = None) -> None:
        """Take back the flow that was said."""
        await self._sender.send(calls.end_flow(name), timeout_s)
