"""The bytes of a checkpoint file and of its manifest; docs/file-format.md is this page for people.

Checkpoint file, little-endian:

    magic "PBCK" · version u8 (1) · 3 zero bytes · body length u64 · blake2b-256 of the body ·
    body = msgpack [[[group, promised, chosen upto, machine snapshot], …],
                    log segment, log offset, tail, tail of other batches]

Manifest, little-endian:

    magic "PBMF" · version u8 (1) · 3 zero bytes · number u64 · checkpoint file length u64 ·
    blake2b-256 of the whole checkpoint file · CRC32C u32 of all before it
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from hashlib import blake2b

import msgspec
from crc32c import crc32c

FORMAT_VERSION = 1
_DIGEST_BYTES = 32
_FILE_HEAD = struct.Struct("<4sB3xQ32s")
_MANIFEST = struct.Struct("<4sB3xQQ32s")
_CRC = struct.Struct("<I")
_FILE_MAGIC = b"PBCK"
_MANIFEST_MAGIC = b"PBMF"


class CheckpointDamaged(Exception):
    """A checkpoint or manifest is there but cannot be trusted; the text says which check failed."""


class GroupCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    """One group: the acceptor's promise (a packed ballot), below which instance all is chosen, and
    the machine's snapshot, whose `applied` is at most that."""

    group: int
    promised: int
    chosen_upto: int
    machine: bytes


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """What a node needs besides the log from (`wal_segment`, `wal_offset`) on.

    The start is low enough that every accepted value the node could still be asked for by a new
    leader, that is of instances not below a group's `chosen_upto`, lies at or after it.
    `tail` and `tail_of_others` pack the index entries of applied batches that no segment footer
    lists yet (storage/checkpoint_tail.py).
    """

    groups: tuple[GroupCheckpoint, ...]
    wal_segment: int
    wal_offset: int
    tail: bytes = b""
    tail_of_others: bytes = b""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which checkpoint file holds: its number, length and digest."""

    number: int
    file_bytes: int
    digest: bytes

    @classmethod
    def of(cls, number: int, file: bytes) -> Manifest:
        return cls(number, len(file), _digest(file))

    def matches(self, file: bytes) -> bool:
        return len(file) == self.file_bytes and _digest(file) == self.digest


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Checkpoint)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    fields = msgspec.structs.astuple(checkpoint)
    # Without what it does not need, an older program sees nothing new.
    body = _encoder.encode(fields if checkpoint.tail_of_others else fields[:-1])
    return _FILE_HEAD.pack(_FILE_MAGIC, FORMAT_VERSION, len(body), _digest(body)) + body


def decode_checkpoint(raw: bytes) -> Checkpoint:
    """Raises CheckpointDamaged."""
    if len(raw) < _FILE_HEAD.size:
        raise CheckpointDamaged("checkpoint shorter than its header")
    magic, version, length, digest = _FILE_HEAD.unpack_from(raw)
    if magic != _FILE_MAGIC or version != FORMAT_VERSION:
        raise CheckpointDamaged(f"checkpoint magic {magic!r} version {version}")
    body = memoryview(raw)[_FILE_HEAD.size :]
    if len(body) != length or _digest(body) != digest:
        raise CheckpointDamaged("checkpoint digest mismatch")
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise CheckpointDamaged(f"checkpoint body: {error}") from error


def encode_manifest(manifest: Manifest) -> bytes:
    raw = _MANIFEST.pack(
        _MANIFEST_MAGIC, FORMAT_VERSION, manifest.number, manifest.file_bytes, manifest.digest
    )
    return raw + _CRC.pack(crc32c(raw))


def decode_manifest(raw: bytes) -> Manifest:
    """Raises CheckpointDamaged."""
    if len(raw) != _MANIFEST.size + _CRC.size:
        raise CheckpointDamaged(f"manifest of {len(raw)} bytes")
    (crc,) = _CRC.unpack_from(raw, _MANIFEST.size)
    if crc32c(raw[: _MANIFEST.size]) != crc:
        raise CheckpointDamaged("manifest CRC32C mismatch")
    magic, version, number, file_bytes, digest = _MANIFEST.unpack_from(raw)
    if magic != _MANIFEST_MAGIC or version != FORMAT_VERSION:
        raise CheckpointDamaged(f"manifest magic {magic!r} version {version}")
    return Manifest(number, file_bytes, digest)


def _digest(data: bytes | memoryview) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()
