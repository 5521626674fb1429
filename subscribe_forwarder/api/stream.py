"""Streaming pull: one response that goes on, and carries messages as they come.

A written message stays leased until it is acked, over any other connection, or its deadline comes;
a message that could not be written is ready again. A stream takes as much as its window has room
for, in one write each time it is served, and nothing while the last write has not left: a client
that does not read costs one write of memory, and is cut off after a while. The response ends with a
line that says why, except when the connection is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from edge.asgi import ClientGone, Receive, Scope, Send
from edge.departure import disconnected, ended_by
from edge.problem import Problem, unavailable
from metadata.errors import MetadataError
from subscribe_forwarder import metrics
from subscribe_forwarder.api.hubs import hub_of, refuse_push
from subscribe_forwarder.api.requests import StreamRequest
from subscribe_forwarder.api.stream_lines import LineFormat
from subscribe_forwarder.api.trace import HandOuts
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.line import Delivery, Want
from subscribe_forwarder.delivery.reading.render import time_json
from subscribe_forwarder.delivery.reading.tail import wall_us
from subscribe_forwarder.delivery.sending import to_send
from subscribe_forwarder.delivery.window import Window
from subscribe_forwarder.fleet.proxy.attending import ATTENDS_S
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.peers import FORWARDED, is_misdirected

MAX_WRITE_MESSAGES = 500
MAX_WRITE_BYTES = 1024 * 1024
TICK_S = 1.0
STALLED_S = 60.0
"""A write that has not left by then ends the stream: nobody reads."""
HURRY_S = 1.0
"""Seconds after which such a write ends the stream when the stream is about to end anyway."""
UNSERVED_S = 10.0
"""Seconds without the forwarder's lease after which the stream ends, so that the client
asks again.
"""
DRAINING, MAX_SECONDS = "draining", "max_seconds"


class Stalled(ClientGone):
    """The client does not read; part of the last write may have left."""


class StreamResponse:
    """Lines on their way; one write at a time."""

    def __init__(self, lines: LineFormat) -> None:
        self.lines = lines
        self.begun = False
        self.wrote_s = 0.0
        """The time at which a write last left, by the loop's clock."""
        self._loop = asyncio.get_running_loop()
        self._writing: asyncio.Timeout | None = None
        self._hurry = False

    async def begin(self, send: Send, state: Mapping[str, object]) -> None:
        self._send = send
        self.begun = True
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
        """Write the last line, which says why the stream ends."""
        if isinstance(why, Problem):
            members: dict[str, object] = {"reason": "problem", "problem": why.as_dict()}
        else:
            members = {"reason": why, "problem": None}
        await self.write(self.lines.named(b"end", members), more=False)

    def hurry(self) -> None:
        """Stop waiting for a client that does not read: the stream is about to end."""
        self._hurry = True
        if self._writing is not None:
            self._writing.reschedule(self._loop.time() + HURRY_S)


class PartResponse(StreamResponse):
    """The response of one owner to an owner proxy: messages and nothing else."""

    async def heartbeat(self, state: Mapping[str, object]) -> None:
        self.wrote_s = self._loop.time()

    async def finish(self, why: Problem | str) -> None:
        """Raises the Problem."""
        if isinstance(why, Problem):
            raise why
        await self.write(b"", more=False)


class Streams:
    """Streams of what is owned here."""

    def __init__(self, forwarder: SubscribeForwarder, trace: HandOuts | None = None) -> None:
        self._forwarder = forwarder
        self._trace = trace

    async def open(
        self,
        scope: Scope,
        request: StreamRequest,
        response: StreamResponse,
        window: Window | None = None,
    ) -> Stream:
        """Return a stream to run; `window` belongs to a stream that it continues.

        Raises as `hub_of`.
        """
        forwarder = self._forwarder

        async def find() -> Hub:
            hub = await hub_of(forwarder, scope)
            refuse_push(hub.subscription)
            return hub

        hub = await find()
        forwarder.require_lease()
        window = window or Window(request.max_messages, request.max_bytes)
        stream = Stream(forwarder, hub, find, request, response, window)
        if self._trace is not None:
            stream.trace(self._trace, forwarded=FORWARDED in scope)
        return stream


class Stream:
    """A consumer that goes to the line again and again, and the response it writes."""

    only_now = False

    def __init__(
        self,
        forwarder: SubscribeForwarder,
        hub: Hub,
        find: Callable[[], Awaitable[Hub]],
        request: StreamRequest,
        response: StreamResponse,
        window: Window,
    ) -> None:
        self.window = window
        self._forwarder = forwarder
        self._hub = hub
        self._find = find
        self._request = request
        self._response = response
        self._trace: HandOuts | None = None
        self._forwarded = False
        self._got: Delivery | None = None
        self._in_line = False
        self._end: Problem | str | None = None
        """The reason why the stream ends, once it does."""
        self._ticked = False
        self._waker: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._began_s = self._served_s = self._loop.time()

    def trace(self, trace: HandOuts, *, forwarded: bool) -> None:
        """Write the deliveries of the stream to `trace`; `forwarded`: to another forwarder."""
        self._trace, self._forwarded = trace, forwarded

    def resize(self, max_messages: int, max_bytes: int) -> None:
        """Resize the window; 0 messages end the stream when the messages that it has are
        written.
        """
        self.window.resize(max_messages, max_bytes)
        if not max_messages:
            self._end = self._end or DRAINING
        self._hub.dispatch()
        self._wake()

    def state(self) -> dict[str, object]:
        """Return the members of a heartbeat."""
        messages, size_bytes = self.window.outstanding()
        return {
            "outstanding_messages": messages,
            "outstanding_bytes": size_bytes,
            "paused": self._hub.paused_reason(),
        }

    @property
    def backlog(self) -> int:
        """Messages that it could be given: of the subscription, as far as it is here."""
        return sum(reader.backlog for reader in self._hub.readers.values())

    # One in line.

    def ask(self) -> Want | None:
        room = self.window.room()
        if room is None:
            return None
        max_messages = min(room.messages, MAX_WRITE_MESSAGES)
        max_bytes = min(room.size_bytes, MAX_WRITE_BYTES)
        request = self._request
        return Want(max_messages, max_bytes, request.consumer, places=request.places)

    def give(self, delivery: Delivery) -> bool:
        self.window.add(delivery)
        self._got = delivery
        self._in_line = False
        self._wake()
        return True

    def end(self, problem: Problem | None) -> None:
        self._in_line = False
        self._end = self._end or problem or DRAINING
        if problem is None or not is_misdirected(problem):
            self._response.hurry()
        self._wake()

    # The response.

    async def run(self, receive: Receive, send: Send) -> None:
        """Raises ClientGone; the Problem why there is no response, before it begins; and
        `misdirected` at any time, when somebody else is to go on."""
        self._attend()
        self._hub.join(self)
        self._hub.streams.add(self)
        self._in_line = True
        gone = self._loop.create_task(disconnected(receive))
        gone.add_done_callback(self._departed)
        ticker = self._loop.create_task(self._tick())
        try:
            if not self._response.begun:
                await self._response.begin(send, self.state())
            self._hub.dispatch()
            while self._end is None or self._got is not None:
                if gone.done():
                    self._end = ended_by(gone)
                    break  # others get the messages that it has
                await self._step()
            if isinstance(self._end, Problem) and is_misdirected(self._end):
                raise self._end
            await self._response.finish(self._end)
        finally:
            self._leave()
            for task in (gone, ticker):
                task.cancel()
            await asyncio.gather(gone, ticker, return_exceptions=True)

    def _departed(self, gone: asyncio.Future[None]) -> None:
        """Stop waiting for writes: the client is gone, or has to go.

        Where another stream continues the response, nobody has gone.
        """
        if not gone.cancelled():
            self._response.hurry()
        self._wake()

    async def _step(self) -> None:
        """Write once, or wait once."""
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
            self._note(delivery, sent=False)
            raise  # part of it may have left
        except Exception as error:
            self._note(delivery, sent=False)
            metrics.pulls.labels("unsent").inc()
            delivery.release()
            self._hub.dispatch()
            if not isinstance(error, Problem):
                raise
            return
        metrics.delivered.inc(delivery.count)
        self._note(delivery, sent=True)

    def _note(self, delivery: Delivery, *, sent: bool) -> None:
        if self._trace is not None:
            consumer = self._request.consumer
            self._trace.note(self._hub, delivery, consumer, self._forwarded, sent=sent)

    async def _look_around(self) -> None:
        """Once a tick: whether it still is served, and has said so lately."""
        now_s = self._loop.time()
        self._attend()
        if self._forwarder.holds_lease():
            self._served_s = now_s
        elif now_s - self._served_s > UNSERVED_S:
            self._end = unavailable("subscription", "This forwarder lost its lease; ask again.")
        if self._hub.incomplete or self._hub.subscription.push is not None:
            await self._find_again()
        if self.window.forget_all_but({one.ledger for one in self._hub.readers.values()}):
            self._hub.dispatch()
        if now_s - self._began_s >= self._request.ends_after_s:
            self._end = self._end or MAX_SECONDS
        elif now_s - self._response.wrote_s >= self._request.heartbeat_s:
            await self._response.heartbeat(self.state())

    async def _find_again(self) -> None:
        """A partition is missing since another forwarder took it, or it is new; or nobody is to
        pull any more."""
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
        if self._has_affinity:
            self._hub.depart(self._request.consumer)  # another of its name says so with its tick
        if self._got is not None:
            self._got.withdraw()
            self._hub.dispatch()

    @property
    def _has_affinity(self) -> bool:
        places = self._request.places
        return places is not None and places.affinity

    def _attend(self) -> None:
        """Keep the stream's partitions for its consumer while it is open."""
        if self._has_affinity:
            self._hub.attend(self._request.consumer, ATTENDS_S)

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
