"""How links lay frames on the wire up to release 0.2.0. It goes with release 0.4.0.

frame = u32 bytes of the head · u32 bytes of the body · u32 CRC32C of both · head · body
        (little endian)
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec
from crc32c import crc32c

from peering.rpc.frames import BadFrame, Buffer, FrameReader, H, Layout
from subscribe_forwarder.links.wire import MAX_BODY_BYTES, MAX_HEAD_BYTES

_PREFIX = struct.Struct("<III")


def encode_frame(head: bytes, body: Sequence[Buffer], max_frame_bytes: int) -> list[Buffer]:
    """Raises BadFrame over a limit."""
    length = sum(map(len, body))
    if len(head) > MAX_HEAD_BYTES or length > MAX_BODY_BYTES:
        raise BadFrame(
            f"a frame with {len(head)} and {length} bytes is over the limits of {MAX_HEAD_BYTES} "
            f"and {MAX_BODY_BYTES}"
        )
    crc = crc32c(head)
    for part in body:
        crc = crc32c(part, crc)
    return [_PREFIX.pack(len(head), length, crc) + head, *body]


class LegacyReader(FrameReader[H]):
    """As the reader that it extends, of these frames."""

    __slots__ = ()

    def next(self) -> tuple[H, bytes] | None:
        start, view = self._start, self._view
        if self._end - start < _PREFIX.size:
            self._wait(_PREFIX.size)
            return None
        head_bytes, body_bytes, crc = _PREFIX.unpack_from(self._buffer, start)
        if head_bytes + body_bytes > self.max_frame_bytes:
            raise BadFrame(f"a frame of {head_bytes} and {body_bytes} bytes")
        head_at = start + _PREFIX.size
        body_at = head_at + head_bytes
        end = body_at + body_bytes
        if end > self._end:
            self._wait(end - start)
            return None
        if crc32c(view[head_at:end]) != crc:
            raise BadFrame("CRC32C mismatch")
        self._start = end
        raw = view[head_at:body_at]
        try:
            head = self._decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            head = self._refused(raw, error)
        return head, bytes(view[body_at:end])


LAYOUT = Layout(LegacyReader, encode_frame)
