"""The codec of links: what goes in comes out, and nothing else does."""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import pairwise

import msgspec
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from peering.rpc.frames import HANDSHAKE_FRAME_BYTES, BadFrame, FrameReader, encode_head
from subscribe_forwarder.fleet.links.legacy import LAYOUT
from subscribe_forwarder.fleet.links.wire import (
    MAX_BODY_BYTES,
    WIRE,
    Answer,
    Chunk,
    Head,
    Note,
    Ping,
    Raised,
    Request,
    Written,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
headers = st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=4)
ids = st.integers(0, 2**63 - 1)
heads: st.SearchStrategy[Head] = st.one_of(
    st.builds(Ping, ids),
    st.builds(Note, texts),
    st.builds(Answer, ids, st.integers(100, 599), headers, st.booleans()),
    st.builds(Chunk, ids, st.booleans()),
    st.builds(Written, ids, ids, st.booleans()),
    st.builds(
        Request,
        ids,
        *(texts, texts, texts, st.none() | st.binary(max_size=9), st.binary(max_size=9), headers),
        st.dictionaries(texts, texts, max_size=2),
        *(st.none() | st.binary(max_size=16), st.none() | texts),
        st.none() | st.tuples(texts, st.integers(0, 65535)),
        *(texts, texts, st.booleans(), st.booleans()),
    ),
    st.builds(
        Raised,
        *(ids, st.integers(400, 599), texts, texts, texts),
        st.lists(st.tuples(texts, texts), max_size=2),
        st.none() | st.floats(0, 100),
        st.dictionaries(texts, texts, max_size=2),
        st.binary(max_size=9),
    ),
)
frames = st.lists(st.tuples(heads, st.binary(max_size=300)), max_size=6)


def encode(head: Head, body: bytes = b"") -> bytes:
    return b"".join(LAYOUT.encode(encode_head(head), [body], 0))


def trusting(limit: int = WIRE.max_frame_bytes) -> FrameReader[Head]:
    return LAYOUT.reader(WIRE.decode, limit)


def read(reader: FrameReader[Head], data: bytes) -> list[tuple[Head, bytes]]:
    found = []
    while data:
        buffer = reader.get_buffer()
        size = min(len(buffer), len(data))
        buffer[:size], data = data[:size], data[size:]
        reader.filled(size)
        while (frame := reader.next()) is not None:
            found.append(frame)
    return found


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = [0, *sorted(place % (len(data) + 1) for place in at), len(data)]
    return [data[a:b] for a, b in pairwise(places) if a < b]


@given(frames, st.lists(st.integers(0, 10_000), max_size=12))
def test_a_stream_cut_anywhere_gives_the_same_frames(
    sent: list[tuple[Head, bytes]], cuts: list[int]
) -> None:
    data = b"".join(encode(head, body) for head, body in sent)
    reader = trusting()
    assert [frame for part in cut(data, cuts) for frame in read(reader, part)] == sent


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=4))
def test_arbitrary_bytes_are_refused_or_waited_for(data: bytes, cuts: list[int]) -> None:
    reader = trusting(HANDSHAKE_FRAME_BYTES)
    try:
        for part in cut(data, cuts):
            assert read(reader, part) == []
    except BadFrame:
        pass


@given(st.binary(max_size=200), st.binary(max_size=20))
def test_arbitrary_heads_with_a_good_checksum_are_heads_or_refused(
    head: bytes, body: bytes
) -> None:
    data = struct.pack("<III", len(head), len(body), crc32c(body, crc32c(head))) + head + body
    try:
        [(found, found_body)] = read(trusting(), data)
    except BadFrame:
        return
    assert isinstance(found, Head)
    assert found_body == body


@given(heads, st.data())
def test_heads_that_were_tampered_with_are_heads_or_refused(
    head: Head, data: st.DataObject
) -> None:
    """The checksum is good, so this is a defect of the other side, or another version of it."""
    encoded = bytearray(msgspec.msgpack.encode(head))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] = data.draw(st.integers(0, 255))
    frame = struct.pack("<III", len(encoded), 0, crc32c(bytes(encoded))) + bytes(encoded)
    with suppress(BadFrame):
        assert len(read(trusting(), frame)) == 1


@given(frames.filter(bool), st.data())
def test_a_flipped_bit_is_never_a_frame(
    sent: list[tuple[Head, bytes]], data: st.DataObject
) -> None:
    stream = bytearray(b"".join(encode(head, body) for head, body in sent))
    bit = data.draw(st.integers(0, len(stream) * 8 - 1))
    stream[bit // 8] ^= 1 << bit % 8
    reader = trusting()
    found: list[tuple[Head, bytes]] = []
    fed = bytes(stream)
    try:
        for at in range(len(fed)):
            found += read(reader, fed[at : at + 1])
    except BadFrame:
        pass
    assert found == sent[: len(found)]
    assert len(found) < len(sent)


def test_what_is_too_large_is_neither_sent_nor_read() -> None:
    with pytest.raises(ValueError, match="over the limits"):
        encode(Note("x"), bytes(MAX_BODY_BYTES + 1))
    largest = bytes(MAX_BODY_BYTES)
    [(_, body)] = read(trusting(), encode(Note("x"), largest))
    assert body == largest
    with pytest.raises(BadFrame):
        read(trusting(), struct.pack("<III", 1, WIRE.max_frame_bytes, 0))


def test_before_the_handshake_is_over_frames_are_small() -> None:
    data = encode(Ping(1)) + encode(Note("x"), bytes(HANDSHAKE_FRAME_BYTES))
    reader = trusting(HANDSHAKE_FRAME_BYTES)
    reader.get_buffer()[: len(data)] = data
    reader.filled(len(data))
    assert reader.next() == (Ping(1), b"")
    with pytest.raises(BadFrame):
        reader.next()
