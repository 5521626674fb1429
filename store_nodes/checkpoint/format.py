"""The bytes of a checkpoint file and of its manifest; docs/file-format.md describes them for
people.

Checkpoint file, little-endian:

    magic "PBCK" · version u8 (1) · 3 zero bytes · body length u64 · blake2b-256 of the body ·
    body = msgpack [[[group, promised, chosen upto, machine snapshot, reached], …],
                    log segment, log offset, tail, tail of other batches]

Manifest, little-endian:

    magic "PBMF" · version u8 (1) · 3 zero bytes · number u64 · checkpoint file length u64 ·
    blake2b-256 of the whole checkpoint file · CRC32C u32 of all before it
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

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
    """A checkpoint or manifest exists but cannot be trusted; the text names the check that
    failed.
    """


class CheckpointBehind(Exception):
    """A checkpoint is whole, but has less of a group than this node once had."""


class GroupCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    """One group of a checkpoint: its promise, its chosen prefix and the machine's snapshot.

    `promised` is a packed ballot. All instances below `chosen_upto` are chosen; the snapshot's
    `applied` is at most that. `reached` is the number of instances that this node had applied when
    the checkpoint was drafted. A machine below it would have forgotten values that the node voted
    for, so no start continues from one. It is left out when 0, as release 0.2.0 always did.
    """

    group: int
    promised: int
    chosen_upto: int
    machine: bytes | memoryview
    reached: int = 0


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """The state that a node needs besides the log from (`wal_segment`, `wal_offset`) on.

    A new leader may ask the node for accepted values of instances not below a group's
    `chosen_upto`. The start is low enough that all of them are at or after it. `tail` and
    `tail_of_others` pack the index entries of applied batches that no segment footer lists yet
    (storage/checkpoint_tail.py).
    """

    groups: tuple[GroupCheckpoint, ...]
    wal_segment: int
    wal_offset: int
    tail: bytes = b""
    tail_of_others: bytes = b""


class Rest(NamedTuple):
    """The fields of a checkpoint after its groups, in their order."""

    wal_segment: int
    wal_offset: int
    tail: bytes
    tail_of_others: bytes


@dataclass(frozen=True, slots=True)
class Manifest:
    """The number, length and digest of the checkpoint file that is valid."""

    number: int
    file_bytes: int
    digest: bytes

    def matches(self, file: bytes | memoryview) -> bool:
        return len(file) == self.file_bytes and _digest(file) == self.digest


class _GroupRead(msgspec.Struct, array_like=True):
    """A group as it is read: `machine` is a view into the file, because it can be tens of
    megabytes.
    """

    group: int
    promised: int
    chosen_upto: int
    machine: memoryview
    reached: int = 0


class _CheckpointRead(msgspec.Struct, array_like=True):
    groups: tuple[_GroupRead, ...]
    wal_segment: int
    wal_offset: int
    tail: bytes = b""
    tail_of_others: bytes = b""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_CheckpointRead)
_FIELDS = len(_CheckpointRead.__struct_fields__)
HEAD_BYTES = _FILE_HEAD.size


class BodyWriter:
    """Makes the body of a checkpoint file in parts, and the head that goes before it.

    Without `others` the last field, which must then be empty, is left out, so that an older program
    sees nothing new.
    """

    def __init__(self, *, others: bool = True) -> None:
        self._fields = _FIELDS if others else _FIELDS - 1
        self._digest = blake2b(digest_size=_DIGEST_BYTES)
        self._length = 0

    def parts(
        self, count: int, groups: Iterable[GroupCheckpoint], rest: Callable[[], Rest]
    ) -> Iterator[bytes]:
        """Yield the parts; `rest` is called after the last of the `count` groups."""
        yield self._part(_array_head(self._fields) + _array_head(count))
        for group in groups:
            fields = msgspec.structs.astuple(group)
            yield self._part(_encoder.encode(fields if group.reached else fields[:-1]))
        self.rest = rest()
        assert self._fields == _FIELDS or not self.rest.tail_of_others
        ending = self.rest[: self._fields - 1]
        yield self._part(b"".join(_encoder.encode(field) for field in ending))

    def _part(self, raw: bytes) -> bytes:
        self._digest.update(raw)
        self._length += len(raw)
        return raw

    def head(self) -> bytes:
        """Return the head of the file, after the last part was made."""
        return _FILE_HEAD.pack(_FILE_MAGIC, FORMAT_VERSION, self._length, self._digest.digest())


def _array_head(count: int) -> bytes:
    """Return the head of an array in MessagePack, in its shortest form."""
    if count < 16:
        return bytes((0x90 | count,))
    return (
        b"\xdc" + count.to_bytes(2, "big")
        if count < 1 << 16
        else b"\xdd" + count.to_bytes(4, "big")
    )


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return a whole file; equal checkpoints give equal bytes."""
    writer = BodyWriter(others=bool(checkpoint.tail_of_others))
    parts = list(
        writer.parts(len(checkpoint.groups), checkpoint.groups, lambda: rest_of(checkpoint))
    )
    return b"".join((writer.head(), *parts))


def rest_of(checkpoint: Checkpoint) -> Rest:
    """Return the fields that follow the groups."""
    return Rest(
        checkpoint.wal_segment, checkpoint.wal_offset, checkpoint.tail, checkpoint.tail_of_others
    )


def decode_checkpoint(raw: bytes | memoryview) -> Checkpoint:
    """Return the checkpoint of a file; raises CheckpointDamaged.

    The machines are views into `raw`.
    """
    if len(raw) < _FILE_HEAD.size:
        raise CheckpointDamaged("checkpoint shorter than its header")
    magic, version, length, digest = _FILE_HEAD.unpack_from(raw)
    if magic != _FILE_MAGIC or version != FORMAT_VERSION:
        raise CheckpointDamaged(f"checkpoint magic {magic!r} version {version}")
    body = memoryview(raw)[_FILE_HEAD.size :]
    if len(body) != length or _digest(body) != digest:
        raise CheckpointDamaged("checkpoint digest mismatch")
    try:
        found = _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise CheckpointDamaged(f"checkpoint body: {error}") from error
    groups = tuple(
        GroupCheckpoint(one.group, one.promised, one.chosen_upto, one.machine, one.reached)
        for one in found.groups
    )
    return Checkpoint(groups, found.wal_segment, found.wal_offset, found.tail, found.tail_of_others)


def encode_manifest(manifest: Manifest) -> bytes:
    raw = _MANIFEST.pack(
        _MANIFEST_MAGIC, FORMAT_VERSION, manifest.number, manifest.file_bytes, manifest.digest
    )
    return raw + _CRC.pack(crc32c(raw))


def decode_manifest(raw: bytes) -> Manifest:
    """Return the manifest in `raw`; raises CheckpointDamaged."""
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
