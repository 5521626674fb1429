"""Compaction: copies live batches out of segments that nothing replays, ordered by queue.

It frees the space of dead batches, gives each queue its own retention, and puts the batches of a
queue side by side. These rules must hold:

* A raw segment goes only when no start needs its frames: it lies below the start of both
  checkpoints, and no member of a group, nor a new leader, can ask for its instances (or the member
  is so far behind that it gets batches instead). Raw segments go oldest first, without a gap, so
  that the rest is always the end of the log.
* Nothing is removed before its copy counts. The order is: new segments synced under their names ·
  directory synced · the list that names them synced (wal/compacted.py) · the index swapped · then,
  a while later, the old files removed. A power cut before the list leaves copies that nothing
  refers to; one after it may bring the old files back, and the next start removes them.
* Every batch is verified before it is copied: its frames are read back whole. Damage ends the pass,
  and only when it is known as repaired does a later pass leave the damaged bytes behind.
* Whether a batch is live is asked as late as possible, but may have changed by the time it is
  copied. A dead batch stays dead, so at worst too much is kept.

Rows of *later* segments, and of the tail in memory, may point into the segments that go (a batch is
listed where it was applied, not where it was written): their batches are copied too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

from store_nodes.storage.batch_index import BatchIndex
from store_nodes.storage.compacted_writer import CompactedWriter
from store_nodes.storage.instance_index import InstanceIndex
from store_nodes.storage.life import Life, QueueLife
from store_nodes.storage.pages import Pages
from store_nodes.storage.rows import OFFSETS, STAGES, Row, entry_of, space_of
from store_nodes.storage.scrub import FramePosition, verify
from store_nodes.storage.sidecar import Tables, extent_of
from store_nodes.storage.space import Extent
from store_nodes.wal.compacted import CompactedList
from store_nodes.wal.footer import BatchEntry
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.recovery import Damage
from store_nodes.wal.segment import FIRST_COMPACTED

UNIT_ROWS = 2048
UNIT_BYTES = 4 * 1024 * 1024
SLICE_S = 0.002
"""Seconds for which the loop is held at a time."""

_Result = TypeVar("_Result")
_Args = ParamSpec("_Args")


class InThread(Protocol):
    """Runs a blocking call in a thread."""

    async def __call__(
        self, call: Callable[_Args, _Result], *args: _Args.args, **kwargs: _Args.kwargs
    ) -> _Result: ...


class Victims(NamedTuple):
    """The segments to remove: raw ones up to `raw_upto`, and compacted ones."""

    raw_upto: int
    segments: frozenset[int]
    oldest: dict[int, int]
    """The first instance that is still in a raw segment after that, by group."""


class _Piece(NamedTuple):
    """Rows of one queue to examine; `listed` says that a victim lists them, so that all of them
    go.
    """

    queue: bytes
    life: QueueLife | None
    space: int
    extent: Extent | None
    rows: Sequence[Row]
    listed: bool


class _Copy(NamedTuple):
    group: int
    entry: BatchEntry
    dead: bool


class DamageFound(Exception):
    """Bytes of a victim do not verify."""

    def __init__(self, damages: list[Damage]) -> None:
        super().__init__(f"{len(damages)} damaged places")
        self.damages = damages


class Compaction(NamedTuple):
    """The parts that compaction works with.

    `rest` waits until that many bytes of reading or writing are allowed.
    """

    wal: WriteAheadLog
    pages: Pages
    batches: BatchIndex
    instances: Callable[[], dict[int, InstanceIndex]]
    in_thread: InThread
    rest: Callable[[int], Awaitable[None]]


async def compact(
    work: Compaction, life: Life, victims: Victims, segment_bytes: int
) -> dict[int, int]:
    """Copy the live batches in `victims` and swap the copies in; return the sizes of the new files.

    Nothing needs the victims' files then, except readers that already have a position in them.
    """
    wal = work.wal
    await _verify(work, victims)
    writer = CompactedWriter(wal, wal.compacted.next_segment, segment_bytes)
    dead: dict[bytes, list[tuple[int, int, int]]] = {}
    queues: list[bytes] = []
    try:
        async for unit in _units(work, life, victims, queues):
            copies = await _choose(work, life, victims, unit)
            for copy in copies:
                if copy.dead:
                    entry = copy.entry
                    end = entry.base_offset + entry.messages
                    hole = (space_of(entry.flags), entry.base_offset, end)
                    dead.setdefault(entry.queue, []).append(hole)
            live = [copy for copy in copies if not copy.dead]
            await work.rest(await work.in_thread(_copy, wal, writer, live))
        sizes = await work.in_thread(writer.finish)
    except BaseException:
        writer.abandon()
        raise
    tables = [await work.in_thread(work.pages.attach, new) for new in sizes]
    compacted = _list_after(wal.compacted, victims, sizes)
    await work.in_thread(wal.commit_compaction, compacted, sizes)
    await _swap(work, victims, queues, tables, dead)
    return sizes


def _list_after(old: CompactedList, victims: Victims, sizes: Collection[int]) -> CompactedList:
    oldest = dict(old.oldest)
    for group, instance in victims.oldest.items():
        oldest[group] = max(instance, oldest.get(group, 0))
    return CompactedList(
        first_segment=max(old.first_segment, victims.raw_upto + 1),
        segments=tuple(
            sorted([*(one for one in old.segments if one not in victims.segments), *sizes])
        ),
        next_segment=max([old.next_segment, *(one + 1 for one in sizes)]),
        oldest=oldest,
    )


async def _verify(work: Compaction, victims: Victims) -> None:
    """Verify the victims; raises DamageFound. Damage known as repaired is passed over."""
    known = {(one.segment, one.offset) for one in work.wal.damages.all() if one.repaired}
    for segment in sorted(victims.segments):
        place: FramePosition | None = None
        while True:
            reader = work.wal.reader(segment)
            piece = await work.in_thread(verify, reader, place, UNIT_BYTES)
            news = [one for one in piece.damages if (one.segment, one.offset) not in known]
            if news:
                raise DamageFound(news)
            await work.rest(piece.read_bytes)
            if piece.after is None:
                break
            place = piece.after


async def _units(
    work: Compaction, life: Life, victims: Victims, queues: list[bytes]
) -> AsyncIterator[list[_Piece]]:
    """Yield the pieces of all queues with rows in the victims, in queue order; fill `queues` with
    their ids.
    """
    later = {
        run.segment
        for run in work.pages.runs()
        if run.segment < FIRST_COMPACTED
        and run.segment > victims.raw_upto
        and run.lowest_segment <= victims.raw_upto
    }
    unit: list[_Piece] = []
    rows = 0
    pause = Pause()
    for queue in sorted(work.batches.queues()):
        await pause.if_due()
        found = _pieces(work, life, victims, later, queue)
        if not found:
            continue
        queues.append(queue)
        for piece in found:
            unit.append(piece)
            rows += piece.extent.rows if piece.extent is not None else len(piece.rows)
            if rows >= UNIT_ROWS:
                yield unit
                unit, rows = [], 0
    if unit:
        yield unit


def _pieces(
    work: Compaction, life: Life, victims: Victims, later: Collection[int], queue: bytes
) -> list[_Piece]:
    batches = work.batches
    of_queue: QueueLife | None = None
    found: list[_Piece] = []
    stretches = batches.listed_by(queue, victims.segments | frozenset(later))
    tail = batches.tail_rows(queue, victims.segments)
    if stretches or tail:
        of_queue = life.queue(queue)
    for space, extent in stretches:
        listed = extent.segment in victims.segments
        for start in range(0, extent.rows, UNIT_ROWS):
            part = extent._replace(
                row_start=extent.row_start + start, rows=min(UNIT_ROWS, extent.rows - start)
            )
            found.append(_Piece(queue, of_queue, space, part, (), listed))
    for space in (OFFSETS, STAGES):
        rows = [row for which, row in tail if which == space]
        if rows:
            found.append(_Piece(queue, of_queue, space, None, rows, False))
    return found


async def live_bytes(work: Compaction, life: Life, segment: int) -> int:
    """Return the bytes of a compacted segment's batches that are still wanted."""
    victims = Victims(-1, frozenset((segment,)), {})
    total_bytes = 0
    async for unit in _units(work, life, victims, []):
        for copy in await _choose(work, life, victims, unit):
            total_bytes += 0 if copy.entry.extra else copy.entry.position.length
    return total_bytes


async def _choose(
    work: Compaction, life: Life, victims: Victims, unit: list[_Piece]
) -> list[_Copy]:
    """Return the rows of a unit to copy, and dead rows of later segments that point into
    victims.
    """
    chosen = await work.in_thread(_rows_of, work.pages, victims, unit)
    copies: list[_Copy] = []
    pause = Pause()
    for piece, rows in chosen:
        found = piece.life
        for row in rows:
            await pause.if_due()
            if found is None:
                live = False
            elif piece.space == STAGES:
                live = life.staged_live(piece.queue, row.base, row.messages)
            else:
                live = found.wants(row.base, row.end)
            if live or not piece.listed:
                group = found.group if found is not None else 0
                copies.append(_Copy(group, entry_of(piece.queue, piece.space, row), not live))
    return copies


def _rows_of(pages: Pages, victims: Victims, unit: list[_Piece]) -> list[tuple[_Piece, list[Row]]]:
    """Return the rows of each piece that a victim lists or holds; runs in a thread."""
    found: list[tuple[_Piece, list[Row]]] = []
    for piece in unit:
        rows: Iterator[Row] | Sequence[Row] = piece.rows
        if piece.extent is not None:
            start = piece.extent.row_start
            rows = pages.rows(piece.extent.segment, start, start + piece.extent.rows, keep=False)
        if not piece.listed:
            # A released run that stays listed has nothing in the victims but its staged batch.
            rows = [
                row for row in rows if not row.extra and row.position.segment in victims.segments
            ]
        found.append((piece, list(rows)))
    return found


def _copy(wal: WriteAheadLog, writer: CompactedWriter, copies: list[_Copy]) -> int:
    """Copy batches; return the bytes read and written. Runs in a thread."""
    total_bytes = 0
    for group, entry, _ in copies:
        batch = b"" if entry.extra else wal.read_slice(entry.position)
        writer.add(group, entry, batch)
        total_bytes += len(batch)
    return total_bytes


async def _swap(
    work: Compaction,
    victims: Victims,
    queues: list[bytes],
    tables: list[Tables],
    dead: dict[bytes, list[tuple[int, int, int]]],
) -> None:
    """Make the index point to the copies, queue by queue; until the last is done, both can be
    read.
    """
    batches = work.batches
    new: dict[bytes, list[tuple[int, Extent]]] = {}
    pause = Pause()
    for one in tables:
        for stretch in one.stretches:
            queue, space, extent = extent_of(one.run.segment, stretch)
            new.setdefault(queue, []).append((space, extent))
    held = set(batches.queues())
    for queue in queues:
        await pause.if_due()
        if queue not in held or not batches.has(queue):
            continue
        batches.forget_segments(queue, victims.segments)
        for space, extent in new.get(queue, ()):
            batches.attach(queue, space, extent, compacted=True)
        for space, first, end in dead.get(queue, ()):
            batches.exclude(queue, space, first, end)
    for group, index in work.instances().items():
        index.remove_below(victims.raw_upto + 1, victims.oldest.get(group, 0))
    for segment in victims.segments:
        work.pages.detach(segment)


class Pause:
    """Lets the loop run whenever it was held for long enough."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + SLICE_S

    async def if_due(self) -> None:
        if time.monotonic() >= self._until_s:
            await asyncio.sleep(0)
            self._until_s = time.monotonic() + SLICE_S
