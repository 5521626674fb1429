"""Streaming pull: one response that goes on, and carries messages as they come.

What was written stays leased until it is acked, over any other connection, or its deadline comes;
what could not be written is ready again. A stream takes as much as its window has room for, in one
write each time it is served, and nothing while the last write has not left: a client that does not
read costs one write of memory, and is cut off after a while. The response ends with a line that
says why, except when the connection is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from edge.asgi import ClientGone, Receive, Scope, Send, header, path_param, read_body, tenant_of
from edge.problem import Problem, unavailable
from metadata.errors import MetadataError
from subscribe_forwarder import metrics
from subscribe_forwarder.api import requests
from subscribe_forwarder.api.pulls import disconnected
from subscribe_forwarder.api.requests import StreamRequest
from subscribe_forwarder.api.stream_lines import LineFormat, format_of
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.line import Delivery, Want
from subscribe_forwarder.delivery.sending import to_send
from subscribe_forwarder.delivery.window import Window
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.reading.render import time_json
from subscribe_forwarder.reading.tail import wall_us

MAX_WRITE_MESSAGES = 500
MAX_WRITE_BYTES = 1024 * 1024
TICK_S = 1.0
STALLED_S = 60.0
"""A write that has not left by then ends the stream: nobody reads."""
HURRY_S = 1.0
"""And by then, when the stream is to end."""
UNSERVED_S = 10.0
"""So long without the forwarder's lease, and the client had better ask again."""
DRAINING, MAX_SECONDS = "draining", "max_seconds"
_MAX_BODY_BYTES = 64 * 1024


class Stalled(ClientGone):
    """The client does not read; part of the last write may have left."""


class StreamResponse:
    """Lines on their way; one write at a time."""

    def __init__(self, lines: LineFormat) -> None:
        self.lines = lines
        self.wrote_s = 0.0
        """When a write last left, by the loop's clock."""
        self._loop = asyncio.get_running_loop()
        self._writing: asyncio.Timeout | None = None
        self._hurry = False

    async def begin(self, send: Send, state: Mapping[str, object]) -> None:
        self._send = send
        headers = [
            (b"content-type", self.lines.content_type),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.heartbeat(state)

    async def write(self, body: bytes, *, more: bool = True) -> None:
        """Returns when the connection can take more; raises Stalled when it never could."""
        try:
            async with asyncio.timeout(HURRY_S if self._hurry else STALLED_S) as self._writing:
                await self._send({"type": "http.response.body", "body": body, "more_body": more})
        except TimeoutError as error:
            raise Stalled from error
        finally:
            self._writing = None
        self.wrote_s = self._loop.time()

    async def heartbeat(self, state: Mapping[str, object]) -> None:
        await self.write(self.lines.named(b"heartbeat", {"time": utc_now(), **state}))

    async def finish(self, why: Problem | str) -> None:
        """The last line."""
        if isinstance(why, Problem):
            members: dict[str, object] = {"reason": "problem", "problem": why.as_dict()}
        else:
            members = {"reason": why, "problem": None}
        await self.write(self.lines.named(b"end", members), more=False)

    def hurry(self) -> None:
        """It is to end: whoever does not read is not waited for."""
        self._hurry = True
        if self._writing is not None:
            self._writing.reschedule(self._loop.time() + HURRY_S)


class Streams:
    def __init__(self, forwarder: SubscribeForwarder) -> None:
        self._forwarder = forwarder

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """200 and messages, until somebody ends it."""
        request = requests.stream_of_query(scope)
        forwarder = self._forwarder

        async def find() -> Hub:
            topic = scope["path_params"].get("topic")
            return await forwarder.hub(tenant_of(scope), path_param(scope, "name"), topic)

        hub = await find()
        forwarder.require_lease()
        await read_body(scope, receive, _MAX_BODY_BYTES)
        lines = format_of(header(scope, b"accept"))
        metrics.streams.inc()
        try:
            await Stream(forwarder, hub, find, request, lines).run(receive, send)
        finally:
            metrics.streams.dec()


class Stream:
    """A consumer that goes to the line again and again, and the response it writes."""

    only_now = False

    def __init__(
        self,
        forwarder: SubscribeForwarder,
        hub: Hub,
        find: Callable[[], Awaitable[Hub]],
        request: StreamRequest,
        lines: LineFormat,
    ) -> None:
        self._forwarder = forwarder
        self._hub = hub
        self._find = find
        self._request = request
        self._window = Window(request.max_messages, request.max_bytes)
        self._response = StreamResponse(lines)
        self._got: Delivery | None = None
        self._in_line = False
        self._end: Problem | str | None = None
        """Why it ends, once it does."""
        self._ticked = False
        self._waker: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._began_s = self._served_s = self._loop.time()

    # One in line.

    def ask(self) -> Want | None:
        room = self._window.room()
        if room is None:
            return None
        max_messages = min(room.messages, MAX_WRITE_MESSAGES)
        return Want(max_messages, min(room.size_bytes, MAX_WRITE_BYTES), self._request.consumer)

    def give(self, delivery: Delivery) -> bool:
        self._window.add(delivery)
        self._got = delivery
        self._in_line = False
        self._wake()
        return True

    def end(self, problem: Problem | None) -> None:
        self._in_line = False
        self._end = self._end or problem or DRAINING
        self._response.hurry()
        self._wake()

    # The response.

    async def run(self, receive: Receive, send: Send) -> None:
        """Raises ClientGone, and before the response begins the Problem why there is none."""
        self._hub.join(self)
        self._hub.streams.add(self)
        self._in_line = True
        gone = self._loop.create_task(disconnected(receive))
        gone.add_done_callback(lambda _: self._wake())
        ticker = self._loop.create_task(self._tick())
        try:
            await self._response.begin(send, self._state())
            self._hub.dispatch()
            while self._end is None or self._got is not None:
                if gone.done():
                    raise ClientGone
                await self._step()
            await self._response.finish(self._end)
        finally:
            self._leave()
            for task in (gone, ticker):
                task.cancel()
            await asyncio.gather(gone, ticker, return_exceptions=True)

    async def _step(self) -> None:
        """One write, or one wait."""
        if self._got is None and not self._in_line:
            self._join()
        if self._got is not None:
            delivery, self._got = self._got, None
            await self._deliver(delivery)
            await asyncio.sleep(0)  # where the socket takes it at once, others have their turn
            return
        if self._ticked:
            self._ticked = False
            await self._look_around()
        if self._end is None and self._got is None:
            self._waker = self._loop.create_future()
            await self._waker

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            guarantee = self._hub.subscription.delivery
            messages = await to_send(delivery, guarantee, self._forwarder.flusher)
            self._forwarder.require_lease()
            if messages:
                await self._response.write(self._response.lines.messages(messages))
        except (asyncio.CancelledError, Stalled):
            raise  # part of it may have left
        except Exception as error:
            metrics.pulls.labels("unsent").inc()
            delivery.release()
            self._hub.dispatch()
            if not isinstance(error, Problem):
                raise
            return
        metrics.delivered.inc(delivery.count)

    async def _look_around(self) -> None:
        """Once a tick: whether it still is served, and has said so lately."""
        now_s = self._loop.time()
        if self._forwarder.holds_lease():
            self._served_s = now_s
        elif now_s - self._served_s > UNSERVED_S:
            self._end = unavailable("subscription", "This forwarder lost its lease; ask again.")
        if self._hub.incomplete:
            await self._find_again()
        if self._window.forget_all_but({one.ledger for one in self._hub.readers.values()}):
            self._hub.dispatch()
        if now_s - self._began_s >= self._request.ends_after_s:
            self._end = self._end or MAX_SECONDS
        elif now_s - self._response.wrote_s >= self._request.heartbeat_s:
            await self._response.heartbeat(self._state())

    async def _find_again(self) -> None:
        """A partition is missing since another forwarder took it, or it is new."""
        try:
            await self._find()
        except Problem as problem:
            self._end = self._end or problem
        except MetadataError:
            return  # asked again with the next tick
        self._hub.dispatch()

    def _join(self) -> None:
        try:
            self._hub.join(self)
        except Problem as problem:
            self._end = self._end or problem
        else:
            self._in_line = True
            self._hub.dispatch()

    def _leave(self) -> None:
        self._hub.leave(self)
        self._hub.streams.discard(self)
        if self._got is not None:
            self._got.release()
            self._hub.dispatch()

    def _state(self) -> dict[str, object]:
        """What a heartbeat tells."""
        messages, size_bytes = self._window.outstanding()
        return {
            "outstanding_messages": messages,
            "outstanding_bytes": size_bytes,
            "paused": self._hub.paused_reason(),
        }

    async def _tick(self) -> None:
        ends_s = self._began_s + self._request.ends_after_s
        while True:
            now_s = self._loop.time()
            due_s = (ends_s - now_s, self._response.wrote_s + self._request.heartbeat_s - now_s)
            await asyncio.sleep(min([TICK_S, *(left_s for left_s in due_s if left_s > 0)]))
            self._ticked = True
            self._wake()

    def _wake(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)


def utc_now() -> msgspec.Raw:
    return msgspec.Raw(time_json(wall_us()))
