"""Recounts the messages of owned cursors in Postgres (P9); ends leases that nobody asks about.

The flush says at once whether a row balances and how its open deliveries changed (flush.py); only
counting them shows what went wrong without a flush. A cursor is recounted within 5 s of its last
flush. All of them are each minute, in Postgres, which tells only of those that do not balance: most
of many thousands are idle.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from edge.lifetime import keep_running
from metadata.delivery.cursors import CursorRepository
from metadata.errors import MetadataError
from metadata.types import CursorKey
from subscribe_forwarder.delivery.flush import AckFlusher
from subscribe_forwarder.delivery.ownership import Ownership
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.state.cursor import CursorDamaged
from subscribe_forwarder.delivery.state.ledger import Now
from subscribe_forwarder.delivery.unbalanced import UnbalancedCursors

SWEEP_EVERY_S = 5.0
ALL_EVERY_S = 60.0
AT_ONCE = 500
PARTITIONS_AT_ONCE = 100
_log = structlog.get_logger("packetboat.subscribe")


class Reconciler:
    """Recounts the cursors of one process in one loop."""

    def __init__(
        self,
        cursors: CursorRepository,
        flusher: AckFlusher,
        owned: Callable[[], Ownership],
        may_touch: Callable[[], bool],
        now: Callable[[], Now],
        *,
        every_s: float = SWEEP_EVERY_S,
    ) -> None:
        self._cursors = cursors
        self._flusher = flusher
        self._unbalanced: UnbalancedCursors = flusher.unbalanced
        self._owned = owned
        self._may_touch = may_touch
        """Whether this process holds its lease."""
        self._outstanding: set[Reader] = set()
        """All that have something out, and some that had: those that are idle cost no tick."""
        self._now = now
        self._every_s = every_s
        self._counted_all_s = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(
            keep_running(self._run, "expiry of leases")
        )

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def on_outstanding(self, reader: Reader) -> None:
        """Note that a reader has leased messages, so that each tick looks at it."""
        self._outstanding.add(reader)

    async def sweep(self) -> None:
        """Count the books of cursors again that were flushed since the last sweep; raises
        MetadataError.
        """
        await self._count(sorted(self._unbalanced.take_flushed()))
        if time.monotonic() - self._counted_all_s >= ALL_EVERY_S:
            self._counted_all_s = time.monotonic()
            await self.count_all()

    async def count_all(self) -> None:
        """Count the books of all owned cursors again; raises MetadataError."""
        if not self._may_touch():
            return
        readers = [reader for reader in self._owned().readers() if not reader.frozen]
        partitions = sorted({reader.partition.base for reader in readers})
        owned = {reader.cursor.key for reader in readers}
        for at in range(0, len(partitions), PARTITIONS_AT_ONCE):
            part = partitions[at : at + PARTITIONS_AT_ONCE]
            for balance in await self._cursors.unbalanced_in(part):
                if balance.cursor.key in owned:
                    owned.discard(balance.cursor.key)
                    self._unbalanced.counted(balance.cursor.key, balance.difference)
        for key in self._unbalanced.wrong() & owned:
            self._unbalanced.counted(key, 0)

    def tick(self) -> None:
        """Leases end, failed messages go on to the dead letters, and old holes are stepped over,
        also while nobody pulls or acks."""
        if not self._may_touch():
            return
        now, owned = self._now(), self._owned()
        for reader in list(self._outstanding):
            ledger = reader.ledger
            if not ledger.leases.outstanding or not owned.has(reader):
                self._outstanding.discard(reader)
            elif not reader.frozen:
                try:
                    self._expire(reader, now)
                except (CursorDamaged, AssertionError) as error:
                    self._flusher.set_aside(reader, error, "damaged")

    def _expire(self, reader: Reader, now: Now) -> None:
        ledger = reader.ledger
        ledger.expire(now)
        if ledger.has_old_hole:
            ledger.cursor.touch()
        if ledger.cursor.dirty:
            self._flusher.note(reader)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            self.tick()
            try:
                await self.sweep()
            except MetadataError as error:
                _log.warning("books not recounted", error=repr(error))

    async def _count(self, keys: list[CursorKey]) -> None:
        for at in range(0, len(keys), AT_ONCE):
            for balance in await self._cursors.balances_of(keys[at : at + AT_ONCE]):
                self._unbalanced.counted(balance.cursor.key, balance.difference)
