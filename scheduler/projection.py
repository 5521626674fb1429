"""Changes that the due index in Postgres does not have yet, gathered until the next write.

No release waits for it: a message that is released before its row was written gets none. The
changes of a write that failed go back into the buffer, where later ones replace them. When too many
wait (while Postgres is down), listing waits for the buffer: memory stays bounded, and the store
keeps the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from metadata.delivery.due import Due, DueRepository, Progress, QueueKey
from metadata.errors import MetadataError
from metadata.locks.locks import Lock
from scheduler import metrics

MAX_UNWRITTEN = 50_000
ROWS_PER_WRITE = 5_000

Item = tuple[QueueKey, int]


class _Put(NamedTuple):
    due_us: int
    fresh: bool
    """Whether the index certainly has no row of the message."""


class Projection:
    """The buffer of one writer; `put`, `gone` and `advance` are called also during its writes."""

    def __init__(self, repository: DueRepository) -> None:
        self._repository = repository
        self._put: dict[Item, _Put] = {}
        self._gone: dict[Item, None] = {}
        self._progress: dict[QueueKey, Progress] = {}
        self._writing: dict[Item, _Put] = {}
        self._room = asyncio.Event()
        self._room.set()
        self.lock = asyncio.Lock()
        """Held by a task that writes, or reads rows that must not change meanwhile."""

    def __len__(self) -> int:
        return len(self._put) + len(self._gone)

    def has(self, queue: QueueKey, number: int) -> bool:
        """Return whether a message's row, if there is one, is older than a change here."""
        item = (queue, number)
        return item in self._put or item in self._gone or item in self._writing

    def put(self, queue: QueueKey, number: int, due_us: int, *, fresh: bool) -> None:
        """Note that a message is staged, with its due time; `fresh` if it was never put before."""
        item = (queue, number)
        self._gone.pop(item, None)
        self._put[item] = _Put(due_us, fresh)
        self._measure()

    def gone(self, queue: QueueKey, number: int) -> None:
        """Note that a message is staged no more."""
        item = (queue, number)
        waiting = self._put.pop(item, None)
        if waiting is None or not waiting.fresh:
            self._gone[item] = None
        self._measure()

    def advance(self, queue: QueueKey, progress: Progress) -> None:
        """Note that every staged message below the progress was put, or is gone."""
        self._progress[queue] = progress

    def drop(self, queue: QueueKey) -> None:
        """Drop the changes of a queue that is gone; delete it from the index only after this."""
        for waiting in (self._put, self._gone):
            for item in [item for item in waiting if item[0] == queue]:
                del waiting[item]
        self._progress.pop(queue, None)
        self._measure()

    async def room(self) -> None:
        """Wait until more may be put."""
        await self._room.wait()

    async def write(self, lock: Lock) -> None:
        """Write all waiting changes. Raises MetadataError; unwritten changes keep waiting."""
        async with self.lock:
            await self._write(lock)

    async def _write(self, lock: Lock) -> None:
        put, gone, progress = self._put, self._gone, self._progress
        if not put and not gone and not progress:
            return
        self._put, self._gone, self._progress = {}, {}, {}
        self._writing = put
        try:
            # Progress is written last: the index has the rows that it covers by then.
            for items in _chunks(gone):
                await self._repository.write(lock, (), items, {})
            for items in _chunks(put):
                rows = [Due(queue, number, put[queue, number].due_us) for queue, number in items]
                await self._repository.write(lock, rows, (), {})
            await self._repository.write(lock, (), (), progress)
        except MetadataError:
            self._take_back(put, gone, progress)
            raise
        finally:
            self._writing = {}
            self._measure()

    def _take_back(
        self,
        put: dict[Item, _Put],
        gone: dict[Item, None],
        progress: dict[QueueKey, Progress],
    ) -> None:
        """Take back changes of a failed write; some may have been written, so none is fresh any
        more.
        """
        for item, waiting in put.items():
            if item not in self._put and item not in self._gone:
                self._put[item] = _Put(waiting.due_us, fresh=False)
        for item in self._put.keys() & put.keys():
            self._put[item] = _Put(self._put[item].due_us, fresh=False)
        for item in gone:
            if item not in self._put:
                self._gone[item] = None
        self._progress = progress | self._progress

    def _measure(self) -> None:
        waiting = len(self)
        metrics.unwritten.set(waiting)
        if waiting >= MAX_UNWRITTEN:
            self._room.clear()
        elif not self._room.is_set() and waiting < MAX_UNWRITTEN // 2:
            self._room.set()


def _chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    left = iter(items)
    while chunk := list(islice(left, ROWS_PER_WRITE)):
        yield chunk
