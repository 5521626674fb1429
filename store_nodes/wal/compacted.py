"""The compacted segments of a log, and the number at which its raw segments begin: `settled.json`.

A compacted segment holds batches alone, ordered by queue, which were copied out of segments that
nothing replays any more (storage/compaction.py). It is a file of frames like any other, numbered
from `FIRST_COMPACTED` on, with a footer. It is written under another name (`.settling`) and never
changed.

This list is the commit point of a compaction, which goes in this order, each step durable before
the next: the new segments, under their final names · the list · then the old files are removed. A
removal is not durable, nor need it be: a file that comes back after a power cut is a raw segment
below `first_segment` or a compacted one that is not listed, and the next start removes it again. A
listed segment that is missing is damage.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from crc32c import crc32c

from store_nodes.wal.disk import Disk, read_whole, write_atomically
from store_nodes.wal.errors import WalUnsupported
from store_nodes.wal.segment import FIRST_COMPACTED

FORMAT_VERSION = 1
LIST_NAME = "settled.json"


class CompactedList(msgspec.Struct, frozen=True):
    """The list in `settled.json`: `segments` are in use, and `next_segment` was never used.

    `oldest` has, for each group, the first instance whose record was not in a raw segment removed
    so far, and is no earlier than the last machine that the node installed. `crc32c` is that of the
    JSON of the same object with `crc32c` 0.
    """

    format_version: int = FORMAT_VERSION
    first_segment: int = 1
    segments: tuple[int, ...] = ()
    next_segment: int = FIRST_COMPACTED
    oldest: dict[int, int] = {}
    crc32c: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether every segment is listed once, and was made before the next one."""
        return len({*self.segments}) == len(self.segments) and all(
            FIRST_COMPACTED <= segment < self.next_segment for segment in self.segments
        )

    def has_replaced(self, segment: int) -> bool:
        """Return whether a segment is a compacted one that is not in use, or a raw one from
        before.
        """
        if segment >= FIRST_COMPACTED:
            return segment not in self.segments
        return segment < self.first_segment

    def encode(self) -> bytes:
        bare = msgspec.structs.replace(self, crc32c=0)
        return msgspec.json.encode(
            msgspec.structs.replace(bare, crc32c=crc32c(msgspec.json.encode(bare)))
        )


def load(disk: Disk, directory: Path) -> CompactedList | None:
    """Return the list, which is empty before the first compaction; None if it is damaged."""
    raw = read_whole(disk, directory / LIST_NAME)
    if raw is None:
        return CompactedList()
    try:
        found = msgspec.json.decode(raw, type=CompactedList)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if found.encode() != raw or not found.is_sound:
        return None
    if found.format_version != FORMAT_VERSION:
        raise WalUnsupported(f"{LIST_NAME}: format version {found.format_version}")
    return found


def store(disk: Disk, directory: Path, compacted: CompactedList) -> None:
    """Store the list; it is durable when this returns."""
    write_atomically(disk, directory / LIST_NAME, compacted.encode())
