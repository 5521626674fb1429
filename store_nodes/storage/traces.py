"""Traces of lost batches: a damaged node tells them, and other nodes find the batches by them.

A voter that lacks earlier instances votes for values, and cannot apply them: it waits for an
install. Its disk has their batches, but no index says at which offsets. If the other voter of that
majority loses the bytes, a machine of it takes this node past those instances, and the message
would be lost although two disks had it.

So a node tells its peers how each lost batch was written: the frame's header, which has its own
CRC, outlives a damaged payload, and a footer lists the frame once more. A node that would miss the
batch looks for these bytes among the values that it has accepted. A value that was accepted need
not be the chosen one: it has to be that of the frame, by the CRC in the header, or by the ballot in
the footer, in which a leader proposes one value for an instance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from crc32c import crc32c

from store_nodes.commands import Append, Stage, decode_value
from store_nodes.storage.damage import LostBatch
from store_nodes.wal.batch_frame import batch_record
from store_nodes.wal.errors import WalDamaged
from store_nodes.wal.footer import APPENDED, STAGED, BatchEntry
from store_nodes.wal.frame import FrameKind
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import Hole, walk

MOST_TOLD = 1000
"""Lost batches of which peers are told at most."""

Accepted = Mapping[int, tuple[int, bytes]]
"""Instance → ballot and value, as the acceptor holds them."""


class Trace(NamedTuple):
    """A lost batch, and the frame in which it was written."""

    group: int
    queue: bytes
    staged: bool
    base: int
    messages: int
    log_time_us: int
    batch_bytes: int
    at: int
    """The offset of the batch in the frame's payload."""
    kind: int
    instance: int
    ballot: int
    """The ballot of the value; in a BATCH frame, neither it nor the instance is that of a value."""
    payload_bytes: int
    payload_crc: int | None
    """None if the frame's header does not verify."""

    def row(self) -> dict[str, object]:
        """Return the trace as a row of the node's status."""
        return self._asdict() | {"queue": self.queue.hex()}

    def found(self, accepted: Accepted) -> tuple[BatchEntry, bytes] | None:
        """Return the batch if one of the accepted values has the bytes that were lost."""
        flags = STAGED if self.staged else APPENDED
        nowhere = Position(0, 0, 0)
        entry = BatchEntry(self.queue, self.base, self.messages, self.log_time_us, nowhere, flags)
        if self.kind == FrameKind.BATCH:
            for batch in self._candidates(accepted):
                if self._is_payload(batch_record(self.group, entry, batch).payload):
                    return entry, batch
            return None
        ballot, value = accepted.get(self.instance, (0, b""))
        of_ballot = self.payload_crc is None and self.kind == FrameKind.ACCEPT
        is_same = ballot == self.ballot if of_ballot else self._is_payload(value)
        return (entry, value[self.at : self.at + self.batch_bytes]) if is_same else None

    def _is_payload(self, payload: bytes) -> bool:
        return len(payload) == self.payload_bytes and crc32c(payload) == self.payload_crc

    def _candidates(self, accepted: Accepted) -> Iterator[bytes]:
        """Yield the accepted batches of the queue that are as long as the lost one."""
        for _, value in accepted.values():
            for _, command in decode_value(value):
                append = command.append if isinstance(command, Stage) else command
                if not isinstance(append, Append) or isinstance(command, Stage) != self.staged:
                    continue
                shape = (append.queue, append.messages, append.batch_bytes)
                if shape == (self.queue, self.messages, self.batch_bytes):
                    yield bytes(value[append.batch_at : append.batch_at + append.batch_bytes])


class _Head(NamedTuple):
    """The content of a frame's header, or of the frame's row in a footer."""

    payload_at: int
    kind: int
    group: int
    instance: int
    ballot: int
    payload_bytes: int
    payload_crc: int | None


def traces_of(log: WriteAheadLog, lost: Iterable[LostBatch]) -> list[Trace]:
    """Return the traces of lost batches whose frames are known; this reads whole segments."""
    by_segment: dict[int, list[LostBatch]] = {}
    for one in lost:
        by_segment.setdefault(one.position.segment, []).append(one)
    found: list[Trace] = []
    for segment, batches in by_segment.items():
        heads = _heads(log, segment)
        for one in batches:
            start, end = one.position.offset, one.position.offset + one.position.length
            found += [
                _trace(one, head)
                for head in heads
                if head.payload_at <= start and end <= head.payload_at + head.payload_bytes
            ]
    return found


def _heads(log: WriteAheadLog, segment: int) -> Iterable[_Head]:
    """Return the headers of a segment that verify, and the others as the footer lists them."""
    try:
        reader = log.reader(segment)
    except FileNotFoundError:
        return ()
    found: dict[int, _Head] = {}
    with suppress(WalDamaged):
        for row in log.footer(segment).frames():
            _, at, length = row.position
            found[at] = _Head(at, row.kind, row.group, row.instance, row.ballot, length, None)
    if reader.seed is None:
        return found.values()
    for each in walk(reader.whole(), segment, reader.seed):
        head = each.head if isinstance(each, Hole) else each
        if head is not None:
            at, crc = head.payload_at, head.payload_crc
            found[at] = _Head(
                at, head.kind, head.group, head.instance, head.ballot, head.length, crc
            )
    return found.values()


def _trace(lost: LostBatch, head: _Head) -> Trace:
    return Trace(
        head.group,
        *lost[:5],
        batch_bytes=lost.position.length,
        at=lost.position.offset - head.payload_at,
        kind=head.kind,
        instance=head.instance,
        ballot=head.ballot,
        payload_bytes=head.payload_bytes,
        payload_crc=head.payload_crc,
    )


def told(status: Mapping[str, object]) -> list[Trace]:
    """Return the traces in a peer's status; a peer of an earlier release has none."""
    rows = status.get("traces")
    return [
        Trace(*(row[name] for name in Trace._fields))._replace(queue=bytes.fromhex(row["queue"]))
        for row in (rows if isinstance(rows, list) else [])
    ]
