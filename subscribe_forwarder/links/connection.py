"""Frames over one connection: all sends of a loop iteration leave in one write.

What waits to be sent has two bounds. Chunks of bodies wait for `room`, each in its turn; all other
frames are queued at once, and a connection whose other side reads none of them is cut at
`MAX_QUEUED_BYTES`. Nothing is read after this process itself stood still for `PAUSED_S`: what then
lies in the socket was written to somebody whom the other side may have given up.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

from subscribe_forwarder.links.frames import BadFrame, Buffer, FrameReader, encode_frame
from subscribe_forwarder.links.wire import Goodbye, Head

MAX_QUEUED_BYTES = 64 * 1024 * 1024
MAX_QUEUED_NOTES_BYTES = 8 * 1024 * 1024
"""Beyond it notes are not sent."""
HIGH_WATER_BYTES = 1024 * 1024
"""Chunks wait while so much is queued."""
PING_EVERY_S = 0.5
SILENCE_S = 2.5
"""A peer from which nothing came for so long is given up."""
PAUSED_S = 2.0
"""Less than that: before a peer may give us up, we know that it may have."""
_JOIN_BELOW_BYTES = 64 * 1024
"""Smaller writes are joined to one buffer."""


class Pulse:
    """When this process was last seen alive by itself, in seconds of the monotonic clock."""

    __slots__ = ("beat_s",)

    def __init__(self) -> None:
        self.beat_s = time.monotonic()

    def paused(self, now_s: float) -> bool:
        return now_s - self.beat_s > PAUSED_S


class FrameHandler(Protocol):
    """Who reads a connection; replaced once, when the handshake is over."""

    def frame(self, head: Head, body: bytes) -> None: ...

    def closed(self, reason: str) -> None:
        """The last call."""


class FrameConnection(asyncio.Protocol):
    """One connection. Everything runs on the event loop."""

    def __init__(
        self, pulse: Pulse, ended: Callable[[FrameConnection], None] = lambda _: None
    ) -> None:
        """`ended` is called when the socket is closed."""
        self.handler: FrameHandler | None = None
        self.heard_s = time.monotonic()
        """When something was last read."""
        self.sent_bytes = self.received_bytes = 0
        self._pulse = pulse
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._paused = False
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._done = False
        self._closed = self._loop.create_future()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.heard_s = time.monotonic()
        if self._done:
            self._transport.abort()  # given up while TLS was still shaking hands
            return
        self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)

    def data_received(self, data: bytes) -> None:
        now_s = time.monotonic()
        if self._pulse.paused(now_s):
            self.abort("this process stood still")
            return
        self.heard_s = now_s
        self.received_bytes += len(data)
        reader = self._reader
        reader.feed(data)
        try:
            while not self._done and (frame := reader.next()) is not None:
                assert self.handler is not None
                self.handler.frame(*frame)
        except BadFrame as error:
            self.abort(f"bad frame: {error}")

    def eof_received(self) -> bool:
        self._finish("closed by the other side")
        return False

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._grant()

    def connection_lost(self, error: Exception | None) -> None:
        self._finish(str(error) if error is not None else "closed by the other side")
        self._set_closed()

    # What the handler calls.

    @property
    def open(self) -> bool:
        return not self._done

    @property
    def queued_bytes(self) -> int:
        if self._transport is None or not self._paused:
            return self._out_bytes
        return self._out_bytes + self._transport.get_write_buffer_size()

    def trust(self) -> None:
        """The handshake is over: frames of full size are read from now on."""
        self._reader.trust()

    def send(self, head: Head, body: Buffer = b"") -> None:
        """For this loop iteration's write; nothing once it is closed. Raises ValueError for what
        is too large for a frame."""
        if self._done:
            return
        before = encode_frame(head, body)
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(before)
        if body:
            self._out.append(body)
        self._out_bytes += len(before) + len(body)
        if self._out_bytes > MAX_QUEUED_BYTES or (
            self._paused and self.queued_bytes > MAX_QUEUED_BYTES
        ):
            self.abort("the other side does not read")

    @property
    def has_room(self) -> bool:
        """For a chunk, now; else it waits for `room`."""
        return not self._paused and not self._waiting and self._out_bytes < HIGH_WATER_BYTES

    async def room(self, size_bytes: int) -> None:
        """Returns when a chunk of that size may be sent, or the connection is closed."""
        if self.has_room or self._done:
            return
        turn = self._loop.create_future()
        self._waiting.append((turn, size_bytes))
        try:
            await turn
        except asyncio.CancelledError:
            self._grant()
            raise

    def close(self, reason: str) -> None:
        """Says why, sends what is queued, closes. The handler hears `closed` at once."""
        if not self._done:
            self.send(Goodbye(reason))
            self._flush()
            if self._transport is not None:
                self._transport.close()
            self._finish(reason)

    def abort(self, reason: str) -> None:
        """Closes at once; what is queued is lost."""
        if self._transport is not None:
            self._transport.abort()
        self._finish(reason)

    async def wait_closed(self, timeout_s: float | None = None) -> None:
        """Until the socket is closed; after the timeout it is closed hard."""
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._closed)
        except TimeoutError:
            self.abort("not closed in time")

    def _flush(self) -> None:
        out, size = self._out, self._out_bytes
        self._out, self._out_bytes = [], 0
        if not out or self._transport is None or self._transport.is_closing():
            return
        self.sent_bytes += size
        if size < _JOIN_BELOW_BYTES:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        """Lets chunks go, as many as there is room for, in the order in which they came."""
        if self._paused or self._done:
            return
        granted = self._out_bytes
        while self._waiting and granted < HIGH_WATER_BYTES:
            turn, size_bytes = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                granted += size_bytes
        if self._waiting and granted > self._out_bytes:
            # Whoever was let go may have nothing to send any more; those behind it ask again.
            self._loop.call_soon(self._grant)

    def _finish(self, reason: str) -> None:
        if self._done:
            return
        self._done = True
        self._out.clear()
        if self._transport is None:
            self._set_closed()
        while self._waiting:
            turn, _ = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
        if self.handler is not None:
            self.handler.closed(reason)

    def _set_closed(self) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
            self._ended(self)
