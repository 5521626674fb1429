"""Frames: what comes out is what went in, or the connection ends."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import msgspec
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from peering.rpc import frames
from store_nodes import wire

Reader = frames.FrameReader[wire.Head | wire.Unknown]
HEADS = [
    wire.Ping(1),
    wire.Peer(7),
    wire.Command(2, 3, wire.Durability.QUORUM, 500),
    wire.Appended(2, 2**62, 1000, 1_700_000_000_000_000, True),
    wire.Fetched(
        4, 1, 9, (wire.EntryHead(1, 2, None, None, 3), wire.EntryHead(4, 5, 6, (0, 2), 7))
    ),
    wire.Watched(5, (wire.QueueOffsets(b"q" * 25, 1, 2, 3, True),)),
    wire.Leaders((wire.LeaderView(1, None, 65536, 7), wire.LeaderView(2, 3, 65537, 8))),
]


def encode(head: msgspec.Struct, *body: bytes, limit: int = wire.MAX_FRAME_BYTES) -> bytes:
    return b"".join(frames.encode_frame(frames.encode_head(head), body, limit))


def reading(limit: int = wire.MAX_FRAME_BYTES, buffer_bytes: int = 256 * 1024) -> Reader:
    return frames.FrameReader(wire.WIRE.decode, limit, buffer_bytes=buffer_bytes)


def feed(reader: Reader, raw: bytes, sizes: Iterator[int]) -> list[tuple[object, bytes]]:
    found = []
    at = 0
    while at < len(raw):
        buffer = reader.get_buffer()
        size = min(len(buffer), len(raw) - at, next(sizes))
        buffer[:size] = raw[at : at + size]
        reader.filled(size)
        while (frame := reader.next()) is not None:
            found.append(frame)
        at += size
    return found


@given(
    st.lists(st.tuples(st.sampled_from(HEADS), st.binary(max_size=300)), max_size=20),
    st.integers(0, 2**32),
    st.integers(32, 400),
)
def test_any_cut_of_the_stream_gives_the_same_frames(sent, seed, buffer_bytes):
    rng = random.Random(seed)
    raw = b"".join(encode(head, body[:3], body[3:]) for head, body in sent)
    reader = reading(buffer_bytes=buffer_bytes)
    sizes = iter(lambda: rng.randint(1, 250), 0)
    assert feed(reader, raw, sizes) == sent


def test_large_frames_do_not_keep_their_buffer():
    reader = reading(buffer_bytes=1024)
    body = random.Random(1).randbytes(5_000_000)
    raw = encode(wire.Peer(1), body)
    found = feed(reader, raw + encode(wire.Ping(1)), iter(lambda: 65536, 0))
    assert found == [(wire.Peer(1), body), (wire.Ping(1), b"")]
    assert len(reader.get_buffer()) == 1024


@given(st.data())
def test_a_flipped_bit_is_never_read_as_a_frame(data):
    raw = bytearray(encode(HEADS[2], b"payload"))
    bit = data.draw(st.integers(0, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << bit % 8
    reader = reading(1000, buffer_bytes=1000)
    try:
        found = feed(reader, bytes(raw), iter(lambda: 1000, 0))
    except frames.BadFrame:
        return
    assert found == []  # a longer length: the rest never comes
    assert bit < 32


def test_text_that_is_no_utf8_is_a_bad_frame():
    """msgspec raises another error for it than for all else."""
    prefix = encode(frames.Goodbye("text"))
    payload = bytes(prefix[8:]).replace(b"text", b"\xff\xfe\xfd\xfc")
    raw = struct.pack("<II", len(payload), crc32c(payload)) + payload
    with pytest.raises(frames.BadFrame):
        feed(reading(), raw, iter(lambda: 1000, 0))


def test_the_limit_of_a_frame_holds_on_both_sides():
    with pytest.raises(frames.BadFrame):
        encode(wire.Peer(1), bytes(wire.MAX_FRAME_BYTES))
    reader = reading(100)
    with pytest.raises(frames.BadFrame):
        feed(reader, encode(wire.Peer(1), bytes(100)), iter(lambda: 50, 0))


def test_what_one_reader_left_another_goes_on_with():
    """As after a handshake: the limits and heads of the next frames are others."""
    raw = encode(wire.Ping(1)) + encode(wire.Peer(2), bytes(5000))
    first = reading(100, buffer_bytes=8192)
    first.get_buffer()[: len(raw) - 1] = raw[:-1]
    first.filled(len(raw) - 1)
    assert first.next() == (wire.Ping(1), b"")
    second = frames.FrameReader(wire.WIRE.decode, 8192, read=first.rest(), buffer_bytes=32)
    assert second.next() is None
    assert feed(second, raw[-1:], iter(lambda: 1, 0)) == [(wire.Peer(2), bytes(5000))]
