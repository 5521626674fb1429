"""Replay reads: the messages of a partition as they are stored, for whoever asks.

As JSON in one answer, or streamed: NDJSON, or Arrow record batches. Nothing is leased, no ack state
is looked at or changed, and any process can answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import aclosing
from typing import Any, Protocol

import msgspec

from edge.asgi import (
    Receive,
    Route,
    Scope,
    Send,
    header,
    path_param,
    read_body,
    respond,
    tenant_of,
)
from edge.departure import disconnected, ended_by
from edge.problem import Problem
from metadata.types import Topic
from subscribe_forwarder.api.replay_query import (
    ReplayQuery,
    ReplayRequest,
    partition_of,
)
from subscribe_forwarder.ports import Catalog, Store
from subscribe_forwarder.reading import arrow
from subscribe_forwarder.reading.arrow import ArrowStream, Picked
from subscribe_forwarder.reading.places import at_time, bounds
from subscribe_forwarder.reading.render import PartitionRenderer
from subscribe_forwarder.reading.replay import LaneReplay, Replays, Run, Truncated

NDJSON = b"application/x-ndjson"
ARROW = b"application/vnd.apache.arrow.stream"
MAX_EXAMINED = 10_000
"""Messages that one JSON answer looks at; where a filter matches few, the next one goes on."""
SEND_TIMEOUT_S = 60.0
"""How long a client of a stream may take nothing."""
_NO_STORE = [(b"cache-control", b"no-store")]
_MAX_GET_BODY_BYTES = 64 * 1024


class Reading(Protocol):
    """What replays need; a SubscribeForwarder has it."""

    @property
    def store(self) -> Store: ...
    @property
    def catalog(self) -> Catalog: ...


class _Taker:
    """Takes what a request wants of the runs that come; `full` once that is all."""

    def __init__(self, request: ReplayRequest, start: int, *, counts_bytes: bool) -> None:
        self._filter = request.filter
        self._left = request.max_messages
        self._left_bytes = request.max_bytes
        self._counts_bytes = counts_bytes
        self._taken = 0
        self.next_offset = start
        self.examined = 0
        self.full = False

    def take(self, run: Run) -> list[Picked]:
        """The messages of it that are wanted, as far as the limits go."""
        batch = run.batch
        messages = batch.messages()
        indices: Sequence[int] = range(run.low, run.high)
        if self._filter is not None:
            indices = self._filter.matches(batch, indices)
        picked: list[Picked] = []
        self.next_offset = run.next_offset
        self.examined += run.high - run.low
        for index in indices:
            size = len(messages[index].data) if self._counts_bytes else 0
            if not self._left or (size > self._left_bytes and self._taken):
                self.full = True
                self.next_offset = batch.base + index
                return picked
            picked.append((batch, index))
            self._taken += 1
            self._left -= 1
            self._left_bytes -= size
        self.full = not self._left
        return picked


class ReplayRoutes:
    """Raises Problems, and StoreError and MetadataError, which the dispatcher answers."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._replays: Replays | None = None

    def routes(self) -> list[Route]:
        of_partition = "/topics/{topic}/partitions/{partition}"
        return [
            Route("GET", of_partition + "/messages", self.messages, "read", "topic:topic"),
            Route("GET", of_partition + "/offsets", self.offsets, "read", "topic:topic"),
        ]

    async def offsets(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Where the partition begins and ends, and which offset a time is at."""
        time_us, lane = ReplayQuery(scope).moment_us()
        topic = await self._topic(scope)
        number = partition_of(scope, topic, lane)
        store = self._reading.store
        at = await at_time(store, topic, number, lane, time_us)
        first, end = await bounds(store, topic, number, lane)
        body = {"first": first, "end": end, "at": min(max(at, first), end)}
        await respond(send, 200, msgspec.json.encode(body), headers=_NO_STORE)

    async def messages(self, scope: Scope, receive: Receive, send: Send) -> None:
        """JSON, NDJSON or Arrow, by `Accept`; 410 below the first offset."""
        form = _form(scope)
        request = ReplayQuery(scope).request(streams=form is not None)
        topic = await self._topic(scope)
        number = partition_of(scope, topic, request.lane)
        await read_body(scope, receive, _MAX_GET_BODY_BYTES)
        with self._places().place():
            work = self._answer(send, form, topic, number, request)
            await _until_gone(work, receive)

    async def _answer(
        self, send: Send, form: bytes | None, topic: Topic, number: int, request: ReplayRequest
    ) -> None:
        lane = LaneReplay(self._places(), topic, number, request.lane)
        start = await self._start(lane, topic, number, request)
        renderer = PartitionRenderer(topic.uid, number, lane=request.lane)
        try:
            if form is None:
                body = await _json(lane, renderer, request, start)
                await respond(send, 200, body, headers=_NO_STORE)
            else:
                await _Stream(send, form, renderer, number).run(lane, request, start)
        except Truncated as error:
            raise _truncated(start, error.first) from error

    async def _start(
        self, lane: LaneReplay, topic: Topic, number: int, request: ReplayRequest
    ) -> int:
        found = await lane.look()
        if request.time_us is not None:
            store = self._reading.store
            at = await at_time(store, topic, number, request.lane, request.time_us)
            return found.clamp(at)
        return found.first if request.offset is None else request.offset

    async def _topic(self, scope: Scope) -> Topic:
        return await self._reading.catalog.topic(tenant_of(scope), path_param(scope, "topic"))

    def _places(self) -> Replays:
        if self._replays is None:
            self._replays = Replays(self._reading.store, self._reading.catalog)
        return self._replays


async def _json(
    lane: LaneReplay, renderer: PartitionRenderer, request: ReplayRequest, start: int
) -> bytes:
    """What is there now, or the first that comes within the wait."""
    taker = _Taker(request, start, counts_bytes=True)
    rendered: list[bytes] = []
    try:
        async with aclosing(lane.runs(start, request.wait_s, request.end_offset)) as runs:
            async for run in runs:
                picked = taker.take(run)
                rendered += [b"{%b}" % batch.fragment(index, renderer) for batch, index in picked]
                at_end = rendered and taker.next_offset >= lane.bounds.end
                if taker.full or at_end or taker.examined >= MAX_EXAMINED:
                    break
    except Truncated:
        if not taker.examined:
            raise  # else what was read is answered, and the next read is told
    first, end = lane.bounds
    return b'{"messages":[%b],"next_offset":%d,"first_offset":%d,"end_offset":%d}' % (
        b",".join(rendered),
        taker.next_offset,
        first,
        max(end, taker.next_offset if taker.examined else end),
    )


class _Stream:
    """One answer in parts. Once it has begun, only a broken connection says it is not whole."""

    def __init__(self, send: Send, form: bytes, renderer: PartitionRenderer, number: int) -> None:
        self._send = send
        self._form = form
        self._renderer = renderer
        self._number = number
        self._arrow: ArrowStream | None = None
        self._began = False

    async def run(self, lane: LaneReplay, request: ReplayRequest, start: int) -> None:
        if self._form == ARROW:
            self._arrow = ArrowStream(await arrow.load(), self._renderer, self._number)
        taker = _Taker(request, start, counts_bytes=False)
        async with aclosing(lane.runs(start, request.wait_s, request.end_offset)) as runs:
            async for run in runs:
                part = self._part(taker.take(run))
                if part:
                    await self._write(part)
                if taker.full:
                    break
        if self._arrow is not None:
            self._arrow.end()
            await self._write(self._arrow.take(), last=True)
        else:
            await self._write(b"", last=True)

    def _part(self, picked: list[Picked]) -> bytes:
        if self._arrow is not None:
            self._arrow.add(picked)
            return self._arrow.take()
        return b"".join(
            [b"{%b}\n" % batch.fragment(index, self._renderer) for batch, index in picked]
        )

    async def _write(self, part: bytes, *, last: bool = False) -> None:
        if not self._began:
            headers = [(b"content-type", self._form), *_NO_STORE]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            self._began = True
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await self._send({"type": "http.response.body", "body": part, "more_body": not last})


async def _until_gone(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Ends the work when its client has gone, with ClientGone, or is to go, with the Problem."""
    loop = asyncio.get_running_loop()
    working, gone = loop.create_task(work), loop.create_task(disconnected(receive))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ended_by(gone)
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)
    working.result()


def _form(scope: Scope) -> bytes | None:
    """The streamed form that is accepted by name, the first named; None: JSON."""
    accepted = header(scope, b"accept") or b""
    for part in accepted.split(b","):
        name = part.partition(b";")[0].strip().lower()
        if name in (NDJSON, ARROW):
            return name
    return None


def _truncated(offset: int, first: int) -> Problem:
    return Problem(
        410,
        "offset-truncated",
        "Offset truncated",
        f"Nothing is stored at offset {offset} any more; the first there is, is {first}.",
        extra={"first_offset": first},
    )
