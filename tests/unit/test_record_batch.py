"""The record batch is on disks: its bytes are frozen, and damage never decodes."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from store_nodes.record_batch import (
    HEADER_BYTES,
    BadBatch,
    Message,
    decode,
    encode,
    peek,
)

MESSAGES = [
    Message(
        *(b"hello", "text/plain", "k", {"a": "1"}, "pub", 2, 1000, 60_000, "id-1", "00-x", None),
        tracestate="a=1",
    ),
    Message(b"\x00\xff", origin={"topic": "t", "offset": 5}),
]
ACCEPTED_US = 1_700_000_000_000_000
GOLDEN_0_2 = bytes.fromhex(
    "504201000200000000401e18240a0600500000009b3dce15"
    "929bc40568656c6c6faa746578742f706c61696ea16b81a161a131a370756202cd03e8cdea60a469642d31"
    "a430302d78c09bc40200ffc0c0c0c0000000c0c082a5746f706963a174a66f666673657405"
)
"""A batch as release 0.2.0 wrote it, before `tracestate`."""
GOLDEN = bytes.fromhex(
    "504201000200000000401e18240a06005500000083278242"
    "929cc40568656c6c6faa746578742f706c61696ea16b81a161a131a370756202cd03e8cdea60a469642d31"
    "a430302d78c0a3613d319cc40200ffc0c0c0c0000000c0c082a5746f706963a174a66f666673657405c0"
)
GOLDEN_ZSTD = bytes.fromhex(
    "504201010100000001000000000000001e000000bdd04402"
    "28b52ffd2072ad000078919bc46461c0c0c0c0000000c0c0c0010020055a"
)

messages_lists = st.lists(
    st.builds(
        Message,
        st.binary(max_size=200),
        st.none() | st.text(max_size=20),
        st.none() | st.text(max_size=20),
        st.none() | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    ),
    min_size=1,
    max_size=8,
)


def test_golden_bytes() -> None:
    assert encode(MESSAGES, ACCEPTED_US) == GOLDEN
    assert decode(GOLDEN) == MESSAGES
    assert peek(GOLDEN) == (2, ACCEPTED_US)


def test_what_0_2_0_wrote_is_read() -> None:
    first, second = decode(GOLDEN_0_2)
    assert first == msgspec.structs.replace(MESSAGES[0], tracestate=None)
    assert second == MESSAGES[1]


def test_0_2_0_reads_what_is_written_now() -> None:
    """Release 0.2.0 knows the first eleven members, and ignores all later ones."""
    known = [(name, Any) for name in Message.__struct_fields__[:11]]
    old = msgspec.defstruct("Old", known, array_like=True)
    first, _ = msgspec.msgpack.decode(GOLDEN[HEADER_BYTES:], type=list[old])
    assert (first.data, first.traceparent, first.origin) == (b"hello", "00-x", None)


def test_golden_zstd_decodes() -> None:
    """Only decoding is frozen: another zstd version may pack otherwise."""
    assert decode(GOLDEN_ZSTD) == [Message(b"a" * 100)]


@given(messages_lists, st.integers(0, 2**63), st.booleans())
def test_round_trip(messages: list[Message], accepted_us: int, compress: bool) -> None:
    raw = encode(messages, accepted_us, compress=compress)
    assert decode(raw) == messages
    assert peek(memoryview(raw)) == (len(messages), accepted_us)


def test_compression_only_where_it_helps() -> None:
    small = encode([Message(b"x")], 0, compress=True)
    assert small == encode([Message(b"x")], 0)
    big = encode([Message(b"x" * 10_000)], 0, compress=True)
    assert len(big) < 200


def test_every_flipped_bit_is_found() -> None:
    for bit in range(8 * len(GOLDEN)):
        damaged = bytearray(GOLDEN)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadBatch):
            decode(bytes(damaged))


def test_every_cut_is_found() -> None:
    for length in range(len(GOLDEN)):
        with pytest.raises(BadBatch):
            peek(GOLDEN[:length])


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(BadBatch):
        decode(GOLDEN + b"\0")


def test_a_newer_message_with_more_fields_is_read() -> None:
    """Fields are added at the end; an older reader ignores them."""
    body = msgspec.msgpack.encode([[b"x", *[None] * 4, 0, 0, 0, *[None] * 4, "new field"]])
    header = struct.pack("<2sBBIQI", b"PB", 1, 0, 1, 0, len(body))
    raw = header + struct.pack("<I", crc32c(body, crc32c(header))) + body
    assert len(header) + 4 == HEADER_BYTES
    assert decode(raw) == [Message(b"x")]
