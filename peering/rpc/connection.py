"""Sends and receives frames over one connection: many per read, one write per loop iteration.

The unsent bytes are bounded by the wire's `max_queued_bytes`. A send beyond that bound is refused:
`send` returns False and leaves the choice to its caller, `send_or_cut` ends the connection. Parts
of large bodies wait for `room` in the order of their calls.

A process that can tell that it stood still reads nothing afterwards, because the other side may
have given this process up since it wrote the bytes that are in the socket.
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
    """The reader of a connection; it is replaced once, when the handshake is over."""

    def frame(self, head: H_in, body: bytes, /) -> None:
        """Take one whole frame that passed its checks."""

    def closed(self, reason: str, /) -> None:
        """Learn that the connection has ended; no frame comes after this call."""

    def congestion(self, congested: bool, /) -> None:
        """Learn that the write buffer went over its high-water mark, or has drained."""


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
    """Sends and receives frames over one connection, on the event loop."""

    def __init__(
        self,
        wire: Wire[H],
        *,
        ended: Callable[[FrameConnection[H]], None] | None = None,
        stood_still: Callable[[], bool] | None = None,
        legacy: Layout | None = None,
    ) -> None:
        """Prepare a connection.

        `ended` is called when the socket is closed. `stood_still` is called before the bytes of a
        read are parsed. `legacy` is the layout of frames of release 0.2.0 if it differs; it goes
        with 0.4.0.
        """
        self.handler: FrameHandler[Any] | None = None
        """The handler receives heads as bytes until `end_handshake`."""
        self.present: bool | None = None
        """Whether the other side speaks the present form; None until it has spoken."""
        self.congested = False
        """Whether the other side reads too slowly: the transport's buffer is over its high-water
        mark.
        """
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

    # Methods that the transport calls.

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

    # Methods that the handler calls.

    @property
    def open(self) -> bool:
        """Whether frames can still be sent."""
        return not self._done

    @property
    def peer_name(self) -> str:
        name = self._transport.get_extra_info("peername") if self._transport else None
        return f"{name[0]}:{name[1]}" if name else "?"

    @property
    def queued_bytes(self) -> int:
        """The unsent bytes; those in the transport's buffer count only while it is over its
        high-water mark.
        """
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
        """Use another layout for the frames of the handshake, in both directions.

        `read` holds the bytes of such frames that were read already; None stands for the rest that
        the reader holds.
        """
        self._layout = layout
        self._encode = layout.encode
        self._reader = layout.reader(
            bytes,
            HANDSHAKE_FRAME_BYTES,
            buffer_bytes=HANDSHAKE_FRAME_BYTES,
            read=self._reader.rest() if read is None else read,
        )

    def trust(self) -> None:
        """Read frames of full size from now on, because the other side has proved itself."""
        self._reader.max_frame_bytes = self._wire.max_frame_bytes

    def end_handshake(self) -> None:
        """End the handshake: read frames of the protocol from now on."""
        wire = self._wire
        self._reader = self._layout.reader(
            wire.decode, wire.max_frame_bytes, unknown=wire.unknown, read=self._reader.rest()
        )

    def send(self, head: msgspec.Struct, body: Sequence[Buffer] = ()) -> bool:
        """Queue one frame for this loop iteration's write; return whether it was queued.

        It is not queued if the connection is closed or would hold too many unsent bytes. Raises
        BadFrame if it is larger than a frame may be.
        """
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
        """Send a frame, and end the connection if too many bytes are unsent; skip a closed
        connection.
        """
        if not self.send(head, body) and not self._done and self._transport is not None:
            self.abort("the other side does not read")

    @property
    def has_room(self) -> bool:
        """Whether a part of a large body may be sent now, without waiting for `room`."""
        return (
            not self.congested
            and not self._waiting
            and self._out_bytes < self._wire.high_water_bytes
        )

    async def room(self, size_bytes: int) -> None:
        """Wait until a part of this size may be sent, or the connection is closed."""
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
        """Say goodbye, send the queued frames and close; call the handler's `closed` at once."""
        if not self._done:
            # before, nobody knows which form the other side understands
            if self.present is not None:
                self.send(Goodbye(reason, code))
            self._flush()
            if self._transport is not None:
                self._transport.close()
            self._finish(reason)

    def abort(self, reason: str) -> None:
        """Close at once; queued frames are lost."""
        if self._transport is not None:
            self._transport.abort()
        self._finish(reason)

    async def wait_closed(self, timeout_s: float | None = None) -> None:
        """Wait until the socket is closed; after the timeout, close it without sending the rest."""
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._closed)
        except TimeoutError:
            self.abort("not closed in time")

    def _begun(self, read: bytes) -> FrameReader[bytes]:
        """Return the reader for the form that the first bytes announce; raises BadFrame."""
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
        """Release waiting parts in order, as far as there is room."""
        if self.congested or self._done:
            return
        granted = self._out_bytes
        while self._waiting and granted < self._wire.high_water_bytes:
            turn, size_bytes = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                granted += size_bytes
        if self._waiting and granted > self._out_bytes:
            # A released part may be gone by now, with its sender cancelled; then the next ones get
            # the room.
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
