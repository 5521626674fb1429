"""Replay reads: the messages of a partition as they are stored, for any reader.

They come as JSON in one answer, or streamed: NDJSON, or Arrow record batches. Nothing is leased, no
ack state is read or changed, and any process can answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
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
from openapi.topics import OPERATIONS, PartitionOffsets
from positions.places import at_time, bounds
from subscribe_forwarder.api.replay_query import (
    ReplayRequest,
    moment_of,
    partition_of,
    replay_of,
)
from subscribe_forwarder.delivery.reading import arrow
from subscribe_forwarder.delivery.reading.arrow import ArrowEncoder
from subscribe_forwarder.delivery.reading.parts import Part, Picked
from subscribe_forwarder.delivery.reading.render import PartitionRenderer
from subscribe_forwarder.delivery.reading.replay import Found, LaneReplay, Replays, Run, Truncated
from subscribe_forwarder.delivery.reading.time_slices import TimeSlices
from subscribe_forwarder.delivery.selection.pieces import Piece, Pieces
from subscribe_forwarder.delivery.selection.worker_evaluator import WorkerEvaluator
from subscribe_forwarder.forwarder import SubscribeForwarder

NDJSON = b"application/x-ndjson"
ARROW = b"application/vnd.apache.arrow.stream"
MAX_EXAMINED = 10_000
"""Messages that one JSON answer looks at; where a filter matches few, the next one goes on."""
SEND_TIMEOUT_S = 60.0
"""Seconds a client of a stream may take nothing."""
_NO_STORE = [(b"cache-control", b"no-store")]
_MAX_GET_BODY_BYTES = 64 * 1024


class Encoder(Protocol):
    """An encoder of a streamed form: the bytes before, between and after parts that are not
    empty.
    """

    head: bytes
    end: bytes

    def part(self, picked: Sequence[Picked]) -> bytes | memoryview: ...


class _Lines:
    """NDJSON."""

    head = end = b""

    def __init__(self, renderer: PartitionRenderer) -> None:
        self._renderer = renderer

    def part(self, picked: Sequence[Picked]) -> bytes:
        renderer = self._renderer
        return b"".join(
            [
                b"{%b}\n" % batch.fragment(index, renderer)
                for batch, indices in picked
                for index in indices
            ]
        )


class _Taker:
    """Takes what a request wants of the runs that come; `done` once that is all."""

    def __init__(
        self,
        request: ReplayRequest,
        start: int,
        tenant_id: bytes,
        evaluator: WorkerEvaluator | None,
        *,
        counts_bytes: bool,
    ) -> None:
        self._tenant_id = tenant_id
        self._evaluator = evaluator
        self._filter = request.filter
        self._pieces = None if request.filter is None else Pieces([request.filter])
        self._left = request.max_messages
        self._left_bytes = request.max_bytes
        self._counts_bytes = counts_bytes
        self._taken = 0
        self.next_offset = start
        self.examined = 0
        self.cut = False
        """Whether wanted messages of the last run are left."""

    @property
    def done(self) -> bool:
        return not self._left

    def parts(self, found: Found) -> Iterator[Run]:
        """Yield the runs to take in one go each: the author of an expression determines its
        cost.
        """
        pieces = self._pieces
        for run in found:
            if pieces is None:
                yield run
            else:
                yield from (Run(run.batch, *piece) for piece in pieces.of(*run))

    async def ready(self, run: Run, turns: TimeSlices) -> None:
        """Returns once `take` costs no more than the event loop has for it; a turn that is under
        way goes on then."""
        evaluator, pieces = self._evaluator, self._pieces
        if evaluator is None or pieces is None or not pieces.dear(run.batch.messages()[run.low]):
            return
        turns.end()
        await evaluator.prepare(self._tenant_id, pieces, [Piece(run.batch, run.low, run.low + 1)])
        await turns.begin()

    def take(self, run: Run, most: int | None = None) -> Picked:
        """Return the wanted messages of a run, at most `most`, as far as the limits go."""
        indices: Sequence[int] = range(run.low, run.high)
        if self._filter is not None:
            indices = self._filter.matches(run.batch, indices)
        fit = min(len(indices), self._left if most is None else min(self._left, most))
        if self._counts_bytes:
            fit = self._fit_bytes(run, indices[:fit])
        self.examined += run.high - run.low
        self._taken += fit
        self._left -= fit
        self.cut = fit < len(indices)
        at = run.batch.base + indices[fit] if self.cut else run.next_offset
        self.next_offset = at
        return Picked(run.batch, indices[:fit])

    def _fit_bytes(self, run: Run, indices: Sequence[int]) -> int:
        """Return how many of the messages fit; the first of all messages of a request fits
        always.
        """
        messages = run.batch.messages()
        for fit, index in enumerate(indices):
            size = len(messages[index].data)
            if size > self._left_bytes and (fit or self._taken):
                return fit
            self._left_bytes -= size
        return len(indices)


class ReplayRoutes:
    """Raises Problems, and StoreError and MetadataError, which the dispatcher answers."""

    def __init__(self, forwarder: SubscribeForwarder) -> None:
        self._forwarder = forwarder
        self._replays: Replays | None = None

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["replay"], self.messages),
            Route(OPERATIONS["offsetsOfPartition"], self.offsets),
        ]

    async def offsets(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer where the partition begins and ends, and which offset a time is at."""
        time_us, lane = moment_of(scope)
        topic = await self._topic(scope)
        number = partition_of(scope, topic, lane)
        store = self._forwarder.history
        at = await at_time(store, topic, number, lane, time_us)
        first, end = await bounds(store, topic, number, lane)
        body = PartitionOffsets(first, end, min(max(at, first), end))
        await respond(send, 200, msgspec.json.encode(body), headers=_NO_STORE)

    async def messages(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer JSON, NDJSON or Arrow, by `Accept`; 410 below the first offset."""
        form = _form(scope)
        request = await replay_of(scope, streams=form is not None)
        topic = await self._topic(scope)
        number = partition_of(scope, topic, request.lane)
        await read_body(scope, receive, _MAX_GET_BODY_BYTES)
        with self._places().place(tenant_of(scope)):
            work = self._answer(send, form, topic, number, request)
            await _until_gone(work, receive)

    async def _answer(
        self, send: Send, form: bytes | None, topic: Topic, number: int, request: ReplayRequest
    ) -> None:
        replays = self._places()
        lane = LaneReplay(replays, topic, number, request.lane)
        start = await self._start(lane, topic, number, request)
        renderer = PartitionRenderer(topic.uid, number, lane=request.lane)
        judged_by = topic.tenant_id, self._forwarder.evaluator
        try:
            if form is None:
                taker = _Taker(request, start, *judged_by, counts_bytes=True)
                answer = _WholeAnswer(lane, replays, renderer, taker)
                body = await answer.read(topic.tenant_id, request)
                await respond(send, 200, body, headers=_NO_STORE)
            else:
                encoder = await _encoder(form, renderer, number)
                taker = _Taker(request, start, *judged_by, counts_bytes=False)
                stream = _Stream(send, form, encoder, replays, topic.tenant_id)
                await stream.run(lane, request, taker)
        except Truncated as error:
            raise _truncated(start, error.first) from error

    async def _start(
        self, lane: LaneReplay, topic: Topic, number: int, request: ReplayRequest
    ) -> int:
        found = await lane.look()
        if request.time_us is not None:
            store = self._forwarder.history
            at = await at_time(store, topic, number, request.lane, request.time_us)
            return found.clamp(at)
        return found.first if request.offset is None else request.offset

    async def _topic(self, scope: Scope) -> Topic:
        return await self._forwarder.catalog.topic(tenant_of(scope), path_param(scope, "topic"))

    def _places(self) -> Replays:
        if self._replays is None:
            forwarder = self._forwarder
            self._replays = Replays(
                forwarder.history, forwarder.catalog, lambda: forwarder.load.loop_lag_s
            )
        return self._replays


class _WholeAnswer:
    """One answer in JSON.

    It grows in place: joined from its messages, it was in memory four times.
    """

    def __init__(
        self, lane: LaneReplay, replays: Replays, renderer: PartitionRenderer, taker: _Taker
    ) -> None:
        self._lane = lane
        self._replays = replays
        self._renderer = renderer
        self._taker = taker
        self._body = bytearray(b'{"messages":[')
        self._separator = b""

    async def read(self, tenant_id: bytes, request: ReplayRequest) -> bytearray:
        """Return the messages that are there now, or the first that come within the wait.

        It holds a permit while it has messages, and none while it waits for the first.
        """
        lane, taker, end = self._lane, self._taker, request.end_offset
        try:
            while end is None or taker.next_offset < end:
                if not await lane.reaches(taker.next_offset, request.wait_s):
                    break
                async with self._replays.answers.permit(tenant_id):
                    await self._add_messages(end)
                if self._separator or self._enough or taker.next_offset < lane.bounds.end:
                    break
        except Truncated:
            if not taker.examined:
                raise  # else what was read is answered, and the next read is told
        first, last = lane.bounds
        self._body += b'],"next_offset":%d,"first_offset":%d,"end_offset":%d}' % (
            taker.next_offset,
            first,
            max(last, taker.next_offset if taker.examined else last),
        )
        return self._body

    @property
    def _enough(self) -> bool:
        taker = self._taker
        return taker.cut or taker.done or taker.examined >= MAX_EXAMINED

    async def _add_messages(self, end: int | None) -> None:
        """Add the messages that are there, as far as the limits go."""
        taker, turns = self._taker, self._replays.turns
        async with aclosing(self._lane.reads(taker.next_offset, end)) as reads:
            async for found in reads:
                await turns.begin()
                for run in taker.parts(found):
                    await taker.ready(run, turns)
                    self._add(taker.take(run))
                    if self._enough:
                        break
                    if turns.over:
                        await turns.renew()
                turns.end()
                if self._enough:
                    return

    def _add(self, picked: Picked) -> None:
        batch, indices = picked
        if indices:
            messages = [b"{%b}" % batch.fragment(index, self._renderer) for index in indices]
            self._body += self._separator
            self._body += b",".join(messages)
            self._separator = b","


class _Stream:
    """One answer in parts. Once it has begun, only a broken connection says it is not whole.

    A client that takes nothing makes it hold one part, which counts as unsent, and of the messages
    that come after it what all streams may keep together.
    """

    def __init__(
        self, send: Send, form: bytes, encoder: Encoder, replays: Replays, tenant_id: bytes
    ) -> None:
        self._send = send
        self._form = form
        self._encoder = encoder
        self._replays = replays
        self._tenant_id = tenant_id
        self._began = False

    async def run(self, lane: LaneReplay, request: ReplayRequest, taker: _Taker) -> None:
        alone, end = False, request.end_offset
        while not (alone or taker.done or (end is not None and taker.next_offset >= end)):
            if not await lane.reaches(taker.next_offset, request.wait_s):
                break
            alone = await self._send_fetched(lane, end, taker)
        await self._write(self._encoder.end, last=True)

    async def _send_fetched(self, lane: LaneReplay, end: int | None, taker: _Taker) -> bool:
        """Fetch once, and send the wanted messages in parts. Return whether the offset was a kept
        one below the first, so that nothing comes after it.

        Messages that may not be kept while a part is taken are fetched again.
        """
        permits, kept = self._replays.answers, self._replays.kept
        async with permits.permit(self._tenant_id):
            alone, found = await lane.read(taker.next_offset, end)
            part = await self._next_part(found, taker)
        if found and not taker.done:
            with kept.held_by(self._tenant_id, found.left_bytes) as refused:
                while refused is None and found and not taker.done:
                    await self._write(part)
                    async with permits.permit(self._tenant_id):
                        part = await self._next_part(found, taker)
        del found
        await self._write(part)
        return alone

    async def _next_part(self, found: Found, taker: _Taker) -> bytes | memoryview:
        """Encode the next messages of `found`, over several turns of the event loop; empty where
        none is wanted.
        """
        part, turns = Part(), self._replays.turns
        await turns.begin()
        for run in taker.parts(found):
            await taker.ready(run, turns)
            part.add(taker.take(run, part.room(run.batch)))
            found.low = taker.next_offset
            if taker.cut or taker.done:
                break
            if turns.over:
                await turns.renew()
        encoded = self._encoder.part(part.picked) if part.picked else b""
        turns.end()
        return encoded

    async def _write(self, part: bytes | memoryview, *, last: bool = False) -> None:
        if not part and not last:
            return
        if not self._began:
            headers = [(b"content-type", self._form), *_NO_STORE]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            self._began = True
            await self._write(self._encoder.head)
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


async def _encoder(form: bytes, renderer: PartitionRenderer, number: int) -> Encoder:
    if form == ARROW:
        try:
            library = await arrow.load()
        except ModuleNotFoundError as error:
            raise _no_arrow() from error
        return ArrowEncoder(library, renderer, number)
    return _Lines(renderer)


def _form(scope: Scope) -> bytes | None:
    """Return the streamed form that is accepted by name, the first named; None: JSON."""
    accepted = header(scope, b"accept") or b""
    for part in accepted.split(b","):
        name = part.partition(b";")[0].strip().lower()
        if name in (NDJSON, ARROW):
            return name
    return None


def _no_arrow() -> Problem:
    return Problem.of(
        "not-supported",
        "This server has no pyarrow, which Arrow streams are made with: `make exports` installs it "
        "in a checkout, the extra `arrow` elsewhere. NDJSON (application/x-ndjson) needs nothing.",
    )


def _truncated(offset: int, first: int) -> Problem:
    return Problem.of(
        "offset-truncated",
        f"Nothing is stored at offset {offset} any more; the first there is, is {first}.",
        extra={"first_offset": first},
    )
