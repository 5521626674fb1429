"""Consuming: pull or stream messages, and settle them."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Concatenate, ParamSpec

from packetboat.aio.resources.lines import lines
from packetboat.aio.sender import AsyncSender
from packetboat.calls import consuming as calls
from packetboat.calls.call import Call, StreamCall
from packetboat.calls.consuming import Ids
from packetboat.calls.pages import settled_again, unknown_pages
from packetboat.calls.streams import Reopening
from packetboat.models import Message, Output, Settled

P = ParamSpec("P")


class AsyncDelivery:
    """Consuming: pull or stream messages, and settle them."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def pull(
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
        """Pull up to `max_messages` (at most 1,000); return none when there were none in time.

        The call waits up to `wait_seconds` (at most 60) for `min_messages`, one unless given.
        `consumer` names the caller, for its rate limit and for `affinity`: the call then delivers
        only messages of the partitions that are assigned to it. `partitions` restricts the call to
        these.
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
        return await self._sender.send(call, timeout_s)

    async def stream(
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
    ) -> AsyncGenerator[Message, None]:
        """Yield messages as they come, leased as those of a pull; ack them by other calls.

        The stream pauses while `max_outstanding_messages` (100 unless given, at most 10,000) or
        `max_outstanding_bytes` (8 MiB unless given) of it are leased. A stream that was cut off, or
        whose server stops or whose token has expired, is opened again, until nothing came for
        `reconnect_for_s`; None: for ever. Messages that were leased by then are delivered again.
        The stream ends after `max_seconds`, if given. `timeout_s` bounds each opening, with all its
        tries, and not the whole stream.

        Raises NotAuthorized when the access is over, NotFound when the subscription is gone, and
        other errors that time does not heal. Close it (`aclose()`) to end it before.
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
        async with aclosing(lines(self._sender, reopening, timeout_s)) as incoming:
            async for line in incoming:
                if line.message is not None:
                    yield line.message

    async def ack(
        self,
        subscription: str,
        ids: Ids,
        *,
        by_message_id: bool = False,
        publish: Iterable[Output] = (),
        timeout_s: float | None = None,
    ) -> Settled:
        """Ack one or many messages, or their ack ids (message ids with `by_message_id`).

        The acks are durable when the call returns; `failures` lists the messages that could not be
        acked. With `publish` the messages in it become readable if and only if the ack is
        committed: then all ids are of one partition, and one that may not be acked raises Conflict.
        Sent again after an unknown outcome the call returns `duplicate` and publishes nothing
        twice.
        """
        outputs = tuple(publish)
        return await self._settle(calls.ack, subscription, ids, by_message_id, timeout_s, outputs)

    async def nack(
        self,
        subscription: str,
        ids: Ids,
        *,
        by_message_id: bool = False,
        delay_seconds: float | None = None,
        reason: str | None = None,
        timeout_s: float | None = None,
    ) -> Settled:
        """Nack messages: they are delivered again, after a delay or the back-off of the
        retry policy.
        """
        return await self._settle(
            calls.nack, subscription, ids, by_message_id, timeout_s, delay_seconds, reason
        )

    async def reject(
        self,
        subscription: str,
        ids: Ids,
        *,
        by_message_id: bool = False,
        reason: str | None = None,
        timeout_s: float | None = None,
    ) -> Settled:
        """Reject messages: they are not delivered again, but become dead letters."""
        return await self._settle(calls.reject, subscription, ids, by_message_id, timeout_s, reason)

    async def release(
        self,
        subscription: str,
        ids: Ids,
        *,
        by_message_id: bool = False,
        timeout_s: float | None = None,
    ) -> Settled:
        """Release messages that were not processed: they are delivered again at once, and
        the attempt does not count.
        """
        return await self._settle(calls.release, subscription, ids, by_message_id, timeout_s)

    async def extend(
        self,
        subscription: str,
        ids: Ids,
        deadline_seconds: float,
        *,
        by_message_id: bool = False,
        timeout_s: float | None = None,
    ) -> Settled:
        """The leases end that much from now, 0 to 43,200."""
        return await self._settle(
            calls.modify_ack_deadline, subscription, ids, by_message_id, timeout_s, deadline_seconds
        )

    async def _settle(
        self,
        call_of: Callable[Concatenate[str, Ids, bool, P], Call[Settled]],
        subscription: str,
        ids: Ids,
        by_message_id: bool,
        timeout_s: float | None,
        *more: P.args,
        **named: P.kwargs,
    ) -> Settled:
        """Settle messages; those of pages that an earlier server does not know, by message id."""
        given = calls.listed(ids)
        call = call_of(subscription, given, by_message_id, *more, **named)
        settled = await self._sender.send(call, timeout_s)
        places = [at for at in unknown_pages(settled) if isinstance(given[at], Message)]
        if not places:
            return settled
        call = call_of(subscription, [given[at] for at in places], True, *more, **named)
        return settled_again(settled, places, await self._sender.send(call, timeout_s))
