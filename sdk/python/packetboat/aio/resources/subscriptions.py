"""Subscriptions: create, change, move and pause them, and look at their backlog."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from packetboat.aio.operations.messaging import AsyncSubscriptionsOperations
from packetboat.aio.resources.lines import lines
from packetboat.calls import streams
from packetboat.calls.call import StreamCall
from packetboat.calls.streams import Reopening
from packetboat.errors import NotFound
from packetboat.models import BacklogUpdate


class AsyncSubscriptions(AsyncSubscriptionsOperations):
    """Subscriptions: create, change, move and pause them, and look at their backlog."""

    async def backlog_stream(
        self,
        *names: str,
        min_messages: int | None = None,
        heartbeat_seconds: float = 10.0,
        max_seconds: float | None = None,
        reconnect_for_s: float | None = None,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[BacklogUpdate, None]:
        """Iterate over backlogs of subscriptions: first as they are, then after each change.

        `names` are names, or beginnings of names and a `*`; without any, all subscriptions are
        meant. With `min_messages`, a subscription is told while it has at least that many, and once
        when it has fewer again. It is opened, and opened again, as `stream` is.
        """

        def call_of(left_s: float | None) -> StreamCall:
            return streams.stream_backlogs(names, min_messages, heartbeat_seconds, left_s)

        reopening = Reopening(
            call_of, time.monotonic(), max_seconds=max_seconds, reopen_for_s=reconnect_for_s
        )
        async with aclosing(lines(self._sender, reopening, timeout_s)) as incoming:
            async for line in incoming:
                if (update := line.update) is not None:
                    yield update

    async def follow_backlog(
        self,
        name: str,
        *,
        min_messages: int | None = None,
        heartbeat_seconds: float = 10.0,
        max_seconds: float | None = None,
        reconnect_for_s: float | None = None,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[BacklogUpdate, None]:
        """Iterate over the backlog of one subscription, and end with it. Raise NotFound where there
        is none of this name."""

        def call_of(left_s: float | None) -> StreamCall:
            return streams.stream_backlog(name, min_messages, heartbeat_seconds, left_s)

        reopening = Reopening(
            call_of, time.monotonic(), max_seconds=max_seconds, reopen_for_s=reconnect_for_s
        )
        began = False
        try:
            async with aclosing(lines(self._sender, reopening, timeout_s)) as incoming:
                async for line in incoming:
                    if (update := line.update) is not None:
                        yield update
                        began = True
        except NotFound:
            if not began:
                raise
