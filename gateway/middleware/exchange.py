"""Follows one request and its response from around the handler.

The dispatcher passes `receive` and `send` of this object on; it learns by them whether the body
was read to its end (an error answered earlier must drain it first), whether the response has begun,
and its status. Handlers waiting for the body sit in `reading`, where the sweeper finds stalled
ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import MutableMapping
from typing import Any

from edge.asgi import DRAIN_BYTES, Header, Receive, Send
from gateway.middleware.request_id import HEADER

DRAIN_SECONDS = 10.0
LEAST_BYTES_PER_S = 8 * 1024
"""Bytes of a body a second, at least, beyond the first `pause_s` of it."""


class Exchange:
    """Holds the state of one request; made for each, so it holds only what must be known."""

    __slots__ = (
        "_receive",
        "_send",
        "bodiless",
        "body_complete",
        "gone",
        "headers",
        "reading",
        "received_bytes",
        "request_id",
        "started_s",
        "status",
        "task",
        "timed_out",
        "waiting_since_s",
    )

    def __init__(
        self,
        receive: Receive,
        send: Send,
        request_id: bytes,
        reading: set[Exchange],
        *,
        bodiless: bool = False,
    ) -> None:
        """Begin an exchange; `bodiless` marks a HEAD request, whose response has no body."""
        self.bodiless = bodiless
        self.headers: tuple[Header, ...] = ()
        """Headers that are added to those of the response."""
        self._receive = receive
        self._send = send
        self.request_id = request_id
        self.reading = reading
        self.started_s = time.perf_counter()
        self.status = 0
        self.body_complete = False
        self.received_bytes = 0
        self.gone = False
        self.timed_out = False
        self.task: asyncio.Task[Any] | None = None
        self.waiting_since_s = 0.0

    @property
    def asked(self) -> bool:
        """Whether the body was asked for."""
        return self.waiting_since_s > 0

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the next part of the request, and note whether the body is complete."""
        if self.body_complete:
            return await self._receive()
        self.waiting_since_s = time.perf_counter()
        self.task = asyncio.current_task()
        self.reading.add(self)
        try:
            message = await self._receive()
        finally:
            self.reading.discard(self)
        if message["type"] == "http.disconnect":
            self.gone = self.body_complete = True
        elif not message.get("more_body", False):
            self.body_complete = True
        else:
            self.received_bytes += len(message["body"])
        return message

    def stalled(self, now_s: float, pause_s: float) -> bool:
        """Return whether the body is late: no part came for `pause_s`, or all of them come
        too slowly.
        """
        slowest_s = pause_s + self.received_bytes / LEAST_BYTES_PER_S
        return now_s - self.waiting_since_s > pause_s or now_s - self.started_s > slowest_s

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a part of the response with the request id and the added headers in its head."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = (HEADER, self.request_id)
            message["headers"] = [*message.get("headers", ()), own, *self.headers]
        elif self.bodiless and message["type"] == "http.response.body":
            if message.get("more_body", False):
                return
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    async def drain(self) -> None:
        """Read and drop what is left of the body, within bounds of bytes and time."""
        dropped = 0
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self.body_complete and dropped <= DRAIN_BYTES:
                    dropped += len((await self.receive()).get("body", b""))
        except TimeoutError:
            return
