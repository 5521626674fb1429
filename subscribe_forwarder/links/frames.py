"""The frame codec of links: heads and bodies to bytes and back. The format is in wire.py."""

from __future__ import annotations

import struct

import msgspec
from crc32c import crc32c

from subscribe_forwarder.links.wire import (
    MAX_BODY_BYTES,
    MAX_HANDSHAKE_BYTES,
    MAX_HEAD_BYTES,
    Head,
)

Buffer = bytes | bytearray | memoryview
_PREFIX = struct.Struct("<III")
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Head] = msgspec.msgpack.Decoder(Head)


class BadFrame(ValueError):
    """Bytes that are no frame of this protocol; the connection they came on must end."""


def encode_frame(head: Head, body: Buffer = b"") -> bytes:
    """What goes before the body, which follows as it is. Raises ValueError over a limit."""
    encoded = _encoder.encode(head)
    if len(encoded) > MAX_HEAD_BYTES or len(body) > MAX_BODY_BYTES:
        raise ValueError(
            f"{type(head).__name__} with {len(encoded)} and {len(body)} bytes is over the limits "
            f"of {MAX_HEAD_BYTES} and {MAX_BODY_BYTES}"
        )
    crc = crc32c(encoded)
    if body:
        crc = crc32c(body, crc)
    return _PREFIX.pack(len(encoded), len(body), crc) + encoded


class FrameReader:
    """Frames out of a byte stream: `feed` what was read, then `next` until it gives None.

    One at a time, because what follows the last frame of a handshake has other limits.
    """

    __slots__ = ("_at", "_held", "_missing", "_view", "max_body_bytes", "max_head_bytes")

    def __init__(self) -> None:
        self.max_head_bytes = self.max_body_bytes = MAX_HANDSHAKE_BYTES
        self._held = bytearray()
        self._view = memoryview(b"")
        self._at = 0
        self._missing = 0

    def trust(self) -> None:
        """The limits of a handshake are over."""
        self.max_head_bytes, self.max_body_bytes = MAX_HEAD_BYTES, MAX_BODY_BYTES

    def feed(self, data: bytes) -> None:
        if self._held:
            self._held += data
            self._missing -= len(data)
            if self._missing <= 0:
                self._view = memoryview(self._held)
        else:
            self._view = memoryview(data)

    def next(self) -> tuple[Head, bytes] | None:
        """Raises BadFrame, after which the reader must not be used again."""
        view, at = self._view, self._at
        left = len(view) - at
        if left < _PREFIX.size:
            self._keep(_PREFIX.size - left)
            return None
        head_bytes, body_bytes, crc = _PREFIX.unpack_from(view, at)
        if head_bytes > self.max_head_bytes or body_bytes > self.max_body_bytes:
            raise BadFrame(f"a frame of {head_bytes} and {body_bytes} bytes")
        head_at = at + _PREFIX.size
        body_at = head_at + head_bytes
        end = body_at + body_bytes
        if end > len(view):
            self._keep(end - len(view))
            return None
        if crc32c(view[head_at:end]) != crc:
            raise BadFrame("CRC32C mismatch")
        try:
            head = _decoder.decode(view[head_at:body_at])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadFrame(f"head: {error}") from error
        self._at = end
        return head, bytes(view[body_at:end]) if body_bytes else b""

    def _keep(self, missing: int) -> None:
        """Remember what is not a whole frame yet, and how much more would make it one."""
        view, at = self._view, self._at
        if not view:
            return  # nothing came since the last time
        self._view, self._at = memoryview(b""), 0
        if view.obj is self._held:
            view.release()
            del self._held[:at]
        elif at < len(view):
            self._held = bytearray(view[at:])
        self._missing = missing
