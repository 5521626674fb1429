"""A part of a client's stream: what one owner gives of it, within a window of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from edge.asgi import Receive, Scope, Send, header, read_body
from edge.problem import Problem
from subscribe_forwarder.api import requests
from subscribe_forwarder.api.places import query_of
from subscribe_forwarder.api.requests import StreamRequest
from subscribe_forwarder.api.shares import NONE, Amount
from subscribe_forwarder.api.stream import PartResponse, Stream, Streams
from subscribe_forwarder.api.stream_lines import format_of
from subscribe_forwarder.delivery.window import Window
from subscribe_forwarder.fleet.proxy.relay import part_of, receiving
from subscribe_forwarder.fleet.proxy.routing import HERE, Routing
from subscribe_forwarder.peers import Links, PeerGone, misdirected

OPERATION = "GET /subscriptions/{name}/messages:stream"
SUBJECT = "stream window"
PART_HEADER = b"packetboat-stream-part"
ASK_S = 1.0
Pass = Callable[[bytes], Awaitable[None]]


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


_encode = msgspec.msgpack.encode
_resize = msgspec.msgpack.Decoder(Resize).decode
_resized = msgspec.msgpack.Decoder(Resized).decode


def resized(stream: Stream) -> Resized:
    paused = stream.state()["paused"]
    reason = None if paused is None else str(paused)
    return Resized(*stream.window.outstanding(), stream.backlog, reason)


class ServedParts:
    """The parts that this forwarder gives to others."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._parts: dict[bytes, Stream] = {}

    def serve(self, links: Links) -> None:
        links.serve(OPERATION, self._serve)
        links.answers(SUBJECT, self._resize)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = requests.stream_of_query(scope)
        await read_body(scope, receive, 0)
        part = header(scope, PART_HEADER) or b""
        lines = format_of(header(scope, b"accept"))
        stream = self._parts[part] = await self._streams.open(scope, request, PartResponse(lines))
        try:
            await stream.run(receive, send)
        finally:
            del self._parts[part]

    async def _resize(self, incarnation: bytes, body: bytes) -> bytes:
        told = _resize(body)
        stream = self._parts.get(told.part)
        if stream is None:
            raise misdirected()
        stream.resize(told.messages, told.size_bytes)
        return _encode(resized(stream))


class StreamPart:
    """One owner's part as the front has it; `task` ends with it."""

    def __init__(self, owner: bytes, routing: Routing, limit: Amount) -> None:
        self.owner = owner
        self.limit = limit
        """The amount that the owner may have unacked, as far as it knows."""
        self.known = Resized(0, 0, 1, None)
        self.closing = False
        self.failed: Exception | None = None
        self.task: asyncio.Task[None] | None = None
        self._routing = routing
        self._name = os.urandom(16).hex().encode()
        self._stream: Stream | None = None

    @property
    def reserved(self) -> Amount:
        """Return the amount of the client's window that it takes up."""
        return self.limit.most(Amount(self.known.messages, self.known.size_bytes))

    def start(
        self, streams: Streams, scope: Scope, request: StreamRequest, pass_on: Pass, window: Window
    ) -> None:
        """`window` is that of what is here, which outlives a part."""
        request = msgspec.structs.replace(
            request,
            max_messages=self.limit.messages,
            max_bytes=self.limit.size_bytes,
            ends_after_s=float("inf"),
        )
        lines = format_of(header(scope, b"accept"))
        if self.owner == HERE:
            window.resize(*self.limit)

            async def send(message: Any) -> None:
                if message.get("body"):
                    await pass_on(message["body"])

            async def run() -> None:
                response = PartResponse(lines)
                self._stream = await streams.open(part_of(scope), request, response, window)
                await self._stream.run(receiving(b""), send)
        else:
            whole = WholeLines(pass_on, b"\n" * lines.line_feeds)

            async def run() -> None:
                peer = self._routing.peer(self.owner)
                if peer is None:
                    raise PeerGone("there is no link to the owner")
                await peer.request(
                    OPERATION, self._scope(scope, request), receiving(b""), whole.send
                )

        self.task = asyncio.get_running_loop().create_task(self._run(run))

    async def resize(self, limit: Amount) -> None:
        """Change the limit; 0 messages: it ends when what it has is written.

        A change that is not told is told again.
        """
        self.closing = limit == NONE
        if self._stream is not None:
            self._stream.resize(*limit)
            self.known, self.limit = resized(self._stream), limit
            return
        peer = self._routing.peer(self.owner)
        if peer is None:
            return
        try:
            self.limit = self.limit.most(limit)  # it may have heard it when we do not hear so
            told = await peer.ask(SUBJECT, _encode(Resize(self._name, *limit)), ASK_S)
        except (PeerGone, TimeoutError, Problem):
            return
        self.known, self.limit = _resized(told), limit

    async def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def _run(self, run: Callable[[], Awaitable[None]]) -> None:
        try:
            await run()
        except Exception as error:
            self.failed = error

    def _scope(self, scope: Scope, request: StreamRequest) -> Scope:
        query: dict[str, object] = {
            "max_outstanding_messages": request.max_messages,
            "max_outstanding_bytes": request.max_bytes,
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


class WholeLines:
    """The `send` of a part: passes on what ends with `end`, so that a part that breaks off leaves
    no half of a message in the client's stream."""

    def __init__(self, pass_on: Pass, end: bytes) -> None:
        self._pass_on = pass_on
        self._end = end
        self._rest: list[bytes] = []

    async def send(self, message: Any) -> None:
        body = message.get("body", b"")
        if not body:
            return
        before = self._rest[-1][-1:] if self._rest else b""  # the end may be in two pieces
        at = (before + body).rfind(self._end)
        if at < 0:
            self._rest.append(body)
            return
        at += len(self._end) - len(before)
        whole = b"".join([*self._rest, body[:at]])
        self._rest = [body[at:]] if at < len(body) else []
        await self._pass_on(whole)
