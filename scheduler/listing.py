"""Learns which messages the store has staged, from watches and listings of its queues.

A watch says that there are more, and a listing names them.

A listing continues from the end of the last one, and never goes past a message that a leader named.
A leader that has not applied everything yet names the rest when it is asked again (`recheck`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog

from metadata.delivery.due import Progress
from scheduler import metrics
from scheduler.pending import StagedQueue
from scheduler.term import Term
from scheduler.window import Window
from store_nodes.client import QueueOffsets, StoreClient
from store_nodes.errors import QueueNotFound, StoreError, Unavailable

LIST_AT_ONCE = 1000
RETRY_FIRST_S = 0.02
RETRY_MAX_S = 0.5
RECHECK_EVERY_S = 5.0
_log = structlog.get_logger("packetboat.scheduler")


class Listing:
    """The listings of all queues; one listing of a queue is under way at a time."""

    def __init__(self, store: StoreClient, window: Window, term: Term, timeout_s: float) -> None:
        self._store = store
        self._window = window
        self._term = term
        self._timeout_s = timeout_s

    def told(self, queue: StagedQueue, state: QueueOffsets) -> None:
        """Note the state of a queue as a watch reports it, and list its new messages."""
        queue.end_seen = max(queue.end_seen, state.stage_end)
        queue.changes_seen = max(queue.changes_seen, state.stage_changes)
        self._list_if_behind(queue)

    async def recheck(self, queues: Iterable[StagedQueue]) -> None:
        """Ask again, regularly, for messages that the watch counts and that were not named."""
        checked: dict[StagedQueue, int] = {}
        while True:
            await asyncio.sleep(RECHECK_EVERY_S)
            for queue in list(queues):
                if queue.listed_to < queue.end_seen and checked.get(queue) != queue.end_seen:
                    checked[queue] = queue.end_seen
                    queue.listed_end = min(queue.listed_end, queue.listed_to)
                    self._list_if_behind(queue)
            checked = {queue: end for queue, end in checked.items() if not queue.gone}

    def _list_if_behind(self, queue: StagedQueue) -> None:
        """Start to list a queue if it has unlisted messages and no listing runs."""
        if queue.behind and not queue.listing and not queue.gone:
            queue.listing = True
            self._term.spawn(self._list(queue))

    async def _list(self, queue: StagedQueue) -> None:
        delay_s = RETRY_FIRST_S
        try:
            while queue.behind and not queue.gone:
                await self._window.projection.room()
                try:
                    if queue.changes_seen > queue.changes:
                        await self._list_changes(queue)
                    else:
                        await self._list_new(queue)
                    delay_s = RETRY_FIRST_S
                except QueueNotFound:
                    return
                except StoreError as error:
                    metrics.failures.labels("listing").inc()
                    _log.debug("listing put off", queue=str(queue.id), error=str(error))
                    await asyncio.sleep(delay_s)
                    delay_s = min(2 * delay_s, RETRY_MAX_S)
        finally:
            queue.listing = False

    async def _list_new(self, queue: StagedQueue) -> None:
        end = queue.end_seen
        page = await self._store.staged(
            queue.group, queue.id, queue.listed_to - 1, LIST_AT_ONCE, timeout_s=self._timeout_s
        )
        if queue.listed_to == 0:
            # The listing began with the first message, so it includes all changes until now.
            queue.changes = max(queue.changes, page.changes)
        for info in page.staged:
            if info.due_us is not None:
                self._window.learned(queue, info.stage_number, info.due_us, fresh=True)
        if page.staged:
            queue.listed_to = page.staged[-1].stage_number + 1
        if len(page.staged) < LIST_AT_ONCE:
            queue.listed_end = max(queue.listed_end, end)
        self._window.projection.advance(queue.key, Progress(queue.listed_to, queue.changes))

    async def _list_changes(self, queue: StagedQueue) -> None:
        page = await self._store.staged_changes(
            queue.group, queue.id, queue.changes, timeout_s=self._timeout_s
        )
        if page.overrun:
            # More was changed than a node remembers, so everything is listed again, as it is now.
            queue.listed_to = queue.listed_end = 0
            queue.changes = page.changes
            return
        for info in page.staged:
            if info.due_us is not None:
                self._window.learned(queue, info.stage_number, info.due_us, fresh=False)
        queue.changes = max(queue.changes, page.changes)
        self._window.projection.advance(queue.key, Progress(queue.listed_to, queue.changes))
        if queue.changes < queue.changes_seen:
            raise Unavailable("the leader has not applied all that the watch counts")
