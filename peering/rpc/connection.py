"""Frames over one connection: many per read, all sends of a loop iteration in one write.

What waits to be sent is bounded: a send that would hold more than the wire's `max_queued_bytes`
unsent is refused. `send` says so, and what to do then is the caller's choice; `send_or_cut` ends
the connection. Parts of large bodies wait for `room`, each in its turn.

Where a process can tell that it stood still, nothing is read after that: what then lies in the
socket was written to somebody whom the other side may have given up.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from peering.rpc.frames import (
    HANDSHAKE_FRAME_BYTES,
    LAYOUT,
    MAGIC,
    BadFrame,
    Buffer,
    FrameReader,
    Goodbye,
    H,
    Layout,
    Wire,
    encode_head,
)

JOIN_BELOW_BYTES = 128 * 1024
"""Smaller writes are joined to one buffer; larger ones go to the transport part by part."""
USER_TIMEOUT_MS = 10_000
H_in = TypeVar("H_in", contravariant=True)


class FrameHandler(Protocol[H_in]):
    """Who reads a connection; replaced once, when the handshake is over."""

    def frame(self, head: H_in, body: bytes, /) -> None:
        """One whole frame, its checks passed."""

    def closed(self, reason: str, /) -> None:
        """Last call. No frame comes after it."""

    def congestion(self, congested: bool, /) -> None:
        """`congested` is another: the write buffer is over its high water, or has drained."""


class _Beginning(FrameReader[bytes]):
    """Reads the first bytes, which say what reads the rest."""

    __slots__ = ("_begun",)

    def __init__(self, begun: Callable[[bytes], FrameReader[bytes]]) -> None:
        super().__init__(bytes, HANDSHAKE_FRAME_BYTES, buffer_bytes=HANDSHAKE_FRAME_BYTES)
        self._begun = begun

    def next(self) -> tuple[bytes, bytes] | None:
        read = self.rest()
        return self._begun(read).next() if len(read) >= len(MAGIC) else None


class FrameConnection(asyncio.BufferedProtocol, Generic[H]):
    """One connection. Everything runs on the event loop."""

    def __init__(
        self,
        wire: Wire[H],
        *,
        ended: Callable[[FrameConnection[H]], None] | None = None,
        stood_still: Callable[[], bool] | None = None,
        legacy: Layout | None = None,
    ) -> None:
        """`ended` is called when the socket is closed; `stood_still`, before what was read is
        looked at. `legacy`: of release 0.2.0, where its frames are other; goes with 0.4.0."""
        self.handler: FrameHandler[Any] | None = None
        """Until `settle` it is given heads as bytes."""
        self.present: bool | None = None
        """Whether the other side speaks the present form; None: it has not spoken."""
        self.congested = False
        """The other side reads too slowly: the transport's buffer is over its high water."""
        self.last_frame_s = 0.0
        """Loop time of the last read that completed a frame."""
        self.sent_bytes = self.received_bytes = 0
        self._wire = wire
        self._ended = ended
        self._stood_still = stood_still
        self._loop = asyncio.get_running_loop()
        self._legacy = legacy
        self._layout = LAYOUT
        self._encode = LAYOUT.encode
        self._reader: FrameReader[Any] = _Beginning(self._begun)
        self._transport: asyncio.Transport | None = None
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._done = False
        self._closed = self._loop.create_future()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._done:
            self._transport.abort()  # given up while TLS was still shaking hands
            return
        self._transport.set_write_buffer_limits(high=self._wire.high_water_bytes)
        self.last_frame_s = self._loop.time()
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self._stood_still is not None and self._stood_still():
            self.abort("this process stood still")
            return
        self.received_bytes += nbytes
        self._reader.filled(nbytes)
        try:
            frame = self._reader.next()
            if frame is not None:
                self.last_frame_s = self._loop.time()
            while frame is not None and not self._done and self.handler is not None:
                self.handler.frame(*frame)
                frame = self._reader.next()
        except BadFrame as error:
            self.abort(f"bad frame: {error}")

    def eof_received(self) -> bool:
        self._finish("closed by the other side")
        return False

    def pause_writing(self) -> None:
        self.congested = True
        if self.handler is not None and not self._done:
            self.handler.congestion(True)

    def resume_writing(self) -> None:
        self.congested = False
        if self._waiting:
            self._grant()
        if self.handler is not None and not self._done:
            self.handler.congestion(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(str(exc) if exc is not None else "closed by the other side")
        self._set_closed()

    # What the handler calls.

    @property
    def open(self) -> bool:
        return not self._done

    @property
    def peer_name(self) -> str:
        name = self._transport.get_extra_info("peername") if self._transport else None
        return f"{name[0]}:{name[1]}" if name else "?"

    @property
    def queued_bytes(self) -> int:
        """What is unsent; of the transport's buffer only while it is over its high water."""
        if not self.congested or self._transport is None:
            return self._out_bytes
        return self._out_bytes + self._transport.get_write_buffer_size()

    def write(self, parts: Sequence[Buffer]) -> None:
        """Queue bytes for this loop iteration's write."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out += parts
        self._out_bytes += sum(map(len, parts))

    def switch(self, layout: Layout, read: bytes | None = None) -> None:
        """Frames of the handshake lie like that from now on, in both directions. `read`: what was
        read of them already; None: what is left in the reader."""
        self._layout = layout
        self._encode = layout.encode
        self._reader = layout.reader(
            bytes,
            HANDSHAKE_FRAME_BYTES,
            buffer_bytes=HANDSHAKE_FRAME_BYTES,
            read=self._reader.rest() if read is None else read,
        )

    def trust(self) -> None:
        """The other side has proved itself: frames of full size are read from now on."""
        self._reader.max_frame_bytes = self._wire.max_frame_bytes

    def settle(self) -> None:
        """The handshake is over: frames of the protocol are read from now on."""
        wire = self._wire
        self._reader = self._layout.reader(
            wire.decode, wire.max_frame_bytes, unknown=wire.unknown, read=self._reader.rest()
        )

    def send(self, head: msgspec.Struct, body: Sequence[Buffer] = ()) -> bool:
        """Queue one frame for this loop iteration's write. False: not queued, the connection is
        closed or too much is unsent already. Raises BadFrame for what is too large for a frame."""
        if self._done or self._transport is None:
            return False
        queued = self._out_bytes + (
            self._transport.get_write_buffer_size() if self.congested else 0
        )
        parts = self._encode(encode_head(head), body, self._wire.max_frame_bytes)
        size = sum(map(len, parts))
        if queued + size > self._wire.max_queued_bytes:
            return False
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out += parts
        self._out_bytes += size
        return True

    def send_or_cut(self, head: msgspec.Struct, body: Sequence[Buffer] = ()) -> None:
        """Like `send`; where too much is unsent the connection ends. Nothing on a closed one."""
        if not self.send(head, body) and not self._done and self._transport is not None:
            self.abort("the other side does not read")

    @property
    def has_room(self) -> bool:
        """For a part of a large body, now; else it waits for `room`."""
        return (
            not self.congested
            and not self._waiting
            and self._out_bytes < self._wire.high_water_bytes
        )

    async def room(self, size_bytes: int) -> None:
        """Returns when a part of that size may be sent, or the connection is closed."""
        if self.has_room or self._done:
            return
        turn = self._loop.create_future()
        self._waiting.append((turn, size_bytes))
        try:
            await turn
        except asyncio.CancelledError:
            self._grant()
            raise

    def pause_reading(self) -> None:
        if self._transport is not None and not self._done:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._done:
            self._transport.resume_reading()

    def close(self, reason: str, code: int = 0) -> None:
        """Say goodbye, send what is queued, close. The handler hears `closed` at once."""
        if not self._done:
            if self.present is not None:  # before, nobody knows what the other side understands
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

    def _begun(self, read: bytes) -> FrameReader[bytes]:
        """What reads on after the first bytes; raises BadFrame."""
        self.present = read.startswith(MAGIC)
        if not self.present and self._legacy is None:
            raise BadFrame("it does not begin as a connection of ours")
        if self.present:
            self.switch(LAYOUT, read[len(MAGIC) :])
        else:
            self.switch(self._legacy or LAYOUT, read)
        return self._reader

    def _flush(self) -> None:
        out, size = self._out, self._out_bytes
        self._out, self._out_bytes = [], 0
        if not out or self._transport is None or self._transport.is_closing():
            return
        self.sent_bytes += size
        if size < JOIN_BELOW_BYTES:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        """Lets parts go, as many as there is room for, in the order in which they came."""
        if self.congested or self._done:
            return
        granted = self._out_bytes
        while self._waiting and granted < self._wire.high_water_bytes:
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
        self._out, self._out_bytes = [], 0
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
            if self._ended is not None:
                self._ended(self)
