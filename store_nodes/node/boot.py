"""The number of starts with a data directory, and the synced end of the log as told to peers: the
file `boot`.

Both are durable before anything that depends on them leaves the process. By the count, peers tell
an old copy of a directory from the directory itself. By the place, a start notices that the end of
the log is gone, which looks like a log that was never longer.

The file has two copies, at 0 and at 4096, written in turn and in place; the one with the higher
sequence counts. Little-endian: magic "PBBT" · version u8 (1) · 3 zeros · sequence u64 · boot u64 ·
tail u64 (segment << 32 | offset) · incarnation uid 16 B · CRC32C u32 of all before it.

A directory that peers have refused once stays refused: the file `refused` beside it says why.
Otherwise its count, which grows with each start, would one day reach the one that they remember.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from store_nodes.wal.disk import Disk, OsDisk, read_whole, write_atomically
from store_nodes.wal.position import Position

BOOT_NAME = "boot"
REFUSED_NAME = "refused"
VERSION = 1
RUN_BYTES = 8
_SLOT_BYTES = 4096
_MAGIC = b"PBBT"
_SLOT = struct.Struct("<4sB3xQQQ16s")
_CRC = struct.Struct("<I")


class _Slot(NamedTuple):
    sequence: int
    boot: int
    tail: int
    incarnation: bytes


class BootRecord:
    """The file `boot` of an open data directory. Any OSError is fatal to the node."""

    def __init__(self, directory: Path, *, disk: Disk | None = None) -> None:
        """Read the file; nothing is counted yet."""
        self._disk = disk or OsDisk()
        self._path = directory / BOOT_NAME
        self._refused_path = directory / REFUSED_NAME
        found = self._load()
        self.boot = found.boot
        self.run = self._disk.random_bytes(RUN_BYTES)
        self._sequence = found.sequence
        self._tail = found.tail
        self._incarnation = found.incarnation

    def told(self, incarnation: bytes) -> Position | None:
        """Return the end of this incarnation's synced log as a peer was last told, or None."""
        if incarnation != self._incarnation or not self._tail:
            return None
        return Position(self._tail >> 32, self._tail & 0xFFFFFFFF, 0)

    def started(self, incarnation: bytes) -> None:
        """Count this start, durably when this returns."""
        if incarnation != self._incarnation:
            self._incarnation, self._tail = incarnation, 0
        self.boot += 1
        if read_whole(self._disk, self._path) is None:
            write_atomically(self._disk, self._path, bytes(2 * _SLOT_BYTES))
        self.tell(self._tail)

    def tell(self, tail: int) -> None:
        """Record that peers may be told this tail, durably when this returns. Blocks."""
        self._tail = tail
        self._sequence += 1
        fd = self._disk.open(self._path)
        try:
            self._disk.write(fd, [self._encode()], _SLOT_BYTES * (self._sequence % 2))
            self._disk.sync_data(fd)
        finally:
            self._disk.close(fd)

    @property
    def refusal(self) -> str | None:
        """The reason for which the directory was refused, if it ever was."""
        raw = read_whole(self._disk, self._refused_path)
        return raw.decode(errors="replace") if raw is not None else None

    def refuse(self, text: str) -> None:
        """Record that a peer refused the directory, durably when this returns."""
        write_atomically(self._disk, self._refused_path, text.encode())

    def _encode(self) -> bytes:
        raw = _SLOT.pack(_MAGIC, VERSION, self._sequence, self.boot, self._tail, self._incarnation)
        return raw + _CRC.pack(crc32c(raw))

    def _load(self) -> _Slot:
        raw = read_whole(self._disk, self._path)
        if raw is None:
            return _Slot(0, 0, 0, b"")
        slots = [_decode(raw[at : at + _SLOT.size + _CRC.size]) for at in (0, _SLOT_BYTES)]
        # If both are damaged, the peers remember the count and report it.
        return max((slot for slot in slots if slot is not None), default=_Slot(0, 0, 0, b""))


def _decode(raw: bytes) -> _Slot | None:
    if len(raw) < _SLOT.size + _CRC.size:
        return None
    magic, version, sequence, boot, tail, incarnation = _SLOT.unpack_from(raw)
    (crc,) = _CRC.unpack_from(raw, _SLOT.size)
    if magic != _MAGIC or version != VERSION or crc32c(raw[: _SLOT.size]) != crc:
        return None
    return _Slot(sequence, boot, tail, incarnation)


def pack_tail(position: Position) -> int:
    """Return a place in the log in the form of `Hello.tail`."""
    return position.segment << 32 | position.offset
