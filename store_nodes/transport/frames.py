"""The frame codec: heads and bodies to bytes and back. The format is at the top of wire.py."""

from __future__ import annotations

import struct
import typing
from collections.abc import Sequence

import msgspec
from crc32c import crc32c

from store_nodes.wire import MAX_FRAME_BYTES, Buffer, Head, Unknown

_FRAME = struct.Struct("<II")
_HEAD_LENGTH = struct.Struct("<I")


class BadFrame(ValueError):
    """Bytes that are not a frame of this version; the connection they came on must end."""


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Head] = msgspec.msgpack.Decoder(Head)
_any_decoder: msgspec.msgpack.Decoder[list[typing.Any]] = msgspec.msgpack.Decoder(list)
_NUMBERS = frozenset(kind.__struct_config__.tag for kind in typing.get_args(Head))


def encode_frame(head: Head, body: Sequence[Buffer] = ()) -> list[Buffer]:
    """The frame as parts to write in order; the parts of `body` are passed on, not copied."""
    encoded = _encoder.encode(head)
    prefix = _HEAD_LENGTH.pack(len(encoded)) + encoded
    crc = crc32c(prefix)
    length = len(prefix)
    for part in body:
        crc = crc32c(part, crc)
        length += len(part)
    if length > MAX_FRAME_BYTES:
        raise BadFrame(f"a frame of {length} bytes is over the limit of {MAX_FRAME_BYTES}")
    return [_FRAME.pack(length, crc) + prefix, *body]


class FrameReader:
    """Frames out of a byte stream, for a buffered protocol: read into `get_buffer()`, then tell
    how much with `received()`. A frame larger than the buffer gets a buffer of its own, so each
    body is copied once, out of it."""

    __slots__ = ("_buffer", "_end", "_small_bytes", "_start", "_view", "max_frame_bytes")

    def __init__(
        self, max_frame_bytes: int = MAX_FRAME_BYTES, buffer_bytes: int = 256 * 1024
    ) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._small_bytes = buffer_bytes
        self._replace_buffer(buffer_bytes)
        self._start = 0
        self._end = 0

    def get_buffer(self) -> memoryview:
        """Where to read to; never empty."""
        return self._view[self._end :]

    def received(self, count: int) -> list[tuple[Head | Unknown, bytes]]:
        """The frames completed by `count` more bytes; raises BadFrame, after which the reader
        must not be used again."""
        self._end += count
        frames: list[tuple[Head | Unknown, bytes]] = []
        needed = _FRAME.size
        while (held := self._end - self._start) >= _FRAME.size:
            length, crc = _FRAME.unpack_from(self._buffer, self._start)
            if not _HEAD_LENGTH.size < length <= self.max_frame_bytes:
                raise BadFrame(f"frame length {length}")
            needed = _FRAME.size + length
            if held < needed:
                break
            at = self._start + _FRAME.size
            frames.append(_open(self._view[at : at + length], crc))
            self._start += needed
            needed = _FRAME.size
        self._make_room(needed)
        return frames

    def _make_room(self, needed: int) -> None:
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


def _open(payload: memoryview, crc: int) -> tuple[Head | Unknown, bytes]:
    if crc32c(payload) != crc:
        raise BadFrame("CRC32C mismatch")
    (head_bytes,) = _HEAD_LENGTH.unpack_from(payload)
    body_at = _HEAD_LENGTH.size + head_bytes
    if body_at > len(payload):
        raise BadFrame("the head is longer than its frame")
    raw = payload[_HEAD_LENGTH.size : body_at]
    head: Head | Unknown
    try:
        head = _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        unknown = _unknown(raw)
        if unknown is None:
            raise BadFrame(f"head: {error}") from error
        head = unknown
    return head, bytes(payload[body_at:]) if body_at < len(payload) else b""


def _unknown(raw: memoryview) -> Unknown | None:
    """What is whole, and of a type that is none of ours; None for nonsense."""
    try:
        fields = _any_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not fields or not isinstance(fields[0], int) or fields[0] in _NUMBERS:
        return None
    first = fields[1] if len(fields) > 1 else None
    return Unknown(fields[0], first if isinstance(first, int) else 0)
