# Generated from aio/resources/subscriptions.py: `make generate`. Do not edit.
"""Subscriptions: make, change, move, pause, and see what they have to do."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Unpack

from packetboat.calls import backlog
from packetboat.calls import subscriptions as calls
from packetboat.calls.call import StreamCall
from packetboat.calls.streams import Reopening
from packetboat.errors import NotFound
from packetboat.models import (
    Backlog,
    BacklogUpdate,
    FilterPreview,
    Flow,
    Hold,
    Page,
    Position,
    Reconciliation,
    SkipRule,
    SkipRules,
    Sought,
    StreamTicket,
    Subscription,
    SubscriptionChanges,
    SubscriptionSettings,
    SubscriptionState,
)
from packetboat.sync.resources.lines import lines
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class Subscriptions:
    """Subscriptions: make, change, move, pause, and see what they have to do."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(
        self,
        topic: str,
        name: str,
        *,
        timeout_s: float | None = None,
        **settings: Unpack[SubscriptionSettings],
    ) -> Subscription:
        """With `push` it is one of type push; the answer alone tells the signing secrets. Raises
        Conflict where the name is taken, in any topic."""
        return self._sender.send(calls.create_subscription(topic, name, settings), timeout_s)

    def get(self, name: str, *, timeout_s: float | None = None) -> Subscription:
        """Raises NotFound."""
        return self._sender.send(calls.get_subscription(name), timeout_s)

    def list(
        self, topic: str | None = None, *, page_size: int = 100, timeout_s: float | None = None
    ) -> Iterator[Subscription]:
        """All of a topic, or all there are, page by page."""
        if topic is None:
            return every(
                self._sender, lambda token: calls.list_subscriptions(page_size, token), timeout_s
            )
        of = topic
        return every(
            self._sender,
            lambda token: calls.list_topic_subscriptions(of, page_size, token),
            timeout_s,
        )

    def page(
        self,
        topic: str | None = None,
        *,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
    ) -> Page[Subscription]:
        """One page; `page_token` is that of the page before."""
        if topic is None:
            return self._sender.send(calls.list_subscriptions(page_size, page_token), timeout_s)
        call = calls.list_topic_subscriptions(topic, page_size, page_token)
        return self._sender.send(call, timeout_s)

    def put(
        self,
        name: str,
        *,
        topic: str | None = None,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **settings: Unpack[SubscriptionSettings],
    ) -> Subscription:
        """Makes it, which needs `topic`, or changes it to this; what is not given gets its
        default, but for topic, delivery, order and start, which cannot be changed."""
        return self._sender.send(calls.put_subscription(name, topic, settings, if_match), timeout_s)

    def update(
        self,
        name: str,
        *,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **changes: Unpack[SubscriptionChanges],
    ) -> Subscription:
        """Changes what is given, within 2 s; the rest stays, and what is leased stays leased."""
        return self._sender.send(calls.patch_subscription(name, changes, if_match), timeout_s)

    def delete(
        self,
        name: str,
        *,
        force: bool = False,
        if_match: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """With its ack state. Raises Conflict while something would be lost (`holds` says what),
        unless forced."""
        self._sender.send(calls.delete_subscription(name, force, if_match), timeout_s)

    def holds(self, name: str, *, timeout_s: float | None = None) -> tuple[Hold, ...]:
        """What would be lost with it: unacked messages, delayed ones, open dead letters."""
        return self._sender.send(calls.list_subscription_holds(name), timeout_s)

    def stream_ticket(self, name: str, *, timeout_s: float | None = None) -> StreamTicket:
        """For a browser's EventSource: opens the subscription's stream, for a minute. Raises
        NotFound where the installation gives none."""
        return self._sender.send(calls.create_stream_ticket(name), timeout_s)

    def pause(
        self, name: str, reason: str | None = None, *, timeout_s: float | None = None
    ) -> SubscriptionState:
        """Nothing is handed out; acks are taken."""
        return self._sender.send(calls.pause(name, reason), timeout_s)

    def resume(
        self, name: str, reason: str | None = None, *, timeout_s: float | None = None
    ) -> SubscriptionState:
        """Messages are handed out again."""
        return self._sender.send(calls.resume(name, reason), timeout_s)

    def drain(
        self, name: str, reason: str | None = None, *, timeout_s: float | None = None
    ) -> SubscriptionState:
        """Only what was handed out before is handed out again."""
        return self._sender.send(calls.drain(name, reason), timeout_s)

    def seek(
        self, name: str, to: Position, *, dry_run: bool = False, timeout_s: float | None = None
    ) -> Sought:
        """Moves it; with `dry_run` says what would be, and changes nothing."""
        return self._sender.send(calls.seek(name, to, dry_run), timeout_s)

    def backlog(self, name: str, *, timeout_s: float | None = None) -> Backlog:
        """What it has to do."""
        return self._sender.send(backlog.get_backlog(name), timeout_s)

    def reconciliation(self, name: str, *, timeout_s: float | None = None) -> Reconciliation:
        """Whether every message is accounted for, from what is committed."""
        return self._sender.send(backlog.get_reconciliation(name), timeout_s)

    def backlog_stream(
        self,
        *names: str,
        min_messages: int | None = None,
        heartbeat_seconds: float = 10.0,
        max_seconds: float | None = None,
        reconnect_for_s: float | None = None,
        timeout_s: float | None = None,
    ) -> Generator[BacklogUpdate, None, None]:
        """What subscriptions have to do: first as it is, then whenever it has changed.

        Of these names, or beginnings of names and a `*`; without any, of all. With `min_messages`
        only of those with so many, and once when there are fewer again. Opened, and
        opened again, as `stream` is.
        """

        def call_of(left_s: float | None) -> StreamCall:
            return backlog.stream_backlogs(names, min_messages, heartbeat_seconds, left_s)

        reopening = Reopening(
            call_of, time.monotonic(), max_seconds=max_seconds, reopen_for_s=reconnect_for_s
        )
        with closing(lines(self._sender, reopening, timeout_s)) as incoming:
            for line in incoming:
                if (update := line.update) is not None:
                    yield update

    def follow_backlog(
        self,
        name: str,
        *,
        min_messages: int | None = None,
        heartbeat_seconds: float = 10.0,
        max_seconds: float | None = None,
        reconnect_for_s: float | None = None,
        timeout_s: float | None = None,
    ) -> Generator[BacklogUpdate, None, None]:
        """The same of one subscription; ends with it. Raises NotFound where it is not there."""

        def call_of(left_s: float | None) -> StreamCall:
            return backlog.stream_backlog(name, min_messages, heartbeat_seconds, left_s)

        reopening = Reopening(
            call_of, time.monotonic(), max_seconds=max_seconds, reopen_for_s=reconnect_for_s
        )
        began = False
        try:
            with closing(lines(self._sender, reopening, timeout_s)) as incoming:
                for line in incoming:
                    if (update := line.update) is not None:
                        yield update
                        began = True
        except NotFound:
            if not began:
                raise

    def preview_filter(
        self, name: str, expression: str, *, messages: int = 1000, timeout_s: float | None = None
    ) -> FilterPreview:
        """What a CEL expression gives of the most recent messages, up to 10,000, and how that is
        other than the present filter."""
        call = calls.preview_subscription_filter(name, expression, messages)
        return self._sender.send(call, timeout_s)

    def skip_rules(
        self, name: str, *, removed: bool = False, timeout_s: float | None = None
    ) -> SkipRules:
        """Those that hold; with `removed` all that ever did."""
        return self._sender.send(calls.list_skip_rules(name, removed), timeout_s)

    def add_skip_rule(
        self, name: str, expression: str, reason: str, *, timeout_s: float | None = None
    ) -> SkipRule:
        """Messages for which the CEL expression is true are settled instead of delivered, also
        those that wait. `reason` is for whoever reads the audit."""
        return self._sender.send(calls.add_skip_rule(name, expression, reason), timeout_s)

    def remove_skip_rule(self, name: str, rule: str, *, timeout_s: float | None = None) -> None:
        """By its id; what it skipped stays skipped. Removing it twice is no error."""
        self._sender.send(calls.remove_skip_rule(name, rule), timeout_s)

    def say_flow(
        self,
        name: str,
        *,
        messages_per_second: float | None = None,
        max_outstanding: int | None = None,
        ttl_seconds: float | None = None,
        reason: str | None = None,
        timeout_s: float | None = None,
    ) -> Flow:
        """How much its consumers can take now, all together, for `ttl_seconds` (60 unless given);
        0 messages a second is none."""
        call = calls.say_flow(name, messages_per_second, max_outstanding, ttl_seconds, reason)
        return self._sender.send(call, timeout_s)

    def flow(self, name: str, *, timeout_s: float | None = None) -> Flow:
        """What was said, if it still holds."""
        return self._sender.send(calls.get_flow(name), timeout_s)

    def end_flow(self, name: str, *, timeout_s: float | None = None) -> None:
        """Takes back what was said."""
        self._sender.send(calls.end_flow(name), timeout_s)
