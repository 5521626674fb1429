"""The parts of a stream: the messages of one owner, within a window of its own.

The part of this process is a consumer that goes to the line again and again (`OwnPart`). The part
of another owner is a request to it, whose window a question changes (`PeerPart`). A stream whose
subscription is all here has the first alone. `chosen` computes which owners have a part, and
`targets` how the client's window is divided among them; both are pure.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from edge.asgi import Scope, header
from edge.problem import Problem, unavailable
from metadata.errors import MetadataError
from openapi.consume import OPERATIONS
from subscribe_forwarder import metrics
from subscribe_forwarder.api.hubs import hub_of, refuse_push
from subscribe_forwarder.api.places import query_of
from subscribe_forwarder.api.requests import StreamRequest
from subscribe_forwarder.api.stream_lines import Stalled, StreamResponse
from subscribe_forwarder.api.trace import DeliveryRecorder
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.pages import JSON
from subscribe_forwarder.delivery.sending import to_send
from subscribe_forwarder.delivery.wait_list import Delivery, Want
from subscribe_forwarder.delivery.window import Window
from subscribe_forwarder.fleet.proxy.attending import ATTENDS_S
from subscribe_forwarder.fleet.proxy.relay import part_of, receiving
from subscribe_forwarder.fleet.proxy.routing import HERE, Routing
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.peers import FORWARDED, PeerGone, is_misdirected

OPERATION = OPERATIONS["stream"].route
SUBJECT = "stream window"
PART_HEADER = b"packetboat-stream-part"
ASK_S = 1.0
MAX_WRITE_MESSAGES = 500
MAX_WRITE_BYTES = 1024 * 1024
TICK_S = 1.0
UNSERVED_S = 10.0
"""Seconds without the forwarder's lease after which the stream ends, so that the client
asks again.
"""
DRAINING = "draining"
BACKLOGGED = 4
"""The factor by which an owner with messages gets more than one without."""


class Amount(NamedTuple):
    """Messages, and bytes of their data."""

    messages: int
    size_bytes: int

    def minus(self, other: Amount) -> Amount:
        return Amount(self.messages - other.messages, self.size_bytes - other.size_bytes)

    def plus(self, other: Amount) -> Amount:
        return Amount(self.messages + other.messages, self.size_bytes + other.size_bytes)

    def most(self, other: Amount) -> Amount:
        return Amount(max(self.messages, other.messages), max(self.size_bytes, other.size_bytes))

    def least(self, other: Amount) -> Amount:
        return Amount(min(self.messages, other.messages), min(self.size_bytes, other.size_bytes))


NONE = Amount(0, 0)


class Resize(msgspec.Struct, frozen=True, array_like=True):
    """Told to the owner of a part."""

    part: bytes
    messages: int
    size_bytes: int


class Resized(msgspec.Struct, frozen=True, array_like=True):
    """The state of a part: its messages that are not acked, its backlog, and why it pauses."""

    messages: int
    size_bytes: int
    backlog: int
    paused: str | None


_UNKNOWN = Resized(0, 0, 1, None)
_encode = msgspec.msgpack.encode
_resized = msgspec.msgpack.Decoder(Resized).decode


class StreamPart(ABC):
    """One owner's part; `task` ends with it."""

    def __init__(self, owner: bytes, limit: Amount) -> None:
        self.owner = owner
        self.limit = limit
        """The amount that the owner may have unacked, as far as it knows."""
        self.closing = False
        self.failed: Exception | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    @abstractmethod
    def known(self) -> Resized:
        """Return its state, as far as it is known here."""

    @property
    def reserved(self) -> Amount:
        """Return the amount of the client's window that it takes up."""
        known = self.known
        return self.limit.most(Amount(known.messages, known.size_bytes))

    def start(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self._guarded())

    @abstractmethod
    async def resize(self, limit: Amount) -> None:
        """Change the limit; 0 messages: it ends when what it has is written."""

    def stop(self) -> None:
        """Begin no further write, and end."""
        if self.task is not None:
            self.task.cancel()

    async def cancel(self) -> None:
        """End it, even amid a write; return when nothing of it is left."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def _guarded(self) -> None:
        try:
            await self._run()
        except Exception as error:
            self.failed = error

    @abstractmethod
    async def _run(self) -> None:
        """Write messages until the part ends; raise the reason why somebody else is to go on."""


class OwnPart(StreamPart):
    """The part of this process: a consumer in line. `window` outlives it: a later part goes on
    with what is still out.
    """

    only_now = False

    def __init__(
        self,
        forwarder: SubscribeForwarder,
        scope: Scope,
        request: StreamRequest,
        response: StreamResponse,
        *,
        window: Window,
        limit: Amount,
        trace: DeliveryRecorder | None,
    ) -> None:
        super().__init__(HERE, limit)
        window.resize(*limit)
        self._window = window
        self._forwarder = forwarder
        self._scope = scope
        self._request = request
        self._response = response
        self._trace = trace
        self._hub: Hub | None = None
        self._joined = self._in_line = False
        self._got: Delivery | None = None
        self._end: Problem | str | None = None
        """The reason why the part ends, once it does."""
        self._stopped = self._ticked = False
        self._ticker: asyncio.TimerHandle | None = None
        self._waker: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._served_s = self._loop.time()

    @property
    def known(self) -> Resized:
        if self._hub is None:
            return _UNKNOWN
        backlog = sum(reader.backlog for reader in self._hub.readers.values())
        return Resized(*self._window.outstanding(), backlog, self._hub.paused_reason())

    async def resize(self, limit: Amount) -> None:
        self.closing, self.limit = limit == NONE, limit
        self._window.resize(*limit)
        if not limit.messages:
            self._end = self._end or DRAINING
        if self._hub is not None:
            self._hub.dispatch()
        self._wake()

    async def open(self) -> None:
        """Find the hub. Raises as `hub_of`, and a 503 or 409 Problem."""
        self._hub = await self._find()
        self._forwarder.require_lease()

    def join(self) -> None:
        """Go to the line before the part is started. Raises the Problem why it cannot."""
        hub = self._opened
        self._attend()
        hub.join(self)
        hub.streams.add(self)
        self._joined = self._in_line = True
        self._ticker = self._loop.call_later(TICK_S, self._tick)

    def stop(self) -> None:
        """Begin no further write, and end. A present one goes on: if it fails, its messages are
        ready again.
        """
        self._stopped = True
        self._wake()

    async def cancel(self) -> None:
        await super().cancel()
        self._leave()  # its task may not have begun

    # One in line.

    def ask(self) -> Want | None:
        room = self._window.room()
        if room is None:
            return None
        max_messages = min(room.messages, MAX_WRITE_MESSAGES)
        max_bytes = min(room.size_bytes, MAX_WRITE_BYTES)
        request = self._request
        return Want(max_messages, max_bytes, request.consumer, places=request.places)

    def give(self, delivery: Delivery) -> bool:
        self._window.add(delivery)
        self._got = delivery
        self._in_line = False
        self._wake()
        return True

    def end(self, problem: Problem | None) -> None:
        self._in_line = False
        self._end = self._end or problem or DRAINING
        if problem is None or not is_misdirected(problem):
            self._response.stop_waiting()
        self._wake()

    # Its deliveries.

    async def _run(self) -> None:
        try:
            if not self._joined:
                await self.open()
                self.join()
            self._opened.dispatch()
            while not self._stopped and (self._end is None or self._got is not None):
                await self._step()
            if isinstance(self._end, Problem):
                raise self._end
        finally:
            self._leave()

    @property
    def _opened(self) -> Hub:
        assert self._hub is not None
        return self._hub

    async def _find(self) -> Hub:
        hub = await hub_of(self._forwarder, self._scope)
        refuse_push(hub.subscription)
        return hub

    async def _step(self) -> None:
        """Write once, or wait once."""
        if self._got is None and not self._in_line:
            self._join_again()
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
        hub, forwarder = self._opened, self._forwarder
        try:
            guarantee = hub.subscription.delivery
            messages = await to_send(delivery, guarantee, forwarder.flusher, JSON)
            forwarder.require_lease()
            if messages:
                response = self._response
                await response.write(response.lines.messages(messages), forwarder.require_lease)
        except (asyncio.CancelledError, Stalled):
            self._note(delivery, sent=False)
            raise  # part of it may have left
        except Exception as error:
            self._note(delivery, sent=False)
            metrics.pulls.labels("unsent").inc()
            delivery.release()
            hub.dispatch()
            if not isinstance(error, Problem):
                raise
            return
        metrics.delivered.inc(delivery.count)
        self._note(delivery, sent=True)

    def _note(self, delivery: Delivery, *, sent: bool) -> None:
        if self._trace is not None:
            forwarded = FORWARDED in self._scope
            self._trace.note(self._opened, delivery, self._request.consumer, forwarded, sent=sent)

    async def _look_around(self) -> None:
        """Look once a tick whether the part still is served, and by this process alone."""
        hub, now_s = self._opened, self._loop.time()
        self._attend()
        if self._forwarder.holds_lease():
            self._served_s = now_s
        elif now_s - self._served_s > UNSERVED_S:
            self._end = unavailable("subscription", "This forwarder lost its lease; ask again.")
        if hub.incomplete or hub.subscription.push is not None:
            await self._find_again()
        if self._window.forget_all_but({one.ledger for one in hub.readers.values()}):
            hub.dispatch()

    async def _find_again(self) -> None:
        """Look up the owners again: a partition is missing since another forwarder took it, or is
        new, or nobody may pull any more.
        """
        try:
            await self._find()
        except Problem as problem:
            self._end = self._end or problem
        except MetadataError:
            return  # asked again with the next tick
        self._opened.dispatch()

    def _join_again(self) -> None:
        try:
            self._opened.join(self)
        except Problem as problem:
            self._end = self._end or problem
        else:
            self._in_line = True
            self._opened.dispatch()

    def _leave(self) -> None:
        if not self._joined:
            return
        hub, self._joined = self._opened, False
        hub.leave(self)
        hub.streams.discard(self)
        if self._ticker is not None:
            self._ticker.cancel()
        if self._has_affinity:
            hub.depart(self._request.consumer)  # another of its name says so with its tick
        if self._got is not None:
            self._got.withdraw()
            hub.dispatch()

    @property
    def _has_affinity(self) -> bool:
        places = self._request.places
        return places is not None and places.affinity

    def _attend(self) -> None:
        """Keep the stream's partitions for its consumer while it is open."""
        if self._has_affinity:
            self._opened.attend(self._request.consumer, ATTENDS_S)

    def _tick(self) -> None:
        self._ticked = True
        self._wake()
        self._ticker = self._loop.call_later(TICK_S, self._tick)

    def _wake(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)


class PeerPart(StreamPart):
    """The part of another owner: a request that runs there."""

    def __init__(
        self,
        owner: bytes,
        routing: Routing,
        scope: Scope,
        request: StreamRequest,
        response: StreamResponse,
        *,
        limit: Amount,
        require_lease: Callable[[], None],
    ) -> None:
        """`require_lease` raises where nothing may be passed on to the client."""
        super().__init__(owner, limit)
        self._routing = routing
        self._name = os.urandom(16).hex().encode()
        self._scope = self._part_of(scope, request)
        self._response = response
        self._require_lease = require_lease
        self._known = _UNKNOWN
        self._rest: list[bytes] = []
        """The bytes of a message that is not all here."""

    @property
    def known(self) -> Resized:
        return self._known

    async def resize(self, limit: Amount) -> None:
        """Change the limit. A change that is not told is told again."""
        self.closing = limit == NONE
        peer = self._routing.peer(self.owner)
        if peer is None:
            return
        try:
            self.limit = self.limit.most(limit)  # it may have heard it when we do not hear so
            told = await peer.ask(SUBJECT, _encode(Resize(self._name, *limit)), ASK_S)
        except (PeerGone, TimeoutError, Problem):
            return
        self._known, self.limit = _resized(told), limit

    async def _run(self) -> None:
        peer = self._routing.peer(self.owner)
        if peer is None:
            raise PeerGone("there is no link to the owner")
        await peer.request(OPERATION, self._scope, receiving(b""), self._pass_on)

    async def _pass_on(self, message: Any) -> None:
        """Pass on whole messages: a part that breaks off leaves no half of one in the client's
        stream.
        """
        body = message.get("body", b"")
        if not body:
            return
        end = b"\n" * self._response.lines.line_feeds
        before = self._rest[-1][-1:] if self._rest else b""  # the end may be in two pieces
        at = (before + body).rfind(end)
        if at < 0:
            self._rest.append(body)
            return
        at += len(end) - len(before)
        whole = b"".join([*self._rest, body[:at]])
        self._rest = [body[at:]] if at < len(body) else []
        await self._response.write(whole, self._require_lease)

    def _part_of(self, scope: Scope, request: StreamRequest) -> Scope:
        query: dict[str, object] = {
            "max_outstanding_messages": self.limit.messages,
            "max_outstanding_bytes": self.limit.size_bytes,
        }
        if request.consumer:
            query["consumer"] = request.consumer
        query |= query_of(request.places)
        headers = [(PART_HEADER, self._name)]
        for name in (b"accept", b"traceparent", b"tracestate"):
            value = header(scope, name)
            if value is not None:
                headers.append((name, value))
        return part_of(scope, query=query, headers=headers)


def targets(total: Amount, backlogs: Mapping[bytes, int]) -> dict[bytes, Amount]:
    """Divide the window by owner, at least one message each: there are no more owners than
    messages.

    The first owners get the remainder, so that all of it is given.
    """
    assert len(backlogs) <= total.messages
    weights = {owner: BACKLOGGED if backlogs[owner] else 1 for owner in backlogs}
    messages = _divided(total.messages, weights)
    sizes = _divided(max(total.size_bytes, len(weights)), weights)
    return {owner: Amount(messages[owner], sizes[owner]) for owner in weights}


def chosen(owners: Sequence[bytes], open_: Mapping[bytes, int], most: int) -> list[bytes]:
    """Choose the owners to be open, where more own something than fit.

    They are those that are open and have a backlog, and then, in turn, those that are not. `open_`:
    by owner, what it is known to have.
    """
    if len(owners) <= most:
        return list(owners)
    busy = [owner for owner in owners if open_.get(owner)]
    new = [owner for owner in owners if owner not in open_]
    idle = [owner for owner in owners if owner in open_ and not open_[owner]]
    kept = busy[: max(1, most - 1)] if new else busy  # nobody waits for ever
    return [*kept, *new, *idle][:most]


def _divided(total: int, weights: Mapping[bytes, int]) -> dict[bytes, int]:
    spare, whole = total - len(weights), sum(weights.values())
    shares = {owner: 1 + spare * weight // whole for owner, weight in weights.items()}
    rest = total - sum(shares.values())
    for owner in list(shares)[:rest]:
        shares[owner] += 1
    return shares
