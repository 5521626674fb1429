"""The bytes of checkpoint and manifest are frozen, and damage never decodes."""

from __future__ import annotations

from hashlib import blake2b

import msgspec
import pytest

from store_nodes.checkpoint.format import (
    Checkpoint,
    CheckpointDamaged,
    GroupCheckpoint,
    Manifest,
    decode_checkpoint,
    decode_manifest,
    encode_checkpoint,
    encode_manifest,
)

CHECKPOINT = Checkpoint((GroupCheckpoint(1, 0x20003, 7, b"m1"),), 4, 4096, b"tail")
GOLDEN = bytes.fromhex(
    "5042434b0100000018000000000000008fa3bdf5a049805b6db2506008196e0c7bcc6427e67615da"
    "e9cb9de91d94b69d94919401ce0002000307c4026d3104cd1000c4047461696c"
)
GOLDEN_MANIFEST = bytes.fromhex(
    "50424d460100000009000000000000004800000000000000b4954abc29b1d67f194f563ddc7e8da9"
    "9f5fa2695f31e23344bf257b9e51fdccaa7e6a28"
)


def test_golden_checkpoint() -> None:
    assert encode_checkpoint(CHECKPOINT) == GOLDEN
    assert decode_checkpoint(GOLDEN) == CHECKPOINT


class GroupOfRelease020(msgspec.Struct, array_like=True):
    group: int
    promised: int
    chosen_upto: int
    machine: bytes


def test_the_mark_of_what_was_reached_is_at_the_end() -> None:
    """Release 0.2.0 passes over it, and a node that goes back to that release starts."""
    (group,) = CHECKPOINT.groups
    marked = msgspec.structs.replace(group, reached=6)
    checkpoint = msgspec.structs.replace(CHECKPOINT, groups=(marked,))
    raw = encode_checkpoint(checkpoint)
    assert decode_checkpoint(raw) == checkpoint
    groups, *_ = msgspec.msgpack.decode(
        raw[48:], type=tuple[list[GroupOfRelease020], int, int, bytes]
    )
    assert groups == [GroupOfRelease020(1, 0x20003, 7, b"m1")]


def test_golden_manifest() -> None:
    manifest = Manifest(9, len(GOLDEN), blake2b(GOLDEN, digest_size=32).digest())
    assert encode_manifest(manifest) == GOLDEN_MANIFEST
    assert decode_manifest(GOLDEN_MANIFEST) == manifest
    assert manifest.matches(GOLDEN)
    assert not manifest.matches(GOLDEN + b"\0")


def test_every_flipped_bit_and_every_cut_is_found() -> None:
    for golden, decode in ((GOLDEN, decode_checkpoint), (GOLDEN_MANIFEST, decode_manifest)):
        for bit in range(8 * len(golden)):
            if decode is decode_checkpoint and 5 <= bit // 8 < 8:
                continue  # the padding: the manifest's digest covers it
            damaged = bytearray(golden)
            damaged[bit // 8] ^= 1 << bit % 8
            with pytest.raises(CheckpointDamaged):
                decode(bytes(damaged))
        for length in range(len(golden)):
            with pytest.raises(CheckpointDamaged):
                decode(golden[:length])
