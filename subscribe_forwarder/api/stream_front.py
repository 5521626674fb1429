"""A stream at a forwarder that does not own all of the subscription.

It is merged of a part from each owner. Heartbeats and the last line are the front's own, the window
is divided: an owner's part of it shrinks before another's grows, so never more is out than the
client allows, but for one message of each owner. Parts come and go as partitions change hands, and
the loss of one ends nothing. With more owners than messages in the window they take turns.
"""

from __future__ import annotations

import asyncio

from edge.asgi import ClientGone, Receive, Scope, Send, header, read_body
from edge.departure import disconnected, ended_by
from edge.problem import Problem, unavailable
from metadata.errors import MetadataError
from subscribe_forwarder import metrics
from subscribe_forwarder.api import requests
from subscribe_forwarder.api.hubs import refuse_push
from subscribe_forwarder.api.pulls import MAX_GET_BODY_BYTES
from subscribe_forwarder.api.requests import StreamRequest
from subscribe_forwarder.api.shares import NONE, Amount, chosen, targets
from subscribe_forwarder.api.stream import (
    DRAINING,
    HURRY_S,
    MAX_SECONDS,
    TICK_S,
    UNSERVED_S,
    Stream,
    StreamResponse,
    Streams,
)
from subscribe_forwarder.api.stream_lines import format_of
from subscribe_forwarder.api.stream_part import StreamPart
from subscribe_forwarder.delivery.window import Window
from subscribe_forwarder.fleet.proxy.attending import Attending
from subscribe_forwarder.fleet.proxy.relay import FrontPaused
from subscribe_forwarder.fleet.proxy.routing import Found, Routing, nowhere
from subscribe_forwarder.peers import PeerGone, is_misdirected

REST_S = 0.05
UNSERVED_REST_S = 0.25
PATIENCE_S = 1.0
"""Seconds a stream that has not begun waits for an owner."""


class StreamFront:
    """The owner proxy in front of `streams`, which serves what is here."""

    def __init__(self, streams: Streams, routing: Routing, attending: Attending) -> None:
        self.streams = streams
        self.routing = routing
        self.attending = attending

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 and messages, until somebody ends the stream."""
        request = requests.stream_of_query(scope)
        response = StreamResponse(format_of(header(scope, b"accept")))
        window = Window(request.max_messages, request.max_bytes)
        began_s = asyncio.get_running_loop().time()
        here: list[Stream] = []

        async def open_here() -> None:
            here.append(await self.streams.open(scope, request, response, window))

        await self.routing.served_here(scope, open_here)
        await read_body(scope, receive, MAX_GET_BODY_BYTES)
        metrics.streams.inc()
        try:
            if here:
                try:
                    await here[0].run(receive, send)
                    return
                except Problem as problem:
                    if not is_misdirected(problem):
                        raise
            merged = MergedStream(self, scope, request, response, window, began_s)
            await merged.run(receive, send)
        finally:
            metrics.streams.dec()


class MergedStream:
    """One client's stream, from its owners' parts to its response."""

    def __init__(
        self,
        front: StreamFront,
        scope: Scope,
        request: StreamRequest,
        response: StreamResponse,
        window: Window,
        began_s: float,
    ) -> None:
        self._streams, self._routing = front.streams, front.routing
        self._attending = front.attending
        self._scope = scope
        self._request = request
        self._response = response
        self._window = window
        """The window of the partitions here."""
        self._total = Amount(request.max_messages, request.max_bytes)
        self._loop = asyncio.get_running_loop()
        self._ends_s = began_s + request.ends_after_s
        self._parts: dict[bytes, StreamPart] = {}
        self._rests_until_s: dict[bytes, float] = {}
        self._served_s = self._loop.time()
        self._balance_s = 0.0
        self._writing = asyncio.Lock()
        self._end: Problem | str | None = None

    async def run(self, receive: Receive, send: Send) -> None:
        """Raises ClientGone, and before the response begins the Problem why there is none."""
        found = await self._first_found()
        gone = self._loop.create_task(disconnected(receive))
        gone.add_done_callback(lambda _: self._response.hurry())
        stopping = self._loop.create_task(self._routing.until_stopping())
        try:
            if not self._response.begun:
                await self._response.begin(send, self._state())
            while self._end is None:
                await self._balance(found)
                await self._wait(found, gone, stopping)
                if gone.done():
                    self._end = ended_by(gone)
                    await self._drop_parts()  # nothing more is for this client
                    break
                found = await self._look_around(found, stopping)
            await self._finish()
        finally:
            await self._drop_parts()
            for task in (gone, stopping):
                task.cancel()
            await asyncio.gather(gone, stopping, return_exceptions=True)

    # Parts of the stream.

    async def _first_found(self) -> Found:
        until_s = self._loop.time() + PATIENCE_S
        while True:
            found = await self._routing.find(self._scope, self._request.places)
            refuse_push(found.subscription)
            left_s = until_s - self._loop.time()
            if found.partitions or self._response.begun:
                return found
            if left_s <= 0:
                raise nowhere()
            await self._routing.changed_within(found, left_s)

    async def _balance(self, found: Found) -> None:
        """Opens parts, closes them, and moves room from one to another."""
        now_s = self._loop.time()
        known = {owner: part.known.backlog for owner, part in self._parts.items()}
        resting = [owner for owner, at in self._rests_until_s.items() if at > now_s]
        owners = [owner for owner in found.partitions if owner not in resting]
        open_ = chosen(owners, known, self._total.messages)
        new = [owner for owner in open_ if owner not in self._parts]
        if not new and now_s < self._balance_s:
            return
        self._balance_s = now_s + TICK_S
        self._attending.tell(found, self._request.consumer, self._request.places)
        # A former owner's part ends by itself, with all that it has written.
        closed = [o for o in self._parts if o in found.partitions and o not in open_]
        wanted = targets(self._total, {owner: known.get(owner, 1) for owner in open_})
        # All are asked, also those that keep what they have: they tell what there is to give.
        await self._resize(
            {
                owner: wanted.get(owner, NONE).least(part.limit)
                for owner, part in self._parts.items()
                if owner in closed or owner in wanted
            }
        )
        growing: dict[bytes, Amount] = {}
        for owner in [owner for owner in open_ if owner in self._parts]:
            part = self._parts[owner]
            grown = part.limit.most(wanted[owner].least(part.limit.plus(self._free(growing))))
            if grown != part.limit and not part.closing:
                growing[owner] = grown
        await self._resize(growing)
        for owner in new:
            amount = wanted[owner].least(self._free({}))
            if amount.messages > 0 and amount.size_bytes > 0:
                self._open(owner, amount)

    def _free(self, growing: dict[bytes, Amount]) -> Amount:
        """Return the room of the window that no owner has yet."""
        free = self._total
        for owner, part in self._parts.items():
            free = free.minus(part.reserved.most(growing.get(owner, NONE)))
        return free.most(NONE)

    def _open(self, owner: bytes, amount: Amount) -> None:
        part = self._parts[owner] = StreamPart(owner, self._routing, amount)
        part.start(self._streams, self._scope, self._request, self._pass_on, self._window)

    async def _resize(self, limits: dict[bytes, Amount]) -> None:
        await asyncio.gather(*(self._parts[owner].resize(limit) for owner, limit in limits.items()))

    # The response.

    async def _pass_on(self, lines: bytes) -> None:
        """Pass on the messages of a part, one write at a time."""
        async with self._writing:
            if not self._routing.holds_lease():
                raise FrontPaused
            await self._response.write(lines)

    async def _wait(
        self, found: Found, gone: asyncio.Task[None], stopping: asyncio.Task[None]
    ) -> None:
        changed = self._loop.create_task(self._routing.changed(found))
        running = [part.task for part in self._parts.values() if part.task is not None]
        now_s = self._loop.time()
        heartbeat_s = self._response.wrote_s + self._request.heartbeat_s
        due_s = [self._ends_s, heartbeat_s, now_s + TICK_S, *self._rests_until_s.values()]
        try:
            await asyncio.wait(
                [*running, gone, stopping, changed],
                timeout=min(at - now_s for at in due_s if at > now_s),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            changed.cancel()
            await asyncio.gather(changed, return_exceptions=True)

    async def _look_around(self, found: Found, stopping: asyncio.Task[None]) -> Found:
        """Look up the owners again, and return whether it goes on."""
        now_s = self._loop.time()
        for owner, part in list(self._parts.items()):
            if part.task is not None and part.task.done():
                del self._parts[owner]
                self._lost(part, now_s)
        if self._parts:
            self._served_s = now_s
        elif now_s - self._served_s > UNSERVED_S:
            self._end = self._end or nowhere()
        if stopping.done():
            self._response.hurry()
            self._end = self._end or DRAINING
        elif now_s >= self._ends_s:
            self._end = self._end or MAX_SECONDS
        elif now_s - self._response.wrote_s >= self._request.heartbeat_s:
            async with self._writing:
                await self._response.heartbeat(self._state())
        try:
            found = await self._routing.find(self._scope, self._request.places)
            refuse_push(found.subscription)
            await self._routing.look_for(found)
        except Problem as problem:
            self._end = self._end or problem
        except MetadataError:
            pass  # asked again with the next tick
        return found

    def _lost(self, part: StreamPart, now_s: float) -> None:
        """A part has ended; its owner is asked again if it still is one."""
        error = part.failed
        unserved = isinstance(error, Problem) and error.status == 503
        self._rests_until_s[part.owner] = now_s + (UNSERVED_REST_S if unserved else REST_S)
        if isinstance(error, FrontPaused):
            # Nobody knows what else of it was on its way here: the client is to begin anew.
            self._end = unavailable("subscription", "This forwarder lost its lease; ask again.")
        elif isinstance(error, ClientGone):
            raise error
        elif isinstance(error, Problem) and not (unserved or is_misdirected(error)):
            self._end = self._end or error
        elif error is not None and not isinstance(error, Problem | PeerGone | MetadataError):
            raise error

    async def _drop_parts(self) -> None:
        await asyncio.gather(*(part.cancel() for part in self._parts.values()))
        self._parts.clear()

    async def _finish(self) -> None:
        """Finish: messages that owners have written still come before the last line."""
        assert self._end is not None
        await self._resize(dict.fromkeys(self._parts, NONE))
        tasks = [part.task for part in self._parts.values() if part.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=HURRY_S)
        async with self._writing:
            await self._response.finish(self._end)

    def _state(self) -> dict[str, object]:
        """Return the members of a heartbeat, as the owners last told them."""
        known = [part.known for part in self._parts.values()]
        return {
            "outstanding_messages": sum(one.messages for one in known),
            "outstanding_bytes": sum(one.size_bytes for one in known),
            "paused": next((one.paused for one in known if one.paused), None),
        }
