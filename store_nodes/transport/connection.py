"""Frames over one TCP connection: many per read, all sends of a loop iteration in one write.

Overflow: a send that would hold more than `max_queued_bytes` unsent is refused (`send` returns
False) and nothing of it leaves; what to do then is the caller's choice.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Protocol, cast

from store_nodes.transport.frames import BadFrame, FrameReader, encode_frame
from store_nodes.wire import (
    MAX_FRAME_BYTES,
    MAX_HANDSHAKE_FRAME_BYTES,
    Buffer,
    Goodbye,
    Head,
    Unknown,
)

MAX_QUEUED_BYTES = 64 * 1024 * 1024
WRITE_HIGH_WATER_BYTES = 4 * 1024 * 1024
_JOIN_BELOW_BYTES = 128 * 1024
"""Smaller writes are joined to one buffer; larger ones go to the transport part by part."""
_USER_TIMEOUT_MS = 10_000


class FrameHandler(Protocol):
    """Who reads a connection; replaced once, when the handshake is over."""

    def frame(self, head: Head | Unknown, body: bytes) -> None:
        """One whole frame, its checks passed."""

    def closed(self, reason: str) -> None:
        """Last call. No frame comes after it."""

    def congestion(self, congested: bool) -> None:
        """`congested` is another: the write buffer is over its high water, or has drained."""


class FrameConnection(asyncio.BufferedProtocol):
    """One connection. Everything runs on the event loop."""

    def __init__(
        self,
        handler: FrameHandler | None = None,
        *,
        max_queued_bytes: int = MAX_QUEUED_BYTES,
    ) -> None:
        self.handler = handler
        self.congested = False
        """The other side reads too slowly: the transport's buffer is over its high water."""
        self.last_frame_s = 0.0
        """Loop time of the last read that completed a frame."""
        self._max_queued_bytes = max_queued_bytes
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(MAX_HANDSHAKE_FRAME_BYTES)
        self._transport: asyncio.Transport | None = None
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._done = False
        self._closed = self._loop.create_future()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._done:
            self._transport.abort()  # given up while TLS was still shaking hands
            return
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self.last_frame_s = self._loop.time()
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            frames = self._reader.received(nbytes)
        except BadFrame as error:
            self.abort(f"bad frame: {error}")
            return
        if frames:
            self.last_frame_s = self._loop.time()
        for head, body in frames:
            if self._done or self.handler is None:
                return
            self.handler.frame(head, body)

    def eof_received(self) -> bool:
        self._finish("closed by the other side")
        return False

    def pause_writing(self) -> None:
        self.congested = True
        if self.handler is not None and not self._done:
            self.handler.congestion(True)

    def resume_writing(self) -> None:
        self.congested = False
        if self.handler is not None and not self._done:
            self.handler.congestion(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(str(exc) if exc is not None else "closed by the other side")
        if not self._closed.done():
            self._closed.set_result(None)

    # What the handler calls.

    @property
    def open(self) -> bool:
        return not self._done

    @property
    def peer_name(self) -> str:
        name = self._transport.get_extra_info("peername") if self._transport else None
        return f"{name[0]}:{name[1]}" if name else "?"

    def trust(self) -> None:
        """The handshake is over: frames of full size are read from now on."""
        self._reader.max_frame_bytes = MAX_FRAME_BYTES

    def send(self, head: Head, body: Sequence[Buffer] = ()) -> bool:
        """Queue one frame for this loop iteration's write. False: not queued, the connection is
        closed or too much is unsent already."""
        if self._done or self._transport is None:
            return False
        queued = self._out_bytes + (
            self._transport.get_write_buffer_size() if self.congested else 0
        )
        parts = encode_frame(head, body)
        size = sum(map(len, parts))
        if queued + size > self._max_queued_bytes:
            return False
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out += parts
        self._out_bytes += size
        return True

    def pause_reading(self) -> None:
        if self._transport is not None and not self._done:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._done:
            self._transport.resume_reading()

    def close(self, reason: str, code: int = 0) -> None:
        """Say goodbye, send what is queued, close. The handler hears `closed` at once."""
        if not self._done:
            self.send(Goodbye(reason, code))
            self._flush()
            if self._transport is not None:
                self._transport.close()
            self._finish(reason)

    def abort(self, reason: str) -> None:
        """Close at once; what is queued is lost."""
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
        if size < _JOIN_BELOW_BYTES:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)

    def _finish(self, reason: str) -> None:
        if self._done:
            return
        self._done = True
        if self._transport is None and not self._closed.done():
            self._closed.set_result(None)
        if self.handler is not None:
            self.handler.closed(reason)
