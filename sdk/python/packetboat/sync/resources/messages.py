# Generated from aio/resources/messages.py: `make generate`. Do not edit.
"""Single messages of a topic, and reading a partition again."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import datetime

from packetboat.calls import messages as calls
from packetboat.calls.call import long_poll_s
from packetboat.models import (
    AckState,
    DelayedMessage,
    Page,
    PartitionOffsets,
    ReplayPage,
    StoredMessage,
)
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class Messages:
    """Single messages of a topic, and reading a partition again."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self, topic: str, message_id: str, *, timeout_s: float | None = None) -> StoredMessage:
        """As it is stored, also when it is not published yet. Raises NotFound."""
        return self._sender.send(calls.get_message(topic, message_id), timeout_s)

    def delayed(
        self, topic: str, *, page_size: int = 100, timeout_s: float | None = None
    ) -> Iterator[DelayedMessage]:
        """All that wait for their time, page by page: by partition, and there in the order in which
        they were accepted."""
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
        """One page; `page_token` is that of the page before."""
        return self._sender.send(
            calls.list_delayed_messages(topic, page_size, page_token), timeout_s
        )

    def cancel(self, topic: str, message_id: str, *, timeout_s: float | None = None) -> None:
        """A message published with a delay is never published. Raises Conflict if it is already;
        cancelling it twice is no error."""
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
        """When a message with a delay is published now: give one of the two, `deliver_at` with a
        zone. Raises Conflict if it is published already."""
        call = calls.reschedule_message(topic, message_id, delay_seconds, deliver_at)
        return self._sender.send(call, timeout_s)

    def ack_states(
        self, topic: str, message_id: str, *, timeout_s: float | None = None
    ) -> dict[str, AckState]:
        """What each subscription, by name, has done with it."""
        return self._sender.send(calls.get_message_ack(topic, message_id), timeout_s)

    def read(
        self,
        topic: str,
        partition: int,
        start: int | datetime | None = None,
        *,
        end_offset: int | None = None,
        lane: int | None = None,
        max_messages: int | None = None,
        max_bytes: int | None = None,
        wait_seconds: float | None = None,
        filter: str | None = None,
        timeout_s: float | None = None,
    ) -> ReplayPage:
        """Up to 1,000 messages from an offset or a moment on, or from the first, below `end_offset`
        where it is given; no ack state is looked at. Waits up to `wait_seconds` (at most 60) for
        one. Raises InvalidRequest, status 410, for an offset that is not stored any more."""
        call = calls.replay(
            topic,
            partition,
            start,
            end_offset=end_offset,
            lane=lane,
            max_messages=max_messages,
            max_bytes=max_bytes,
            wait_seconds=wait_seconds,
            filter=filter,
        )
        return self._sender.send(call, timeout_s)

    def replay(
        self,
        topic: str,
        partition: int,
        start: int | datetime | None = None,
        *,
        end_offset: int | None = None,
        lane: int | None = None,
        filter: str | None = None,
        page_size: int = 1000,
        follow: bool = False,
        timeout_s: float | None = None,
    ) -> Generator[StoredMessage, None, None]:
        """The messages of a partition in the order of offsets, up to its end as it is when it is
        reached; with `follow` also those that come later, for ever or up to `end_offset`. Each page
        of them comes, or is waited for, within `timeout_s`."""
        at, wait_seconds = start, long_poll_s(60, timeout_s) if follow else None
        while True:
            page = self.read(
                topic,
                partition,
                at,
                end_offset=end_offset,
                lane=lane,
                max_messages=page_size,
                wait_seconds=wait_seconds,
                filter=filter,
                timeout_s=timeout_s,
            )
            yield from page.messages
            at = page.next_offset
            if end_offset is not None and page.next_offset >= end_offset:
                return
            if not follow and page.next_offset >= page.end_offset:
                return

    def replay_arrow(
        self,
        topic: str,
        partition: int,
        start: int | datetime | None = None,
        *,
        end_offset: int | None = None,
        lane: int | None = None,
        max_messages: int | None = None,
        filter: str | None = None,
        timeout_s: float | None = None,
    ) -> Generator[bytes, None, None]:
        """The same as an Arrow IPC stream, in chunks; up to a million messages. It begins within
        `timeout_s`. An answer that was cut off raises UnknownOutcome: begin again."""
        call = calls.replay_arrow(
            topic,
            partition,
            start,
            end_offset=end_offset,
            lane=lane,
            max_messages=max_messages,
            filter=filter,
        )
        with self._sender.stream(call, timeout_s) as response:
            yield from response.chunks()

    def offsets(
        self,
        topic: str,
        partition: int,
        time: datetime,
        *,
        lane: int | None = None,
        timeout_s: float | None = None,
    ) -> PartitionOffsets:
        """Where a moment, which has a zone, is in a partition."""
        return self._sender.send(
            calls.offsets_of_partition(topic, partition, time, lane), timeout_s
        )
