# Generated from aio/resources/messages.py: `make generate`. Do not edit.
"""Single messages of a topic, and reads of its partitions."""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime

from packetboat.calls import consuming as calls
from packetboat.calls.call import long_poll_s
from packetboat.models import ReplayPage, StoredMessage
from packetboat.sync.operations.messaging import MessagesOperations


class Messages(MessagesOperations):
    """Single messages of a topic, and reads of its partitions."""

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
        """Return up to 1,000 messages from an offset or a time on, or from the first, below
        `end_offset` where it is given, whatever their ack states. Wait up to `wait_seconds` (at
        most 60) for one. Raise InvalidRequest, status 410, for an offset that is not stored any
        more."""
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
        """Iterate over the messages of a partition in the order of offsets, up to its end as it is
        when it is reached; with `follow` also over those that come later, for ever or up to
        `end_offset`. Each page of them comes, or is waited for, within `timeout_s`."""
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
        """Iterate over the chunks of an Arrow IPC stream of up to a million messages, which begins
        within `timeout_s`. Raise UnknownOutcome where it was cut off: begin again."""
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
