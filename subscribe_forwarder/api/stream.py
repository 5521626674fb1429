"""Streaming pull: one response that goes on, and carries messages as they come.

A written message stays leased until it is acked, over any other connection, or its deadline comes;
a message that could not be written is ready again. A stream takes as much as its window has room
for, in one write each time it is served, and nothing while the last write has not left: a client
that does not read costs one write of memory, and is cut off after a while. The response ends with a
line that says why, except when the connection is lost.

The messages come from parts, one for each owner. Where the subscription is all here, that is one
part with the whole window, and no owner is looked up. Else the window is divided: an owner's part
of it shrinks before another's grows, so never more is out than the client allows, but for one
message of each owner. Parts come and go as partitions change hands, and the loss of one ends
nothing. With more owners than messages in the window they take turns.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from edge.asgi import ClientGone, Receive, Scope, Send, header, read_body
from edge.departure import disconnected, ended_by
from edge.problem import Problem, unavailable
from metadata.errors import MetadataError
from subscribe_forwarder import metrics
from subscribe_forwarder.api import requests
from subscribe_forwarder.api.hubs import refuse_push
from subscribe_forwarder.api.pulls import MAX_GET_BODY_BYTES
from subscribe_forwarder.api.requests import StreamRequest
from subscribe_forwarder.api.stream_lines import (
    STOP_WAITING_S,
    PartResponse,
    StreamResponse,
    format_of,
)
from subscribe_forwarder.api.stream_parts import (
    DRAINING,
    NONE,
    OPERATION,
    PART_HEADER,
    SUBJECT,
    TICK_S,
    UNSERVED_S,
    Amount,
    OwnPart,
    PeerPart,
    Resize,
    StreamPart,
    chosen,
    targets,
)
from subscribe_forwarder.api.trace import DeliveryRecorder
from subscribe_forwarder.delivery.window import Window
from subscribe_forwarder.fleet.proxy.attending import Attending
from subscribe_forwarder.fleet.proxy.relay import ProxyPaused, part_of
from subscribe_forwarder.fleet.proxy.routing import HERE, Found, Routing, nowhere
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.peers import PeerGone, is_misdirected, misdirected

MAX_SECONDS = "max_seconds"
REST_S = 0.05
UNSERVED_REST_S = 0.25
PATIENCE_S = 1.0
"""Seconds a stream that has not begun waits for an owner."""
_encode = msgspec.msgpack.encode
_resize = msgspec.msgpack.Decoder(Resize).decode


class Streams:
    """The streams of clients, and the parts of others' streams that are served here."""

    def __init__(
        self,
        forwarder: SubscribeForwarder,
        routing: Routing,
        attending: Attending,
        trace: DeliveryRecorder | None = None,
    ) -> None:
        self.forwarder = forwarder
        self.routing = routing
        self.attending = attending
        self.trace = trace
        self._served: dict[bytes, Stream] = {}
        """The streams of other forwarders, by the names of their parts."""
        routing.serve(OPERATION, self._serve)
        if routing.links is not None:
            routing.links.answers(SUBJECT, self._resize)

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 and messages, until somebody ends the stream."""
        request = requests.stream_of_query(scope)
        response = StreamResponse(format_of(header(scope, b"accept")))
        stream = Stream(self, scope, request, response)
        metrics.streams.inc()
        try:
            if not await self.routing.served_here(scope, lambda: stream.run_here(receive, send)):
                await stream.run_routed(receive, send)
        finally:
            metrics.streams.dec()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer another forwarder's part with the messages that are here, and nothing else."""
        request = requests.stream_of_query(scope)
        response = PartResponse(format_of(header(scope, b"accept")))
        name = header(scope, PART_HEADER) or b""
        stream = self._served[name] = Stream(self, scope, request, response)
        try:
            await stream.run_here(receive, send)
        finally:
            del self._served[name]

    async def _resize(self, incarnation: bytes, body: bytes) -> bytes:
        told = _resize(body)
        stream = self._served.get(told.part)
        if stream is None or stream.own is None:
            raise misdirected()
        await stream.own.resize(Amount(told.messages, told.size_bytes))
        return _encode(stream.own.known)


class Stream:
    """One stream, from its owners' parts to its response."""

    def __init__(
        self, streams: Streams, scope: Scope, request: StreamRequest, response: StreamResponse
    ) -> None:
        self._forwarder, self._routing = streams.forwarder, streams.routing
        self._attending, self._trace = streams.attending, streams.trace
        self._scope = scope
        self._request = request
        self._response = response
        self._window = Window(request.max_messages, request.max_bytes)
        """The window of the partitions here."""
        self._total = Amount(request.max_messages, request.max_bytes)
        self._loop = asyncio.get_running_loop()
        self._ends_s = self._loop.time() + request.ends_after_s
        self._body_read = False
        self._parts: dict[bytes, StreamPart] = {}
        self.own: OwnPart | None = None
        """The one part of a stream whose subscription is all here."""
        self._rests_until_s: dict[bytes, float] = {}
        self._served_s = self._loop.time()
        self._balance_s = 0.0
        self._end: Problem | str | None = None

    async def run_here(self, receive: Receive, send: Send) -> None:
        """Run it with the part here alone.

        Raises as `run_routed`, and at any time the Problem `misdirected`: `run_routed` is to go on.
        """
        own = self._own_part(self._scope, self._total)
        await own.open()
        await self._read_body(receive)
        self.own = self._parts[HERE] = own
        try:
            own.join()
            await self._run(receive, send, None)
        finally:
            self.own = None
            await self._drop_parts()

    async def run_routed(self, receive: Receive, send: Send) -> None:
        """Run it with a part of each owner, wherever they are.

        Raises ClientGone, and before the response begins the Problem why there is none.
        """
        await self._read_body(receive)
        found = await self._first_found()
        stopping = self._loop.create_task(self._routing.until_stopping())
        try:
            await self._run(receive, send, found, stopping)
        finally:
            await self._drop_parts()
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)

    async def _run(
        self,
        receive: Receive,
        send: Send,
        found: Found | None,
        *stopping: asyncio.Task[None],
    ) -> None:
        """Run until the end; `found`: None where no owner is looked up."""
        gone = self._loop.create_task(disconnected(receive))
        gone.add_done_callback(self._departed)
        try:
            if not self._response.begun:
                await self._response.begin(send, self._state())
            if self.own is not None:
                self.own.start()
            while self._end is None:
                if found is not None:
                    await self._balance(found)
                await self._wait(found, gone, *stopping)
                if gone.done():
                    await self._stop_parts()
                    self._end = ended_by(gone)
                    break
                self._sort_out(any(one.done() for one in stopping))
                await self._beat()
                if found is not None:
                    found = await self._find_again(found)
            await self._finish()
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)

    async def _read_body(self, receive: Receive) -> None:
        if not self._body_read:
            await read_body(self._scope, receive, MAX_GET_BODY_BYTES)
            self._body_read = True

    def _departed(self, gone: asyncio.Future[None]) -> None:
        """Stop the parts and the waits for writes at once: the client is gone, or has to go.

        Where the response goes on with other parts, nobody has gone.
        """
        if not gone.cancelled():
            self._response.stop_waiting()
            for part in self._parts.values():
                part.stop()

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

    async def _find_again(self, found: Found) -> Found:
        """Return the owners now."""
        try:
            found = await self._routing.find(self._scope, self._request.places)
            refuse_push(found.subscription)
            await self._routing.look_for(found)
        except Problem as problem:
            self._end = self._end or problem
        except MetadataError:
            pass  # asked again with the next tick
        return found

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
        part: StreamPart
        if owner == HERE:
            part = self._own_part(part_of(self._scope), amount)
        else:
            part = PeerPart(
                owner,
                self._routing,
                self._scope,
                self._request,
                self._response,
                limit=amount,
                require_lease=self._require_lease,
            )
        self._parts[owner] = part
        part.start()

    def _own_part(self, scope: Scope, limit: Amount) -> OwnPart:
        return OwnPart(
            self._forwarder,
            scope,
            self._request,
            self._response,
            window=self._window,
            limit=limit,
            trace=self._trace,
        )

    async def _resize(self, limits: dict[bytes, Amount]) -> None:
        await asyncio.gather(*(self._parts[owner].resize(limit) for owner, limit in limits.items()))

    def _require_lease(self) -> None:
        """Raise ProxyPaused where messages of another owner may not be passed on."""
        if not self._routing.holds_lease():
            raise ProxyPaused

    # The response.

    async def _wait(self, found: Found | None, *events: asyncio.Task[None]) -> None:
        """Return when a part, one of the events or a time may have come."""
        now_s = self._loop.time()
        due_s = [self._ends_s, self._response.wrote_s + self._request.heartbeat_s]
        waits: list[asyncio.Task[Any]] = [one.task for one in self._parts.values() if one.task]
        changed = []
        if found is not None:
            due_s += [now_s + TICK_S, *self._rests_until_s.values()]
            changed.append(self._loop.create_task(self._routing.changed(found)))
        try:
            await asyncio.wait(
                [*waits, *events, *changed],
                timeout=min((at - now_s for at in due_s if at > now_s), default=0.0),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for one in changed:
                one.cancel()
            await asyncio.gather(*changed, return_exceptions=True)

    def _sort_out(self, stopping: bool) -> None:
        """Sort out the parts that have ended, and decide whether the stream goes on."""
        now_s = self._loop.time()
        for owner, part in list(self._parts.items()):
            if part.task is not None and part.task.done():
                del self._parts[owner]
                if part is self.own:
                    self._ended(part)
                else:
                    self._lost(part, now_s)
        if self._parts:
            self._served_s = now_s
        elif now_s - self._served_s > UNSERVED_S:
            self._end = self._end or nowhere()
        if stopping:
            self._response.stop_waiting()
            self._end = self._end or DRAINING

    async def _beat(self) -> None:
        """Write a heartbeat, or note the end, when it is time for one."""
        now_s = self._loop.time()
        if now_s >= self._ends_s:
            self._end = self._end or MAX_SECONDS
        elif now_s - self._response.wrote_s >= self._request.heartbeat_s:
            await self._response.heartbeat(self._state())

    def _ended(self, part: StreamPart) -> None:
        """Handle the end of the only part, with which the stream ends as far as this process serves
        it.
        """
        error = part.failed
        if error is not None and (not isinstance(error, Problem) or is_misdirected(error)):
            raise error
        self._end = self._end or error or DRAINING

    def _lost(self, part: StreamPart, now_s: float) -> None:
        """Handle the end of a part: ask its owner again if it still is one."""
        error = part.failed
        unserved = isinstance(error, Problem) and error.status == 503
        self._rests_until_s[part.owner] = now_s + (UNSERVED_REST_S if unserved else REST_S)
        if isinstance(error, ProxyPaused):
            # Nobody knows what else of it was on its way here: the client is to begin anew.
            self._end = unavailable("subscription", "This forwarder lost its lease; ask again.")
        elif isinstance(error, ClientGone):
            raise error
        elif isinstance(error, Problem) and not (unserved or is_misdirected(error)):
            self._end = self._end or error
        elif error is not None and not isinstance(error, Problem | PeerGone | MetadataError):
            raise error

    async def _stop_parts(self) -> None:
        """Write nothing more to this client. Raises ClientGone where a write did not leave."""
        for part in self._parts.values():
            part.stop()
        if tasks := [part.task for part in self._parts.values() if part.task is not None]:
            await asyncio.wait(tasks)
        for part in self._parts.values():
            if isinstance(part.failed, ClientGone):
                raise part.failed
        await self._drop_parts()

    async def _drop_parts(self) -> None:
        await asyncio.gather(*(part.cancel() for part in self._parts.values()))
        self._parts.clear()

    async def _finish(self) -> None:
        """Finish: messages that owners have written still come before the last line."""
        assert self._end is not None
        await self._resize(dict.fromkeys(self._parts, NONE))
        tasks = [part.task for part in self._parts.values() if part.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_WAITING_S)
        await self._response.finish(self._end)

    def _state(self) -> dict[str, object]:
        """Return the members of a heartbeat, as the owners last told them."""
        known = [part.known for part in self._parts.values()]
        return {
            "outstanding_messages": sum(one.messages for one in known),
            "outstanding_bytes": sum(one.size_bytes for one in known),
            "paused": next((one.paused for one in known if one.paused), None),
        }
