"""Batches in files.

A pack is batches one after the other, each with its own CRC, and nothing else.

Its index lists them: the payload of a segment's footer without frames (wal/footer.py), in which the
segment is 0 and the offset is the place in the pack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from store_nodes.backup.held import Held
from store_nodes.record_batch import BadBatch, peek
from store_nodes.storage.traces import Accepted
from store_nodes.wal.footer import RELEASED, BatchEntry, BatchRows, decode_footer
from store_nodes.wal.position import Position

MAX_PACK_BYTES = 256 * 1024 * 1024
"""Bytes after which a new pack begins; places in a pack have 32 bits."""


class PackDamaged(Exception):
    """A batch that a pack's index names is missing, or is another one."""


class File(Protocol):
    """A new file; its name is the caller's affair, and so is making it durable."""

    def write(self, data: bytes) -> object: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Pack:
    """The paths of a whole pack."""

    batches: Path
    index: Path

    def entries(self) -> Iterator[BatchEntry]:
        """Return the entries in the order written; raises OSError."""
        return decode_footer(0, self.index.read_bytes()).each_batch()


class PackWriter:
    """Writes fetched batches to packs, as a `copying.BatchStorage`.

    `open_file` returns a new file for the number of a pack and the part of it, `"pack"` or
    `"index"`.
    """

    def __init__(self, open_file: Callable[[int, str], File]) -> None:
        self.batches = Held()
        self.packs = 0
        """Number of packs; the last is not whole before `close`."""
        self.messages = 0
        self.bytes = 0
        self._open_file = open_file
        self._file: File | None = None
        self._rows = BatchRows()
        self._at = 0

    def had(self, entries: Iterable[BatchEntry]) -> None:
        """Note batches in packs written before, which are not fetched."""
        for entry in entries:
            self.batches.add(entry)

    async def keep(self, group: int, found: Sequence[tuple[BatchEntry, bytes]]) -> None:
        """Write batches to the pack. Raises OSError."""
        for entry, batch in found:
            if self._file is None or self._at + len(batch) > MAX_PACK_BYTES:
                self.close()
                self.packs += 1
                self._file = self._open_file(self.packs, "pack")
            self._file.write(batch)
            self._rows.add(entry._replace(position=Position(0, self._at, len(batch))))
            self.batches.add(entry)
            self._at += len(batch)
            self.bytes += len(batch)
            self.messages += entry.messages

    def accepted(self, group: int) -> Accepted:
        """Return nothing, because a backup accepts no values."""
        return {}

    def close(self) -> None:
        """End the pack that is being written."""
        if self._file is None:
            return
        self._file.close()
        index = self._open_file(self.packs, "index")
        index.write(self._rows.encode())
        index.close()
        self._file, self._rows, self._at = None, BatchRows(), 0


def read_batches(
    pack: Pack, wanted: Callable[[BatchEntry], bool]
) -> Iterator[tuple[BatchEntry, bytes]]:
    """Yield the wanted batches, checked; a released run has no bytes.

    Raises PackDamaged, OSError.
    """
    with pack.batches.open("rb") as file:
        for entry in pack.entries():
            if not wanted(entry):
                continue
            if entry.flags == RELEASED:
                yield entry, b""
                continue
            file.seek(entry.position.offset)
            batch = file.read(entry.position.length)
            try:
                count, _ = peek(batch)
            except BadBatch as error:
                raise PackDamaged(f"{pack.batches} at {entry.position.offset}: {error}") from error
            if count != entry.messages:
                raise PackDamaged(f"{pack.batches} at {entry.position.offset}: another batch")
            yield entry, batch
