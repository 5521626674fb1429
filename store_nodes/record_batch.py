"""Encodes a batch of messages for the log, and decodes it; the store does not look into it.

    magic "PB" · version u8 · flags u8 · count u32 · accepted time u64 (µs) · body length u32 ·
    CRC32C u32 of the header before it and the body · body

All integers little-endian. The body is a msgpack array of `Message` arrays, zstd-compressed when
flag 1 is set. A batch is decoded whole, in one call: that is cheaper than finding one message.
"""

from __future__ import annotations

import struct

import msgspec
import zstandard
from crc32c import crc32c

MAGIC = b"PB"
VERSION = 1
FLAG_ZSTD = 1
MAX_BATCH_BYTES = 10 * 1024 * 1024 + 256 * 1024
"""Bytes of a batch: a 10 MiB message with its attributes fits."""
MAX_BATCH_MESSAGES = 1000
ORIGIN_STAGE_ID = "stage_id"
"""The member of `origin` with the message id of a message staged in a sealed queue, in its copy."""

_HEADER = struct.Struct("<2sBBIQI")
_CRC = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CRC.size


class Message(msgspec.Struct, array_like=True, gc=False):
    """One message as stored.

    Times are in µs since 1970 UTC, durations in ms; 0 and None mean not given.

    New fields go at the end with a default: an older reader ignores them.
    """

    data: bytes
    content_type: str | None = None
    key: str | None = None
    attributes: dict[str, str] | None = None
    publisher_id: str | None = None
    priority: int = 0
    deliver_at_us: int = 0
    ttl_ms: int = 0
    idempotency_key: str | None = None
    traceparent: str | None = None
    origin: dict[str, str | int] | None = None
    """The source of a dead letter, or of the copy of a staged message."""
    tracestate: str | None = None
    """The state that goes with `traceparent`; release 0.2.0 neither writes nor reads it."""


class BadBatch(ValueError):
    """The bytes are no whole record batch; the text names the check that failed."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Message])


def encode(messages: list[Message], accepted_time_us: int, *, compress: bool = False) -> bytes:
    """Return 1 … `MAX_BATCH_MESSAGES` messages as one batch."""
    body = _encoder.encode(messages)
    flags = 0
    if compress:
        packed = zstandard.compress(body)
        if len(packed) < len(body):
            body, flags = packed, FLAG_ZSTD
    header = _HEADER.pack(MAGIC, VERSION, flags, len(messages), accepted_time_us, len(body))
    return b"".join((header, _CRC.pack(crc32c(body, crc32c(header))), body))


def decode(raw: bytes | memoryview) -> list[Message]:
    """Return the messages of a batch; raise BadBatch if a check fails."""
    flags, count, _, body = _open(raw)
    if flags & FLAG_ZSTD:
        try:
            body = zstandard.decompress(bytes(body))
        except zstandard.ZstdError as error:
            raise BadBatch(f"zstd: {error}") from error
    try:
        messages = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadBatch(f"msgpack: {error}") from error
    if len(messages) != count:
        raise BadBatch(f"header says {count} messages, body has {len(messages)}")
    return messages


def peek(raw: bytes | memoryview) -> tuple[int, int]:
    """Return the count and the accepted time (µs) of a batch; raise BadBatch if it is damaged."""
    _, count, accepted_time_us, _ = _open(raw)
    return count, accepted_time_us


def _open(raw: bytes | memoryview) -> tuple[int, int, int, memoryview | bytes]:
    """Return the flags, count, accepted time (µs) and body of a batch; raise BadBatch."""
    if len(raw) < HEADER_BYTES:
        raise BadBatch("shorter than a header")
    view = memoryview(raw)
    magic, version, flags, count, accepted_time_us, length = _HEADER.unpack_from(view)
    if magic != MAGIC or version != VERSION:
        raise BadBatch(f"magic {magic!r} version {version}")
    if len(view) != HEADER_BYTES + length:
        raise BadBatch(f"length {len(view)}, header says {HEADER_BYTES + length}")
    (crc,) = _CRC.unpack_from(view, _HEADER.size)
    body = view[HEADER_BYTES:]
    if crc32c(body, crc32c(view[: _HEADER.size])) != crc:
        raise BadBatch("CRC32C mismatch")
    return flags, count, accepted_time_us, body
