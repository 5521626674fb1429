# Generated from aio/operations/messages.py: `make generate`. Do not edit.
"""Single messages of a topic, and reads of its partitions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from packetboat.calls import messaging as calls
from packetboat.models import AckState, DelayedMessage, Page, PartitionOffsets, StoredMessage
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class MessagesOperations:
    """Single messages of a topic, and reads of its partitions."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self, topic: str, message_id: str, *, timeout_s: float | None = None) -> StoredMessage:
        """Return the message as it is stored, also when it is not published yet. Raise NotFound
        where there is none of this id."""
        return self._sender.send(calls.get_message(topic, message_id), timeout_s)

    def delayed(
        self, topic: str, *, page_size: int = 100, timeout_s: float | None = None
    ) -> Iterator[DelayedMessage]:
        """Iterate over the messages that wait for their time, page by page: by partition, and there
        in the order in which they were accepted."""
        return every(
            self._sender,
            lambda token: calls.list_delayed_messages(topic, page_size, token),
            timeout_s,
        )

    def delayed_page(
        self,
        topic: str,
        *,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
    ) -> Page[DelayedMessage]:
        """Return one page; `page_token` is that of the page before."""
        return self._sender.send(
            calls.list_delayed_messages(topic, page_size, page_token), timeout_s
        )

    def cancel(self, topic: str, message_id: str, *, timeout_s: float | None = None) -> None:
        """Never publish a delayed message. Raise Conflict if it is published already; cancelling it
        twice is no error."""
        self._sender.send(calls.cancel_message(topic, message_id), timeout_s)

    def reschedule(
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
        return self._sender.send(
            calls.reschedule_message(topic, message_id, delay_seconds, deliver_at), timeout_s
        )

    def ack_states(
        self, topic: str, message_id: str, *, timeout_s: float | None = None
    ) -> dict[str, AckState]:
        """Return the state of the message in each subscription, by its name."""
        return self._sender.send(calls.get_message_ack(topic, message_id), timeout_s)

    def offsets(
        self,
        topic: str,
        partition: int,
        time: datetime,
        *,
        lane: int | None = None,
        timeout_s: float | None = None,
    ) -> PartitionOffsets:
        """Return the offset of a time, which has a zone, in a partition."""
        return self._sender.send(
            calls.offsets_of_partition(topic, partition, time, lane), timeout_s
        )
