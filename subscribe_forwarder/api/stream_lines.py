"""The lines of a stream, NDJSON or Server-Sent Events, and the response that they are written to.

NDJSON: an object a line, with one member that says what it is: `message`, `heartbeat` or `end`.
SSE: the same objects as `data` of events of that name. A message is the object that a pull answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from edge.asgi import ClientGone, Send
from edge.problem import Problem
from subscribe_forwarder.delivery.reading.render import Deliveries, joined, time_json
from subscribe_forwarder.delivery.reading.tail import wall_us

NDJSON_TYPE = b"application/x-ndjson"
SSE_TYPE = b"text/event-stream"
STALLED_S = 60.0
"""A write that has not left by then ends the stream: nobody reads."""
STOP_WAITING_S = 1.0
"""Seconds after which such a write ends the stream when the stream is about to end anyway."""
_encode = msgspec.json.encode
_ENDS = {
    b"\r": b" ",
    b"\n": b" ",
    b"\xc2\x85": b"\\u0085",
    b"\xe2\x80\xa8": b"\\u2028",
    b"\xe2\x80\xa9": b"\\u2029",
}
_WIDE_ENDS = [end for end in _ENDS if len(end) > 1]


class LineFormat(NamedTuple):
    """The format in which lines of a stream follow one another."""

    content_type: bytes
    before: bytes
    between: bytes
    after: bytes
    line_feeds: int
    """The number of line feeds after each message."""
    other: bytes
    """The template of a line that is no message: its name, and its JSON."""

    def messages(self, parts: Sequence[Deliveries]) -> bytes:
        """Return the lines of messages; there is one message at least."""
        body = joined(parts, self.before, self.between, self.after)
        plain = body.isascii() or not any(end in body for end in _WIDE_ENDS)
        count = sum([len(part.fragments) for part in parts])
        if plain and b"\r" not in body and body.count(b"\n") == self.line_feeds * count:
            return body
        clean = [Deliveries(list(map(on_one_line, part.fragments)), part.endings) for part in parts]
        return joined(clean, self.before, self.between, self.after)

    def named(self, name: bytes, members: Mapping[str, object]) -> bytes:
        return self.other % (name, on_one_line(_encode(members)))


NDJSON = LineFormat(NDJSON_TYPE, b'{"message":', b'}\n{"message":', b"}\n", 1, b'{"%b":%b}\n')
SSE = LineFormat(SSE_TYPE, b"data: ", b"\n\ndata: ", b"\n\n", 2, b"event: %b\ndata: %b\n\n")


def format_of(accept: bytes | None) -> LineFormat:
    """Return SSE if the client accepts it and does not name NDJSON before it; else NDJSON."""
    if accept is None or SSE_TYPE not in accept:
        return NDJSON
    ndjson_at = accept.find(NDJSON_TYPE)
    return SSE if ndjson_at < 0 or accept.find(SSE_TYPE) < ndjson_at else NDJSON


def on_one_line(rendered: bytes) -> bytes:
    """Return the text without characters that some reader takes for the end of a line.

    A body that is JSON is sent as it was published: a raw line break in it is white space between
    its parts, and other ends of lines are characters of its strings.
    """
    for end, instead in _ENDS.items():
        rendered = rendered.replace(end, instead)
    return rendered


class Stalled(ClientGone):
    """The client does not read; part of the last write may have left."""


class StreamResponse:
    """The response of a stream. Writes of several writers leave one after the other."""

    def __init__(self, lines: LineFormat) -> None:
        self.lines = lines
        self.begun = False
        self.wrote_s = 0.0
        """The time at which a write last left, by the loop's clock."""
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._writing: asyncio.Timeout | None = None
        self._stopped_waiting = False

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

    async def write(
        self, body: bytes, require: Callable[[], None] = lambda: None, *, more: bool = True
    ) -> None:
        """Write when the writes before have left; return when the connection can take more.

        Raises Stalled when it never could, and what `require` raises just before the write.
        """
        async with self._turn:
            require()
            try:
                async with asyncio.timeout(
                    STOP_WAITING_S if self._stopped_waiting else STALLED_S
                ) as self._writing:
                    message = {"type": "http.response.body", "body": body, "more_body": more}
                    await self._send(message)
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

    def stop_waiting(self) -> None:
        """Stop waiting for a client that does not read: the stream is about to end."""
        self._stopped_waiting = True
        if self._writing is not None:
            self._writing.reschedule(self._loop.time() + STOP_WAITING_S)


class PartResponse(StreamResponse):
    """The response of one owner to another forwarder: messages and nothing else."""

    async def heartbeat(self, state: Mapping[str, object]) -> None:
        self.wrote_s = self._loop.time()

    async def finish(self, why: Problem | str) -> None:
        """Raises the Problem."""
        if isinstance(why, Problem):
            raise why
        await self.write(b"", more=False)


def utc_now() -> msgspec.Raw:
    return msgspec.Raw(time_json(wall_us()))
