"""A node's storage as it ages: attaches sealed segments, compacts, scrubs, removes.

`housekeep` is called about once a second and starts a round when none is under way. A round does
one thing after another, so that no two of them overlap: the index of newly sealed segments · files
that a compaction left behind · a compaction, if there is enough to do · the live bytes of one
compacted segment · a piece of the scrub. Blocking calls run in one thread; the loop is held for a
few ms at a time. An OSError, as everywhere in the log, is fatal.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, ParamSpec, TypeVar

import structlog

from store_nodes.checkpoint.store import CheckpointStore
from store_nodes.storage.batch_index import BatchIndex
from store_nodes.storage.compaction import Compaction, DamageFound, Pause, compact, live_bytes
from store_nodes.storage.damage import (
    DamageReport,
    LostBatch,
    ReadablePositions,
    costs_votes,
    loses_index,
    lost_of,
)
from store_nodes.storage.instance_index import InstanceIndex
from store_nodes.storage.life import Life
from store_nodes.storage.pages import Pages
from store_nodes.storage.scrub import FramePosition, verify
from store_nodes.storage.sidecar import extent_of
from store_nodes.storage.victims import Rules, choose
from store_nodes.wal.errors import WalDamaged
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.position import Position
from store_nodes.wal.recovery import Damage
from store_nodes.wal.segment import FIRST_COMPACTED

MIB = 1024 * 1024
MAX_SCRUB_BYTES = 4 * MIB
"""Bytes that one round scrubs at most."""
MAX_FIRST_SCRUB_S = 3600.0
"""Longest time from the start to the first pass; a shorter time between passes counts instead."""

_Result = TypeVar("_Result")
_Args = ParamSpec("_Args")

log = structlog.get_logger()


class StorageSettings(NamedTuple):
    """The rules by which storage ages; rates are in bytes a second."""

    rules: Rules = Rules()
    compaction_rate: int = 64 * MIB
    scrub_rate: int = 4 * MIB
    scrub_pass_s: float = 3 * 86_400.0
    """Seconds from the end of one pass over everything to the begin of the next."""
    remove_after_s: float = 10.0
    """Seconds that files stay after a compaction, because a reader may have found a place in one
    before.
    """


class Usage(NamedTuple):
    """Bytes in use, for the status."""

    raw_bytes: int
    settled_bytes: int
    live_bytes: int
    index_bytes: int


class Storage:
    """The storage of a node; it belongs to the event loop."""

    def __init__(
        self,
        wal: WriteAheadLog,
        checkpoints: CheckpointStore,
        pages: Pages,
        batches: BatchIndex,
        instances: Callable[[], dict[int, InstanceIndex]],
        segment_groups: dict[int, list[tuple[int, int]]],
        *,
        settings: StorageSettings | None = None,
        on_damage: Callable[[DamageReport], None],
        on_fatal: Callable[[str], None],
    ) -> None:
        self._wal = wal
        self._checkpoints = checkpoints
        self._pages = pages
        self._batches = batches
        self._instances = instances
        self._groups = segment_groups
        self._settings = settings or StorageSettings()
        self._on_damage = on_damage
        self.excluding = 0
        """Reports of damage that are being handled: the index may lack batches that are not
        reported as lost yet.
        """
        self._on_fatal = on_fatal
        self._round: asyncio.Task[None] | None = None
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store-storage")
        self._attached = wal.tail.segment - 1
        self._removals: list[tuple[float, list[int]]] = []
        self._measured: dict[int, tuple[int, int, float]] = {}
        """Compacted segment → (live bytes, the index's estimate at that time, the time)."""
        self._scrub: tuple[int, FramePosition | None] | None = None
        self._scrub_left: list[int] = []
        self._scrub_due_s = time.monotonic() + random.uniform(
            0, min(MAX_FIRST_SCRUB_S, self._settings.scrub_pass_s)
        )
        self._scrubbed_s = time.monotonic()
        self._verified_bytes = 0
        self._work = Compaction(wal, pages, batches, instances, self._in_thread, self._rest)
        self.compactions = 0
        """Number of compactions since the start."""

    # -- the node's calls ----------------------------------------------------------------------

    def housekeep(self, life: Life) -> None:
        """Start a round, unless one is under way."""
        if self._closed:
            return
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self.run_round(life), name="store-node-storage")
            self._round.add_done_callback(self._ended)

    async def close(self) -> None:
        """Stop in the middle of any work, which the next start completes. No other round begins."""
        self._closed = True
        if self._round is not None:
            self._round.cancel()
            await asyncio.gather(self._round, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    def usage(self) -> Usage:
        sizes = self._wal.sizes()
        compacted = sum(size for segment, size in sizes.items() if segment >= FIRST_COMPACTED)
        raw = self._wal.used_bytes - compacted
        held = self._batches.held
        tail_bytes = 32 * len(self._batches)
        return Usage(raw, compacted, sum(held.values()), self._pages.cached_bytes + tail_bytes)

    def status(self) -> dict[str, object]:
        return {
            **self.usage()._asdict(),
            "settles": self.compactions,
            "first_segment": self._wal.compacted.first_segment,
            "scrubbed_bytes": self._verified_bytes,
            "index_rebuilds": self._pages.rebuilt,
        }

    async def run_round(self, life: Life) -> None:
        """Run one round, for a caller that does not wait for the next second."""
        try:
            await self._attach_sealed()
            await self._remove_due()
            await self._compact(life)
            await self._measure(life)
            await self._scrub_piece()
        except DamageFound as error:
            await self.found_damaged(error.damages)
        except WalDamaged as error:
            await self.found_damaged([error.damage])

    async def found_damaged(self, damages: Iterable[Damage]) -> None:
        """Handle synced bytes that do not verify: drop them from the index, record them, report the
        loss.

        Damage known already is not reported again, except of an index: its rows were in use all
        the same. The order matters: a reader that sees the record, and repairs, also sees which
        batches are missing.
        """
        known = {(one.segment, one.offset) for one in self._wal.damages.all()}
        damages = [
            one for one in damages if loses_index(one) or (one.segment, one.offset) not in known
        ]
        if not damages:
            return
        self.excluding += 1
        try:
            lost = await self._exclude_all(damages)
            await self._in_thread(self._wal.damages.add, *damages)
        finally:
            self.excluding -= 1
        oldest = self._checkpoints.oldest_start
        start = Position(*oldest, 0) if oldest is not None else None
        texts = [f"segment {one.segment} at {one.offset}: {one.reason}" for one in damages]
        log.error("stored bytes do not verify", damages=texts, batches=len(lost))
        votes = any(costs_votes(one, start) for one in damages)
        self._on_damage(DamageReport(votes=votes, texts=tuple(texts), lost=lost))

    # -- one round -----------------------------------------------------------------------------

    async def _attach_sealed(self) -> None:
        """Attach the index of segments sealed since the last round."""
        while self._attached + 1 < self._wal.tail.segment:
            segment = self._attached + 1
            self._attached = segment
            compacted = self._wal.compacted
            where = ReadablePositions(
                compacted.first_segment, compacted.segments, self._wal.damages.all()
            )
            tables = await self._in_thread(self._pages.attach, segment)
            stretches, _ = await self._in_thread(where.sound, self._pages, tables)
            pause = Pause()
            for stretch in stretches:
                await pause.if_due()
                if self._batches.has(stretch[0]):
                    self._batches.attach(*extent_of(segment, stretch))
            self._groups[segment] = [(group, last) for group, _, last, _, _ in tables.groups]
            indexes = self._instances()
            for group, first, last, start, rows in tables.groups:
                if group in indexes:
                    indexes[group].attach(self._pages, segment, first, last, start, rows)
            for index in indexes.values():
                index.forget_attached(segment)

    async def _remove_due(self) -> None:
        now_s = time.monotonic()
        due = [segments for at_s, segments in self._removals if at_s <= now_s]
        self._removals = [one for one in self._removals if one[0] > now_s]
        for segments in due:
            await self._in_thread(self._wal.remove_segments, segments)

    async def _compact(self, life: Life) -> None:
        rules = self._settings.rules
        free = self._wal.free_bytes()
        victims = choose(
            rules, self._wal, self._checkpoints, self._groups, self._batches.held,
            {segment: one[0] for segment, one in self._measured.items()}, life, free,
            self._attached,
        )  # fmt: skip
        if victims is None:
            return
        began_s = time.monotonic()
        old_bytes = sum(self._wal.sizes().get(one, 0) for one in victims.segments)
        sizes = await compact(self._work, life, victims, rules.segment_bytes)
        self.compactions += 1
        for segment in victims.segments:
            self._groups.pop(segment, None)
            self._measured.pop(segment, None)
            self._batches.held.pop(segment, None)
        removals = (time.monotonic() + self._settings.remove_after_s, sorted(victims.segments))
        self._removals.append(removals)
        log.info(
            "settled",
            segments=len(victims.segments),
            old_bytes=old_bytes,
            new_segments=len(sizes),
            new_bytes=sum(sizes.values()),
            seconds=round(time.monotonic() - began_s, 3),
        )

    async def _measure(self, life: Life) -> None:
        """Measure how much of one compacted segment is wanted, if the estimate says it may be
        little.

        The index's estimate knows nothing of staged batches, and takes a batch of which one message
        is kept for a small one.
        """
        now_s = time.monotonic()
        sizes = self._wal.sizes()
        rules = self._settings.rules
        for segment in self._wal.compacted.segments:
            estimate = self._batches.held.get(segment, 0)
            measured = self._measured.get(segment)
            if measured is not None:
                live, before, at_s = measured
                if 2 * estimate > before and now_s < at_s + rules.measure_every_s:
                    continue
            elif 2 * estimate > sizes.get(segment, 0) and not self._has_stages(segment):
                continue
            live = await live_bytes(self._work, life, segment)
            self._measured[segment] = (live, estimate, now_s)
            return

    def _has_stages(self, segment: int) -> bool:
        return self._pages.run(segment).staged_rows > 0

    async def _scrub_piece(self) -> None:
        now_s = time.monotonic()
        budget = int(self._settings.scrub_rate * (now_s - self._scrubbed_s))
        self._scrubbed_s = now_s
        if self._scrub is None and not self._scrub_left:
            if now_s < self._scrub_due_s or not budget:
                return
            self._scrub_left = [one.segment for one in self._pages.runs()]
            random.shuffle(self._scrub_left)
            if not self._scrub_left:  # nothing is sealed yet
                self._scrub_due_s = now_s + self._settings.scrub_pass_s
                return
        if self._scrub is None:
            self._scrub = (self._scrub_left.pop(), None)
        segment, place = self._scrub
        if segment not in self._wal.sizes() or not budget:
            self._scrub = None if segment not in self._wal.sizes() else self._scrub
            return
        reader = self._wal.reader(segment)
        if place is None:
            reader.drop_cache()
        piece = await self._in_thread(verify, reader, place, min(budget, MAX_SCRUB_BYTES))
        self._verified_bytes += piece.read_bytes
        self._scrub = (segment, piece.after) if piece.after is not None else None
        if self._scrub is None and not self._scrub_left:
            self._scrub_due_s = now_s + self._settings.scrub_pass_s
        if piece.damages:
            await self.found_damaged(piece.damages)

    # -- inside --------------------------------------------------------------------------------

    async def _exclude_all(self, damages: list[Damage]) -> list[LostBatch]:
        """Take the batches in damaged bytes out of the index; return those it lists.

        Segments whose index cannot be read are taken out as a whole, and added to `damages`: nobody
        knows which batches those were, so they only show as missing.
        """
        unreadable: set[int] = set()
        lost: list[LostBatch] = []
        for damage in damages:
            if loses_index(damage):
                await self._forget_segment(damage.segment, unreadable)
        while True:
            try:
                await self._exclude(damages, unreadable, lost)
                return lost
            except WalDamaged as error:
                if error.damage.segment in unreadable:
                    raise
                damages.append(error.damage)
                await self._forget_segment(error.damage.segment, unreadable)

    async def _forget_segment(self, segment: int, unreadable: set[int]) -> None:
        """Drop the rows of a segment whose index can't be read, and those that they replaced."""
        unreadable.add(segment)
        pause = Pause()
        for queue in self._batches.queues():
            await pause.if_due()
            self._batches.forget_segments(queue, {segment})
        for index in self._instances().values():
            index.forget_upto(segment)

    async def _exclude(
        self, damages: list[Damage], unreadable: Collection[int], lost: list[LostBatch]
    ) -> None:
        """Take the batches in damaged bytes out of the index, and add them to `lost`."""
        compacted = self._wal.compacted
        where = ReadablePositions(compacted.first_segment, compacted.segments, damages)
        for run in self._pages.runs():
            if run.segment in unreadable or not where.doubts(run):
                continue
            tables = await self._in_thread(self._pages.attach, run.segment)
            _, rows = await self._in_thread(where.sound, self._pages, tables)
            for queue, space, row in rows:
                self._drop_if_lost(where, queue, space, row.base, lost)
        pause = Pause()
        for queue in self._batches.queues():
            await pause.if_due()
            for space, row in self._batches.tail_rows(queue, None):
                self._drop_if_lost(where, queue, space, row.base, lost)

    def _drop_if_lost(
        self, where: ReadablePositions, queue: bytes, space: int, base: int, lost: list[LostBatch]
    ) -> None:
        row = self._batches.row(queue, space, base)
        if row is not None and not row.extra and where.is_lost(row.position):
            self._batches.exclude(queue, space, row.base, row.end)
            lost.append(lost_of(queue, space, row))

    async def _in_thread(
        self, call: Callable[_Args, _Result], *args: _Args.args, **kwargs: _Args.kwargs
    ) -> _Result:
        if self._closed:
            # The caller is a task besides the round, such as one that records damage.
            raise asyncio.CancelledError("the storage is closed")
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, partial(call, *args, **kwargs)
        )

    async def _rest(self, done_bytes: int) -> None:
        await asyncio.sleep(done_bytes / self._settings.compaction_rate)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_fatal(f"storage: {error!r}")
