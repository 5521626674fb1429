"""Recounts the books of owned cursors from what Postgres holds (P9); ends leases nobody asks of.

The flush says at once whether a row balances and how its open deliveries changed (flush.py); only
counting them shows what went wrong without a flush. A cursor is recounted within 5 s of its last
flush, and all of them each minute, a few hundred per statement.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

import structlog

from metadata.errors import MetadataError
from metadata.types import CursorKey
from subscribe_forwarder.delivery.books import Books
from subscribe_forwarder.delivery.flush import AckFlusher
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.ports import Cursors
from subscribe_forwarder.state.ledger import Now

SWEEP_EVERY_S = 5.0
ALL_EVERY_S = 60.0
AT_ONCE = 500
_log = structlog.get_logger("packetboat.subscribe")


class Reconciler:
    """One loop per process."""

    def __init__(
        self,
        cursors: Cursors,
        flusher: AckFlusher,
        owned: Callable[[], Iterable[Reader]],
        now: Callable[[], Now],
        *,
        every_s: float = SWEEP_EVERY_S,
    ) -> None:
        self._cursors = cursors
        self._flusher = flusher
        self._books: Books = flusher.books
        self._owned = owned
        """Readers that may be touched: this process holds its lease, and they are not frozen."""
        self._now = now
        self._every_s = every_s
        self._counted_all_s = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def sweep(self) -> None:
        """Recounts what was flushed since the last sweep; raises MetadataError."""
        keys = self._books.take_flushed()
        if time.monotonic() - self._counted_all_s >= ALL_EVERY_S:
            self._counted_all_s = time.monotonic()
            keys |= {reader.cursor.key for reader in self._owned()}
        await self._count(sorted(keys))

    def tick(self) -> None:
        """Leases end, failed messages go on to the dead letters, and old holes are stepped over,
        also while nobody pulls or acks."""
        now = self._now()
        for reader in self._owned():
            if reader.ledger.outstanding:
                reader.ledger.expire(now)
                if reader.ledger.has_old_hole:
                    reader.ledger.touch()
                if reader.cursor.dirty:
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
            for books in await self._cursors.books_of(keys[at : at + AT_ONCE]):
                self._books.counted(books.cursor.key, books.difference)
