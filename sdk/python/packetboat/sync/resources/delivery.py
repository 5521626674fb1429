# Generated from aio/resources/delivery.py: `make generate`. Do not edit.
"""Consuming: pull or stream messages, and settle them."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing

from packetboat.calls import consuming as calls
from packetboat.calls.call import StreamCall
from packetboat.calls.consuming import Ids
from packetboat.calls.streams import Reopening
from packetboat.models import Message, Output, Settled
from packetboat.sync.resources.lines import lines
from packetboat.sync.sender import Sender


class Delivery:
    """Consuming: pull or stream messages, and settle them."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def pull(
        self,
        subscription: str,
        *,
        max_messages: int = 10,
        wait_seconds: float = 0,
        max_bytes: int | None = None,
        min_messages: int | None = None,
        consumer: str | None = None,
        partitions: Sequence[int] | None = None,
        affinity: bool = False,
        timeout_s: float | None = None,
    ) -> list[Message]:
        """Leases up to `max_messages` (at most 1,000); none when there were none in time.

        Waits up to `wait_seconds` (at most 60) for `min_messages`, one unless given. `consumer`
        names the caller, for its rate limit and for `affinity`: only messages of partitions that
        are dealt to it. `partitions`: only of these.
        """
        call = calls.pull(
            subscription,
            max_messages,
            wait_seconds,
            max_bytes,
            min_messages=min_messages,
            consumer=consumer,
            partitions=partitions,
            affinity=affinity,
        )
        return self._sender.send(call, timeout_s)

    def stream(
        self,
        subscription: str,
        *,
        max_outstanding_messages: int | None = None,
        max_outstanding_bytes: int | None = None,
        heartbeat_seconds: float = 10.0,
        max_seconds: float | None = None,
        consumer: str | None = None,
        partitions: Sequence[int] | None = None,
        affinity: bool = False,
        reconnect_for_s: float | None = None,
        timeout_s: float | None = None,
    ) -> Generator[Message, None, None]:
        """Messages as they come, leased as those of a pull; ack them by other calls.

        No more come while `max_outstanding_messages` (100 unless given, at most 10,000) or
        `max_outstanding_bytes` (8 MiB unless given) of this stream are leased. A stream that was
        cut off, or whose server stops or whose token has expired, is opened again, until nothing
        came for `reconnect_for_s`; None: for ever. What was leased by then is delivered again.
        Ends after `max_seconds`, if given. `timeout_s` bounds how long each opening takes, with all
        its tries, and not how long the stream goes on.

        Raises NotAuthorized when the access is over, NotFound when the subscription is gone, and
        what else time does not heal. Close it (`close()`) to end it before.
        """

        def call_of(left_s: float | None) -> StreamCall:
            return calls.stream(
                subscription,
                max_outstanding_messages=max_outstanding_messages,
                max_outstanding_bytes=max_outstanding_bytes,
                heartbeat_seconds=heartbeat_seconds,
                max_seconds=left_s,
                consumer=consumer,
                partitions=partitions,
                affinity=affinity,
            )

        reopening = Reopening(
            call_of, time.monotonic(), max_seconds=max_seconds, reopen_for_s=reconnect_for_s
        )
        with closing(lines(self._sender, reopening, timeout_s)) as incoming:
            for line in incoming:
                if line.message is not None:
                    yield line.message

    def ack(
        self,
        subscription: str,
        ids: Ids,
        *,
        by_message_id: bool = False,
        publish: Iterable[Output] = (),
        timeout_s: float | None = None,
    ) -> Settled:
        """One or many messages, or their ack ids (message ids if said so). Durable when it returns;
        what could not be acked is in `failures`.

        With `publish` the messages in it become readable if and only if the ack is committed: then
        all ids are of one partition, and one that may not be acked raises Conflict. Sent again
        after an unknown outcome it says `duplicate` and publishes nothing twice.
        """
        return self._sender.send(calls.ack(subscription, ids, by_message_id, publish), timeout_s)

    def nack(
        self,
        subscription: str,
        ids: Ids,
        *,
        by_message_id: bool = False,
        delay_seconds: float | None = None,
        reason: str | None = None,
        timeout_s: float | None = None,
    ) -> Settled:
        """Failed: to be delivered again, after a delay or the back-off of the retry policy."""
        call = calls.nack(subscription, ids, by_message_id, delay_seconds, reason)
        return self._sender.send(call, timeout_s)

    def reject(
        self,
        subscription: str,
        ids: Ids,
        *,
        by_message_id: bool = False,
        reason: str | None = None,
        timeout_s: float | None = None,
    ) -> Settled:
        """Not to be delivered again: to the dead letters."""
        return self._sender.send(calls.reject(subscription, ids, by_message_id, reason), timeout_s)

    def release(
        self,
        subscription: str,
        ids: Ids,
        *,
        by_message_id: bool = False,
        timeout_s: float | None = None,
    ) -> Settled:
        """Not processed: to be delivered again at once; the attempt does not count."""
        return self._sender.send(calls.release(subscription, ids, by_message_id), timeout_s)

    def extend(
        self,
        subscription: str,
        ids: Ids,
        deadline_seconds: float,
        *,
        by_message_id: bool = False,
        timeout_s: float | None = None,
    ) -> Settled:
        """The leases end that much from now, 0 to 43,200."""
        call = calls.modify_ack_deadline(subscription, ids, by_message_id, deadline_seconds)
        return self._sender.send(call, timeout_s)
