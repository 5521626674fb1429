"""The frame codec: heads and bodies to bytes and back.

    frame = u32 length of what follows the CRC · u32 CRC32C of the same ·
            u32 length of the head · head (msgpack array [type, …]) · body
            (little-endian; the body is raw bytes and may be empty)

The head says what the frame is; large bytes are the body and are never encoded again. A frame that
fails a check ends its connection. No frame is longer than the limit of its protocol. Until the
other side has proved itself, the smaller limit of the handshake holds.
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
"""The longest frame, and so the most memory, that a side that has not proved itself can make us
hold.
"""
MAGIC = b"PKB\x01"
"""The bytes before the first frame in either direction.

No connection of release 0.2.0 begins with them, because read as the length of a first frame they
are out of bounds. TLS does not begin with them either.
"""
READ_BUFFER_BYTES = 256 * 1024
_FRAME = struct.Struct("<II")
_PREFIX = struct.Struct("<III")
_HEAD_LENGTH = struct.Struct("<I")
_PREFIX_BYTES, _CRC_ENDS, _HEAD_LENGTH_BYTES = 12, 8, 4
encode_head = msgspec.msgpack.Encoder().encode


class Goodbye(msgspec.Struct, array_like=True, gc=False, tag=5):
    """The last frame of a connection, with the reason; every protocol has this head.

    It refuses nothing: a request that was sent before and not answered has an unknown outcome. Each
    protocol defines its codes.
    """

    text: str
    code: int = 0


class BadFrame(ValueError):
    """Bytes that are not a frame of this protocol; the connection they came on must end."""


def _none_known(raw: memoryview) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Wire(Generic[H]):
    """The frames of a protocol after the handshake, and the bounds of its connections."""

    decode: Callable[[memoryview], H]
    """Decodes a head; raises the errors of msgspec."""
    max_frame_bytes: int
    high_water_bytes: int
    """Unsent bytes above which the other side counts as slow."""
    max_queued_bytes: int
    """The bound of unsent bytes."""
    unknown: Callable[[memoryview], H | None] = _none_known
    """Returns a head in place of one that `decode` refuses; None makes the frame a bad one."""


def encode_frame(
    head: bytes, body: Sequence[Buffer] = (), max_frame_bytes: int = HANDSHAKE_FRAME_BYTES
) -> list[Buffer]:
    """Return a frame as parts to write in order; raises BadFrame over the limit.

    The parts of `body` are passed on, not copied.
    """
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
    """Reads frames from a byte stream, for a buffered protocol.

    Read into `get_buffer()`, report the count to `filled()`, then take frames with `next()` until
    it returns None. A frame larger than the buffer gets a buffer of its own, so each body is copied
    once, out of it. Frames are returned one at a time because those after a handshake are read by
    another reader.
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
        """Start with the bytes in `read`, which another reader has read and not used."""
        self.max_frame_bytes = max_frame_bytes
        self._decode = decode
        self._unknown = unknown
        self._small_bytes = buffer_bytes
        self._replace_buffer(max(buffer_bytes, len(read)))
        self._start = 0
        self._end = len(read)
        self._view[: self._end] = read

    def get_buffer(self) -> memoryview:
        """Return the buffer to read into; it is not empty once `next` has returned None."""
        return self._view[self._end :]

    def filled(self, count: int) -> None:
        """Count the bytes that were just read into the buffer."""
        self._end += count

    def rest(self) -> bytes:
        """Return the bytes that were read and belong to no frame that `next` returned."""
        return bytes(self._view[self._start : self._end])

    def next(self) -> tuple[H, bytes] | None:
        """Return the next frame, or None until more bytes are read.

        Raises BadFrame, after which the reader must not be used again.
        """
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
        """Return the head that stands for one that `decode` refused; raises BadFrame if there is
        none.
        """
        unknown = self._unknown(raw)
        if unknown is None:
            raise BadFrame(f"head: {error}") from error
        return unknown

    def _wait(self, needed: int) -> None:
        """Make room for the frame of `needed` bytes at `_start`; drop a large buffer that is not
        needed.
        """
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
    """The layout of frames on the wire: how they are read and how they are encoded."""

    reader: type[FrameReader[Any]]
    encode: Callable[[bytes, Sequence[Buffer], int], list[Buffer]]
    """Encodes a frame, with the arguments of `encode_frame`."""


LAYOUT = Layout(FrameReader, encode_frame)
