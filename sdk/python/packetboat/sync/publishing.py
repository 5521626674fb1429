"""Publishing: by way of a buffer, or in requests of one's own."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from packetboat import calls
from packetboat.errors import ClientClosed, PacketboatError
from packetboat.models import Data, Durability, EarlyDurability, Outgoing, Receipt
from packetboat.publisher.pending import pending
from packetboat.publisher.pending_receipt import PendingReceipt
from packetboat.sync.resources.delivery import Delivery
from packetboat.sync.sender import Sender
from packetboat.transport import Transport, forking

if TYPE_CHECKING:
    from packetboat.publisher.threaded import ThreadedPublisher


class Publishing(Delivery):
    """The calls of a client that publish and receive messages.

    `given` is a transport that replaces the network.
    """

    def __init__(self, sender: Sender, given: Transport | None) -> None:
        super().__init__(sender)
        self._producer = calls.Producer()
        self._given = given
        self._publisher: ThreadedPublisher | None = None
        self._publishing = threading.Lock()
        self._published_all = False
        forking.watch(self)

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
    ) -> PendingReceipt:
        """Publish a message and return at once; `.result()` waits for the receipt of a durable one.

        Messages gather in a buffer and are sent in batches, those of a key in the order of these
        calls. A full buffer makes this wait.

        The client tries the message for `timeout_s`, or `PublisherSettings.deadline_s`; its retries
        store it once. Then the result fails with NotDone (the message is not stored, and will not
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
        return (self._publisher or self._begin()).publish(topic, message)

    def flush(self, timeout_s: float | None = None) -> None:
        """Returns when all that was published before has its receipt, or its error. Raises
        TimeoutError."""
        if self._publisher is not None:
            self._publisher.flush(timeout_s)

    def resume_key(self, topic: str, key: str) -> None:
        """Resume publishes of a key after one failed where `on_key_failure` is "pause"."""
        if self._publisher is not None:
            self._publisher.resume_key(topic, key)

    def publish_early(
        self,
        topic: str,
        message: Outgoing,
        *,
        durability: EarlyDurability = "leader",
        publisher_id: str | None = None,
        timeout_s: float | None = None,
    ) -> str:
        """Returns a publish id before the message is durable: it may be lost."""
        return self._sender.send(
            calls.publish_early(topic, message, publisher_id, durability), timeout_s
        )

    def publish_batch(
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
        return self._sender.send(call, timeout_s)

    def _forked(self) -> None:
        """Another thread of the parent may have held it."""
        self._publishing = threading.Lock()

    def _close_publishing(self, timeout_s: float | None) -> None:
        with self._publishing:
            self._published_all = True
        if self._publisher is not None:
            self._publisher.close(timeout_s)

    def _begin(self) -> ThreadedPublisher:
        """Return the publisher. Only programs that publish import asyncio."""
        from packetboat.publisher.opening import open_sender
        from packetboat.publisher.threaded import ThreadedPublisher

        with self._publishing:
            if self._published_all:
                raise ClientClosed("the client is closed")
            if self._publisher is None:
                options = self._sender.options
                self._publisher = ThreadedPublisher(
                    partial(open_sender, options, self._given), options.publisher, self._producer
                )
            return self._publisher
