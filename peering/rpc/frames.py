"""The frame codec: heads and bodies to bytes and back.

    frame = u32 length of what follows the CRC · u32 CRC32C of the same ·
            u32 length of the head · head (msgpack array [type, …]) · body
            (little-endian; the body is raw bytes and may be empty)

The head says what the frame is; large bytes are the body and are never encoded again. A frame that
fails a check ends its connection. No frame is longer than the limit of its protocol, and none but
of `peering.rpc.handshake` than its limit before the other side has proved itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from crc32c import crc32c

Buffer = bytes | bytearray | memoryview
H = TypeVar("H")
HANDSHAKE_FRAME_BYTES = 2048
"""What can make us hold memory before it has proved anything is no longer than this."""
MAGIC = b"PKB\x01"
"""Before the first frame of either direction. No frame of release 0.2.0 begins so: as the length of
a first one it is out of bounds; nor does TLS."""
READ_BUFFER_BYTES = 256 * 1024
_FRAME = struct.Struct("<II")
_PREFIX = struct.Struct("<III")
_HEAD_LENGTH = struct.Struct("<I")
_PREFIX_BYTES, _CRC_ENDS, _HEAD_LENGTH_BYTES = 12, 8, 4
encode_head = msgspec.msgpack.Encoder().encode


class Goodbye(msgspec.Struct, array_like=True, gc=False, tag=5):
    """The connection ends, and why; nothing sent before and unanswered was refused by this. What a
    `code` means the protocols say. It is one of the heads of every protocol."""

    text: str
    code: int = 0


class BadFrame(ValueError):
    """Bytes that are not a frame of this protocol; the connection they came on must end."""


def _none_known(raw: memoryview) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Wire(Generic[H]):
    """What a protocol says once the handshake is over, and the bounds of its connections."""

    decode: Callable[[memoryview], H]
    """Of a head; raises what msgspec raises."""
    max_frame_bytes: int
    high_water_bytes: int
    """While so much is unsent the other side counts as slow."""
    max_queued_bytes: int
    """More is never held unsent."""
    unknown: Callable[[memoryview], H | None] = _none_known
    """What to make of a head that `decode` refuses; None: the frame is bad."""


def encode_frame(
    head: bytes, body: Sequence[Buffer] = (), max_frame_bytes: int = HANDSHAKE_FRAME_BYTES
) -> list[Buffer]:
    """The frame as parts to write in order; the parts of `body` are passed on, not copied.
    Raises BadFrame over the limit."""
    prefix = _HEAD_LENGTH.pack(len(head)) + head
    crc = crc32c(prefix)
    length = len(prefix)
    for part in body:
        crc = crc32c(part, crc)
        length += len(part)
    if length > max_frame_bytes:
        raise BadFrame(f"a frame of {length} bytes is over the limit of {max_frame_bytes}")
    return [_FRAME.pack(length, crc) + prefix, *body]


class FrameReader(Generic[H]):
    """Frames out of a byte stream, for a buffered protocol: read into `get_buffer()`, tell how
    much with `filled()`, then take frames with `next()` until it gives None.

    A frame larger than the buffer gets a buffer of its own, so each body is copied once, out of it.
    One frame at a time, because after the last one of a handshake others are read.
    """

    __slots__ = (
        *("_buffer", "_decode", "_end", "_small_bytes", "_start", "_unknown", "_view"),
        "max_frame_bytes",
    )

    def __init__(
        self,
        decode: Callable[[memoryview], H],
        max_frame_bytes: int,
        *,
        unknown: Callable[[memoryview], H | None] = _none_known,
        buffer_bytes: int = READ_BUFFER_BYTES,
        read: Buffer = b"",
    ) -> None:
        """`read`: what another reader has read and not used."""
        self.max_frame_bytes = max_frame_bytes
        self._decode = decode
        self._unknown = unknown
        self._small_bytes = buffer_bytes
        self._replace_buffer(max(buffer_bytes, len(read)))
        self._start = 0
        self._end = len(read)
        self._view[: self._end] = read

    def get_buffer(self) -> memoryview:
        """Where to read to; never empty after `next` gave None."""
        return self._view[self._end :]

    def filled(self, count: int) -> None:
        """So many bytes more were read."""
        self._end += count

    def rest(self) -> bytes:
        """What was read and is no frame that `next` gave."""
        return bytes(self._view[self._start : self._end])

    def next(self) -> tuple[H, bytes] | None:
        """None: not before more is read. Raises BadFrame, after which the reader must not be used
        again."""
        start, view = self._start, self._view
        if self._end - start < _PREFIX_BYTES:
            self._wait(_PREFIX_BYTES)
            return None
        length, crc, head_bytes = _PREFIX.unpack_from(self._buffer, start)
        if not _HEAD_LENGTH_BYTES < length <= self.max_frame_bytes:
            raise BadFrame(f"frame length {length}")
        end = start + _CRC_ENDS + length
        if end > self._end:
            self._wait(_CRC_ENDS + length)
            return None
        if crc32c(view[start + _CRC_ENDS : end]) != crc:
            raise BadFrame("CRC32C mismatch")
        body_at = start + _PREFIX_BYTES + head_bytes
        if body_at > end:
            raise BadFrame("the head is longer than its frame")
        self._start = end
        raw = view[start + _PREFIX_BYTES : body_at]
        try:
            head = self._decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            head = self._refused(raw, error)
        return head, bytes(view[body_at:end]) if body_at < end else b""

    def _refused(self, raw: memoryview, error: Exception) -> H:
        """What `decode` raised `error` for."""
        unknown = self._unknown(raw)
        if unknown is None:
            raise BadFrame(f"head: {error}") from error
        return unknown

    def _wait(self, needed: int) -> None:
        """Let the frame at `_start`, of `needed` bytes, fit; drop a large buffer when it can go."""
        held = self._end - self._start
        capacity = len(self._buffer)
        outgrown = capacity > self._small_bytes >= max(needed, held)
        if needed > capacity or outgrown:
            old = self._view[self._start : self._end]
            self._replace_buffer(max(needed, self._small_bytes))
            self._view[:held] = old
        elif held and self._start + needed <= capacity and self._end < capacity:
            return
        else:
            self._view[:held] = self._view[self._start : self._end]
        self._start, self._end = 0, held

    def _replace_buffer(self, size: int) -> None:
        self._buffer = bytearray(size)
        self._view = memoryview(self._buffer)


class Layout(NamedTuple):
    """How frames lie on the wire."""

    reader: type[FrameReader[Any]]
    encode: Callable[[bytes, Sequence[Buffer], int], list[Buffer]]
    """As `encode_frame`."""


LAYOUT = Layout(FrameReader, encode_frame)
